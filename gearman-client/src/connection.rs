//! Makes the connection of a client to one server, and keeps its driver running until it ends.

use std::{future::poll_fn, sync::Arc};

use queue_core::Stream;
use tokio::{runtime::Handle, task::yield_now};

use crate::{
    Error, ErrorKind, Fate, Result,
    driver::Driver,
    link::Link,
    protocol::{Decoder, Epoch, Magic, Session},
};

/// Starts the driver of a link: over a stream that is connected, or over one that it connects.
///
/// # Errors
///
/// When there is no runtime to run it.
pub(crate) fn spawn(link: Arc<Link>, stream: Option<Box<dyn Stream>>) -> Result<()> {
    let guard = Guard { link, epoch: None, is_done: false };
    let runtime = Handle::try_current().map_err(|error| {
        Error::new(ErrorKind::InvalidInput, Fate::NotSent, "the async client needs tokio's runtime")
            .with_source(error)
    })?;
    runtime.spawn(run(guard, stream));
    Ok(())
}

/// Tells the callers when the driver is dropped before its end: its runtime is shut down.
struct Guard {
    link: Arc<Link>,
    epoch: Option<Epoch>,
    is_done: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_done {
            self.link.abandoned(self.epoch);
        }
    }
}

async fn run(mut guard: Guard, stream: Option<Box<dyn Stream>>) {
    let link = guard.link.clone();
    link.connecting();
    let opened = open(&link, stream).await;
    let end = match opened {
        Ok((epoch, mut driver)) => {
            guard.epoch = Some(epoch);
            // Those who waited for the connection queue their requests, so that all go out in one write.
            yield_now().await;
            poll_fn(|cx| driver.poll(cx)).await
        }
        Err(error) => Some(error),
    };
    guard.is_done = true;
    // Without an error the link was told already, or nobody is left.
    if let Some(error) = end {
        link.closed(guard.epoch, &error);
    }
}

/// Connects. What the session asks for goes out with the first requests.
async fn open(link: &Arc<Link>, stream: Option<Box<dyn Stream>>) -> Result<(Epoch, Driver<Link>)> {
    let options = &link.options;
    let stream = match stream {
        Some(stream) => stream,
        None => options.connect(options.connecting_limit()).await?,
    };
    let mut session = Session::new(link.address.clone());
    if options.exceptions {
        session.ask_for_exceptions();
    }
    let decoder = Decoder::new(Magic::Response, options.max_packet_size);
    let epoch = session.origin().epoch;
    link.opened(session);
    Ok((epoch, Driver::new(link.clone(), epoch, stream, decoder, options)))
}
