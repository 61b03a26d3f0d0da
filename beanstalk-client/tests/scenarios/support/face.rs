//! The two faces behind one trait, so that a scenario is written once.

use std::time::Duration;

use beanstalk_client::{
    Address, Client, ConnectOptions, Epoch, Inserted, Job, JobFilter, JobId, JobRef, JobStats,
    Metrics, PairReply, Priority, PutOptions, ReleaseOptions, Released, Reserved, Result,
    ServerStats, TubeName, TubeStats, blocking, protocol::Command,
};
use queue_core::proof::runtime;
use tokio::runtime::Runtime;

/// The async face, driven by its own current-thread runtime.
#[derive(Debug)]
pub(crate) struct Async {
    /// The client itself.
    pub(crate) client: Client,
    /// Its driver.
    pub(crate) runtime: Runtime,
}

/// The blocking face.
#[derive(Debug)]
pub(crate) struct Blocking {
    /// The client itself.
    pub(crate) client: blocking::Client,
}

macro_rules! face {
    (
        calls { $(fn $call:ident($($arg:ident: $type:ty),*) -> $reply:ty;)+ }
        looks { $(fn $look:ident($($look_arg:ident: $look_type:ty),*) -> $value:ty;)+ }
    ) => {
        /// Every method of a client. Tube names are given as text, so that checking them is part of the call.
        pub(crate) trait Face: Sized + Send + 'static {
            /// `Client::connect`.
            fn connect(options: ConnectOptions) -> Result<Self>;

            /// `Client::new`.
            fn new(options: ConnectOptions) -> Result<Self>;

            /// `Client::call`.
            fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply>;

            /// `Client::call_pair`.
            fn call_pair<A: Command, B: Command>(&mut self, first: &A, second: &B) -> Result<PairReply<A, B>>;

            /// `Client::call_many`: the first `take` results, and then the pipeline is dropped.
            fn call_some<C: Command>(
                &mut self,
                window: usize,
                take: usize,
                commands: impl IntoIterator<Item = C>,
            ) -> Vec<Result<C::Reply>>;

            /// `Client::call_many` to its end.
            fn call_many<C: Command>(&mut self, commands: impl IntoIterator<Item = C>) -> Vec<Result<C::Reply>> {
                self.call_some(256, usize::MAX, commands)
            }

            /// `Client::jobs`: the first `take` results, and the number of missing jobs.
            fn jobs(&mut self, filter: impl Into<JobFilter>, take: usize) -> (Vec<Result<JobStats>>, u64);

            /// `Client::quit`.
            fn quit(self) -> Result<()>;

            $(
                /// The method of that name.
                fn $call(&mut self, $($arg: $type),*) -> $reply;
            )+
            $(
                /// The method of that name.
                fn $look(&self, $($look_arg: $look_type),*) -> $value;
            )+
        }

        impl Face for Blocking {
            fn connect(options: ConnectOptions) -> Result<Self> {
                blocking::Client::connect(options).map(|client| Blocking { client })
            }

            fn new(options: ConnectOptions) -> Result<Self> {
                blocking::Client::new(options).map(|client| Blocking { client })
            }

            fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
                self.client.call(command)
            }

            fn call_pair<A: Command, B: Command>(&mut self, first: &A, second: &B) -> Result<PairReply<A, B>> {
                self.client.call_pair(first, second)
            }

            fn call_some<C: Command>(
                &mut self,
                window: usize,
                take: usize,
                commands: impl IntoIterator<Item = C>,
            ) -> Vec<Result<C::Reply>> {
                self.client.call_many(commands).window(window).take(take).collect()
            }

            fn jobs(&mut self, filter: impl Into<JobFilter>, take: usize) -> (Vec<Result<JobStats>>, u64) {
                let mut list = self.client.jobs(filter);
                (list.by_ref().take(take).collect(), list.missing())
            }

            fn quit(self) -> Result<()> {
                self.client.quit()
            }

            $(fn $call(&mut self, $($arg: $type),*) -> $reply {
                self.client.$call($($arg),*)
            })+
            $(fn $look(&self, $($look_arg: $look_type),*) -> $value {
                self.client.$look($($look_arg),*)
            })+
        }

        impl Face for Async {
            fn connect(options: ConnectOptions) -> Result<Self> {
                let runtime = runtime();
                let client = runtime.block_on(Client::connect(options))?;
                Ok(Async { client, runtime })
            }

            fn new(options: ConnectOptions) -> Result<Self> {
                Client::new(options).map(|client| Async { client, runtime: runtime() })
            }

            fn call<C: Command>(&mut self, command: &C) -> Result<C::Reply> {
                self.runtime.block_on(self.client.call(command))
            }

            fn call_pair<A: Command, B: Command>(&mut self, first: &A, second: &B) -> Result<PairReply<A, B>> {
                self.runtime.block_on(self.client.call_pair(first, second))
            }

            fn call_some<C: Command>(
                &mut self,
                window: usize,
                take: usize,
                commands: impl IntoIterator<Item = C>,
            ) -> Vec<Result<C::Reply>> {
                self.runtime.block_on(async {
                    let mut replies = self.client.call_many(commands).window(window);
                    let mut found = Vec::new();
                    while found.len() < take && let Some(reply) = replies.next().await {
                        found.push(reply);
                    }
                    found
                })
            }

            fn jobs(&mut self, filter: impl Into<JobFilter>, take: usize) -> (Vec<Result<JobStats>>, u64) {
                self.runtime.block_on(async {
                    let (mut list, mut found) = (self.client.jobs(filter), Vec::new());
                    while found.len() < take && let Some(job) = list.next().await {
                        found.push(job);
                    }
                    (found, list.missing())
                })
            }

            fn quit(self) -> Result<()> {
                self.runtime.block_on(self.client.quit())
            }

            $(fn $call(&mut self, $($arg: $type),*) -> $reply {
                self.runtime.block_on(self.client.$call($($arg),*))
            })+
            $(fn $look(&self, $($look_arg: $look_type),*) -> $value {
                self.client.$look($($look_arg),*)
            })+
        }
    };
}

