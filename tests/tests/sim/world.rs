//! A network with one in-memory server behind it, in virtual time: everything random in it comes from one seed.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::{Arc, Mutex, MutexGuard},
    task::Waker,
    time::Duration,
};

use fixtures::{
    gearmand::broker::ConnectionId,
    history::{Event, History},
    offline::{Offline, Received},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    kinds::{Kind, Kinds},
    rng::Rng,
    wire::Wire,
};

mod moves;

/// The maximum latency of a byte, one way.
pub const SLOWEST: Duration = Duration::from_millis(150);

/// How bad the network is: once in this number of connections or chunks, or never; and then in one of these ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// A connection ends at some byte, one way or the other.
    pub cuts: Option<u64>,
    /// Connecting is refused, or hangs.
    pub closed: Option<u64>,
    /// A read or a write is split or delayed.
    pub splits: Option<u64>,
    pub kinds: Kinds,
}

macro_rules! counters {
    ($($name:ident),+) => {
        /// How often each kind of fault struck.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Struck {
            $(pub $name: u64,)+
        }

        impl Struck {
            pub fn add(&mut self, other: Struck) {
                $(self.$name += other.$name;)+
            }

            /// Every number of it.
            pub fn each(&self) -> Vec<u64> {
                vec![$(self.$name),+]
            }
        }
    };
}

counters!(
    closes,
    resets,
    hangs,
    refused,
    unanswered,
    partial_reads,
    partial_writes,
    stalls,
    restarts,
    wipes,
    commands
);

/// The world; clones share it.
#[derive(Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    news: Arc<Notify>,
    log: Log,
}

/// The events of all worlds of a seed.
#[derive(Clone)]
struct Log {
    start: Instant,
    history: Arc<Mutex<History>>,
}

impl Log {
    fn note(&self, actor: u32, event: Event) {
        self.history.lock().unwrap().note(self.start.elapsed(), actor, event);
    }
}

pub struct Inner {
    server: Offline,
    /// When the server's clock started.
    born: Instant,
    start: Instant,
    make: fn() -> Offline,
    pub rng: Rng,
    pub weather: Weather,
    pub struck: Struck,
    lines: BTreeMap<u64, Line>,
    connected: u64,
    down_until: Option<Instant>,
    trace: DefaultHasher,
    prints: bool,
}

/// A connection.
#[derive(Default)]
struct Line {
    /// Its number at the server, while that knows it.
    at_server: Option<ConnectionId>,
    up: Lane<Up>,
    down: Lane<Down>,
    /// Nothing passes any more, without a notice.
    hangs: bool,
    reader: Option<Waker>,
    is_dropped: bool,
}

/// One direction.
struct Lane<T> {
    under_way: VecDeque<(Instant, T)>,
    /// The connection ends after this number of further bytes.
    fault: Option<(u64, Cut)>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Lane { under_way: VecDeque::new(), fault: None }
    }
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Close,
    Reset,
    Hang,
}

enum Up {
    Bytes(Vec<u8>),
    Fin,
    Gone,
}

enum Down {
    Bytes(Vec<u8>),
    Fin,
    Reset,
}

/// What a client reads.
pub enum Arrived {
    Bytes(usize),
    End,
    Reset,
    Nothing,
}

impl World {
    /// A world with a fresh server. Its pump runs until the runtime ends.
    pub fn new(seed: u64, make: fn() -> Offline) -> Self {
        let log = Log { start: Instant::now(), history: Arc::default() };
        Self::logging(seed, make, log)
    }

    /// Another server beside this one, with its own network. Events are recorded in one history.
    pub fn beside(&self, seed: u64) -> Self {
        let make = self.lock().make;
        Self::logging(seed, make, self.log.clone())
    }

