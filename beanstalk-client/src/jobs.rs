//! Jobs without taking them: what the listings of both faces have in common.

/// `Client::jobs` and its list; the async one says what happens if it is dropped.
macro_rules! job_list {
    ($($cancel:literal)?) => {
impl Client {
    /// Lists jobs without taking them: a [`JobState`](crate::JobState), or what a [`JobFilter`] describes.
    ///
    /// The protocol has no command for it. Ids grow by one with every put, so that each is asked for (`stats-job`,
    /// pipelined), newest first, until as many jobs are found as the server counts, in the given tubes if there are any.
    /// A few jobs among many ids are found by the first ones of every tube (`peek-ready` and its like). Behind a restart
    /// with the log (`-b`), up to a million ids above the count of puts are tried, around known jobs first. So it asks for
    /// as many ids as jobs were ever put, and a million, at most; [`JobFilter::ids`] and [`JobFilter::newest`] set narrower
    /// limits, and dropping the list ends the search.
    ///
    /// It is no snapshot: jobs that come, go or change in the meantime may be missing, or be shown in a state that they
    /// no longer have. The used tube and the watch list stay as they are.
    pub fn jobs(&mut self, filter: impl Into<JobFilter>) -> JobList<'_> {
        let mut search = JobSearch::new(filter.into());
        let first = search.queries(self.used_tube());
        JobList { search, many: self.call_many(first) }
    }
}

/// The jobs of a listing; it ends after an error. See [`Client::jobs`].
$(#[doc = $cancel])?
#[must_use = "nothing is asked until a job is requested"]
pub struct JobList<'a> {
    search: JobSearch,
    many: CallMany<'a, IntoIter<JobQuery>>,
}

impl JobList<'_> {
    /// The number of ids asked for so far.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.search.asked()
    }

    /// After the end, the number of jobs that the server counts but that were not found; unknown, and 0, if only some ids
    /// were searched.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.search.missing()
    }
}
    };
}

/// The next job of a list.
macro_rules! next_job {
    ($list:ident $(, $await:ident)?) => {
        loop {
            if let Some(job) = $list.search.job() {
                return Some(Ok(job));
            }
            if $list.search.is_over() {
                return None;
            }
            match $list.many.next()$(.$await)? {
                Some(Ok(answer)) => $list.search.answer(answer),
                Some(Err(error)) => {
                    $list.search.stop();
                    return Some(Err(error));
                }
                None => {
                    let queries = $list.search.queries($list.many.client.used_tube());
                    $list.many.start_over(queries.into_iter());
                }
            }
        }
    };
}

pub(crate) use {job_list, next_job};
