//! Foreground jobs in progress: their events are shown as they arrive, or kept while a session does other things.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use ctl_core::bulk::Bulk;
use ctl_core::error::{CliError, Exit};
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;
use gearman_client::{JobEvent, JobHandle, Progress as Share};

use crate::names::{show_function, show_handle};
use crate::submit::pool::{News, Poll, Pool, What};
use crate::submit::results::{Results, Shape, View};
use crate::tool::Tool;

/// Jobs of one command.
pub struct Running {
    function: String,
    shape: Shape,
    pool: Pool,
    bulk: Bulk,
    /// Every submitted job whose end was not shown yet, by its number.
    jobs: BTreeMap<u64, Seen>,
    /// Events not shown yet.
    backlog: VecDeque<News>,
    backlog_bytes: usize,
    over: bool,
    results: Results,
}

/// The facts about a job.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Its handle; none if it could not be submitted.
    pub handle: Option<JobHandle>,
    /// The function.
    pub function: String,
    /// Its progress, if its worker has reported it.
    pub share: Option<Share>,
    /// How it ended, if it has ended.
    pub end: Option<&'static str>,
    told: Option<Instant>,
}

/// Maximum size of results, and maximum number of events, kept for later; beyond that, the jobs have to wait until they
/// are shown.
const MAX_BACKLOG: (usize, usize) = (64 << 20, 10_000);

/// How often progress is reported during other work.
const TELL: Duration = Duration::from_secs(5);

