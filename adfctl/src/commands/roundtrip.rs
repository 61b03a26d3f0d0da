//! `check roundtrip`: a message, in a temporary queue.

use adf_queue_client::blocking::Client;
use adf_queue_client::{Delivery, Error, QueueName, Transport};
use ctl_core::commands::check::Metric;
use ctl_core::commands::roundtrip::{timed, unexpected};
use ctl_core::error::CliError;
use ctl_core::output::messages::Messages;

use crate::link::Link;
use crate::scratch;
use crate::taker::SLICE;

/// Takes all steps, up to the first that fails, and leaves nothing behind.
///
/// # Errors
/// The first failure.
pub fn roundtrip(link: &mut Link, messages: &Messages) -> Result<Vec<Metric>, CliError> {
    let queue = scratch::queue("check")?;
    let transport = link.transport()?;
    link.client()?;
    let last = match transport {
        Transport::WsJson | Transport::HttpJson => 0x7f,
        _ => u8::MAX,
    };
    let mut trip = Trip { link, queue, created: false };
    let took = timed(|| trip.run((0..=last).collect()));
    if trip.created
        && let Err(error) = scratch::remove(trip.link, &trip.queue)
    {
        messages.warn(error.message);
    }
    took
}

struct Trip<'a> {
    link: &'a mut Link,
    queue: QueueName,
    /// The queue exists, and must be removed.
    created: bool,
}

impl Trip<'_> {
    fn run(&mut self, body: Vec<u8>) -> Result<(), CliError> {
        let queue = self.queue.clone();
        self.step("createqueue", |client| client.create_queue(queue.clone()))?;
        self.created = true;
        let id = self.step("rpush", |client| client.rpush(queue.clone(), &body))?.get();
        if id != 1 {
            return Err(unexpected("rpush", &format!("messageid {id}"), "1"));
        }
        self.counted(1)?;
        let first = self.pulled(&body, "pull", 1)?;
        self.step("lcancel", |client| client.lcancel(&first))?;
        let second = self.pulled(&body, "pull again", 2)?;
        self.step("delete", |client| client.delete(&second))?;
        self.counted(0)?;
        self.step("deletequeue", |client| client.delete_queue(queue.clone()))?;
        self.created = false;
        Ok(())
    }

    fn counted(&mut self, expected: u32) -> Result<(), CliError> {
        let queue = self.queue.clone();
        match self.step("count", |client| client.count(queue))? {
            ready if ready == expected => Ok(()),
            ready => Err(unexpected("count", &format!("{ready} ready"), &expected.to_string())),
        }
    }

    fn pulled(&mut self, body: &[u8], step: &str, delivery: u16) -> Result<Delivery, CliError> {
        let queue = self.queue.clone();
        // The message is there, so a moment is enough; without a time limit, a pull without a message would wait
        // forever.
        let message = self.step(step, |client| client.pull_within(queue, 10 * SLICE))?;
        let message = message.ok_or_else(|| unexpected(step, "no message", "the message"))?;
        let times = message.duplications();
        if message.body() != body {
            return Err(unexpected(step, "another body", "the same"));
        }
        if times != delivery {
            return Err(unexpected(step, &format!("delivery {times}"), &delivery.to_string()));
        }
        Ok(message)
    }

    /// One step, named by the action and its queue.
    fn step<O>(
        &mut self,
        step: &str,
        ask: impl FnOnce(&mut Client) -> Result<O, Error>,
    ) -> Result<O, CliError> {
        let action = step.split(' ').next().unwrap_or(step);
        let answer = self.link.ask(format!("{action} {}", self.queue), ask);
        answer.map_err(|error| error.context(step))
    }
}
