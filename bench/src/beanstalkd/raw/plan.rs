//! What to write when, for each scenario; the loops in `blocking` and `tokio` only move bytes.

use anyhow::{Result, bail, ensure};

use super::wire::{Reply, delete, put, reserve};
use crate::beanstalkd::scenario::WINDOW;

/// The commands of one scenario, one after the other.
pub trait Plan {
    /// Appends what can be sent now; `false` when everything is done.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;

    /// Takes the next reply.
    fn take(&mut self, reply: Reply) -> Result<()>;
}

/// Maximum size of one write.
const ENOUGH: usize = 256 * 1024;

/// Puts with a window: 1 waits for each reply. Half of the window is refilled at once.
pub struct Puts<'a> {
    body: &'a [u8],
    left: u64,
    in_flight: usize,
    window: usize,
}

impl<'a> Puts<'a> {
    pub fn new(body: &'a [u8], jobs: u64, window: usize) -> Self {
        Puts { body, left: jobs, in_flight: 0, window }
    }
}

impl Plan for Puts<'_> {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if self.in_flight <= self.window / 2 {
            while self.left > 0 && self.in_flight < self.window && out.len() < ENOUGH {
                put(out, self.body);
                self.left -= 1;
                self.in_flight += 1;
            }
        }
        self.in_flight > 0
    }

    fn take(&mut self, reply: Reply) -> Result<()> {
        ensure!(reply == Reply::Inserted, "a put was answered with {reply:?}");
        self.in_flight -= 1;
        Ok(())
    }
}

/// One job after the other: `delete` and the next `reserve` in one write, or each on its own.
pub struct Take {
    left: u64,
    one_write: bool,
    /// The job to be deleted next.
    job: Option<u64>,
    in_flight: u64,
}

impl Take {
    pub fn new(jobs: u64, one_write: bool) -> Self {
        Take { left: jobs, one_write, job: None, in_flight: 0 }
    }
}

impl Plan for Take {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if self.in_flight > 0 {
            return true;
        }
        let finished = self.job.take();
        if let Some(job) = finished {
            delete(out, job);
            self.in_flight += 1;
        }
        if self.left > 0 && (finished.is_none() || self.one_write) {
            reserve(out);
            self.left -= 1;
            self.in_flight += 1;
        }
        self.in_flight > 0
    }

    fn take(&mut self, reply: Reply) -> Result<()> {
        self.in_flight -= 1;
        match reply {
            Reply::Reserved(job) => self.job = Some(job),
            Reply::Deleted => {}
            other => bail!("a reserve or delete was answered with {other:?}"),
        }
        Ok(())
    }
}

/// Reserves and deletes until nothing is left, with up to a window of commands in flight.
#[derive(Default)]
pub struct Drain {
    to_delete: Vec<u64>,
    in_flight: usize,
    empty: bool,
    pub deleted: u64,
}

impl Plan for Drain {
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        if self.in_flight <= WINDOW / 2 {
            for job in self.to_delete.drain(..) {
                delete(out, job);
                self.in_flight += 1;
            }
            while !self.empty && self.in_flight < WINDOW {
                reserve(out);
                self.in_flight += 1;
            }
        }
        self.in_flight > 0
    }

    fn take(&mut self, reply: Reply) -> Result<()> {
        self.in_flight -= 1;
        match reply {
            Reply::Reserved(job) => self.to_delete.push(job),
            Reply::Deleted => self.deleted += 1,
            Reply::TimedOut => self.empty = true,
            Reply::Inserted => bail!("a reserve or delete was answered with {reply:?}"),
        }
        Ok(())
    }
}
