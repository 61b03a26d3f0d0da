//! One method per command, each a thin wrapper around `Client::call`, in one list for both clients.

use std::time::Duration;

use crate::{
    Error, Inserted, Job, JobId, JobRef, JobStats, Priority, PutOptions, ReleaseOptions, Released,
    Reserved, Result, ServerStats, TubeName, TubeStats,
    protocol::{
        Bury, Delete, Ignore, Kick, KickJob, ListTubeUsed, ListTubes, ListTubesWatched, PauseTube,
        Peek, PeekBuried, PeekDelayed, PeekReady, Put, Quit, Release, Reserve, ReserveJob,
        ReserveWithTimeout, Stats, StatsJob, StatsTube, Touch, Use, Watch,
    },
};

/// The methods of a client; those of the async one are `async`, and say what happens if their future is dropped.
macro_rules! commands {
    ($client:ty $(, $async:ident $await:ident $cancel:literal)?) => {
impl $client {
    /// Stores a job with these bytes in the used tube (`put`).
    ///
    /// # Errors
    ///
    /// `Draining` and `OutOfMemory` are temporary; `JobTooBig` leaves the connection usable; `InvalidInput` for a
    /// duration over `u32::MAX` seconds; a connection failure, where [`fate`](Error::fate) says whether the job may
    /// exist.
    $(#[doc = $cancel])?
    pub $($async)? fn put(&mut self, body: impl AsRef<[u8]>, options: PutOptions) -> Result<Inserted> {
        self.call(&Put::new(body, options)?)$(.$await)?
    }

    /// Makes later puts, peeks and kicks act on this tube (`use`). The server creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn use_tube<T>(&mut self, tube: T) -> Result<()>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Use(tube.try_into()?))$(.$await)?
    }

    /// Takes a job from the watched tubes, however long that takes (`reserve`).
    ///
    /// It asks with `reserve-with-timeout` in slices of 15 s, again after each that ends without a job: a server that
    /// has fallen silent is noticed within a slice and the reply timeout.
    ///
    /// # Errors
    ///
    /// `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a connection failure.
    $(#[doc = concat!(
        $cancel,
        " No job is lost: one that arrives late is given to the next reserve. A [`touch`](Self::touch) \
         waits for the reserve to end. Any other command first ends the waiting reserve on the server, \
         runs on this connection, and leaves it closed: jobs that it held become ready again, and the next \
         call reconnects. Finish a held job before waiting for another, or wait on a second client."
    )])?
    pub $($async)? fn reserve(&mut self) -> Result<Reserved> {
        self.carry_out(&Reserve, |role, _| role.begin_reserve())$(.$await)?
    }

    /// Takes a job from the watched tubes, or none within the timeout (`reserve-with-timeout`).
    ///
    /// The timeout is rounded up to whole seconds, so that it never becomes a busy loop; zero checks once. The server's
    /// clock decides: the client waits up to the grace beyond it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a timeout over 2147483647 s; `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a
    /// connection failure.
    $(#[doc = concat!($cancel, " No job is lost; see [`reserve`](Self::reserve).")])?
    pub $($async)? fn reserve_with_timeout(&mut self, timeout: Duration) -> Result<Reserved> {
        self.call(&ReserveWithTimeout::new(timeout)?)$(.$await)?
    }

    /// Reserves a given job, ready, delayed or buried, from any tube (`reserve-job`). `None` if there is no such job,
    /// or another client has it reserved.
    ///
    /// # Errors
    ///
    /// `Unsupported` before server 1.12; `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a connection
    /// failure.
    $(#[doc = concat!(
        $cancel,
        " If the job was reserved, the connection is closed before the next call, which gives it back."
    )])?
    pub $($async)? fn reserve_job(&mut self, id: impl Into<JobId>) -> Result<Option<Job>> {
        self.call(&ReserveJob(id.into()))$(.$await)?
    }

    /// Removes a job that is ready, delayed, buried, or reserved by this connection (`delete`).
    ///
    /// # Errors
    ///
    /// `NotFound`: no such job, or another connection has it reserved. `JobLost`: the connection that held this
    /// reservation is gone, and nothing was sent. Otherwise a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn delete(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&Delete::new(job))$(.$await)?
    }

    /// Gives a reserved job back to its tube, with this priority and delay (`release`).
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job. `JobLost`, as for [`delete`](Self::delete); `InvalidInput`
    /// for a delay over `u32::MAX` seconds; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn release(
        &mut self,
        job: impl Into<JobRef>,
        options: ReleaseOptions,
    ) -> Result<Released> {
        self.call(&Release::new(job, options)?)$(.$await)?
    }

    /// Sets a reserved job aside until it is kicked (`bury`).
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job. `JobLost`, as for [`delete`](Self::delete); otherwise a
    /// connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn bury(
        &mut self,
        job: impl Into<JobRef>,
        priority: impl Into<Priority>,
    ) -> Result<()> {
        self.call(&Bury::new(job, priority))$(.$await)?
    }

    /// Restarts a reserved job's time to run (`touch`).
    ///
    /// While a dropped reserve or pipeline still waits on this connection, the server reads no later command, and
    /// closing the connection would give the job back. The touch therefore waits for that reserve to end, at most for
    /// the reply timeout; if it takes longer, the touch is not sent and the job stays reserved. `Ok` always means that
    /// the server extended the reservation.
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job (any more). `JobLost`, as for [`delete`](Self::delete), also
    /// when the connection is closed while the reply arrives. `Timeout(Reply)` with the fate `NotSent` behind a reserve
    /// that is still waiting; otherwise a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn touch(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&Touch::new(job))$(.$await)?
    }

    /// Adds a tube to the watch list, creating it if necessary, and returns the size of the watch list (`watch`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn watch<T>(&mut self, tube: T) -> Result<u64>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Watch(tube.try_into()?))$(.$await)?
    }

    /// Makes reserve take jobs from exactly these tubes: watches those that are not watched yet (`watch`), then removes
    /// the others (`ignore`). Each change costs one round trip.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, or no name at all: nothing is sent. A connection failure;
    /// [`watched_tubes`](Self::watched_tubes) shows which changes were made before it.
    $(#[doc = concat!(
        $cancel,
        " Some of the commands may be carried out; call it again for the rest."
    )])?
    pub $($async)? fn watch_only<I>(&mut self, tubes: I) -> Result<()>
    where
        I: IntoIterator,
        I::Item: TryInto<TubeName>,
        Error: From<<I::Item as TryInto<TubeName>>::Error>,
    {
        let tubes = TubeName::distinct(tubes, "a client watches at least one tube")?;
        for watch in self.role.session.to_watch(&tubes) {
            self.call(&watch)$(.$await)??;
        }
        for ignore in self.role.session.to_ignore(&tubes) {
            self.call(&ignore)$(.$await)??;
        }
        Ok(())
    }

    /// Removes a tube from the watch list, and returns the size of the watch list (`ignore`).
    ///
    /// # Errors
    ///
    /// `NotIgnored` for the only watched tube; `InvalidInput` for an invalid name; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn ignore<T>(&mut self, tube: T) -> Result<u64>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Ignore(tube.try_into()?))$(.$await)?
    }

    /// Looks at any job, in any state (`peek`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn peek(&mut self, id: impl Into<JobId>) -> Result<Option<Job>> {
        self.call(&Peek(id.into()))$(.$await)?
    }

    /// Looks at the job of the used tube that would be reserved next (`peek-ready`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn peek_ready(&mut self) -> Result<Option<Job>> {
        self.call(&PeekReady)$(.$await)?
    }

    /// Looks at the delayed job of the used tube with the least time left (`peek-delayed`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn peek_delayed(&mut self) -> Result<Option<Job>> {
        self.call(&PeekDelayed)$(.$await)?
    }

    /// Looks at the job of the used tube that would be kicked next (`peek-buried`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn peek_buried(&mut self) -> Result<Option<Job>> {
        self.call(&PeekBuried)$(.$await)?
    }

    /// Makes up to `bound` buried jobs of the used tube ready, the longest buried first, and returns their number
    /// (`kick`).
    ///
    /// If none is buried, it takes delayed jobs instead, those with the shortest remaining delay first.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn kick(&mut self, bound: u64) -> Result<u64> {
        self.call(&Kick(bound))$(.$await)?
    }

    /// Makes one buried or delayed job ready, in any tube (`kick-job`).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such job in these states. Otherwise, a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn kick_job(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&KickJob::new(job))$(.$await)?
    }

    /// State, age and counters of one job (`stats-job`).
    ///
    /// # Errors
    ///
    /// `Protocol` for a malformed reply; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn stats_job(&mut self, id: impl Into<JobId>) -> Result<Option<JobStats>> {
        self.call(&StatsJob(id.into()))$(.$await)?
    }

    /// Counts and counters of one tube (`stats-tube`). `None`: it does not exist.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn stats_tube<T>(&mut self, tube: T) -> Result<Option<TubeStats>>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&StatsTube(tube.try_into()?))$(.$await)?
    }

    /// Counts and counters of the server (`stats`).
    ///
    /// # Errors
    ///
    /// `Protocol` for a malformed reply; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn stats(&mut self) -> Result<ServerStats> {
        self.call(&Stats)$(.$await)?
    }

    /// All existing tubes, in no particular order (`list-tubes`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn list_tubes(&mut self) -> Result<Vec<TubeName>> {
        self.call(&ListTubes)$(.$await)?
    }

    /// The used tube, as reported by the server (`list-tube-used`). The cheapest command of the protocol.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn list_tube_used(&mut self) -> Result<TubeName> {
        self.call(&ListTubeUsed)$(.$await)?
    }

    /// The watch list, as reported by the server (`list-tubes-watched`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn list_tubes_watched(&mut self) -> Result<Vec<TubeName>> {
        self.call(&ListTubesWatched)$(.$await)?
    }

    /// Stops the server from handing out jobs of this tube for `delay`, rounded up to whole seconds; zero ends a pause
    /// (`pause-tube`).
    ///
    /// # Errors
    ///
    /// `NotFound`: the tube does not exist. `InvalidInput` for an invalid name or duration; a connection failure.
    $(#[doc = $cancel])?
    pub $($async)? fn pause_tube<T>(&mut self, tube: T, delay: Duration) -> Result<()>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&PauseTube::new(tube.try_into()?, delay)?)$(.$await)?
    }

    /// Asks the server to close the connection (`quit`). Jobs that it holds become ready again.
    ///
    /// # Errors
    ///
    /// A connection failure.
    $(#[doc = concat!(
        $cancel,
        " Dropping the client closes the connection all the same."
    )])?
    pub $($async)? fn quit(mut self) -> Result<()> {
        self.call(&Quit)$(.$await)?
    }
}
    };
}

#[cfg(feature = "tokio")]
commands!(
    crate::Client,
    async await "\n# Cancel safety\n\nAs for the [client](Self#cancel-safety)."
);
#[cfg(feature = "blocking")]
commands!(crate::blocking::Client);
