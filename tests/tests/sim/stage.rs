//! Shared by the simulations of all protocols: who meets whom, and the checks at the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fixtures::{
    fault::Fault,
    history::{Event, Fate, Key, Rules, check},
    offline::Offline,
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    kinds::{Kind, Kinds},
    outcome::Outcome,
    rng::Rng,
    world::{SLOWEST, Weather, World},
};

/// How long a submission may take.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// How long a server may hold back a reply.
pub const LONGEST_DELAY: Duration = Duration::from_secs(6);
/// How long clients and workers of a healed world get to notice: longer than any of their deadlines and delays.
const SETTLING: Duration = Duration::from_secs(40);

/// Defects of a client, to show that the rules notice them. The actors show a defect once, in a world without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Acknowledges a submission that it never sent.
    Drops,
    /// Sends a submission, and reports that it did not.
    Denies,
    /// Sends an acknowledged submission again, later.
    Repeats,
    /// Lets its caller wait beyond the deadline.
    Waits,
    /// Never returns from a call.
    Forgets,
    /// Takes a job, and keeps it forever.
    Keeps,
    /// Ends without closing its connection.
    Leaks,
}

/// The fault of this kind. A denial is this reply, and fewer than `most` bytes of a reply pass before it is cut.
pub fn strike(fault: Fault, kind: Kind, denial: &str, most: u64, rng: &mut Rng) -> Fault {
    match kind {
        Kind::Denial => fault.reply(denial),
        Kind::Delay => fault.delay(rng.millis(LONGEST_DELAY.as_millis() as u64)),
        Kind::Silence => fault.hang(),
        Kind::CutReply => fault.cut_after(rng.below(most) as usize),
        Kind::ResetReply => fault.reset_after(rng.below(most) as usize),
        _ => fault.chunks(1 + rng.below(5) as usize),
    }
}

/// Where the actors of one seed meet; clones share it.
#[derive(Clone)]
pub struct Stage {
    /// The servers, one or two.
    pub worlds: Vec<World>,
    /// What goes wrong.
    pub kinds: Kinds,
    defect: Option<Defect>,
    keys: Arc<AtomicU64>,
    /// The server and the id of each delivered job.
    ids: Arc<Mutex<BTreeMap<Key, String>>>,
    cancelled: Arc<AtomicU64>,
    is_calm: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    pub stop: Arc<Notify>,
}

impl Stage {
    pub fn new(
        kinds: Kinds,
        rng: &mut Rng,
        server: fn() -> Offline,
        defect: Option<Defect>,
    ) -> Self {
        let mut worlds = vec![World::new(rng.next(), server)];
        if rng.one_in(4) {
            worlds.push(worlds[0].beside(rng.next()));
        }
        Stage {
            worlds,
            kinds: if defect.is_some() { Kinds::default() } else { kinds },
            defect,
            keys: Arc::default(),
            ids: Arc::default(),
            cancelled: Arc::default(),
            is_calm: Arc::default(),
            is_over: Arc::default(),
            stop: Arc::default(),
        }
    }

    /// The number of one of the servers.
    pub fn some_server(&self, rng: &mut Rng) -> usize {
        rng.below(self.worlds.len() as u64) as usize
    }

    pub fn note(&self, actor: u32, event: Event) {
        self.worlds[0].note(actor, event);
    }

    /// Records the start of a submission, under a new key.
    pub fn submit(&self, actor: u32, deadline: Duration, at_least_once: bool) -> Key {
        let key = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        let deadline = Some(deadline);
        self.note(actor, Event::Submit { key, deadline, at_least_once });
        key
    }

    pub fn submitted(&self, actor: u32, key: Key, fate: Fate) {
        self.note(actor, Event::Submitted { key, fate });
    }

    /// Records a job delivered by this server under this id, and whether it was delivered under another one before.
    pub fn delivered(&self, actor: u32, key: Key, server: impl Display, id: impl Display) {
        self.note(actor, Event::Delivered { key });
        let server = server.to_string();
        // The scheme of an address says only how the server was reached.
        let id = format!("{id} of {}", server.rsplit('/').next().unwrap_or_default());
        if *self.ids.lock().unwrap().entry(key).or_insert_with(|| id.clone()) != id {
            self.note(actor, Event::Copy { key });
        }
    }

    /// Waits for the fate of a submission, at most this long, and records it.
    pub async fn await_fate(
        &self,
        actor: u32,
        key: Key,
        patience: Duration,
        submission: impl Future<Output = Fate>,
    ) {
        let fate = timeout(patience, submission).await.unwrap_or_else(|_| {
            self.cancel();
            Fate::Unknown
        });
        self.submitted(actor, key, fate);
    }

