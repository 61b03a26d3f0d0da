//! Live names for completion, fetched in the background so that typing never waits for the server.
//!
//! Its own thread fetches on demand. Names younger than [`TTL`] are shown at once; older ones are fetched again,
//! and shown stale if the answer takes longer than [`DEADLINE`].

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use queue_core::lock;

/// Fetches names from a server; none if it cannot.
pub type Fetch = Box<dyn FnMut() -> Option<Vec<String>> + Send>;

/// How long fetched names count as fresh.
pub const TTL: Duration = Duration::from_secs(5);
/// How long [`LiveNames::get`] waits for fresh names.
pub const DEADLINE: Duration = Duration::from_millis(150);
/// Maximum number of names.
pub const MAX_NAMES: usize = 1000;

/// A list of names that is refreshed in the background.
#[derive(Clone)]
pub struct LiveNames {
    shared: Arc<Shared>,
    deadline: Duration,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    names: Vec<String>,
    fetched: Option<Instant>,
    /// How to fetch from now on, if this has changed.
    next: Option<Fetch>,
    wanted: bool,
    closed: bool,
}

impl LiveNames {
    /// Names from `fetch`, on its own thread. Nothing is fetched before the first
    /// [`get`](Self::get) or [`refresh`](Self::refresh). A failed fetch (`None`) keeps the known names.
    pub fn new(fetch: impl FnMut() -> Option<Vec<String>> + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        lock(&shared.state).next = Some(Box::new(fetch));
        let worker = Arc::clone(&shared);
        thread::spawn(move || worker.serve());
        Self { shared, deadline: DEADLINE }
    }

    /// The names in order, fresh if they arrive in time. Never waits longer than [`DEADLINE`].
    pub fn get(&self) -> Vec<String> {
        let Shared { state, changed } = &*self.shared;
        let started = Instant::now();
        let is_stale = |state: &mut State| !state.is_fresh(started);
        let mut state = lock(state);
        if is_stale(&mut state) {
            state.wanted = true;
            changed.notify_all();
        }
        let waited = changed.wait_timeout_while(state, self.deadline, is_stale);
        waited.unwrap_or_else(PoisonError::into_inner).0.names.clone()
    }

    /// Starts fetching in the background, because the names have probably changed.
    pub fn refresh(&self) {
        let mut state = lock(&self.shared.state);
        state.fetched = None;
        state.wanted = true;
        self.shared.changed.notify_all();
    }

    /// Forgets every name, and starts fetching those of another server.
    pub fn go_to(&self, fetch: Fetch) {
        *lock(&self.shared.state) = State { next: Some(fetch), wanted: true, ..State::default() };
        self.shared.changed.notify_all();
    }
}

impl State {
    /// Whether the names were fetched not long before `moment`, or after it.
    fn is_fresh(&self, moment: Instant) -> bool {
        self.fetched.is_some_and(|fetched| moment.saturating_duration_since(fetched) < TTL)
    }
}

impl Shared {
    /// Fetches whenever names are wanted, until the last handle is gone.
    fn serve(&self) {
        let mut fetch = None;
        loop {
            let is_idle = |state: &mut State| !state.wanted && !state.closed;
            let waited = self.changed.wait_while(lock(&self.state), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return;
            }
            state.wanted = false;
            fetch = state.next.take().or(fetch);
            drop(state);
            let started = Instant::now();
            let fetched = fetch.as_mut().and_then(|fetch| fetch());
            let mut state = lock(&self.state);
            state.fetched = Some(started);
            if let Some(mut names) = fetched {
                names.sort();
                names.dedup();
                names.truncate(MAX_NAMES);
                state.names = names;
            }
            self.changed.notify_all();
        }
    }
}

impl Drop for LiveNames {
    fn drop(&mut self) {
        // The worker holds the other reference: this is the last handle.
        if Arc::strong_count(&self.shared) <= 2 {
            lock(&self.shared.state).closed = true;
            self.shared.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Waits for fresh names however long the machine takes.
    fn patient(fetch: impl FnMut() -> Option<Vec<String>> + Send + 'static) -> LiveNames {
        let mut names = LiveNames::new(fetch);
        names.deadline = Duration::from_secs(3600);
        names
    }

    #[test]
    fn fetches_names_on_demand() {
        let (sender, receiver) = mpsc::channel();
        let names = patient(move || {
            sender.send(()).unwrap();
            Some(vec!["b".into(), "a".into(), "b".into()])
        });
        assert!(receiver.try_recv().is_err());
        assert_eq!(names.get(), ["a", "b"]);
        assert!(receiver.try_recv().is_ok());
        assert_eq!(names.get(), ["a", "b"]);
        assert!(receiver.try_recv().is_err(), "fresh names are not fetched again");
    }

    #[test]
    fn a_slow_server_keeps_stale_names() {
        let (go, wait) = mpsc::channel::<()>();
        let mut first = true;
        let mut names = patient(move || {
            if !std::mem::take(&mut first) {
                wait.recv().unwrap();
                return Some(vec!["new".into()]);
            }
            Some(vec!["old".into()])
        });
        assert_eq!(names.get(), ["old"]);
        names.deadline = DEADLINE;
        names.refresh();
        assert_eq!(names.get(), ["old"], "the fetch is still waiting");
        go.send(()).unwrap();
        while names.get() != ["new"] {}
    }

    #[test]
    fn a_failed_fetch_keeps_known_names() {
        let mut answers = vec![None, Some(vec!["a".to_owned()])];
        let names = patient(move || answers.pop().flatten());
        assert_eq!(names.get(), ["a"]);
        names.refresh();
        assert_eq!(names.get(), ["a"]);
        names.go_to(Box::new(|| None));
        assert_eq!(names.get(), [""; 0]);
    }

    #[test]
    fn keeps_at_most_a_thousand_names() {
        let names = patient(|| Some((0..5000).map(|n| format!("{n:04}")).collect()));
        assert_eq!(names.get().len(), MAX_NAMES);
    }
}
