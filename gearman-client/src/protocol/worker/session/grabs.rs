//! Requesting jobs with the newest kind of grab that the server understands.

use std::time::{Duration, Instant};

use queue_core::{Claim, Claims};

use super::{
    super::{
        assignment::Grab,
        confirm::{Observed, Question},
    },
    AnsweredGrab, IdleState, WorkerSession,
};
use crate::{
    Error, ErrorKind,
    protocol::{Packet, PacketType, request::refusal},
    trace,
};

/// How long to wait for the jobs that another connection has requested under a limit.
const SHARED: Duration = Duration::from_millis(10);

impl WorkerSession {
    /// Until when to wait for the answer to a grab that the server may not know. Only the newest kind is ignored by some
    /// servers that answer an older one; for every other, silence shows that the server is slow.
    pub(super) fn silent_until(&self) -> Option<Instant> {
        let is_new = !self.is_grab_proven && self.dialect.is_newest() && !self.dialect.is_learnt();
        let asked = self.confirmations.waiting_grab().filter(|_| is_new)?;
        asked.checked_add(self.silence)
    }

    /// Whether the server may not know the current kind of grab.
    pub(super) fn may_be_unknown(&self) -> bool {
        !self.is_grab_proven && self.dialect.has_older()
    }

    /// Gives up the answer to a grab and steps down to an older kind.
    pub(super) fn skip_grab(&mut self, now: Instant) {
        let Some(grab) = self.confirmations.withdraw_grab(now) else { return };
        self.given_up.push_back(grab);
        self.give_back(1);
        self.dialect.step_down();
        self.rest = IdleState::Awake;
    }

    pub(super) fn advance(&mut self, now: Instant) -> Option<Instant> {
        self.notify_changes();
        let is_ending = self.is_stopping || self.is_returning;
        let may_ask = self.is_started && !is_ending && self.changes.is_empty();
        if !may_ask || self.functions.is_empty() {
            return None;
        }
        match self.rest {
            IdleState::Awake => {}
            IdleState::Asleep(until) | IdleState::Paused(until) if until > now => {
                return Some(until);
            }
            IdleState::Asleep(_) => self.rest = IdleState::Awake,
            IdleState::Paused(_) => {
                // This is the postponed wake-up.
                let _ = self.budget.spend(now);
                self.rest = IdleState::Awake;
            }
        }
        let taken = self.running.len() + self.left + self.going_on.len();
        let free = self.places.saturating_sub(taken);
        while self.confirmations.grabs < self.window.min(free) {
            match self.limit.as_ref().map_or(Claim::Granted, Claims::ask) {
                Claim::Granted => self.ask(now),
                // The answers to its own grabs will call this again.
                Claim::Later if self.confirmations.grabs > 0 => return None,
                Claim::Later => return now.checked_add(SHARED),
                Claim::Never => return None,
            }
        }
        None
    }

    pub(super) fn ask(&mut self, now: Instant) {
        let grab = self.dialect.grab();
        let (measures, function) = (&self.measures, self.only_function());
        let name = grab.packet_type().name();
        let observation = trace::grabs(measures, name, function, &self.origin.server);
        self.put(grab.packet_type(), &[], b"");
        self.unique.0 += u64::from(grab == Grab::Uniq);
        self.confirmations.asked(Question::Grab(grab), self.queued, observation, now);
    }

    /// The purpose of the answer to a grab, and its observation.
    pub(super) fn answered_grab(
        &mut self,
        by: PacketType,
        now: Instant,
    ) -> Result<(AnsweredGrab, Observed), Error> {
        let named = Grab::answered_with(by);
        let late = match (named, self.confirmations.next_grab()) {
            (Some(named), Some(next)) if named == next => None,
            (None, Some(_)) => None,
            // A packet without a reducer may also answer a grab for all.
            (Some(named), _) => self.given_up.iter().position(|grab| named.may_answer(*grab)),
            (None, None) => (!self.given_up.is_empty()).then_some(0),
        };
        let (grab, answer, observation) =
            match late.and_then(|at| self.given_up.drain(..=at).next_back()) {
                Some(grab) => {
                    self.confirmations.step(now);
                    // The answer proves only this kind.
                    (Some(named.map_or(grab, |named| named.min(grab))), AnsweredGrab::Late, None)
                }
                None => {
                    let (grab, observation) = self.confirmations.answered(by, now)?;
                    (grab, AnsweredGrab::Expected, observation)
                }
            };
        self.unique.1 += u64::from(named == Some(Grab::Uniq));
        let (asked, answered) = self.unique;
        // Among more of these answers than such grabs, one was to a grab for all.
        let grab = if answered > asked { Some(Grab::All) } else { grab };
        if let Some(grab) = grab {
            self.dialect.understood(grab, now);
        }
        self.refusals.reset();
        self.is_grab_proven = true;
        Ok((answer, observation))
    }

    /// Returns the share of grabs that brought no job to the limit.
    pub(super) fn give_back(&self, grabs: usize) {
        if let Some(limit) = &self.limit {
            limit.give_back(grabs as u64);
        }
    }

    /// Handles an ERROR, which concerns a result or a kind of grab that the server does not know. It never replaces the
    /// answer to a grab that the server knows.
    pub(super) fn refused(&mut self, packet: &Packet, now: Instant) {
        let error = refusal(packet);
        if error.kind() == ErrorKind::JobNotFound {
            return self.confirmations.rejected(&packet.body);
        }
        // The oldest request is answered first.
        if self.given_up.is_empty() && self.confirmations.withdraw_letter(now) {
            return self.letter_is_refused(error, now);
        }
        if self.is_grab_proven {
            return;
        }
        if self.given_up.pop_front().is_some() {
            return self.confirmations.step(now);
        }
        if self.confirmations.withdraw_grab(now).is_some() {
            self.give_back(1);
            self.rest = if self.dialect.step_down() {
                IdleState::Awake
            } else {
                IdleState::Paused(queue_core::after(now, self.refusals.next_delay()))
            };
            self.poll(now);
        }
    }

    /// The oldest request was not answered in time. Some servers do not answer a grab that they do not know: then an
    /// older kind is tried, and this returns `true`. Otherwise the connection is out of step.
    pub fn give_up_waiting(&mut self, now: Instant) -> bool {
        let is_unknown_grab = self.may_be_unknown() && self.confirmations.waiting_grab().is_some();
        if is_unknown_grab {
            self.skip_grab(now);
            self.poll(now);
        }
        is_unknown_grab
    }
}
