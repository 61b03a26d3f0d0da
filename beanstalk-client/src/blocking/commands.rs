//! One method per command, each a thin wrapper around [`Client::call`].

use std::time::Duration;

use super::Client;
use crate::{
    Error, Inserted, Job, JobId, JobRef, JobStats, Priority, PutOptions, ReleaseOptions, Released,
    Reserved, Result, ServerStats, TubeName, TubeStats,
    protocol::{
        Bury, Delete, Ignore, Kick, KickJob, ListTubeUsed, ListTubes, ListTubesWatched, PauseTube,
        Peek, PeekBuried, PeekDelayed, PeekReady, Put, Quit, Release, Reserve, ReserveJob,
        ReserveWithTimeout, Stats, StatsJob, StatsTube, Touch, Use, Watch,
    },
};

impl Client {
    /// Stores a job with these bytes in the used tube (`put`).
    ///
    /// # Errors
    ///
    /// `Draining` and `OutOfMemory` are temporary; `JobTooBig` leaves the connection usable; `InvalidInput` for a
    /// duration over `u32::MAX` seconds; a connection failure, where [`fate`](Error::fate) says whether the job may
    /// exist.
    pub fn put(&mut self, body: impl AsRef<[u8]>, options: PutOptions) -> Result<Inserted> {
        self.call(&Put::new(body, options)?)
    }

