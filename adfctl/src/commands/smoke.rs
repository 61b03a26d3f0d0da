//! `smoke`: checks that client, network and server work together.

use adf_queue_client::blocking::Client;
use adf_queue_client::{Delivery, Error, QueueName, Transport};
use ctl_core::commands::smoke::{STEPS, Steps};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::messages::Messages;

use crate::link::Link;
use crate::scratch;
use crate::taker::SLICE;
use crate::tool::Tool;

/// The end of `smoke --help`.
pub const HELP: &str = "\
Protocol: createqueue, rpush, count, pull, lcancel, pull, delete, deletequeue, in a queue of its own with a random name.
The body has every byte value (in JSON: every ASCII character) and must come back unchanged. The second pull must be
reported as the second delivery. Nothing is left behind.
Exit 0 if every step passed, 1 if one failed; 69, 76 or 124 if the connection itself failed.
This is for people who set something up; check roundtrip does the same for monitoring, with thresholds.

Examples:
  adfctl smoke
  adfctl --embedded smoke -o json
  adfctl -s http://127.0.0.1 smoke";

/// Runs `smoke`.
///
/// # Errors
/// The connection's failure; a failed step is exit 1 after the table.
pub fn run(tool: &mut Tool) -> Result<Exit, CliError> {
    tool.refuse_dry_run("smoke", "adfctl ping changes nothing")?;
    tool.out.expect(&STEPS)?;
    steps(tool.link.side(), "smoke", &tool.messages)?.finish(&mut tool.out)
}

/// Takes all steps, up to the first that fails, and leaves nothing behind.
///
/// # Errors
/// The server cannot be reached.
pub fn steps(link: &mut Link, purpose: &str, messages: &Messages) -> Result<Steps, CliError> {
    let queue = scratch::queue(purpose)?;
    let transport = link.transport()?;
    link.client()?;
    let last = match transport {
        Transport::WsJson | Transport::HttpJson => 0x7f,
        _ => u8::MAX,
    };
    let mut smoke = Smoke { steps: Steps::default(), queue, created: false };
    smoke.run(link, (0..=last).collect());
    if smoke.created
        && let Err(error) = scratch::remove(link, &smoke.queue)
    {
        messages.warn(error.message);
    }
    Ok(smoke.steps)
}

struct Smoke {
    steps: Steps,
    queue: QueueName,
    /// The queue exists, and must be removed.
    created: bool,
}

/// The expected result of a step, and whether it was reached.
type Got = (String, bool);

impl Smoke {
    /// Runs all steps up to the first failure.
    fn run(&mut self, link: &mut Link, body: Vec<u8>) -> Option<()> {
        let queue = self.queue.clone();
        self.step(link, ("createqueue", ""), "ok", |client| {
            client.create_queue(queue.clone()).map(|()| ("ok".to_owned(), true))
        })?;
        self.created = true;
        let size = body.len();
        self.step(link, ("rpush", &format!("{size} bytes")), "messageid 1", |client| {
            let id = client.rpush(queue.clone(), body.clone())?;
            Ok((format!("messageid {id}"), id.get() == 1))
        })?;
        self.counted(link, 1)?;
        let first = self.pulled(link, &body, ("pull", "same body, delivery 1"), 1)?;
        self.step(link, ("lcancel", first.request_id().as_str()), "ok", |client| {
            client.lcancel(&first).map(|()| ("ok".to_owned(), true))
        })?;
        let second = self.pulled(link, &body, ("pull again", "same body, delivery 2"), 2)?;
        self.step(link, ("delete", second.request_id().as_str()), "ok", |client| {
            client.delete(&second).map(|()| ("ok".to_owned(), true))
        })?;
        self.counted(link, 0)?;
        self.step(link, ("deletequeue", ""), "ok", |client| {
            client.delete_queue(queue.clone()).map(|()| ("ok".to_owned(), true))
        })?;
        self.created = false;
        Some(())
    }

    fn counted(&mut self, link: &mut Link, expected: u32) -> Option<()> {
        let queue = self.queue.clone();
        let text = if expected == 0 { "0 ready" } else { "1 ready" };
        self.step(link, ("count", ""), text, |client| {
            let ready = client.count(queue)?;
            Ok((format!("{ready} ready"), ready == expected))
        })
    }

    fn pulled(
        &mut self,
        link: &mut Link,
        body: &[u8],
        (step, expected): (&'static str, &'static str),
        delivery: u16,
    ) -> Option<Delivery> {
        let (queue, mut came) = (self.queue.clone(), None);
        self.step(link, (step, ""), expected, |client| {
            // The message is there, so a moment is enough; without a time limit, a pull without a message would wait
            // forever.
            let Some(message) = client.pull_within(queue, 10 * SLICE)? else {
                return Ok(("no message".to_owned(), false));
            };
            let same = message.body() == body;
            let what = if same { "same body" } else { "different body" };
            let times = message.duplications();
            came = Some(message);
            Ok((format!("{what}, delivery {times}"), same && times == delivery))
        })?;
        came
    }

    /// One step, named by the action and its queue.
    fn step(
        &mut self,
        link: &mut Link,
        (step, more): (&'static str, &str),
        expected: &'static str,
        ask: impl FnOnce(&mut Client) -> Result<Got, Error>,
    ) -> Option<()> {
        let action = step.split(' ').next().unwrap_or(step);
        let command = format!("{action} {} {more}", self.queue);
        let command = command.trim_end();
        match link.ask(command, ask) {
            Ok((got, ok)) => self.steps.note((step, command), expected, &got, ok).then_some(()),
            Err(error) => {
                self.steps.fail((step, command), expected, error);
                None
            }
        }
    }
}
