//! Live names for completion, fetched in the background so that typing never waits for the server.
//!
//! Its own thread fetches on demand. Names younger than [`TTL`] are shown at once; older ones are fetched again,
//! and shown stale if the answer takes longer than [`DEADLINE`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use queue_core::lock;

/// How long fetched names count as fresh.
pub const TTL: Duration = Duration::from_secs(5);
/// How long [`LiveNames::get`] waits for fresh names.
pub const DEADLINE: Duration = Duration::from_millis(150);
/// Maximum number of names.
pub const MAX_NAMES: usize = 1000;

/// A list of names that is refreshed in the background.
#[derive(Debug, Clone)]
pub struct LiveNames {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    names: Vec<String>,
    fetched: Option<Instant>,
    wanted: bool,
    closed: bool,
}

impl LiveNames {
    /// Names from `fetch`, on its own thread. Nothing is fetched before the first
    /// [`get`](Self::get) or [`refresh`](Self::refresh). A failed fetch (`None`) keeps the known names.
    pub fn new(fetch: impl FnMut() -> Option<Vec<String>> + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let worker = Worker(Arc::clone(&shared));
        thread::spawn(move || worker.serve(fetch));
        Self { shared }
    }

    /// The names in order, fresh if they arrive in time. Never waits longer than [`DEADLINE`].
    pub fn get(&self) -> Vec<String> {
        let started = Instant::now();
        let mut state = self.shared.lock();
        while !state.is_fresh(started) {
            state.wanted = true;
            self.shared.changed.notify_all();
            let Some(left) = DEADLINE.checked_sub(started.elapsed()) else { break };
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.names.clone()
    }

    /// Starts fetching in the background, because the names have probably changed.
    pub fn refresh(&self) {
        let mut state = self.shared.lock();
        state.fetched = None;
        state.wanted = true;
        self.shared.changed.notify_all();
    }

    /// Forgets every name, because the server is now another one.
    pub fn forget(&self) {
        let mut state = self.shared.lock();
        state.names.clear();
        state.fetched = None;
    }
}

impl State {
    /// Whether the names were fetched not long before `moment`, or after it.
    fn is_fresh(&self, moment: Instant) -> bool {
        self.fetched.is_some_and(|fetched| moment.saturating_duration_since(fetched) < TTL)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for LiveNames {
    fn drop(&mut self) {
        // The worker holds the other reference: this is the last handle.
        if Arc::strong_count(&self.shared) <= 2 {
            self.shared.lock().closed = true;
            self.shared.changed.notify_all();
        }
    }
}

struct Worker(Arc<Shared>);

impl Worker {
    fn serve(self, mut fetch: impl FnMut() -> Option<Vec<String>>) {
        while self.wait_for_work() {
            let started = Instant::now();
            let fetched = fetch();
            let mut state = self.0.lock();
            state.fetched = Some(started);
            if let Some(mut names) = fetched {
                names.sort();
                names.dedup();
                names.truncate(MAX_NAMES);
                state.names = names;
            }
            self.0.changed.notify_all();
        }
    }

    fn wait_for_work(&self) -> bool {
        let mut state = self.0.lock();
        while !state.wanted && !state.closed {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.wanted = false;
        !state.closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn fetches_names_on_demand() {
        let (sender, receiver) = mpsc::channel();
        let names = LiveNames::new(move || {
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
        let names = LiveNames::new(move || {
            if !std::mem::take(&mut first) {
                wait.recv().unwrap();
                return Some(vec!["new".into()]);
            }
            Some(vec!["old".into()])
        });
        assert_eq!(names.get(), ["old"]);
        names.refresh();
        assert_eq!(names.get(), ["old"], "the fetch is still waiting");
        go.send(()).unwrap();
        while names.get() != ["new"] {}
    }

    #[test]
    fn a_failed_fetch_keeps_known_names() {
        let mut answers = vec![None, Some(vec!["a".to_owned()])];
        let names = LiveNames::new(move || answers.pop().flatten());
        assert_eq!(names.get(), ["a"]);
        names.refresh();
        assert_eq!(names.get(), ["a"]);
        names.forget();
        assert_eq!(names.get(), [""; 0]);
    }

    #[test]
    fn keeps_at_most_a_thousand_names() {
        let names = LiveNames::new(|| Some((0..5000).map(|n| format!("{n:04}")).collect()));
        assert_eq!(names.get().len(), MAX_NAMES);
    }
}