    /// Makes later puts, peeks and kicks act on this tube (`use`). The server creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; a connection failure.
    pub fn use_tube<T>(&mut self, tube: T) -> Result<()>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Use(tube.try_into()?))
    }

    /// Takes a job from the watched tubes, however long that takes (`reserve`).
    ///
    /// It asks with `reserve-with-timeout` in slices of 15 s, again after each that ends without a job: a server that
    /// has fallen silent is noticed within a slice and the reply timeout.
    ///
    /// # Errors
    ///
    /// `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a connection failure.
    pub fn reserve(&mut self) -> Result<Reserved> {
        self.carry_out(&Reserve, |role, _| role.begin_reserve())
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
    pub fn reserve_with_timeout(&mut self, timeout: Duration) -> Result<Reserved> {
        self.call(&ReserveWithTimeout::new(timeout)?)
    }

    /// Reserves a given job, ready, delayed or buried, from any tube (`reserve-job`). `None` if there is no such job,
    /// or another client has it reserved.
    ///
    /// # Errors
    ///
    /// `Unsupported` before server 1.12; `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a connection
    /// failure.
    pub fn reserve_job(&mut self, id: impl Into<JobId>) -> Result<Option<Job>> {
        self.call(&ReserveJob(id.into()))
    }

    /// Removes a job that is ready, delayed, buried, or reserved by this connection (`delete`).
    ///
    /// # Errors
    ///
    /// `NotFound`: no such job, or another connection has it reserved. `JobLost`: the connection that held this
    /// reservation is gone, and nothing was sent. Otherwise a connection failure.
    pub fn delete(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&Delete::new(job))
    }

    /// Gives a reserved job back to its tube, with this priority and delay (`release`).
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job. `JobLost`, as for [`delete`](Self::delete); `InvalidInput`
    /// for a delay over `u32::MAX` seconds; a connection failure.
    pub fn release(&mut self, job: impl Into<JobRef>, options: ReleaseOptions) -> Result<Released> {
        self.call(&Release::new(job, options)?)
    }

    /// Sets a reserved job aside until it is kicked (`bury`).
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job. `JobLost`, as for [`delete`](Self::delete); otherwise a
    /// connection failure.
    pub fn bury(&mut self, job: impl Into<JobRef>, priority: impl Into<Priority>) -> Result<()> {
        self.call(&Bury::new(job, priority))
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
    pub fn touch(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&Touch::new(job))
    }

    /// Adds a tube to the watch list, creating it if necessary, and returns the size of the watch list (`watch`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; a connection failure.
    pub fn watch<T>(&mut self, tube: T) -> Result<u64>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Watch(tube.try_into()?))
    }

    /// Makes reserve take jobs from exactly these tubes: watches those that are not watched yet (`watch`), then removes
    /// the others (`ignore`). Each change costs one round trip.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, or no name at all: nothing is sent. A connection failure;
    /// [`watched_tubes`](Self::watched_tubes) shows which changes were made before it.
    pub fn watch_only<I>(&mut self, tubes: I) -> Result<()>
    where
        I: IntoIterator,
        I::Item: TryInto<TubeName>,
        Error: From<<I::Item as TryInto<TubeName>>::Error>,
    {
        let tubes = TubeName::distinct(tubes, "a client watches at least one tube")?;
        for watch in self.role.session.to_watch(&tubes) {
            self.call(&watch)?;
        }
        for ignore in self.role.session.to_ignore(&tubes) {
            self.call(&ignore)?;
        }
        Ok(())
    }

    /// Removes a tube from the watch list, and returns the size of the watch list (`ignore`).
    ///
    /// # Errors
    ///
    /// `NotIgnored` for the only watched tube; `InvalidInput` for an invalid name; a connection failure.
    pub fn ignore<T>(&mut self, tube: T) -> Result<u64>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Ignore(tube.try_into()?))
    }

    /// Looks at any job, in any state (`peek`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn peek(&mut self, id: impl Into<JobId>) -> Result<Option<Job>> {
        self.call(&Peek(id.into()))
    }

    /// Looks at the job of the used tube that would be reserved next (`peek-ready`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a connection failure.
    pub fn peek_ready(&mut self) -> Result<Option<Job>> {
        self.call(&PeekReady)
    }

    /// Looks at the delayed job of the used tube with the least time left (`peek-delayed`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a connection failure.
    pub fn peek_delayed(&mut self) -> Result<Option<Job>> {
        self.call(&PeekDelayed)
    }

    /// Looks at the job of the used tube that would be kicked next (`peek-buried`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a connection failure.
    pub fn peek_buried(&mut self) -> Result<Option<Job>> {
        self.call(&PeekBuried)
    }

    /// Makes up to `bound` buried jobs of the used tube ready, the longest buried first, and returns their number
    /// (`kick`).
    ///
    /// If none is buried, it takes delayed jobs instead, those with the shortest remaining delay first.
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn kick(&mut self, bound: u64) -> Result<u64> {
        self.call(&Kick(bound))
    }

    /// Makes one buried or delayed job ready, in any tube (`kick-job`).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such job in these states. Otherwise, a connection failure.
    pub fn kick_job(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&KickJob::new(job))
    }

    /// State, age and counters of one job (`stats-job`).
    ///
    /// # Errors
    ///
    /// `Protocol` for a malformed reply; a connection failure.
    pub fn stats_job(&mut self, id: impl Into<JobId>) -> Result<Option<JobStats>> {
        self.call(&StatsJob(id.into()))
    }

    /// Counts and counters of one tube (`stats-tube`). `None`: it does not exist.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name; a connection failure.
    pub fn stats_tube<T>(&mut self, tube: T) -> Result<Option<TubeStats>>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&StatsTube(tube.try_into()?))
    }

    /// Counts and counters of the server (`stats`).
    ///
    /// # Errors
    ///
    /// `Protocol` for a malformed reply; a connection failure.
    pub fn stats(&mut self) -> Result<ServerStats> {
        self.call(&Stats)
    }

    /// All existing tubes, in no particular order (`list-tubes`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn list_tubes(&mut self) -> Result<Vec<TubeName>> {
        self.call(&ListTubes)
    }

    /// The used tube, as reported by the server (`list-tube-used`). The cheapest command of the protocol.
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn list_tube_used(&mut self) -> Result<TubeName> {
        self.call(&ListTubeUsed)
    }

    /// The watch list, as reported by the server (`list-tubes-watched`).
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn list_tubes_watched(&mut self) -> Result<Vec<TubeName>> {
        self.call(&ListTubesWatched)
    }

    /// Stops the server from handing out jobs of this tube for `delay`, rounded up to whole seconds; zero ends a pause
    /// (`pause-tube`).
    ///
    /// # Errors
    ///
    /// `NotFound`: the tube does not exist. `InvalidInput` for an invalid name or duration; a connection failure.
    pub fn pause_tube<T>(&mut self, tube: T, delay: Duration) -> Result<()>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&PauseTube::new(tube.try_into()?, delay)?)
    }

    /// Asks the server to close the connection (`quit`). Jobs that it holds become ready again.
    ///
    /// # Errors
    ///
    /// A connection failure.
    pub fn quit(mut self) -> Result<()> {
        self.call(&Quit)
    }
}
