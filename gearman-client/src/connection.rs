//! Makes the connection of a client to one server, and keeps its driver running until it ends.

use std::{future::poll_fn, sync::Arc};

use queue_core::{Stream, within};
use tokio::{io::AsyncWriteExt, runtime::Handle};

use crate::{
    Error, ErrorKind, Fate, Result,
    driver::{Driver, poll_read},
    error::lost,
    link::{Link, Ticket},
    protocol::{Decoder, Delivery, Epoch, Magic, PacketType, Request, Session, SetExceptions},
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

/// Connects, and asks for exceptions: that shows that this is a Gearman server, too.
async fn open(link: &Arc<Link>, stream: Option<Box<dyn Stream>>) -> Result<(Epoch, Driver<Link>)> {
    let options = &link.options;
    let limit = options.connect_limit(options.total_limit());
    let mut stream = match stream {
        Some(stream) => stream,
        None => options.connect(limit).await?,
    };
    let mut session = Session::new(link.address.clone());
    let mut decoder = Decoder::new(Magic::Response, options.max_packet_size);
    if options.exceptions {
        let greeting = greet(&mut stream, &mut session, &mut decoder);
        let outcome = within(limit, greeting).await.unwrap_or_else(Err);
        outcome.map_err(|error| error.with_fate(Fate::NotSent))?;
    }
    let epoch = session.origin().epoch;
    link.opened(session);
    Ok((epoch, Driver::new(link.clone(), epoch, stream, decoder, options)))
}

async fn greet(
    stream: &mut Box<dyn Stream>,
    session: &mut Session<Ticket>,
    decoder: &mut Decoder,
) -> Result<()> {
    session.send(&SetExceptions, Ticket::HELLO);
    stream.write_all(session.outgoing()).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    session.sent(session.outgoing().len());
    loop {
        while let Some(packet) = decoder.next()? {
            if let Delivery::Answer(_, answer) = session.accept(packet)? {
                // A server without the option still serves jobs.
                if answer.packet_type == PacketType::Error {
                    return Ok(());
                }
                return SetExceptions.decode(answer, session.origin());
            }
        }
        let n = poll_fn(|cx| poll_read(stream, decoder, cx)).await.map_err(lost)?;
        decoder.received(n);
        session.note_read(n);
    }
}
