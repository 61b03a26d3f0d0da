//! The thread that maintains an idle session: the tool's timed tasks, lost connections, signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::editor::{Notices, wake_editor};
use super::guest::{Guest, prompt};
use super::prompt::Prompt;
use super::sink::Written;
use crate::system::signals::Interrupts;

/// How often it checks.
const PERIOD: Duration = Duration::from_millis(200);

/// The state of the watching thread.
pub(super) struct Watcher<'s, G> {
    pub(super) shared: &'s Mutex<G>,
    pub(super) notices: Notices,
    /// Whether the terminal has more than ASCII and one colour.
    pub(super) rich: bool,
    pub(super) ending: Interrupts,
    pub(super) written: Written,
    /// Whether the person is being waited for.
    pub(super) waiting: &'s AtomicBool,
    /// Set when the session is over.
    pub(super) over: &'s AtomicBool,
}

impl<G: Guest> Watcher<'_, G> {
    /// Watches until the session is over.
    pub(super) fn run(&self) {
        let (mut unsaid, mut stale) = (Vec::new(), None);
        while !self.over.load(Ordering::SeqCst) {
            thread::park_timeout(PERIOD);
            let (said, prompt) = self.look();
            unsaid.extend(said);
            stale = prompt.or(stale);
            // Said only now that the state is free, and the screen: printing waits for the line editor.
            if !self.written.is_occupied() {
                let is_changed = stale.is_some();
                if let Some(prompt) = stale.take() {
                    self.notices.change_prompt(&prompt);
                }
                for said in unsaid.drain(..) {
                    self.notices.print(&said);
                }
                // Last: while the editor starts anew, a printed line could end up in the row that it erases.
                if is_changed {
                    self.notices.redraw();
                }
            }
            if self.ending.requested().is_some() && self.waiting.load(Ordering::SeqCst) {
                wake_editor();
            }
        }
    }

    /// Messages to print, and the current prompt. A running command maintains the session itself.
    fn look(&self) -> (Vec<String>, Option<Prompt>) {
        let mut guest = match self.shared.try_lock() {
            Ok(guest) => guest,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return (Vec::new(), None),
        };
        let said = guest.tick(Instant::now());
        let is_stale = !said.is_empty() && self.waiting.load(Ordering::SeqCst);
        let prompt = is_stale.then(|| prompt(&mut *guest, self.rich));
        (said, prompt)
    }
}
