//! Waiting: of those who wait, one moves the bytes of each connection.

use std::{
    sync::Arc,
    task::{Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use queue_core::now;

use super::{Shared, lock, wire::Wire};
use crate::protocol::producer::{Action, Lead, Outbox, Pulse, SlotId};

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

impl Shared {
    /// Waits until `poll` is ready; meanwhile moves bytes, if nobody else does. The slot says which put is waited for.
    pub(super) fn wait<T>(
        &self,
        slot: Option<SlotId>,
        mut poll: impl FnMut(&mut Outbox, &Waker) -> Poll<T>,
    ) -> T {
        let waker = WAKER.with(Waker::clone);
        let mut poll = |outbox: &mut Outbox| poll(outbox, &waker);
        loop {
            let lead = self.with(|outbox| match poll(outbox) {
                Poll::Ready(outcome) => Err(outcome),
                Poll::Pending => Ok(outbox.lead(slot, now())),
            });
            match lead {
                Err(outcome) => return outcome,
                Ok(Lead::Drive(server)) => {
                    let outcome = self.drive(server, slot, &mut poll);
                    if let Some(outcome) = outcome {
                        return outcome;
                    }
                }
                Ok(Lead::Park(None)) => thread::park(),
                Ok(Lead::Park(Some(until))) => {
                    thread::park_timeout(until.saturating_duration_since(now()));
                }
            }
        }
    }

    /// Moves the bytes of a lane until `poll` is ready, or nothing can be done on it for now.
    fn drive<T>(
        &self,
        server: usize,
        slot: Option<SlotId>,
        poll: &mut impl FnMut(&mut Outbox) -> Poll<T>,
    ) -> Option<T> {
        let _resigns = Resigns { shared: self, server };
        let mut wire = self.wires.get(server).map(lock)?;
        loop {
            let step = self.with(|outbox| {
                let moved = wire.is_open().then(|| exchange(outbox, server, &mut wire));
                if let Poll::Ready(outcome) = poll(outbox) {
                    return Err(outcome);
                }
                Ok(moved.unwrap_or_else(|| begin(outbox, server, slot)))
            });
            match step {
                Err(outcome) => return Some(outcome),
                Ok(Step::Rest) => return None,
                Ok(Step::Again) => {}
                Ok(Step::Move(until)) => wire.move_bytes(until),
                Ok(Step::Connect(until)) => match wire.connect(until) {
                    Ok(limit) => self.with(|outbox| outbox.opened(server, limit, now())),
                    Err(error) => self.with(|outbox| outbox.failed(server, &error, now())),
                },
            }
        }
    }
}

/// What who leads does next, without the lock.
enum Step {
    Rest,
    Again,
    Connect(Option<Instant>),
    Move(Option<Instant>),
}

/// Without a connection.
fn begin(outbox: &mut Outbox, server: usize, slot: Option<SlotId>) -> Step {
    match outbox.next(server, now()) {
        Action::Connect => Step::Connect(outbox.connect_by(server, slot)),
        Action::Wait(_) | Action::Over => Step::Rest,
    }
}

/// On a connection.
fn exchange(outbox: &mut Outbox, server: usize, wire: &mut Wire) -> Step {
    if outbox.is_quiet(server) && wire.was_idle() {
        wire.look();
    }
    match outbox.exchange(server, &mut wire.io, now()) {
        Pulse::Over => {
            wire.hang_up();
            Step::Rest
        }
        Pulse::Lost => {
            wire.hang_up();
            Step::Again
        }
        Pulse::Beats(until) if outbox.has_work(server) => Step::Move(until),
        // Nothing would come.
        Pulse::Beats(_) => Step::Rest,
    }
}

/// Whoever leads no longer lets somebody else do it.
struct Resigns<'a> {
    shared: &'a Shared,
    server: usize,
}

impl Drop for Resigns<'_> {
    fn drop(&mut self) {
        self.shared.with(|outbox| outbox.resign(self.server));
    }
}
