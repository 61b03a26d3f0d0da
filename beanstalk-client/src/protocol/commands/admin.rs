//! Commands that inspect jobs, tubes and the server, and move jobs without reserving them.

use std::{fmt::Display, time::Duration};

use crate::{
    Error, Job, JobId, JobRef, JobStats, Seconds, ServerStats, TubeName, TubeStats,
    protocol::{Command, Effect, Response, command::line_command, stats_text},
};

/// `peek <id>`: the body of any job, in any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek(pub JobId);

line_command! {
    Peek = "peek", |self| [self.0.get()] -> Option<Job> {
        Response::Found(job) if job.id == self.0 => Ok(Some(job)),
        Response::Found(other) => Err(about_another("job", self.0, other.id)),
        Response::NotFound => Ok(None),
    }
}

/// `peek-ready`: the job of the used tube that would be reserved next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeekReady;

line_command! {
    PeekReady = "peek-ready", |self| [] -> Option<Job> {
        Response::Found(job) => Ok(Some(job)),
        Response::NotFound => Ok(None),
    }
}

/// `peek-delayed`: the delayed job of the used tube with the least time left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeekDelayed;

line_command! {
    PeekDelayed = "peek-delayed", |self| [] -> Option<Job> {
        Response::Found(job) => Ok(Some(job)),
        Response::NotFound => Ok(None),
    }
}

/// `peek-buried`: the job of the used tube that would be kicked next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeekBuried;

line_command! {
    PeekBuried = "peek-buried", |self| [] -> Option<Job> {
        Response::Found(job) => Ok(Some(job)),
        Response::NotFound => Ok(None),
    }
}

/// The error for a reply that is out of step or does not belong to this command.
pub(super) fn about_another(what: &str, asked: impl Display, answered: impl Display) -> Error {
    Error::protocol(format!("the reply is about {what} {answered} instead of {what} {asked}"))
}

/// `kick <bound>`: makes up to `bound` buried jobs of the used tube ready; delayed ones only if none is buried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kick(pub u64);

impl Kick {
    /// The bound as sent: the server reads a C `unsigned int`.
    fn bound(self) -> u64 {
        self.0.min(u64::from(u32::MAX))
    }
}

line_command! {
    Kick = "kick", |self| [self.bound()] -> u64 {
        Response::Kicked(Some(count)) if count <= self.bound() => Ok(count),
        Response::Kicked(Some(count)) => Err(Error::protocol(format!(
            "the server reports {count} kicked jobs, more than the requested maximum of {}",
            self.bound()
        ))),
    }
}

/// `kick-job <id>`: makes one buried or delayed job ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KickJob(JobRef);

impl KickJob {
    /// A kick of this job.
    pub fn new(job: impl Into<JobRef>) -> Self {
        KickJob(job.into())
    }
}

line_command! {
    KickJob = "kick-job", |self| [self.0.id.get()] -> () {
        Response::Kicked(None) => Ok(()),
    }
    job: self.0,
}

/// `stats-job <id>`: state, age, counters of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsJob(pub JobId);

line_command! {
    StatsJob = "stats-job", |self| [self.0.get()] -> Option<JobStats> {
        Response::Ok(text) => match JobStats::parse(&text)? {
            stats if stats.id == self.0 => Ok(Some(stats)),
            other => Err(about_another("job", self.0, other.id)),
        },
        Response::NotFound => Ok(None),
    }
}

/// `stats-tube <tube>`: counts and counters of one tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsTube(pub TubeName);

line_command! {
    StatsTube = "stats-tube", |self| [self.0] -> Option<TubeStats> {
        Response::Ok(text) => match TubeStats::parse(&text)? {
            stats if stats.name == self.0 => Ok(Some(stats)),
            other => Err(about_another("tube", &self.0, other.name)),
        },
        Response::NotFound => Ok(None),
    }
}

/// `stats`: counts and counters of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats;

line_command! {
    Stats = "stats", |self| [] -> ServerStats {
        Response::Ok(text) => ServerStats::parse(&text),
    }
}

/// `list-tubes`: all existing tubes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTubes;

line_command! {
    ListTubes = "list-tubes", |self| [] -> Vec<TubeName> {
        Response::Ok(text) => stats_text::list(&text),
    }
}

/// `list-tubes-watched`: the watch list of this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTubesWatched;

line_command! {
    ListTubesWatched = "list-tubes-watched", |self| [] -> Vec<TubeName> {
        Response::Ok(text) => stats_text::list(&text),
    }
}

/// `list-tube-used`: the tube that puts go to on this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTubeUsed;

line_command! {
    ListTubeUsed = "list-tube-used", |self| [] -> TubeName {
        Response::Using(tube) => TubeName::try_from(&*tube)
            .map_err(|error| Error::protocol("the reply is not a tube name").with_source(error)),
    }
}

/// `pause-tube <tube> <seconds>`: no job of the tube is reserved for that long; 0 ends a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseTube {
    tube: TubeName,
    delay: Seconds,
}

impl PauseTube {
    /// A pause of `tube`, rounded up to whole seconds.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the pause is over `u32::MAX` seconds.
    pub fn new(tube: TubeName, delay: Duration) -> Result<Self, Error> {
        Ok(PauseTube { tube, delay: Seconds::round_up("pause", delay, u32::MAX)? })
    }
}

line_command! {
    PauseTube = "pause-tube", |self| [self.tube, self.delay.get()] -> () {
        Response::Paused => Ok(()),
    }
}

/// `quit`: the server closes the connection; jobs it holds become ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quit;

line_command! {
    Quit = "quit", |self| [] -> () {
        Response::Closed => Ok(()),
    }
    effect: Effect::Quit,
}
