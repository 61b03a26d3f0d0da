//! Many foreground jobs at once: which are in flight, and which events are to be returned.

use std::collections::VecDeque;

use super::{recent::Recent, route::may_repeat};
use crate::{
    Error, JobEvent, JobHandle, Result,
    protocol::{Request, Submit},
};

pub(crate) const WINDOW: usize = 256;

/// The jobs of one caller, with a window of them in flight.
pub(crate) struct Batch<W> {
    /// Unfinished jobs, by the tag of their request.
    running: Recent<Running<W>>,
    /// How many of them each link has.
    links: Vec<usize>,
    ready: VecDeque<(usize, Result<JobEvent>)>,
    window: usize,
    taken: usize,
    /// How often each may be resent.
    attempts: u32,
}

/// A job of a batch, unsent or in flight.
pub(crate) struct Running<W> {
    number: usize,
    pub(crate) submit: Submit<W>,
    handle: Option<JobHandle>,
    link: usize,
    attempts: u32,
}

impl<W: AsRef<[u8]>> Batch<W> {
    pub(crate) fn new(attempts: u32) -> Self {
        let (running, ready) = (Recent::default(), VecDeque::new());
        Batch { running, links: Vec::new(), ready, window: WINDOW, taken: 0, attempts }
    }

    pub(crate) fn set_window(&mut self, jobs: usize) {
        self.window = jobs.max(1);
    }

    /// How many jobs to take now, with this number still unsent: none before half of the window is free, so that many
    /// go out in one write while the server works on the other half.
    pub(crate) fn room(&self, unsent: usize) -> usize {
        let under_way = self.running.len() + unsent;
        if under_way > self.window / 2 { 0 } else { self.window - under_way }
    }

    /// The next job, with its number.
    pub(crate) fn take(&mut self, submit: Submit<W>) -> Running<W> {
        let (number, attempts) = (self.taken, self.attempts);
        self.taken += 1;
        Running { number, submit, handle: None, link: 0, attempts }
    }

    /// A job was queued on this link, with this tag.
    pub(crate) fn sent(&mut self, mut job: Running<W>, link: usize, tag: u32) {
        job.link = link;
        if self.links.len() <= link {
            self.links.resize(link + 1, 0);
        }
        if let Some(jobs) = self.links.get_mut(link) {
            *jobs += 1;
        }
        if let Some(replaced) = self.running.insert(tag, job) {
            self.left(&replaced);
        }
    }

    /// A job is in flight no longer.
    fn remove(&mut self, tag: u32) -> Option<Running<W>> {
        let job = self.running.remove(tag)?;
        self.left(&job);
        Some(job)
    }

    fn left(&mut self, job: &Running<W>) {
        if let Some(jobs) = self.links.get_mut(job.link) {
            *jobs -= 1;
        }
    }

    /// Handles mail for a job; `event` decodes it. Returns the job if it has to be resent.
    pub(crate) fn came(
        &mut self,
        tag: u32,
        event: impl FnOnce(&Submit<W>) -> Result<JobEvent>,
    ) -> Option<Running<W>> {
        // Mail for a job after an error is ignored.
        let job = self.running.get_mut(tag)?;
        let error = match event(&job.submit) {
            Ok(event) => {
                if let JobEvent::Created(handle) = &event {
                    job.handle = Some(handle.clone());
                }
                let number = job.number;
                if event.is_last() {
                    self.remove(tag);
                }
                self.ready.push_back((number, Ok(event)));
                return None;
            }
            Err(error) => error,
        };
        let mut job = self.remove(tag)?;
        if may_repeat(&error, false) && job.attempts > 0 {
            job.attempts -= 1;
            return Some(job);
        }
        self.failed(&job, error);
        None
    }

    /// A job ends with an error that has everything needed to ask for the job's status.
    pub(crate) fn failed(&mut self, job: &Running<W>, error: Error) {
        let error =
            error.with_command(job.submit.packet_type().name()).with_unique(job.submit.unique());
        let error = match &job.handle {
            Some(handle) => error.with_handle(handle.clone()),
            None => error,
        };
        self.ready.push_back((job.number, Err(error)));
    }

    /// Nothing more can arrive for the jobs in flight.
    pub(crate) fn lost(&mut self, error: &Error) {
        self.links.clear();
        let running = std::mem::take(&mut self.running);
        for job in running.into_values() {
            self.failed(&job, error.share());
        }
    }

    /// The next event to return, with the number of its job.
    pub(crate) fn next(&mut self) -> Option<(usize, Result<JobEvent>)> {
        self.ready.pop_front()
    }

    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether no job is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether any job is in flight on this link.
    pub(crate) fn uses(&self, link: usize) -> bool {
        self.links.get(link).is_some_and(|jobs| *jobs > 0)
    }
}