impl Running {
    /// Jobs whose events come from `pool`.
    pub fn new(function: String, shape: Shape, pool: Pool, bulk: Bulk) -> Self {
        Self {
            function,
            shape,
            pool,
            bulk,
            jobs: BTreeMap::new(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            over: false,
            results: Results::default(),
        }
    }

    /// The jobs whose end was not shown yet.
    pub fn jobs(&self) -> impl Iterator<Item = &Seen> {
        self.jobs.values()
    }

    /// Whether this is one of the jobs.
    pub fn has(&self, handle: &JobHandle) -> bool {
        let same_server = |own: &JobHandle| {
            handle.server().is_none_or(|server| own.server().is_none_or(|own| own == server))
        };
        self.handles().any(|own| own.name() == handle.name() && same_server(own))
    }

    /// The handles of the jobs whose end was not shown yet.
    pub fn handles(&self) -> impl Iterator<Item = &JobHandle> {
        self.jobs().filter_map(|seen| seen.handle.as_ref())
    }

    /// The handles of the jobs that have not ended, as far as is known.
    pub fn open(&self) -> impl Iterator<Item = &JobHandle> {
        let open = self.jobs().filter(|seen| !self.over && seen.end.is_none());
        open.filter_map(|seen| seen.handle.as_ref())
    }

    /// Number of jobs that have not ended, as far as is known. This includes jobs whose submission has not been
    /// answered yet.
    pub fn count_open(&self) -> usize {
        if !self.over && self.jobs.is_empty() { 1 } else { self.open().count() }
    }

    /// Whether all jobs have ended.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The notice for a user who leaves the jobs running.
    pub fn how_to_return(&self) -> String {
        let handles: Vec<String> = self.handles().map(show_handle).collect();
        match handles.as_slice() {
            [] => "the jobs keep running; :jobs lists them".to_owned(),
            [handle] => {
                format!("the job {handle} keeps running; fg brings it back, :jobs lists it")
            }
            all => {
                format!("{} jobs keep running; fg brings them back, :jobs lists them", all.len())
            }
        }
    }

    /// Waits until the first job has its handle, which may be none if it could not be submitted.
    ///
    /// # Errors
    /// Exit 130 or 143 on a signal.
    pub fn first(&mut self, interrupts: &Interrupts) -> Result<Option<JobHandle>, CliError> {
        while self.jobs.is_empty() && !self.over {
            match self.pool.next(interrupts)? {
                Some(news) => self.keep(news),
                None => self.over = true,
            }
        }
        Ok(self.handles().next().cloned())
    }

    /// Takes the events that arrived in the meantime. Returns messages to print during other work.
    pub fn collect(&mut self, now: Instant) -> Vec<String> {
        let mut said = Vec::new();
        let was_over = self.over;
        while !self.over && self.backlog_bytes < MAX_BACKLOG.0 && self.backlog.len() < MAX_BACKLOG.1
        {
            match self.pool.poll() {
                Poll::News(news) => {
                    said.extend(self.tell(&news, now));
                    self.keep(*news);
                }
                Poll::Nothing => break,
                Poll::Over => self.over = true,
            }
        }
        if self.over && !was_over && !self.shape.single {
            let jobs = units::count(self.jobs.len() as u64, "job");
            said.push(format!("{jobs} of {} ended; fg shows the results", self.function));
        }
        said
    }

    fn keep(&mut self, news: News) {
        self.note(&news);
        self.backlog_bytes += news.size();
        self.backlog.push_back(news);
    }

    /// A message about an event, printed during other work.
    fn tell(&mut self, news: &News, now: Instant) -> Option<String> {
        let seen = self.jobs.get_mut(&news.job);
        let handle = seen.as_ref().and_then(|seen| seen.handle.as_ref()).map(show_handle);
        let handle = handle.unwrap_or_else(|| news.label.clone());
        match &news.what {
            What::Event(JobEvent::Warning(text)) => {
                let text = String::from_utf8_lossy(text);
                Some(format!("{handle}: warning: {}", text.trim_end()))
            }
            What::Event(JobEvent::Status(share)) => {
                let seen = seen?;
                if seen.told.is_some_and(|told| now.saturating_duration_since(told) < TELL) {
                    return None;
                }
                seen.told = Some(now);
                show_share(share).map(|share| format!("{handle}: {share}"))
            }
            _ if !self.shape.single => None,
            What::Event(JobEvent::Complete(_)) => {
                Some(format!("{handle} is complete; fg {handle} shows its result"))
            }
            What::Event(JobEvent::Fail | JobEvent::Exception(_)) => {
                Some(format!("{handle} failed; fg {handle} shows why"))
            }
            What::Error(error) => Some(format!("{handle}: {}", error.message)),
            _ => None,
        }
    }

    /// Records what happened to a job.
    fn note(&mut self, news: &News) {
        let new = || Seen { function: self.function.clone(), ..Seen::default() };
        let seen = self.jobs.entry(news.job).or_insert_with(new);
        match &news.what {
            What::Taken(handle, _, function) => {
                (seen.handle, seen.function) = (Some(handle.clone()), show_function(function));
            }
            What::Event(JobEvent::Status(share)) => seen.share = Some(share.clone()),
            What::Event(JobEvent::Complete(_)) => seen.end = Some("complete"),
            What::Event(JobEvent::Fail) => seen.end = Some("failed"),
            What::Event(JobEvent::Exception(_)) => seen.end = Some("exception"),
            What::Event(_) => {}
            What::Error(_) => seen.end = Some("lost"),
        }
    }

    /// The next event: first those that were kept.
    fn next(&mut self, interrupts: &Interrupts) -> Result<Option<News>, CliError> {
        interrupts.check()?;
        if let Some(news) = self.backlog.pop_front() {
            self.backlog_bytes = self.backlog_bytes.saturating_sub(news.size());
            return Ok(Some(news));
        }
        if self.over {
            return Ok(None);
        }
        let news = self.pool.next(interrupts)?;
        if let Some(news) = &news {
            self.note(news);
        }
        Ok(news)
    }

    /// Shows events until all jobs have ended. In a session, a signal leaves the jobs to it, and the exit is the signal's.
    ///
    /// # Errors
    /// The failure of the only job, or of all; a failure of stdout. Without a session, also a signal.
    pub fn follow(mut self, tool: &mut Tool) -> Result<Exit, CliError> {
        let interrupts = tool.interrupts()?;
        let single = self.shape.single;
        let messages = match single {
            true => tool.messages.clone(),
            false => tool.messages.without_progress(),
        };
        let mut view = View::new(&mut tool.out, messages, self.shape);
        view.results = std::mem::take(&mut self.results);
        loop {
            let news = match self.next(&interrupts) {
                Ok(Some(news)) => news,
                Ok(None) => break,
                Err(error) if tool.session.is_some() => {
                    self.results = view.results;
                    return Ok(self.leave(tool, error.exit));
                }
                Err(error) => return Err(if single { error } else { self.bulk.abort(error) }),
            };
            let (job, label) = (news.job, news.label.clone());
            let Some(end) = view.take(news)? else { continue };
            self.jobs.remove(&job);
            let counted = match end {
                Err(error) if single => return Err(error),
                end => self.bulk.count(label, end),
            };
            self.bulk = self.bulk.after(counted)?;
        }
        let exit = self.bulk.finish_silently()?;
        view.finish()?;
        Ok(exit)
    }

    /// Counts without showing anything.
    pub fn hide(&mut self) {
        self.bulk.hide();
    }

    /// Jobs in flight continue; nothing new is submitted.
    fn leave(mut self, tool: &mut Tool, signal: Exit) -> Exit {
        self.bulk.gate().close();
        self.hide();
        tool.messages.after_interrupt();
        tool.messages.note(self.how_to_return());
        tool.session.get_or_insert_default().push(self);
        signal
    }
}

/// A job's progress for people: `3 of 10`.
pub fn show_share(share: &Share) -> Option<String> {
    let done = share.numerator()?;
    Some(match share.denominator().filter(|whole| *whole > 0) {
        Some(whole) => format!("{done} of {whole}"),
        None => done.to_string(),
    })
}
