//! Whether a server answers.

use std::{
    task::{Poll, Waker},
    time::Instant,
};

use super::{Outbox, lane::LanePhase};
use crate::{Fate, Result};

/// How often a server had answered and failed when a check began.
#[derive(Debug)]
pub(crate) struct Check(Vec<Outcomes>);

/// How often a server has answered, and how often its connection has failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcomes {
    pub(super) answers: u64,
    pub(super) failures: u64,
}

impl Outbox {
    /// Asks every server for an answer, or for a connection if there is none.
    pub(crate) fn check(&mut self, now: Instant) -> Result<Check> {
        self.refuse_if_closing("check")?;
        let before = self.lanes.iter().map(|lane| lane.outcomes).collect();
        for lane in &mut self.lanes {
            match lane.phase {
                // Any answer will do.
                LanePhase::Ready if lane.log.is_empty() => lane.log.probe(),
                LanePhase::Ready | LanePhase::Closed => {}
                _ => {
                    lane.is_wanted = true;
                    lane.ask(now);
                }
            }
            lane.wake_driver(&mut self.wakers);
        }
        Ok(Check(before))
    }

    /// Waits until a server has answered, or all have failed.
    pub(crate) fn poll_check(&mut self, check: &Check, waker: &Waker) -> Poll<Result<()>> {
        let servers = || self.lanes.iter().zip(&check.0);
        if servers().any(|(lane, before)| lane.outcomes.answers > before.answers) {
            return Poll::Ready(Ok(()));
        }
        if servers().all(|(lane, before)| {
            lane.phase == LanePhase::Closed || lane.outcomes.failures > before.failures
        }) {
            let error = self.why_not_connected("check").with_fate(Fate::NotSent);
            self.lanes.iter_mut().for_each(|lane| lane.is_wanted = false);
            return Poll::Ready(Err(error));
        }
        if !self.checkers.iter().any(|checker| checker.will_wake(waker)) {
            self.checkers.push(waker.clone());
        }
        Poll::Pending
    }
}
