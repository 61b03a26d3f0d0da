//! A command for each message, whose exit code decides what happens to it.

use std::ffi::OsString;

use adf_queue_client::Delivery;
use ctl_core::bulk::Bulk;
use ctl_core::commands::work::{CommandEnd, Ended, Given, Recipe, Shift};
use ctl_core::error::{CliError, Exit};
use ctl_core::system::child::{Piece, Template};
use ctl_core::system::signals::Interrupts;

use super::put_back;
use crate::link::Link;
use crate::messages::label;
use crate::taker::Taker;
use crate::tool::Tool;
use crate::work::{PLACES, environment};

/// Pulls and runs, one message after the other.
///
/// # Errors
/// As documented in the table of exit codes.
pub(super) fn run(
    tool: &mut Tool,
    taker: &Taker,
    words: &[OsString],
    count: u64,
) -> Result<Exit, CliError> {
    let recipe = Recipe::of(Template::new(None, words, PLACES)?, &tool.out);
    let shift = Shift::new(tool.messages.clone());
    let interrupts = tool.interrupts()?;
    let stderr = tool.messages.clone();
    let mut bulk = tool.bulk_of("handled", "message", count)?;
    let link = tool.link.side();
    let mut taken = 0;
    while taken < count && bulk.gate().is_open() {
        let messages = taker.next(link, 1)?;
        let Some(message) = messages.first() else { break };
        taken += 1;
        let (ended, end) = run_one((&shift, &recipe), message, &interrupts);
        let settled = settle(link, message, (ended, end.unseen_words(&stderr)), &mut bulk);
        // The reason why no command can be run is more useful than the failure of this one.
        if let Some(error) = shift.take_broken().or(settled.err()) {
            return Err(bulk.abort(error));
        }
    }
    if taken == 0 {
        interrupts.check()?;
        return Err(taker.nothing());
    }
    bulk.finish_quietly()
}

fn run_one(
    (shift, recipe): (&Shift, &Recipe),
    message: &Delivery,
    interrupts: &Interrupts,
) -> (Ended, CommandEnd) {
    let (id, queue) = (message.message_id().to_string(), message.queue().as_str());
    let given = Given {
        label: label(message),
        values: &[("{id}", id.as_str()), ("{queue}", queue)],
        environment: &environment(message),
        body: message.body(),
        time_left: None,
    };
    shift.run(recipe, &given, || interrupts.requested().is_some(), || {}, Piece::bytes)
}

/// Deletes the message after a success, and puts it back otherwise.
fn settle(
    link: &mut Link,
    message: &Delivery,
    (ended, words): (Ended, Option<&str>),
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    if ended == Ended::Code(0) {
        let outcome = link.delete(message);
        return bulk.count(label(message), outcome);
    }
    put_back(link, message, true)?;
    let how = match ended {
        Ended::Code(code) => format!("the command exited with code {code}"),
        Ended::Signal(signal) => format!("the command was killed by signal {signal}"),
        Ended::Overtime | Ended::Expired | Ended::GivenUp => "the command was killed".to_owned(),
        Ended::Unfit => "the message could not be passed to the command".to_owned(),
    };
    let words = words.map(|words| format!(": {words}")).unwrap_or_default();
    let why = format!("{how}, so it is put back{words}");
    let error = CliError::new(Exit::Negative, "COMMAND_FAILED", why);
    bulk.failure(label(message), error)
}
