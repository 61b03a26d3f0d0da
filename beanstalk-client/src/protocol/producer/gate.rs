//! Limit of ready jobs in each tube of a server.
//!
//! A gate counts what was put into its tube since the server was last asked for the number of ready jobs (`stats-tube`,
//! on the same connection and therefore in step with the puts). Puts over the limit wait in the gate until an answer
//! makes room for them.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use queue_core::Level;

use super::{log::Taken, parcel::Parcel};
use crate::TubeName;

/// The gates of one server.
#[derive(Debug)]
pub(super) struct Gates {
    limit: u64,
    interval: Duration,
    gates: BTreeMap<TubeName, Gate>,
    held: usize,
}

#[derive(Debug, Default)]
struct Gate {
    level: Level,
    held: VecDeque<Taken>,
    is_full: bool,
}

/// A change of a tube's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Puts wait for room in it.
    Full { ready: u64 },
    /// No put waits any longer.
    HasRoom,
}

/// Above this number of gates, those that hold nothing and were not used within an interval are forgotten.
const MANY: usize = 1024;

impl Gates {
    pub(super) fn new(limit: u64, interval: Duration) -> Self {
        Gates { limit, interval, gates: BTreeMap::new(), held: 0 }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The known number of ready jobs in this tube, if a put would have to wait.
    pub(super) fn is_full(&self, tube: &TubeName) -> Option<u64> {
        let gate = self.gates.get(tube)?;
        let estimate = gate.level.estimate()?;
        (estimate >= self.limit || !gate.held.is_empty()).then_some(estimate)
    }

    /// Whether a put may go to this tube now; if so, it is counted. Otherwise it has to be [held](Self::hold).
    pub(super) fn passes(&mut self, tube: &TubeName, now: Instant) -> bool {
        if self.gates.len() >= MANY && !self.gates.contains_key(tube) {
            let interval = self.interval;
            self.gates
                .retain(|_, gate| !gate.held.is_empty() || !gate.level.may_ask(interval, now));
        }
        let limit = self.limit;
        let gate = match self.gates.get_mut(tube) {
            Some(gate) => gate,
            None => self.gates.entry(tube.clone()).or_default(),
        };
        let passes =
            gate.held.is_empty() && gate.level.estimate().is_some_and(|ready| ready < limit);
        if passes {
            gate.level.count(1);
        }
        passes
    }

    /// Keeps a put until there is room.
    pub(super) fn hold(&mut self, taken: Taken) {
        self.held += 1;
        self.gates.entry(taken.parcel.tube.clone()).or_default().held.push_back(taken);
    }

    /// The tubes to ask the server about now, because puts wait for them.
    pub(super) fn ask(&mut self, now: Instant) -> Vec<TubeName> {
        if self.held == 0 {
            return Vec::new();
        }
        let interval = self.interval;
        let due = self.gates.iter_mut();
        let due =
            due.filter(|(_, gate)| !gate.held.is_empty() && gate.level.may_ask(interval, now));
        due.map(|(tube, gate)| {
            gate.level.ask(now);
            tube.clone()
        })
        .collect()
    }

    /// Whether to ask the server about this tube, to which a put is going.
    pub(super) fn asks(&mut self, tube: &TubeName, now: Instant) -> bool {
        let interval = self.interval;
        let gate = self.gates.get_mut(tube).filter(|gate| gate.level.may_ask(interval, now));
        gate.is_some_and(|gate| {
            gate.level.ask(now);
            true
        })
    }

    /// When to ask the server next.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        if self.held == 0 {
            return None;
        }
        let waiting = self.gates.values().filter(|gate| !gate.held.is_empty());
        waiting.filter_map(|gate| gate.level.ask_at(self.interval)).min()
    }

    /// Handles the answer: the number of ready jobs, or `None` if the server does not report it. Returns the puts that
    /// may go now.
    pub(super) fn answered(
        &mut self,
        tube: &TubeName,
        ready: Option<u64>,
    ) -> (Vec<Taken>, Option<Change>) {
        let limit = self.limit;
        let Some(gate) = self.gates.get_mut(tube) else { return (Vec::new(), None) };
        // Without a number, the tube counts as empty.
        let ready = ready.unwrap_or_default();
        gate.level.answered(ready);
        let room = limit.saturating_sub(gate.level.estimate().unwrap_or_default());
        let n = usize::try_from(room).unwrap_or(usize::MAX).min(gate.held.len());
        let go: Vec<Taken> = gate.held.drain(..n).collect();
        gate.level.count(go.len() as u64);
        self.held -= go.len();
        let was_full = std::mem::replace(&mut gate.is_full, !gate.held.is_empty());
        let change = match (was_full, gate.is_full) {
            (false, true) => Some(Change::Full { ready }),
            (true, false) => Some(Change::HasRoom),
            _ => None,
        };
        (go, change)
    }

    /// Takes the overdue puts.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Taken> {
        let mut due = Vec::new();
        for gate in self.gates.values_mut() {
            if gate.held.iter().any(|taken| taken.parcel.is_due(now)) {
                let held = std::mem::take(&mut gate.held);
                let (late, others) =
                    held.into_iter().partition::<Vec<_>, _>(|taken| taken.parcel.is_due(now));
                gate.held = others.into();
                due.extend(late);
            }
        }
        self.held -= due.len();
        due
    }

    /// Takes all puts and forgets all counts, because the connection is gone.
    pub(super) fn take_all(&mut self) -> Vec<Taken> {
        self.held = 0;
        std::mem::take(&mut self.gates).into_values().flat_map(|gate| gate.held).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// The waiting puts.
    pub(super) fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        self.gates.values().flat_map(|gate| gate.held.iter().map(|taken| &taken.parcel))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{super::parcel::Owner, *};
    use crate::{Delivery, Fate};

    const INTERVAL: Duration = Duration::from_millis(100);

    fn put(tube: &TubeName, deadline: Option<Instant>) -> Taken {
        let parcel = Parcel {
            owner: None,
            tube: tube.clone(),
            body: 1,
            weight: 1,
            deadline,
            timeout: Duration::ZERO,
            delivery: Delivery::AtMostOnce,
            retries: true,
            key: None,
            may_exist: false,
        };
        Taken { parcel, frame: Bytes::from_static(b"put"), fate: Fate::NotSent }
    }

    fn offer(gates: &mut Gates, tube: &TubeName, now: Instant) -> bool {
        let passes = gates.passes(tube, now);
        if !passes {
            gates.hold(put(tube, None));
        }
        passes
    }

    #[test]
    fn the_first_put_waits_for_an_answer_and_the_others_until_the_tube_is_full() {
        let (mut gates, now) = (Gates::new(10, INTERVAL), Instant::now());
        let tube = TubeName::default();
        assert!(!offer(&mut gates, &tube, now));
        assert_eq!((gates.is_full(&tube), gates.ask_at()), (None, None));
        assert_eq!(gates.ask(now), std::slice::from_ref(&tube));
        assert!(gates.ask(now + 9 * INTERVAL).is_empty(), "the question is under way");
        let (go, change) = gates.answered(&tube, Some(7));
        assert_eq!((go.len(), change), (1, None));
        assert!(offer(&mut gates, &tube, now) && offer(&mut gates, &tube, now));
        assert!(!offer(&mut gates, &tube, now), "7 were ready, and 3 were put");
        assert_eq!(gates.is_full(&tube), Some(10));
    }

    #[test]
    fn a_tube_is_asked_about_once_in_an_interval() {
        let (mut gates, mut now) = (Gates::new(2, INTERVAL), Instant::now());
        let tube = TubeName::default();
        offer(&mut gates, &tube, now);
        gates.ask(now);
        gates.answered(&tube, Some(0));
        assert!(!gates.asks(&tube, now) && gates.ask_at().is_none(), "nothing waits");
        offer(&mut gates, &tube, now);
        offer(&mut gates, &tube, now);
        assert_eq!(gates.ask_at(), Some(now + INTERVAL));
        assert!(gates.ask(now + INTERVAL / 2).is_empty());
        now += INTERVAL;
        assert_eq!(gates.ask(now).len(), 1);
        let (go, change) = gates.answered(&tube, Some(2));
        assert_eq!((go.len(), change), (0, Some(Change::Full { ready: 2 })));
        now += INTERVAL;
        gates.ask(now);
        let (go, change) = gates.answered(&tube, Some(1));
        assert_eq!((go.len(), change), (1, Some(Change::HasRoom)));
        assert!(gates.is_empty());
        now += INTERVAL;
        assert!(gates.asks(&tube, now), "a put comes, and the answer is old");
    }

    /// Puts sent after the query are not included in its answer.
    #[test]
    fn puts_behind_a_question_are_counted_on_top_of_its_answer() {
        let (mut gates, now) = (Gates::new(10, INTERVAL), Instant::now());
        let tube = TubeName::default();
        offer(&mut gates, &tube, now);
        gates.ask(now);
        gates.answered(&tube, Some(0));
        (0..3).for_each(|_| assert!(offer(&mut gates, &tube, now)));
        assert!(gates.asks(&tube, now + INTERVAL));
        (0..2).for_each(|_| assert!(offer(&mut gates, &tube, now)));
        gates.answered(&tube, Some(4));
        let room = (0..20).take_while(|_| gates.passes(&tube, now)).count();
        assert_eq!(room, 10 - 4 - 2);
    }

    #[test]
    fn tubes_do_not_wait_for_one_another_and_a_server_that_does_not_tell_is_not_limited_for_ever() {
        let (mut gates, now) = (Gates::new(1, INTERVAL), Instant::now());
        let [full, free]: [TubeName; 2] = ["full", "free"].map(|name| name.try_into().unwrap());
        offer(&mut gates, &full, now);
        offer(&mut gates, &free, now);
        assert_eq!(gates.ask(now).len(), 2);
        assert_eq!(gates.answered(&full, Some(5)).0.len(), 0);
        assert_eq!(gates.answered(&free, None).0.len(), 1);
        assert_eq!((gates.parcels().count(), gates.is_empty()), (1, false));
        assert_eq!(gates.take_all().len(), 1);
        assert!(gates.is_empty() && gates.is_full(&full).is_none());
    }

    #[test]
    fn a_tube_is_full_at_its_limit_and_while_others_wait() {
        let (mut gates, now) = (Gates::new(3, INTERVAL), Instant::now());
        let tube = TubeName::default();
        offer(&mut gates, &tube, now);
        gates.ask(now);
        gates.answered(&tube, Some(1));
        assert_eq!(gates.is_full(&tube), None, "one is ready, and one was put");
        assert!(offer(&mut gates, &tube, now));
        assert_eq!(gates.is_full(&tube), Some(3));
        let (mut gates, now) = (Gates::new(3, INTERVAL), Instant::now());
        (0..2).for_each(|_| assert!(!offer(&mut gates, &tube, now)));
        gates.ask(now);
        gates.answered(&tube, Some(2));
        assert!(gates.asks(&tube, now + INTERVAL));
        gates.answered(&tube, Some(3));
        gates.answered(&tube, Some(0));
        assert_eq!((gates.is_full(&tube), gates.limit()), (None, 3));
    }

    #[test]
    fn what_is_due_is_taken_off_and_the_rest_stays_in_order() {
        let (mut gates, now) = (Gates::new(1, INTERVAL), Instant::now());
        let tube = TubeName::default();
        for (slot, deadline) in [(1, now + INTERVAL), (2, now), (3, now + INTERVAL)] {
            let mut taken = put(&tube, Some(deadline));
            taken.parcel.owner = Some(Owner { slot, generation: 0 });
            gates.hold(taken);
        }
        assert_eq!(gates.take_due(now).len(), 1);
        let left: Vec<_> = gates.parcels().map(|parcel| parcel.owner.unwrap().slot).collect();
        assert_eq!(left, [1, 3]);
        assert!(!gates.is_empty());
        assert_eq!(gates.take_due(now + INTERVAL).len(), 2);
        assert!(gates.is_empty());
    }

    #[test]
    fn tubes_that_are_not_used_any_more_are_forgotten() {
        let (mut gates, now) = (Gates::new(1, INTERVAL), Instant::now());
        let tube = |n: usize| TubeName::try_from(format!("tube-{n}")).unwrap();
        for n in 0..3 * MANY {
            let (tube, now) = (tube(n), now + INTERVAL * n as u32);
            offer(&mut gates, &tube, now);
            gates.ask(now);
            gates.answered(&tube, Some(0));
        }
        assert!(gates.gates.len() <= MANY, "{}", gates.gates.len());
    }

    #[test]
    fn tubes_in_use_are_remembered_however_many_there_are() {
        let (mut gates, start) = (Gates::new(9, INTERVAL), Instant::now());
        let tube = |n: usize| TubeName::try_from(format!("tube-{n}")).unwrap();
        let [full, known] = ["full", "known"].map(|name| TubeName::try_from(name).unwrap());
        let ask = |gates: &mut Gates, tube: &TubeName, ready, now| {
            offer(gates, tube, now);
            gates.ask(now);
            gates.answered(tube, Some(ready));
        };
        ask(&mut gates, &full, 9, start);
        ask(&mut gates, &known, 0, start);
        // As long as there are few, none is forgotten.
        let later = start + 10 * INTERVAL;
        ask(&mut gates, &tube(0), 0, later);
        assert!(gates.passes(&known, later), "what is known of it holds");
        for n in 1..MANY {
            ask(&mut gates, &tube(n), 0, later);
        }
        let last = tube(MANY - 3);
        assert!(gates.passes(&last, later), "it was used a moment ago");
        assert!(!gates.passes(&known, later), "nobody has used that one");
        assert_eq!(gates.parcels().count(), 1, "a put waits for room in the full one");
    }
}
