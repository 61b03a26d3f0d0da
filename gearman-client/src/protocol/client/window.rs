//! Many foreground jobs at a time: which are under way, and what is to be told of them.

use std::collections::{HashMap, VecDeque};

use super::route::may_repeat;
use crate::{
    Error, JobEvent, JobHandle, Result,
    names::keys::Keys,
    protocol::{Request, Submit},
};

/// How many requests may be in flight unless the caller says otherwise.
pub(crate) const WINDOW: usize = 256;

/// The jobs of one caller, of which a window is under way.
pub(crate) struct Batch<W> {
    /// Jobs that have not ended, by the tag of their request.
    running: HashMap<u32, Running<W>, Keys>,
    ready: VecDeque<(usize, Result<JobEvent>)>,
    window: usize,
    taken: usize,
    /// How often each may be sent again.
    attempts: u32,
}

/// A job of a batch, to be sent or under way.
pub(crate) struct Running<W> {
    number: usize,
    pub(crate) submit: Submit<W>,
    handle: Option<JobHandle>,
    link: usize,
    attempts: u32,
}

impl<W: AsRef<[u8]>> Batch<W> {
    pub(crate) fn new(attempts: u32) -> Self {
        let (running, ready) = (HashMap::default(), VecDeque::new());
        Batch { running, ready, window: WINDOW, taken: 0, attempts }
    }

    pub(crate) fn set_window(&mut self, jobs: usize) {
        self.window = jobs.max(1);
    }

    /// How many jobs are to be taken now, while so many are still to be sent: none before half of the window is free, so
    /// that many go out in one write while the server works on the other half.
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

    /// A job was queued on this link, under this tag.
    pub(crate) fn sent(&mut self, mut job: Running<W>, link: usize, tag: u32) {
        job.link = link;
        self.running.insert(tag, job);
    }

    /// What came for a job; `event` reads it. Gives the job if it is to be sent again.
    pub(crate) fn came(
        &mut self,
        tag: u32,
        event: impl FnOnce(&Submit<W>) -> Result<JobEvent>,
    ) -> Option<Running<W>> {
        // What still comes for a job after an error is passed over.
        let job = self.running.get_mut(&tag)?;
        let error = match event(&job.submit) {
            Ok(event) => {
                if let JobEvent::Created(handle) = &event {
                    job.handle = Some(handle.clone());
                }
                let number = job.number;
                if event.is_last() {
                    self.running.remove(&tag);
                }
                self.ready.push_back((number, Ok(event)));
                return None;
            }
            Err(error) => error,
        };
        let mut job = self.running.remove(&tag)?;
        if may_repeat(&error, false) && job.attempts > 0 {
            job.attempts -= 1;
            return Some(job);
        }
        self.failed(&job, error);
        None
    }

    /// A job ends with an error, which says everything by which the job can be asked for.
    pub(crate) fn failed(&mut self, job: &Running<W>, error: Error) {
        let error =
            error.with_command(job.submit.packet_type().name()).with_unique(job.submit.unique());
        let error = match &job.handle {
            Some(handle) => error.with_handle(handle.clone()),
            None => error,
        };
        self.ready.push_back((job.number, Err(error)));
    }

    /// Nothing more can come for the jobs that are under way.
    pub(crate) fn lost(&mut self, error: &Error) {
        for (_, job) in std::mem::take(&mut self.running) {
            self.failed(&job, error.share());
        }
    }

    /// What is to be told next, with the number of its job.
    pub(crate) fn next(&mut self) -> Option<(usize, Result<JobEvent>)> {
        self.ready.pop_front()
    }

    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether no job is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether some job is under way on this link.
    pub(crate) fn uses(&self, link: usize) -> bool {
        self.running.values().any(|job| job.link == link)
    }
}
