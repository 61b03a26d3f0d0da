//! The course of a run, whatever its protocol.

use std::{net::SocketAddr, sync::Arc, thread, time::Duration};

use fixtures::{history::Event, real::RealServer};
use tokio::runtime::Runtime;

use crate::{
    ledger::count,
    network::{networks, under_weather},
    options::Options,
    outages::Outages,
    outsiders::outsider,
    resources::{wait_for, watch},
    rng::Rng,
    stage::Stage,
    summary::Summary,
};

/// How long the remaining jobs may take at the end.
const DRAIN_LIMIT: Duration = Duration::from_secs(180);
/// Networks between some of the clients and the server.
const NETWORKS: usize = 3;

/// What the clients of a run share.
pub struct Field {
    pub stage: Arc<Stage>,
    pub runtime: Runtime,
    /// The server, and the networks in front of it.
    pub places: Vec<SocketAddr>,
    pub rng: Rng,
}

/// Waits until a client or a worker has ended, and stops it if it needs that; returns its summary.
pub type End = Box<dyn FnOnce() -> String>;

impl Field {
    /// Runs a client in its own thread.
    pub fn run<C: Send + 'static>(&mut self, client: C, run: fn(C, Rng) -> String) -> End {
        let rng = self.rng.fork();
        let thread = thread::spawn(move || run(client, rng));
        Box::new(|| thread.join().expect("a client does not panic"))
    }

    pub fn run_async<C: Send + 'static, F: Future<Output = String> + 'static>(
        &mut self,
        client: C,
        run: fn(C, Rng) -> F,
    ) -> End {
        let (runtime, rng) = (self.runtime.handle().clone(), self.rng.fork());
        let thread = thread::spawn(move || runtime.block_on(run(client, rng)));
        Box::new(|| thread.join().expect("a client does not panic"))
    }
}

/// The clients of a protocol. `A` is one that looks at the server.
pub struct Protocol<A> {
    /// The example that worker processes run, its arguments, and who hears its lines.
    pub outsider: (&'static str, [String; 2], fn(&Stage, &str)),
    /// Starts the workers and the consumers, which work until the run is over.
    pub start: fn(&mut Field) -> Vec<End>,
    /// Starts the producers, which share this rate until the calm.
    pub produce: fn(&mut Field, u64) -> Vec<End>,
    pub look: fn(SocketAddr) -> A,
    /// The jobs in the server, if there are any.
    pub jobs: fn(&mut A) -> Option<String>,
    /// The connections of the server, except for that of `A`.
    pub connections: fn(&mut A) -> usize,
}

impl<A> Protocol<A> {
    /// `forgets`: a killed server loses its jobs. `reports` are what there is to say before.
    pub fn run(
        &self,
        server: &mut RealServer,
        options: &Options,
        forgets: bool,
        mut reports: Vec<String>,
    ) -> Summary {
        let address = server.socket_addr().expect("it listens on TCP");
        let proxies = networks(address, NETWORKS);
        let networks = proxies.iter().map(|proxy| proxy.address());
        let mut field = Field {
            stage: Arc::new(Stage::new(options)),
            runtime: Runtime::new().expect("a runtime"),
            places: [address].into_iter().chain(networks).collect(),
            rng: Rng::new(options.seed),
        };
        let stage = field.stage.clone();
        let ends = (self.start)(&mut field);
        let (example, arguments, hear) = &self.outsider;
        let luck = field.rng.fork();
        let outsider = thread::spawn(outsider(&stage, example, arguments.clone(), luck, *hear));
        let mut weather = field.rng.fork();
        let trends = under_weather(&proxies, &stage, &mut weather, || {
            thread::scope(|scope| {
                let forgets = forgets && !options.miss_forgotten;
                let outages = Outages { every: options.kill_every, forgets };
                let (stage, luck) = (&stage, field.rng.fork());
                scope.spawn(move || outages.run(server, stage, luck));
                let trends = scope.spawn(move || watch(stage, options));
                let producers = (self.produce)(&mut field, options.rate);
                reports.extend(producers.into_iter().map(|end| end()));
                trends.join().expect("it only watches")
            })
        });
        self.drain(&stage, address);
        stage.end();
        reports.extend(ends.into_iter().map(|end| end()));
        outsider.join().expect("the worker processes");
        // Proxies and the server notice a moment later what clients have closed.
        drop(proxies);
        let connections = self.count_connections(address);
        stage.ledger.note(0, Event::Left { connections });
        Summary::new(&stage, options, trends, reports)
    }

    /// Waits until no job is left.
    fn drain(&self, stage: &Stage, address: SocketAddr) {
        let (mut client, mut last) = ((self.look)(address), None);
        let is_empty = wait_for(DRAIN_LIMIT, || {
            last = (self.jobs)(&mut client);
            last.is_none()
        });
        if !is_empty {
            let last = last.unwrap_or_default();
            stage.ledger.problem(format!("after {DRAIN_LIMIT:?} of calm jobs are left: {last}"));
        }
    }

    fn count_connections(&self, address: SocketAddr) -> usize {
        let (mut client, mut left) = ((self.look)(address), 0);
        wait_for(Duration::from_secs(10), || {
            left = (self.connections)(&mut client);
            left == 0
        });
        left
    }
}

/// The connections of one client, whose epoch `E` is the default one before the first.
#[derive(Default)]
pub struct Connections<E> {
    last: E,
    pub seen: u64,
}

impl<E: Default + PartialEq> Connections<E> {
    pub fn see(&mut self, stage: &Stage, epoch: E) {
        if epoch != E::default() && self.last != epoch {
            self.last = epoch;
            self.seen += 1;
            count(&stage.ledger.counts.connections);
        }
    }
}
