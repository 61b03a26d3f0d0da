//! What to write when, for each scenario.

use anyhow::{Result, ensure};

use super::wire::{CLEAR, DELETE, PULL, RPUSH, UPGRADE, answer, request, upgraded};
use crate::{adf::scenario::WINDOW, raw::Plan};

/// Maximum size of one write.
const ENOUGH: usize = 256 * 1024;

/// The first of every connection.
#[derive(Default)]
pub struct Upgrade {
    is_sent: bool,
    is_done: bool,
}

impl Plan for Upgrade {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.is_sent {
            self.is_sent = true;
            out.extend_from_slice(UPGRADE);
        }
        !self.is_done
    }

    fn take(&mut self, data: &[u8]) -> Result<Option<usize>> {
        if self.is_done {
            return Ok(None);
        }
        let len = upgraded(data)?;
        self.is_done = len.is_some();
        Ok(len)
    }
}

/// Pushes with a window: 1 waits for each answer. Half of the window is refilled at once.
pub struct Pushes<'a> {
    queue: &'a str,
    body: &'a [u8],
    left: u64,
    in_flight: usize,
    window: usize,
}

impl<'a> Pushes<'a> {
    pub fn new(queue: &'a str, body: &'a [u8], jobs: u64, window: usize) -> Self {
        Pushes { queue, body, left: jobs, in_flight: 0, window }
    }
}

impl Plan for Pushes<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if self.in_flight <= self.window / 2 {
            while self.left > 0 && self.in_flight < self.window && out.len() < ENOUGH {
                request(out, RPUSH, self.left, self.queue.as_bytes(), Some(self.body));
                self.left -= 1;
                self.in_flight += 1;
            }
        }
        self.in_flight > 0
    }

    fn take(&mut self, data: &[u8]) -> Result<Option<usize>> {
        let Some((answer, len)) = answer(data)? else { return Ok(None) };
        ensure!(answer.action == RPUSH, "a push was answered with {answer:?}");
        self.in_flight -= 1;
        Ok(Some(len))
    }
}

/// Pulls and deletes, with a window of requests: 1 is a message at a time.
pub struct Takes<'a> {
    queue: &'a str,
    left: u64,
    to_delete: Vec<u64>,
    in_flight: usize,
    window: usize,
    /// The next pull is sent with the delete, not after its answer.
    one_write: bool,
}

impl<'a> Takes<'a> {
    /// One message after the other; `one_write` has each delete and the next pull in one write.
    pub fn one_by_one(queue: &'a str, jobs: u64, one_write: bool) -> Self {
        Takes { queue, left: jobs, to_delete: Vec::new(), in_flight: 0, window: 1, one_write }
    }

    /// As fast as possible.
    pub fn pipelined(queue: &'a str, jobs: u64) -> Self {
        Takes { window: WINDOW, ..Self::one_by_one(queue, jobs, true) }
    }
}

impl Plan for Takes<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if self.in_flight > self.window / 2 {
            return true;
        }
        let queue = self.queue.as_bytes();
        let has_deleted = !self.to_delete.is_empty();
        for id in self.to_delete.drain(..) {
            request(out, DELETE, id, queue, None);
            self.in_flight += 1;
        }
        // One that takes a message at a time has two requests in flight, if both are sent in one write.
        let window = self.window + usize::from(self.one_write && has_deleted);
        while self.left > 0 && self.in_flight < window {
            request(out, PULL, self.left, queue, None);
            self.left -= 1;
            self.in_flight += 1;
        }
        self.in_flight > 0
    }

    fn take(&mut self, data: &[u8]) -> Result<Option<usize>> {
        let Some((answer, len)) = answer(data)? else { return Ok(None) };
        match answer.action {
            PULL => self.to_delete.push(answer.id),
            action => ensure!(action == DELETE, "a pull or delete was answered with {answer:?}"),
        }
        self.in_flight -= 1;
        Ok(Some(len))
    }
}

/// Removes all messages, and knows how many they were.
pub struct Clear<'a> {
    queue: &'a str,
    is_sent: bool,
    pub cleared: Option<u64>,
}

impl<'a> Clear<'a> {
    pub fn new(queue: &'a str) -> Self {
        Clear { queue, is_sent: false, cleared: None }
    }
}

impl Plan for Clear<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.is_sent {
            self.is_sent = true;
            request(out, CLEAR, 1, self.queue.as_bytes(), None);
        }
        self.cleared.is_none()
    }

    fn take(&mut self, data: &[u8]) -> Result<Option<usize>> {
        let Some((answer, len)) = answer(data)? else { return Ok(None) };
        ensure!(answer.action == CLEAR, "a clear was answered with {answer:?}");
        self.cleared = Some(answer.count);
        Ok(Some(len))
    }
}