    /// The behaviour of a producer with a defect; `submit` submits the job of a key correctly.
    pub async fn do_wrong<F: Future<Output = ()>>(&self, actor: u32, submit: impl Fn(Key) -> F) {
        let key = self.submit(actor, PATIENCE, false);
        if !self.has(Defect::Drops) {
            submit(key).await;
        }
        if self.has(Defect::Waits) {
            sleep(PATIENCE + Duration::from_secs(1)).await;
        }
        let fate = if self.has(Defect::Denies) { Fate::NotSent } else { Fate::Acknowledged };
        if !self.has(Defect::Forgets) {
            self.submitted(actor, key, fate);
        }
        if self.has(Defect::Repeats) {
            sleep(Duration::from_secs(30)).await;
            submit(key).await;
        }
    }

    /// A caller has given up.
    pub fn cancel(&self) {
        self.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub fn has_defect(&self) -> bool {
        self.defect.is_some()
    }

    /// Whether the actors should show this defect.
    pub fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// Faults, which now and then also hit a server. `fault` returns what goes wrong with one of its commands, if any
    /// of these kinds occurs.
    pub fn spoil(&self, rng: &mut Rng, fault: fn(Kinds, &mut Rng) -> Option<Fault>) {
        for world in &self.worlds {
            world.lock().weather = Weather {
                cuts: rng.one_in(4).then_some(1).or(Some(2 + rng.below(4))),
                closed: Some(3 + rng.below(6)),
                splits: Some(1 + rng.below(4)),
                kinds: self.kinds,
            };
            for _ in 0..rng.below(8) {
                fault(self.kinds, rng).into_iter().for_each(|fault| world.fault(fault));
            }
            tokio::spawn(self.clone().chaos(world.clone(), rng.fork()));
        }
    }

    /// How long a caller waits: sometimes it gives up early, if callers do that at all.
    pub fn patience(&self, rng: &mut Rng, one_in: u64, early: u64, usual: Duration) -> Duration {
        let gives_up = rng.one_in(one_in) && self.kinds.has(Kind::GiveUp);
        if gives_up { rng.millis(early) } else { usual }
    }

    /// How long a handler runs.
    pub fn run_time(&self, rng: &mut Rng) -> Duration {
        let overruns = rng.one_in(10) && self.kinds.has(Kind::Overrun);
        rng.millis(if overruns { 9000 } else { 300 })
    }

    /// Nothing goes wrong any more. Once all have noticed, all can be called.
    pub async fn heal(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
        self.worlds.iter().for_each(World::heal);
        sleep(SETTLING).await;
    }

    /// Calls a consumer in a healed world: submits a job that only it can take, which has to be acknowledged.
    pub async fn call(&self, actor: u32, key: Key, submission: impl Future<Output = Fate>) {
        let fate = submission.await;
        self.submitted(actor, key, fate);
        if fate != Fate::Acknowledged {
            self.note(actor, Event::Stuck { key });
        }
    }

    /// After the calm, whatever can be done has to be done.
    pub async fn calm(&self, calm: Duration, undone: fn(&World) -> Vec<Key>) {
        sleep(calm).await;
        let undone: BTreeSet<Key> = self.worlds.iter().flat_map(undone).collect();
        for key in undone {
            self.note(0, Event::Stuck { key });
        }
        self.is_over.store(true, Ordering::Relaxed);
        self.stop.notify_waiters();
    }

    /// Checks what is left after all actors have ended.
    pub async fn end(self, remaining: fn(&World) -> Vec<Key>, rules: Rules) -> Outcome {
        sleep(Duration::from_secs(2)).await;
        let connections = self.worlds.iter().map(World::open_connections).sum();
        self.note(0, Event::Left { connections });
        for key in self.worlds.iter().flat_map(remaining) {
            self.note(0, Event::Remains { key });
        }
        let rules = Rules {
            slack: Duration::from_millis(250),
            in_flight: LONGEST_DELAY + 2 * SLOWEST,
            ..rules
        };
        let history = self.worlds[0].history();
        let report = check(&history, &rules);
        let mut outcome = Outcome { history, report, ..Outcome::default() };
        outcome.cancelled = self.cancelled.load(Ordering::Relaxed);
        for world in &self.worlds {
            let (struck, trace) = world.end();
            outcome.struck.add(struck);
            outcome.trace = outcome.trace.rotate_left(1) ^ trace;
        }
        outcome
    }

    /// Ends the server, which forgets everything, or all its connections, now and then.
    async fn chaos(self, world: World, mut rng: Rng) {
        for _ in 0..rng.below(4) {
            sleep(Duration::from_secs(1) + rng.millis(10_000)).await;
            if self.is_calm.load(Ordering::Relaxed) {
                return;
            }
            let kinds = [Kind::Restart, Kind::Restart, Kind::Wipe];
            let Some(kind) = self.kinds.pick(&kinds, &mut rng) else { return };
            world.restart(kind == Kind::Restart, rng.millis(1500));
        }
    }
}
