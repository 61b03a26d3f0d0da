//! Which jobs a listing is about.

use std::ops::{Bound, RangeBounds};

use crate::{Error, JobState, JobStats, TubeName};

/// Which jobs to list; all of them by default.
///
/// ```
/// # let server = fixtures::beanstalkd::Server::start()?;
/// # let address = server.address();
/// use beanstalk_client::{JobFilter, JobState, blocking::Client};
///
/// let mut client = Client::connect(address)?;
/// let failed_mails = JobFilter::from(JobState::Buried).tube("mail")?.newest(10);
/// for job in client.jobs(failed_mails) {
///     println!("{}", job?.id);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    tubes: Vec<TubeName>,
    states: Vec<JobState>,
    from: Option<u64>,
    to: Option<u64>,
    newest: Option<u64>,
}

impl JobFilter {
    /// Only jobs of this tube; of several, if it is called several times.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name.
    pub fn tube<T>(mut self, tube: T) -> Result<Self, Error>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        let tube = tube.try_into()?;
        if !self.tubes.contains(&tube) {
            self.tubes.push(tube);
        }
        Ok(self)
    }

    /// Only jobs in this state; in one of several, if it is called several times.
    #[must_use]
    pub fn state(mut self, state: JobState) -> Self {
        if !self.states.contains(&state) {
            self.states.push(state);
        }
        self
    }

    /// Only jobs with these ids, and no other id is asked for. Without an upper end, lower ids are asked for as well until
    /// the server has counted a million puts: that ends sooner than a search for higher ones.
    #[must_use]
    pub fn ids(mut self, ids: impl RangeBounds<u64>) -> Self {
        self.from = match ids.start_bound() {
            Bound::Included(id) => Some(*id),
            Bound::Excluded(id) => Some(id.saturating_add(1)),
            Bound::Unbounded => None,
        };
        self.to = match ids.end_bound() {
            Bound::Included(&u64::MAX) | Bound::Unbounded => None,
            Bound::Included(id) => Some(*id),
            Bound::Excluded(id) => Some(id.saturating_sub(1)),
        };
        self
    }

    /// Only this number of the newest such jobs.
    #[must_use]
    pub fn newest(mut self, jobs: u64) -> Self {
        self.newest = Some(jobs);
        self
    }

    /// The given tubes; every tube if there is none.
    #[must_use]
    pub fn tubes(&self) -> &[TubeName] {
        &self.tubes
    }

    /// Whether the tube, the state and the id of a job are among the given ones.
    #[must_use]
    pub fn includes(&self, job: &JobStats) -> bool {
        self.counts(job) && self.has_id(job.id.get())
    }

    /// Whether the server's counts of these tubes and states include a job.
    pub(crate) fn counts(&self, job: &JobStats) -> bool {
        self.has_tube(&job.tube) && self.has_state(&job.state)
    }

    pub(crate) fn has_tube(&self, tube: &TubeName) -> bool {
        self.tubes.is_empty() || self.tubes.contains(tube)
    }

    pub(crate) fn has_state(&self, state: &JobState) -> bool {
        self.states.is_empty() || self.states.contains(state)
    }

    /// Whether the server counts the jobs of every given state.
    pub(crate) fn is_countable(&self) -> bool {
        self.states.iter().all(|state| COUNTED.contains(state))
    }

    pub(crate) fn has_states(&self) -> bool {
        !self.states.is_empty()
    }

    pub(crate) fn has_id(&self, id: u64) -> bool {
        self.from.is_none_or(|from| from <= id) && self.to.is_none_or(|to| id <= to)
    }

    /// The lowest and the highest id, where given.
    pub(crate) fn bounds(&self) -> (Option<u64>, Option<u64>) {
        (self.from, self.to)
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        self.newest
    }
}

/// The jobs of these tubes; of every tube if there is none.
impl From<Vec<TubeName>> for JobFilter {
    fn from(mut tubes: Vec<TubeName>) -> Self {
        tubes.sort();
        tubes.dedup();
        JobFilter { tubes, ..JobFilter::default() }
    }
}

impl From<JobState> for JobFilter {
    fn from(state: JobState) -> Self {
        JobFilter::default().state(state)
    }
}

/// The states that the server counts the jobs of.
pub(crate) const COUNTED: [JobState; 4] =
    [JobState::Ready, JobState::Reserved, JobState::Delayed, JobState::Buried];
