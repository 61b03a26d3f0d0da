//! The commands as methods: each one line over [`Client::call`].

use std::time::Duration;

use crate::Client;
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
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn put(&mut self, body: impl AsRef<[u8]>, options: PutOptions) -> Result<Inserted> {
        self.call(&Put::new(body, options)?).await
    }

    /// Makes later puts, peeks and kicks act on this tube (`use`). It is created if need be.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn use_tube<T>(&mut self, tube: T) -> Result<()>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Use(tube.try_into()?)).await
    }

    /// Takes a job from the watched tubes, however long that takes (`reserve`).
    ///
    /// There is no reply deadline. Prefer [`reserve_with_timeout`](Self::reserve_with_timeout) in a loop if a dead
    /// network must be noticed early.
    ///
    /// # Errors
    ///
    /// `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// No job is lost: one that comes after all is given to the next reserve. A [`touch`](Self::touch) waits for the reserve to end. Any other command ends the waiting reserve on the server first, runs on this connection, and leaves it closed: jobs that it held go back to ready, and the next call connects again. Finish a held job before waiting for another, or wait on a second client.
    pub async fn reserve(&mut self) -> Result<Reserved> {
        self.call(&Reserve).await
    }

    /// Takes a job from the watched tubes, or none within the timeout (`reserve-with-timeout`).
    ///
    /// The timeout is rounded up to whole seconds, so that it never becomes a busy loop; zero checks once. The server's
    /// clock decides: the client waits up to the grace beyond it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a timeout over 2147483647 s; `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a
    /// failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// No job is lost: one that comes after all is given to the next reserve. A [`touch`](Self::touch) waits for the reserve to end. Any other command ends the waiting reserve on the server first, runs on this connection, and leaves it closed: jobs that it held go back to ready, and the next call connects again. Finish a held job before waiting for another, or wait on a second client.
    pub async fn reserve_with_timeout(&mut self, timeout: Duration) -> Result<Reserved> {
        self.call(&ReserveWithTimeout::new(timeout)?).await
    }

    /// Reserves a given job, ready, delayed or buried, from any tube (`reserve-job`). `None` if there is no such job,
    /// or another client has it reserved.
    ///
    /// # Errors
    ///
    /// `Unsupported` before server 1.12; `BodyTooLarge` and `BodyDamaged`, with the job still reserved; a failure of the
    /// connection.
    ///
    /// # Cancel safety
    ///
    /// If the job was reserved, the connection is closed before the next call, which gives it back.
    pub async fn reserve_job(&mut self, id: impl Into<JobId>) -> Result<Option<Job>> {
        self.call(&ReserveJob(id.into())).await
    }

    /// Removes a job that is ready, delayed, buried, or reserved by this connection (`delete`).
    ///
    /// # Errors
    ///
    /// `NotFound`: no such job, or another connection has it reserved. `JobLost`: the connection that held this
    /// reservation is gone, and nothing was sent. Otherwise a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn delete(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&Delete::new(job)).await
    }

    /// Gives a reserved job back to its tube, with this priority and delay (`release`).
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job. `JobLost`, as for [`delete`](Self::delete);
    /// `InvalidInput` for a delay over `u32::MAX` seconds; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn release(
        &mut self,
        job: impl Into<JobRef>,
        options: ReleaseOptions,
    ) -> Result<Released> {
        self.call(&Release::new(job, options)?).await
    }

    /// Sets a reserved job aside until it is kicked (`bury`).
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job. `JobLost`, as for [`delete`](Self::delete); otherwise
    /// a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn bury(
        &mut self,
        job: impl Into<JobRef>,
        priority: impl Into<Priority>,
    ) -> Result<()> {
        self.call(&Bury::new(job, priority)).await
    }

    /// Starts a reserved job's time to run again (`touch`).
    ///
    /// While a dropped reserve or pipeline still waits on this connection, the server reads nothing behind it, and closing the
    /// connection would give the job back. The touch waits for the end of that reserve, at most for the reply timeout, and
    /// is not sent if it lasts longer: the job stays held, and `Ok` always means that it is.
    ///
    /// # Errors
    ///
    /// `NotFound`: this connection does not hold the job (any more). `JobLost`, as for [`delete`](Self::delete), also when the
    /// connection is given up as the reply comes. `Timeout(Reply)` with the fate `NotSent` behind a reserve that still waits;
    /// otherwise a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn touch(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&Touch::new(job)).await
    }

    /// Adds a tube to the watch list, creating it if necessary, and returns the size of the watch list (`watch`).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn watch<T>(&mut self, tube: T) -> Result<u64>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Watch(tube.try_into()?)).await
    }

    /// Makes reserve take from these tubes and from no other: watches the ones that are not watched yet (`watch`), then takes
    /// the others off (`ignore`). One round trip for each change; none where nothing changes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid name, and if there is none: nothing is sent then. A connection failure;
    /// [`watched_tubes`](Self::watched_tubes) shows what was done before.
    ///
    /// # Cancel safety
    ///
    /// Some of the commands may be carried out; calling it again does the rest.
    pub async fn watch_only<I>(&mut self, tubes: I) -> Result<()>
    where
        I: IntoIterator,
        I::Item: TryInto<TubeName>,
        Error: From<<I::Item as TryInto<TubeName>>::Error>,
    {
        let tubes = TubeName::distinct(tubes, "a client watches at least one tube")?;
        for watch in self.role.session.to_watch(&tubes) {
            self.call(&watch).await?;
        }
        for ignore in self.role.session.to_ignore(&tubes) {
            self.call(&ignore).await?;
        }
        Ok(())
    }

    /// Removes a tube from the watch list, and returns the size of the watch list (`ignore`).
    ///
    /// # Errors
    ///
    /// `NotIgnored` for the only watched tube; `InvalidInput` for a name that is not valid; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn ignore<T>(&mut self, tube: T) -> Result<u64>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&Ignore(tube.try_into()?)).await
    }

    /// Looks at any job, in any state (`peek`).
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn peek(&mut self, id: impl Into<JobId>) -> Result<Option<Job>> {
        self.call(&Peek(id.into())).await
    }

    /// Looks at the job of the used tube that would be reserved next (`peek-ready`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn peek_ready(&mut self) -> Result<Option<Job>> {
        self.call(&PeekReady).await
    }

    /// Looks at the delayed job of the used tube with the least time left (`peek-delayed`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn peek_delayed(&mut self) -> Result<Option<Job>> {
        self.call(&PeekDelayed).await
    }

    /// Looks at the job of the used tube that would be kicked next (`peek-buried`).
    ///
    /// # Errors
    ///
    /// `BodyTooLarge`; `BodyDamaged`; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn peek_buried(&mut self) -> Result<Option<Job>> {
        self.call(&PeekBuried).await
    }

    /// Makes up to `bound` buried jobs of the used tube ready, the longest buried first, and returns how many (`kick`).
    ///
    /// If none is buried, it takes delayed jobs instead, those with the shortest remaining delay first.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn kick(&mut self, bound: u64) -> Result<u64> {
        self.call(&Kick(bound)).await
    }

    /// Makes one buried or delayed job ready, in any tube (`kick-job`).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such job in these states. Otherwise, a connection failure.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn kick_job(&mut self, job: impl Into<JobRef>) -> Result<()> {
        self.call(&KickJob::new(job)).await
    }

    /// State, age and counters of one job (`stats-job`).
    ///
    /// # Errors
    ///
    /// `Protocol` for a reply that is not understood; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn stats_job(&mut self, id: impl Into<JobId>) -> Result<Option<JobStats>> {
        self.call(&StatsJob(id.into())).await
    }

    /// Counts and counters of one tube (`stats-tube`). `None`: it does not exist.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not valid; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn stats_tube<T>(&mut self, tube: T) -> Result<Option<TubeStats>>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&StatsTube(tube.try_into()?)).await
    }

    /// Counts and counters of the server (`stats`).
    ///
    /// # Errors
    ///
    /// `Protocol` for a reply that is not understood; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn stats(&mut self) -> Result<ServerStats> {
        self.call(&Stats).await
    }

    /// Every tube that exists, in no particular order (`list-tubes`).
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn list_tubes(&mut self) -> Result<Vec<TubeName>> {
        self.call(&ListTubes).await
    }

    /// The used tube, as reported by the server (`list-tube-used`). The cheapest command there is.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn list_tube_used(&mut self) -> Result<TubeName> {
        self.call(&ListTubeUsed).await
    }

    /// The tubes that reserve takes from, as the server knows them (`list-tubes-watched`).
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The reply is read and dropped by the next call.
    pub async fn list_tubes_watched(&mut self) -> Result<Vec<TubeName>> {
        self.call(&ListTubesWatched).await
    }

    /// Lets no job of the tube be reserved for that long; zero ends a pause (`pause-tube`). Rounded up to whole seconds.
    ///
    /// # Errors
    ///
    /// `NotFound`: the tube does not exist. `InvalidInput` for a name or a duration that is not valid; a failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// The command may still be carried out; its reply is read and dropped by the next call.
    pub async fn pause_tube<T>(&mut self, tube: T, delay: Duration) -> Result<()>
    where
        T: TryInto<TubeName>,
        Error: From<T::Error>,
    {
        self.call(&PauseTube::new(tube.try_into()?, delay)?).await
    }

    /// Has the server close the connection (`quit`). Jobs that it holds go back to ready.
    ///
    /// # Errors
    ///
    /// A failure of the connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the client closes the connection all the same.
    pub async fn quit(mut self) -> Result<()> {
        self.call(&Quit).await
    }
}