    fn logging(seed: u64, make: fn() -> Offline, log: Log) -> Self {
        let now = Instant::now();
        let world = World {
            inner: Arc::new(Mutex::new(Inner {
                server: make(),
                born: now,
                start: now,
                make,
                rng: Rng::new(seed),
                weather: Weather::default(),
                struck: Struck::default(),
                lines: BTreeMap::new(),
                connected: 0,
                down_until: None,
                trace: DefaultHasher::new(),
                prints: std::env::var_os("SIM_WIRE").is_some(),
            })),
            news: Arc::new(Notify::new()),
            log,
        };
        tokio::spawn(world.clone().pump());
        world
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Moves what is due, and advances time.
    async fn pump(self) {
        loop {
            let next = self.lock().step();
            tokio::select! {
                biased;
                () = self.news.notified() => {}
                () = async {
                    match next {
                        Some(at) => sleep_until(at).await,
                        None => pending().await,
                    }
                } => {}
            }
        }
    }

    /// Makes a connection, subject to the faults.
    pub async fn connect(self) -> io::Result<Wire> {
        let (delay, mishap) = {
            let mut inner = self.lock();
            let luck = inner.weather.closed.is_some_and(|n| inner.rng.one_in(n));
            (
                inner.latency(),
                luck.then(|| inner.pick(&[Kind::Refused, Kind::Unanswered])).flatten(),
            )
        };
        sleep(delay).await;
        if mishap == Some(Kind::Unanswered) {
            self.lock().struck.unanswered += 1;
            pending::<()>().await;
        }
        let mut inner = self.lock();
        if mishap.is_some() || inner.is_down() {
            inner.struck.refused += 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        inner.advance();
        inner.connected += 1;
        let number = inner.connected;
        let line = Line {
            at_server: Some(inner.server.connect()),
            up: Lane { fault: inner.pick_cut(), ..Lane::default() },
            down: Lane { fault: inner.pick_cut(), ..Lane::default() },
            ..Line::default()
        };
        inner.lines.insert(number, line);
        drop(inner);
        Ok(Wire::new(self, number))
    }

    /// Records what happened.
    pub fn note(&self, actor: u32, event: Event) {
        self.log.note(actor, event);
    }

    /// Ends the server and restarts it after a while; `keeps` says whether it remembers its jobs.
    pub fn restart(&self, keeps: bool, down_for: Duration) {
        let mut inner = self.lock();
        inner.advance();
        inner.struck.restarts += 1;
        let numbers: Vec<u64> = inner.lines.keys().copied().collect();
        for number in numbers {
            inner.end_line(number, if keeps { Down::Fin } else { Down::Reset });
        }
        if !keeps {
            inner.struck.wipes += 1;
            inner.struck.commands += inner.server.faults().struck();
            inner.server = (inner.make)();
            inner.born = Instant::now();
            self.log.note(0, Event::Forgot);
        }
        inner.down_until = Some(Instant::now() + down_for);
        drop(inner);
        self.news.notify_one();
    }

    /// From now on, nothing goes wrong. The server notices connections that vanished silently.
    pub fn heal(&self) {
        let mut inner = self.lock();
        inner.advance();
        inner.weather = Weather::default();
        inner.server.faults().clear();
        let numbers: Vec<u64> = inner.lines.keys().copied().collect();
        for number in numbers {
            let hangs = inner.lines.get_mut(&number).is_some_and(|line| {
                (line.up.fault, line.down.fault) = (None, None);
                line.hangs
            });
            if hangs {
                inner.end_line(number, Down::Reset);
            }
        }
        drop(inner);
        self.news.notify_one();
    }

    /// Adds a fault to the server's commands.
    pub fn fault(&self, fault: fixtures::fault::Fault) {
        self.lock().server.faults().add(fault);
    }

    /// Connections that clients still hold.
    pub fn open_connections(&self) -> usize {
        self.lock().lines.values().filter(|line| !line.is_dropped).count()
    }

    /// Queries the server directly, bypassing the network, for the final check of what is left.
    pub fn ask(&self, request: &[u8]) -> Vec<u8> {
        let mut inner = self.lock();
        inner.advance();
        let id = inner.server.connect();
        inner.server.send(id, request);
        let Received { bytes, .. } = inner.server.receive(id);
        inner.server.hang_up(id);
        bytes
    }

    /// The events so far, in all worlds of the seed.
    pub fn history(&self) -> History {
        self.log.history.lock().unwrap().clone()
    }

    /// The faults so far, and a number derived from every byte.
    pub fn end(&self) -> (Struck, u64) {
        let mut inner = self.lock();
        inner.struck.commands += inner.server.faults().struck();
        (inner.struck, inner.trace.finish())
    }
}

/// The operations of a [`Wire`].
impl World {
    /// Takes some of what a client writes; `None` if it should try again later.
    pub fn write(&self, number: u64, bytes: &[u8]) -> io::Result<Option<usize>> {
        let mut inner = self.lock();
        let split = inner.weather.splits.is_some_and(|n| inner.rng.one_in(n));
        if split && inner.weather.kinds.has(Kind::Stalls) && inner.rng.one_in(4) {
            inner.struck.stalls += 1;
            return Ok(None);
        }
        let is_part = split && inner.weather.kinds.has(Kind::PartialWrites);
        let taken =
            if is_part { 1 + inner.rng.below(bytes.len() as u64) as usize } else { bytes.len() };
        inner.struck.partial_writes += u64::from(taken < bytes.len());
        let at = Instant::now() + inner.latency();
        let line = inner.lines.get_mut(&number).unwrap();
        if line.down.under_way.back().is_some_and(|(_, down)| matches!(down, Down::Reset)) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        line.up.push(at, Up::Bytes(bytes[..taken].to_vec()));
        drop(inner);
        self.news.notify_one();
        Ok(Some(taken))
    }

    /// Returns what has arrived for a client, or wakes it when something does.
    pub fn read(&self, number: u64, into: &mut [u8], waker: &Waker) -> Arrived {
        let mut inner = self.lock();
        let split = inner.weather.splits.is_some_and(|n| inner.rng.one_in(n));
        let is_part = split && inner.weather.kinds.has(Kind::PartialReads);
        let room =
            if is_part { 1 + inner.rng.below(into.len() as u64) as usize } else { into.len() };
        let now = Instant::now();
        let line = inner.lines.get_mut(&number).unwrap();
        let due = line.down.under_way.front_mut().filter(|(at, _)| *at <= now);
        let (count, is_split) = match due {
            None => {
                line.reader = Some(waker.clone());
                return Arrived::Nothing;
            }
            Some((_, Down::Fin)) => return Arrived::End,
            Some((_, Down::Reset)) => return Arrived::Reset,
            Some((_, Down::Bytes(bytes))) => {
                let count = room.min(bytes.len());
                into[..count].copy_from_slice(&bytes[..count]);
                bytes.drain(..count);
                (count, !bytes.is_empty())
            }
        };
        if is_split {
            inner.struck.partial_reads += 1;
        } else {
            line.down.under_way.pop_front();
        }
        Arrived::Bytes(count)
    }

    pub fn half_close(&self, number: u64) {
        self.tell(number, Up::Fin);
    }

    pub fn hang_up(&self, number: u64) {
        self.tell(number, Up::Gone);
        self.lock().lines.get_mut(&number).unwrap().is_dropped = true;
    }

    fn tell(&self, number: u64, what: Up) {
        let mut inner = self.lock();
        let at = Instant::now() + inner.latency();
        inner.lines.get_mut(&number).unwrap().up.push(at, what);
        drop(inner);
        self.news.notify_one();
    }
}
