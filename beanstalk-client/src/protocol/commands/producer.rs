//! The producer's commands: `put` and `use`.

use bytes::{BufMut, BytesMut};

use crate::{
    Error, Inserted, Priority, PutOptions, Seconds, TubeName,
    protocol::{
        Command, Effect, Response,
        command::{Argument, line, line_command},
    },
};

/// `put <pri> <delay> <ttr> <bytes>` and a body: stores a job in the used tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put<B> {
    priority: Priority,
    delay: Seconds,
    ttr: Seconds,
    body: B,
}

impl<B: AsRef<[u8]>> Put<B> {
    /// The largest maximum body size that a server can be configured with (`-z`), in bytes.
    pub const MAX_BODY: usize = 1 << 30;

    /// A put of `body`, any bytes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when a duration is over `u32::MAX` seconds or the body over 1 GiB.
    pub fn new(body: B, options: PutOptions) -> Result<Self, Error> {
        let size = body.as_ref().len();
        if size > Self::MAX_BODY {
            return Err(Error::invalid(format!(
                "body of {size} bytes is too large: no server accepts more than {}",
                Self::MAX_BODY
            )));
        }
        let (priority, delay, ttr) = options.checked()?;
        Ok(Put { priority, delay, ttr, body })
    }

    /// The body to be put.
    pub fn body(&self) -> &B {
        &self.body
    }
}

impl<B: AsRef<[u8]>> Command for Put<B> {
    type Reply = Inserted;
    const NAME: &'static str = "put";

    fn encode(&self, out: &mut BytesMut) {
        let body = self.body.as_ref();
        out.reserve(body.len() + 64);
        let arguments: [&dyn Argument; 4] =
            [&self.priority.get(), &self.delay.get(), &self.ttr.get(), &(body.len() as u64)];
        line(out, Self::NAME, &arguments);
        out.put_slice(body);
        out.put_slice(b"\r\n");
    }

    fn decode(&self, response: Response) -> Result<Inserted, Error> {
        match response {
            Response::Inserted(id) => Ok(Inserted::Ready(id)),
            Response::Buried(Some(id)) => Ok(Inserted::Buried(id)),
            other => Err(other.refuse()),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Put
    }
}

/// `use <tube>`: later puts, peeks and kicks act on this tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use(pub TubeName);

line_command! {
    Use = "use", |self| [self.0] -> () {
        Response::Using(tube) if tube == self.0.as_str() => Ok(()),
    }
    effect: Effect::Use(self.0.clone()),
}
