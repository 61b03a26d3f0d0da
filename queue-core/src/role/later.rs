//! The work that a role leaves to be done outside of its lock.

use std::{fmt, sync::Arc};

use crate::{Observation, Signal};

/// Steps that call user code, such as observers of measurements and subscribers of `tracing`. A role only collects
/// them, since its holder may hold a lock, and user code may ask for whatever that lock guards.
///
/// [`Io::release`](crate::Io::release) runs those of an exchange.
#[derive(Default)]
pub struct Later(Vec<Box<dyn FnOnce() + Send + Sync>>);

impl Later {
    /// Adds a step.
    pub fn push(&mut self, step: impl FnOnce() + Send + Sync + 'static) {
        self.0.push(Box::new(step));
    }

    /// Tells the observers and subscribers of this.
    pub fn notify(&mut self, observation: Observation) {
        self.push(|| observation.notify());
    }

    /// Sets this signal.
    pub fn set(&mut self, signal: Arc<Signal>) {
        self.push(move || signal.set());
    }

    /// Moves all steps to the end of `others`.
    pub fn append_to(&mut self, others: &mut Self) {
        others.0.append(&mut self.0);
    }

    /// The number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs all steps in order, while no lock is held.
    #[inline]
    pub fn run(&mut self) {
        // Usually there is none, and this is called for every request.
        if !self.0.is_empty() {
            self.0.drain(..).for_each(|step| step());
        }
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Later").field(&self.0.len()).finish()
    }
}
