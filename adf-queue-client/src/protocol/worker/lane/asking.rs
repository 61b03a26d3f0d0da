//! A lane's requests to its server: pulls and counts.

use std::{
    mem,
    time::{Duration, Instant},
};

use queue_core::Claim;

use super::{Lane, LaneSettings};
use crate::{
    QueueName,
    protocol::{
        Action,
        client::{Ask, Link},
        worker::{
            held::HeldEntry,
            line::{CountReason, LastCount, ServedQueue},
        },
    },
};

/// Maximum number of messages being settled before more are pulled.
const MAX_ASKED: usize = 256;
/// Maximum number of waiting pulls, however much room there is.
const MAX_PULLS: usize = 256;
/// How long to wait for messages that other lanes have requested under a limit, or for ready messages that do not
/// arrive.
pub(super) const SHARED: Duration = Duration::from_millis(10);

/// Whether a count behind the pulls of this queue may begin. One that overtook a pull would find its message, too.
pub(super) fn may_count(link: &Link, line: &ServedQueue) -> bool {
    link.is_open() && !line.pulls.is_empty() && link.has_pulled(&line.queue)
}

/// How many more messages of this queue may be held for handlers, if it has its own maximum number.
pub(super) fn room(terms: &LaneSettings, hold: &HeldEntry, queue: &QueueName) -> usize {
    let slots = terms.slots_for.get(queue);
    slots.map_or(usize::MAX, |slots| slots.saturating_sub(hold.taken_of(queue)))
}

impl Lane {
    pub(super) fn has_room(&self) -> bool {
        self.hold.taken(&self.terms.slots_for) < self.terms.capacity()
            && self.hold.asked.len() < MAX_ASKED
    }

    pub(super) fn ask(&mut self, now: Instant) {
        for index in 0..self.lines.len() {
            if !self.has_room() {
                return;
            }
            self.ask_line(index, now);
        }
        self.ask_more(now);
    }

    /// Each queue has one waiting pull by now. Adds as many as there is room for, where they cannot waste a limit.
    fn ask_more(&mut self, now: Instant) {
        let until_empty = self.terms.until_empty;
        if self.claimed.is_limited() && !until_empty {
            return;
        }
        let taken = self.hold.taken(&self.terms.slots_for);
        let most = self.terms.capacity().saturating_sub(taken).min(MAX_PULLS);
        let mut left = most.saturating_sub(self.pulls());
        while left > 0 {
            let Lane { terms, hold, lines, .. } = self;
            let is_served = |line: &ServedQueue| {
                (!until_empty || line.known > 0)
                    && !line.pulls.is_empty()
                    && line.resting(now).is_none()
                    && line.pulls.len() < room(terms, hold, &line.queue)
            };
            let lines = lines.iter_mut().enumerate().filter(|(_, line)| is_served(line));
            let Some((index, line)) = lines.min_by_key(|(_, line)| line.pulls.len()) else {
                return;
            };
            line.known = line.known.saturating_sub(1);
            self.pull(index, now);
            left -= 1;
        }
    }

    fn ask_line(&mut self, index: usize, now: Instant) {
        // Of several queues, only those with messages may use up a limit.
        let looks_first = self.terms.until_empty
            || self.claimed.is_limited() && (self.terms.is_one_of_many || self.lines.len() > 1);
        let is_last = self.terms.until_empty && self.hold.messages.is_empty();
        let Some(line) = self.lines.get_mut(index) else { return };
        let has_room = room(&self.terms, &self.hold, &line.queue) > 0;
        if line.look.is_some() || line.resting(now).is_some() || !has_room {
            return;
        }
        let look = match line.pulls.is_empty() {
            true if line.known > 0 => {
                line.known -= 1;
                return self.pull(index, now);
            }
            true if looks_first => CountReason::First,
            true => return self.pull(index, now),
            false if !may_count(&self.link, line) => return,
            false => match line.doubt.take() {
                Some(look) => look,
                None if mem::take(&mut line.has_returned) => CountReason::Returned,
                None if line.look_at.is_some_and(|at| at <= now) => CountReason::Again,
                None if is_last && !line.is_dry => CountReason::Last,
                None => return,
            },
        };
        let ask = Ask::Plain(Action::Count, line.queue.clone(), bytes::Bytes::new());
        match self.begin(ask, None, now) {
            Ok(task) => {
                if let Some(line) = self.lines.get_mut(index) {
                    let last_pull = line.pulls.back().copied();
                    let known = LastCount { last_pull, is_settled: line.is_settled };
                    line.look = Some((task, look, known));
                }
            }
            Err(error) => self.refused(index, error, now),
        }
    }

    pub(super) fn pull(&mut self, index: usize, now: Instant) {
        let Some(line) = self.lines.get_mut(index) else { return };
        match self.claimed.ask() {
            Claim::Granted => {}
            Claim::Later => return line.rest_for(SHARED, now),
            Claim::Never => {
                // The lane has to end.
                self.is_changed = true;
                return;
            }
        }
        let queue = line.queue.clone();
        line.look_in(self.terms.recheck, now);
        match self.begin(Ask::Pull(queue), None, now) {
            Ok(task) => {
                if let Some(line) = self.lines.get_mut(index) {
                    line.pulls.push_back(task);
                    line.is_settled = false;
                }
            }
            Err(error) => {
                self.claimed.give_back();
                self.refused(index, error, now);
            }
        }
    }
}
