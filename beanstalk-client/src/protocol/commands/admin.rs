//! Commands that inspect jobs, tubes and the server, and move jobs without reserving them.

use std::{fmt::Display, time::Duration};

use bytes::BytesMut;

use crate::{
    Error, Job, JobId, JobRef, JobStats, Seconds, ServerStats, TubeName, TubeStats,
    protocol::{Command, Effect, Response, command::line, stats_text},
};

/// `peek <id>`: the body of any job, in any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek(pub JobId);

impl Command for Peek {
    type Reply = Option<Job>;
    const NAME: &'static str = "peek";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.get()]);
    }

    fn decode(&self, response: Response) -> Result<Option<Job>, Error> {
        match found(response)? {
            Some(other) if other.id != self.0 => Err(about_another("job", self.0, other.id)),
            job => Ok(job),
        }
    }
}

/// Declares commands without arguments that show the first job of one queue of the used tube.
macro_rules! peek_heads {
    ($($(#[$doc:meta])* $name:ident = $verb:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl Command for $name {
            type Reply = Option<Job>;
            const NAME: &'static str = $verb;

            fn encode(&self, out: &mut BytesMut) {
                line(out, Self::NAME, &[]);
            }

            fn decode(&self, response: Response) -> Result<Option<Job>, Error> {
                found(response)
            }
        }
    )+};
}

peek_heads! {
    /// `peek-ready`: the job of the used tube that would be reserved next.
    PeekReady = "peek-ready";
    /// `peek-delayed`: the delayed job of the used tube with the least time left.
    PeekDelayed = "peek-delayed";
    /// `peek-buried`: the job of the used tube that would be kicked next.
    PeekBuried = "peek-buried";
}

/// The error for a reply that is out of step or does not belong to this command.
pub(super) fn about_another(what: &str, asked: impl Display, answered: impl Display) -> Error {
    Error::protocol(format!("the reply is about {what} {answered} instead of {what} {asked}"))
}

fn found(response: Response) -> Result<Option<Job>, Error> {
    match response {
        Response::Found(job) => Ok(Some(job)),
        Response::NotFound => Ok(None),
        other => Err(other.refuse()),
    }
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

impl Command for Kick {
    type Reply = u64;
    const NAME: &'static str = "kick";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.bound()]);
    }

    fn decode(&self, response: Response) -> Result<u64, Error> {
        match response {
            Response::Kicked(Some(count)) if count <= self.bound() => Ok(count),
            Response::Kicked(Some(count)) => Err(Error::protocol(format!(
                "the server reports {count} kicked jobs, more than the requested maximum of {}",
                self.bound()
            ))),
            other => Err(other.refuse()),
        }
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

impl Command for KickJob {
    type Reply = ();
    const NAME: &'static str = "kick-job";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.id.get()]);
    }

    fn decode(&self, response: Response) -> Result<(), Error> {
        match response {
            Response::Kicked(None) => Ok(()),
            other => Err(other.refuse()),
        }
    }

    fn job(&self) -> Option<JobRef> {
        Some(self.0)
    }
}

/// `stats-job <id>`: state, age, counters of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatsJob(pub JobId);

impl Command for StatsJob {
    type Reply = Option<JobStats>;
    const NAME: &'static str = "stats-job";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0.get()]);
    }

    fn decode(&self, response: Response) -> Result<Option<JobStats>, Error> {
        match response {
            Response::Ok(text) => match JobStats::parse(&text)? {
                stats if stats.id == self.0 => Ok(Some(stats)),
                other => Err(about_another("job", self.0, other.id)),
            },
            Response::NotFound => Ok(None),
            other => Err(other.refuse()),
        }
    }
}

/// `stats-tube <tube>`: counts and counters of one tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsTube(pub TubeName);

impl Command for StatsTube {
    type Reply = Option<TubeStats>;
    const NAME: &'static str = "stats-tube";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.0]);
    }

    fn decode(&self, response: Response) -> Result<Option<TubeStats>, Error> {
        match response {
            Response::Ok(text) => match TubeStats::parse(&text)? {
                stats if stats.name == self.0 => Ok(Some(stats)),
                other => Err(about_another("tube", &self.0, other.name)),
            },
            Response::NotFound => Ok(None),
            other => Err(other.refuse()),
        }
    }
}

/// `stats`: counts and counters of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats;

impl Command for Stats {
    type Reply = ServerStats;
    const NAME: &'static str = "stats";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[]);
    }

    fn decode(&self, response: Response) -> Result<ServerStats, Error> {
        match response {
            Response::Ok(text) => ServerStats::parse(&text),
            other => Err(other.refuse()),
        }
    }
}

/// `list-tubes`: all existing tubes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTubes;

impl Command for ListTubes {
    type Reply = Vec<TubeName>;
    const NAME: &'static str = "list-tubes";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[]);
    }

    fn decode(&self, response: Response) -> Result<Vec<TubeName>, Error> {
        tubes(response)
    }
}

/// `list-tubes-watched`: the watch list of this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTubesWatched;

impl Command for ListTubesWatched {
    type Reply = Vec<TubeName>;
    const NAME: &'static str = "list-tubes-watched";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[]);
    }

    fn decode(&self, response: Response) -> Result<Vec<TubeName>, Error> {
        tubes(response)
    }
}

fn tubes(response: Response) -> Result<Vec<TubeName>, Error> {
    match response {
        Response::Ok(text) => stats_text::list(&text),
        other => Err(other.refuse()),
    }
}

/// `list-tube-used`: the tube that puts go to on this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListTubeUsed;

impl Command for ListTubeUsed {
    type Reply = TubeName;
    const NAME: &'static str = "list-tube-used";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[]);
    }

    fn decode(&self, response: Response) -> Result<TubeName, Error> {
        match response {
            Response::Using(tube) => TubeName::try_from(&*tube).map_err(|error| {
                Error::protocol("the reply is not a tube name").with_source(error)
            }),
            other => Err(other.refuse()),
        }
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

impl Command for PauseTube {
    type Reply = ();
    const NAME: &'static str = "pause-tube";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[&self.tube, &self.delay.get()]);
    }

    fn decode(&self, response: Response) -> Result<(), Error> {
        match response {
            Response::Paused => Ok(()),
            other => Err(other.refuse()),
        }
    }
}

/// `quit`: the server closes the connection; jobs it holds become ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quit;

impl Command for Quit {
    type Reply = ();
    const NAME: &'static str = "quit";

    fn encode(&self, out: &mut BytesMut) {
        line(out, Self::NAME, &[]);
    }

    fn decode(&self, response: Response) -> Result<(), Error> {
        match response {
            Response::Closed => Ok(()),
            other => Err(other.refuse()),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Quit
    }
}
