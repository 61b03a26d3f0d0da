//! Many foreground jobs at once: which are in flight, and which events are to be returned.

use std::collections::VecDeque;

use super::{recent::RecentItems, route::may_repeat};
use crate::{
    Error, JobEvent, JobHandle, Result,
    protocol::{Request, Submit},
};

pub(crate) const WINDOW: usize = 256;

/// The jobs of one caller, with a window of them in flight.
pub(crate) struct JobBatch<W> {
    /// Unfinished jobs, by the tag of their request.
    running: RecentItems<BatchJob<W>>,
    /// How many of them each link has.
    links: Vec<usize>,
    ready: VecDeque<(usize, Result<JobEvent>)>,
    window: usize,
    taken: usize,
    /// How often each may be resent.
    attempts: u32,
}

/// A job of a batch, unsent or in flight.
pub(crate) struct BatchJob<W> {
    number: usize,
    pub(crate) submit: Submit<W>,
    handle: Option<JobHandle>,
    link: usize,
    attempts: u32,
}

impl<W: AsRef<[u8]>> JobBatch<W> {
    pub(crate) fn new(attempts: u32) -> Self {
        let (running, ready) = (RecentItems::default(), VecDeque::new());
        JobBatch { running, links: Vec::new(), ready, window: WINDOW, taken: 0, attempts }
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
    pub(crate) fn take(&mut self, submit: Submit<W>) -> BatchJob<W> {
        let (number, attempts) = (self.taken, self.attempts);
        self.taken += 1;
        BatchJob { number, submit, handle: None, link: 0, attempts }
    }

    /// A job was queued on this link, with this tag.
    pub(crate) fn sent(&mut self, mut job: BatchJob<W>, link: usize, tag: u32) {
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
    fn remove(&mut self, tag: u32) -> Option<BatchJob<W>> {
        let job = self.running.remove(tag)?;
        self.left(&job);
        Some(job)
    }

    fn left(&mut self, job: &BatchJob<W>) {
        if let Some(jobs) = self.links.get_mut(job.link) {
            *jobs -= 1;
        }
    }

    /// Handles an item for a job; `event` decodes it. Returns the job if it has to be resent.
    pub(crate) fn came(
        &mut self,
        tag: u32,
        event: impl FnOnce(&Submit<W>) -> Result<JobEvent>,
    ) -> Option<BatchJob<W>> {
        // An item for a job after an error is ignored.
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
    pub(crate) fn failed(&mut self, job: &BatchJob<W>, error: Error) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epoch, ErrorKind, Fate, FunctionName, Origin, SubmitOptions, UniqueId};

    fn submit() -> Submit<&'static str> {
        let function = FunctionName::try_from("f").unwrap();
        let options = SubmitOptions::default().unique(UniqueId::try_from("u").unwrap());
        Submit::foreground(function, "data", options).unwrap()
    }

    /// A batch with this number of jobs in flight on link 0, whose tags are their numbers.
    fn batch(jobs: u32) -> JobBatch<&'static str> {
        let mut batch = JobBatch::new(2);
        for tag in 0..jobs {
            sends(&mut batch, 0, tag);
        }
        batch
    }

    fn sends(batch: &mut JobBatch<&'static str>, link: usize, tag: u32) {
        let job = batch.take(submit());
        batch.sent(job, link, tag);
    }

    fn created() -> JobEvent {
        let origin = Origin { server: std::sync::Arc::default(), epoch: Epoch::next() };
        JobEvent::Created(JobHandle::received(crate::names::short::ShortId::cut(b"H:x:1"), &origin))
    }

    fn gets(batch: &mut JobBatch<&'static str>, tag: u32, event: JobEvent) {
        assert!(batch.came(tag, |_| Ok(event)).is_none());
    }

    fn lost(fate: Fate) -> Error {
        Error::new(ErrorKind::ConnectionLost, fate, "gone")
    }

    #[test]
    fn jobs_are_taken_once_half_of_the_window_is_free() {
        assert_eq!(batch(0).room(0), WINDOW);
        for (running, unsent, room) in
            [(0, 0, 8), (0, 8, 0), (1, 3, 4), (3, 1, 4), (3, 2, 0), (4, 0, 4), (5, 0, 0), (8, 0, 0)]
        {
            let mut batch = batch(running);
            batch.set_window(8);
            assert_eq!(batch.room(unsent), room, "{running} in flight, {unsent} unsent");
        }
        let mut one_by_one = batch(0);
        one_by_one.set_window(0);
        assert_eq!((one_by_one.room(0), one_by_one.room(1)), (1, 0));
    }

    #[test]
    fn a_link_is_in_use_while_it_has_jobs_in_flight() {
        let mut batch = batch(0);
        for (link, tag) in [(2, 0), (0, 1), (2, 2)] {
            sends(&mut batch, link, tag);
        }
        let uses = |batch: &JobBatch<_>| [0, 1, 2, 3].map(|link| batch.uses(link));
        assert_eq!(uses(&batch), [true, false, true, false]);
        gets(&mut batch, 0, JobEvent::Fail);
        assert_eq!(uses(&batch), [true, false, true, false]);
        assert!(batch.came(2, |_| Err(lost(Fate::NotSent))).is_some());
        assert_eq!(uses(&batch), [true, false, false, false]);
        gets(&mut batch, 1, JobEvent::Fail);
        assert_eq!(uses(&batch), [false; 4]);
        // A number that has come round belongs to the later job.
        sends(&mut batch, 0, 3);
        sends(&mut batch, 1, 3);
        assert_eq!(uses(&batch), [false, true, false, false]);
    }

    #[test]
    fn unsent_jobs_are_resent_within_the_policy() {
        let mut batch = batch(1);
        for link in [1, 2] {
            let job = batch.came(0, |_| Err(lost(Fate::NotSent))).expect("it may be sent again");
            assert!(batch.is_idle() && !batch.has_next());
            batch.sent(job, link, 0);
        }
        assert!(batch.came(0, |_| Err(lost(Fate::NotSent))).is_none());
        let (number, error) = batch.next().unwrap();
        assert_eq!((number, error.unwrap_err().fate()), (0, Fate::NotSent));
        // What may have run is not.
        sends(&mut batch, 0, 1);
        assert!(batch.came(1, |_| Err(lost(Fate::Unknown))).is_none());
        assert_eq!(batch.next().unwrap().1.unwrap_err().fate(), Fate::Unknown);
    }

    #[test]
    fn the_error_of_a_job_states_how_to_query_it() {
        let mut batch = batch(2);
        gets(&mut batch, 0, created());
        batch.next();
        batch.lost(&lost(Fate::Unknown));
        assert!(batch.is_idle() && !batch.uses(0));
        let errors: Vec<_> = std::iter::from_fn(|| batch.next())
            .map(|(number, outcome)| (number, outcome.unwrap_err()))
            .collect();
        assert_eq!(errors.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
        for (number, error) in &errors {
            assert_eq!(error.command(), Some("SUBMIT_JOB"));
            assert_eq!(error.unique(), Some(&UniqueId::try_from("u").unwrap()));
            assert_eq!(error.handle().is_some(), *number == 0, "the other one has none yet");
        }
        assert_eq!(batch.room(0), WINDOW);
    }
}
