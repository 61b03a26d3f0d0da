//! The doors by which user code runs: observers of measurements, event handlers, and the subscriber of this program.

use std::{
    cell::Cell,
    collections::BTreeSet,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};

use queue_core::lock;
use tracing::{Event, Subscriber, span};
use tracing_subscriber::{
    layer::{self, Layer, SubscriberExt},
    registry::LookupSpan,
};

type Act = Arc<dyn Fn() + Send + Sync>;

/// What user code can reach in the current scenario.
static REACH: Mutex<Vec<Act>> = Mutex::new(Vec::new());
/// The spans of the current scenario that begin while a lock is held.
static HELD: Mutex<&[&str]> = Mutex::new(&[]);
/// The doors by which user code ran.
static DOORS: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
/// There is one subscriber, so scenarios take turns.
static ONE: Mutex<()> = Mutex::new(());

/// Adds what user code calls from now on.
pub(crate) fn reach(act: impl Fn() + Send + Sync + 'static) {
    lock(&REACH).push(Arc::new(act));
}

/// Things that come and go, such as jobs, and what user code calls on each.
pub(crate) struct Stash<T>(Arc<Mutex<Vec<Arc<T>>>>);

impl<T> Clone for Stash<T> {
    fn clone(&self) -> Self {
        Stash(self.0.clone())
    }
}

impl<T: Send + Sync + 'static> Stash<T> {
    pub(crate) fn new(act: impl Fn(&T) + Send + Sync + 'static) -> Self {
        let stash = Stash(Arc::default());
        let things = stash.0.clone();
        reach(move || {
            let things = lock(&things).clone();
            things.iter().for_each(|thing| act(thing));
        });
        stash
    }

    pub(crate) fn add(&self, thing: T) {
        lock(&self.0).push(Arc::new(thing));
    }
}

/// Starts what would wait, and drops it.
pub(crate) fn poll_once(future: impl Future) {
    let _ = std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// User code runs by this door, and calls everything that it can reach. What that reports itself calls nothing.
pub(crate) fn call_back(door: &'static str) {
    thread_local!(static IS_INSIDE: Cell<bool> = const { Cell::new(false) });
    if IS_INSIDE.replace(true) {
        return;
    }
    let acts = lock(&REACH).clone();
    acts.iter().for_each(|act| act());
    lock(&DOORS).insert(door);
    IS_INSIDE.set(false);
}

struct Calls;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Calls {
    fn on_new_span(&self, span: &span::Attributes<'_>, _: &span::Id, _: layer::Context<'_, S>) {
        let name = span.metadata().name();
        let is_held = lock(&HELD).contains(&name);
        match is_held {
            // The documented rule: what has to call back from here does so from another thread.
            true => drop(thread::spawn(|| call_back("start of a worker's request"))),
            false => call_back("start of a span"),
        }
    }

    fn on_record(&self, _: &span::Id, _: &span::Record<'_>, _: layer::Context<'_, S>) {
        call_back("record");
    }

    fn on_event(&self, _: &Event<'_>, _: layer::Context<'_, S>) {
        call_back("log");
    }

    fn on_close(&self, _: span::Id, _: layer::Context<'_, S>) {
        call_back("end of a span");
    }
}

/// Nothing can be reached any more. What is dropped may run user code, too.
fn forget() {
    let acts = std::mem::take(&mut *lock(&REACH));
    drop(acts);
}

/// Runs a scenario whose spans of the names `held` begin while a lock is held, and returns the doors by which user code
/// ran.
///
/// # Panics
///
/// When the scenario fails, or hangs.
pub(crate) fn scenario(held: &'static [&'static str], run: impl FnOnce() + Send + 'static) {
    static SUBSCRIBER: LazyLock<()> = LazyLock::new(|| {
        let ours = |target: &str| {
            ["beanstalk_client", "gearman_client", "adf_queue_client"].contains(&target)
        };
        let filter = tracing_subscriber::filter::filter_fn(move |data| ours(data.target()));
        let subscriber = tracing_subscriber::registry().with(Calls.with_filter(filter));
        tracing::subscriber::set_global_default(subscriber).expect("it is the first");
    });
    let _one = lock(&ONE);
    LazyLock::force(&SUBSCRIBER);
    forget();
    lock(&DOORS).clear();
    *lock(&HELD) = held;
    let (done, ended) = mpsc::channel();
    let runs = thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    let outcome = ended.recv_timeout(Duration::from_secs(60));
    assert_ne!(outcome, Err(mpsc::RecvTimeoutError::Timeout), "user code waits for itself");
    forget();
    runs.join().unwrap();
    let doors = lock(&DOORS);
    for door in ["measurement", "event", "start of a span", "record", "log", "end of a span"] {
        assert!(doors.contains(door), "nobody came by the door {door}: {doors:?}");
    }
}

/// A few puts from user code, each of which is reported, too.
pub(crate) fn few() -> impl Fn() -> bool + Send + Sync {
    let left = AtomicUsize::new(16);
    move || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
}