face! {
    calls {
        fn put(body: &[u8], options: PutOptions) -> Result<Inserted>;
        fn use_tube(tube: &str) -> Result<()>;
        fn reserve() -> Result<Reserved>;
        fn reserve_with_timeout(timeout: Duration) -> Result<Reserved>;
        fn reserve_job(id: impl Into<JobId>) -> Result<Option<Job>>;
        fn delete(job: impl Into<JobRef>) -> Result<()>;
        fn release(job: impl Into<JobRef>, options: ReleaseOptions) -> Result<Released>;
        fn bury(job: impl Into<JobRef>, priority: impl Into<Priority>) -> Result<()>;
        fn touch(job: impl Into<JobRef>) -> Result<()>;
        fn watch(tube: &str) -> Result<u64>;
        fn ignore(tube: &str) -> Result<u64>;
        fn watch_only(tubes: Vec<&str>) -> Result<()>;
        fn peek(id: impl Into<JobId>) -> Result<Option<Job>>;
        fn peek_ready() -> Result<Option<Job>>;
        fn peek_delayed() -> Result<Option<Job>>;
        fn peek_buried() -> Result<Option<Job>>;
        fn kick(bound: u64) -> Result<u64>;
        fn kick_job(job: impl Into<JobRef>) -> Result<()>;
        fn stats_job(id: impl Into<JobId>) -> Result<Option<JobStats>>;
        fn stats_tube(tube: &str) -> Result<Option<TubeStats>>;
        fn stats() -> Result<ServerStats>;
        fn list_tubes() -> Result<Vec<TubeName>>;
        fn list_tube_used() -> Result<TubeName>;
        fn list_tubes_watched() -> Result<Vec<TubeName>>;
        fn pause_tube(tube: &str, delay: Duration) -> Result<()>;
        fn check_connection() -> bool;
        fn reconnect() -> Result<()>;
        fn reset() -> Result<()>;
    }
    looks {
        fn is_connected() -> bool;
        fn used_tube() -> &TubeName;
        fn watched_tubes() -> &[TubeName];
        fn epoch() -> Epoch;
        fn address() -> &Address;
        fn metrics() -> &Metrics;
    }
}

impl Async {
    /// A client over a stream, with its own runtime.
    #[must_use]
    pub(crate) fn over(
        stream: impl beanstalk_client::Duplex + 'static,
        options: ConnectOptions,
        runtime: Runtime,
    ) -> Self {
        Async { client: Client::from_stream(stream, options), runtime }
    }
}

impl Blocking {
    /// A client over a stream.
    #[must_use]
    pub(crate) fn over(stream: impl blocking::Duplex + 'static, options: ConnectOptions) -> Self {
        Blocking { client: blocking::Client::from_stream(stream, options).unwrap() }
    }
}
