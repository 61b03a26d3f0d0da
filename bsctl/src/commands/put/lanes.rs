//! The connections that put jobs: one, or several at once, each taking the next batch when it is free.

use std::sync::{Mutex, mpsc};
use std::thread;

use beanstalk_client::Inserted;
use ctl_core::bulk::Gate;
use ctl_core::context::fleet::{Answered, Fleet};
use ctl_core::error::CliError;
use ctl_core::input::intake::{Batches, Item, sift};
use ctl_core::link::Link as _;
use ctl_core::output::Record;
use ctl_core::repl::guest::lock;
use ctl_core::system::signals::Interrupts;

use crate::link::Link;
use crate::producer::{NewJob, put_batch};
use crate::tool::Tool;

/// Maximum number of events not yet absorbed while several connections work.
const EVENTS: usize = 1024;

/// The outcome of a record or a batch.
pub(in crate::commands) enum Event {
    /// A job is in the queue.
    Put {
        record: Record,
        /// Whether the server was out of memory and buried it.
        buried: bool,
    },
    /// A record is not a job, or the server refused it.
    Failed(String, CliError),
    /// A batch is done: its results should become visible.
    BatchEnds,
    /// A connection cannot continue.
    Broken(CliError),
}

/// Their own connections: `count` of them or one for each server that answers, whichever is more. None where the
/// tool's own connection suffices.
///
/// # Errors
/// No server answers.
pub(in crate::commands) fn open(
    tool: &mut Tool,
    fleet: &mut Fleet<Link>,
    count: u16,
) -> Result<Vec<(Option<String>, Link)>, CliError> {
    if count == 1 && !fleet.is_several() {
        return Ok(Vec::new());
    }
    // An in-memory server is started here, once, before its address is shared.
    tool.link.dialer.address()?;
    let answered = if fleet.is_several() {
        fleet.ask(&mut tool.link, |link| link.client().map(drop))?
    } else {
        vec![(None, ())]
    };
    let lanes = usize::from(count).max(answered.len());
    let lane = |(server, ()): Answered<()>| {
        let link = fleet.at(&mut tool.link, server.as_deref()).sibling();
        (server, link)
    };
    Ok(answered.into_iter().cycle().take(lanes).map(lane).collect())
}

/// Puts everything from `source` over these connections, each with the name of its server if there are several. Order
/// is kept only within a batch.
///
/// # Errors
/// The failure of a connection, or of `absorb`.
pub(in crate::commands) fn several(
    lanes: Vec<(Option<String>, Link)>,
    source: Batches<NewJob>,
    gate: &Gate,
    interrupts: &Interrupts,
    mut absorb: impl FnMut(Event) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let source = Mutex::new(source);
    let next = || lock(&source).next(interrupts);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(EVENTS);
        for (server, mut own) in lanes {
            let sender = sender.clone();
            scope.spawn(move || {
                let gone = |_| CliError::internal("no one collects the results of the puts");
                let told = |event| sender.send(event).map_err(gone);
                if let Err(error) = lane((server.as_deref(), &mut own), next, gate, told) {
                    gate.close();
                    let _ = sender.send(Event::Broken(error));
                }
            });
        }
        drop(sender);
        let mut result = Ok(());
        // Read to the end even after a failure, so that no connection blocks on its events.
        for event in receiver {
            if result.is_ok() {
                result = absorb(event);
                if result.is_err() {
                    gate.close();
                }
            }
        }
        result
    })
}

/// Puts all batches that `next` brings over this connection, with the name of its server if there are several.
///
/// # Errors
/// The failure of the connection, or of `absorb`.
pub(in crate::commands) fn lane(
    (server, link): (Option<&str>, &mut Link),
    mut next: impl FnMut() -> Vec<Item<NewJob>>,
    gate: &Gate,
    mut absorb: impl FnMut(Event) -> Result<(), CliError>,
) -> Result<(), CliError> {
    while gate.is_open() {
        let batch = next();
        if batch.is_empty() || !gate.turn(batch.len()) {
            break;
        }
        let good = sift(batch, gate, |label, error| absorb(Event::Failed(label, error)))?;
        put_batch(link, &good, |job, outcome| {
            absorb(match outcome {
                Ok(inserted) => Event::Put {
                    record: record(job, inserted).of_server(server),
                    buried: inserted.is_buried(),
                },
                Err(error) => Event::Failed(job.label.clone(), error),
            })
        })?;
        absorb(Event::BatchEnds)?;
    }
    Ok(())
}

fn record(job: &NewJob, inserted: Inserted) -> Record {
    let state = match (inserted.is_buried(), job.delayed) {
        (true, _) => "buried",
        (false, true) => "delayed",
        (false, false) => "ready",
    };
    Record::new()
        .with("id", inserted.id().get())
        .with("tube", job.tube.as_str())
        .with("state", state)
}
