//! The search among the ids above the server's count of puts: after a restart with its log, jobs are there.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem, slice,
};

use super::{CHUNK, MOST_BEYOND};

/// How far around a known id others are searched for, nearest first.
const REACHES: [u64; 2] = [1000, 100_000];

/// After this many ids, the server's count of jobs is asked for again.
const RECOUNT: u64 = 100_000;

/// Which ids to ask for: those around known jobs, around those that are found, and above.
#[derive(Debug)]
pub(super) struct Beyond {
    lowest: u64,
    highest: u64,
    /// Ids of jobs that are known to exist, or to have existed.
    anchors: BTreeSet<u64>,
    /// Those of them around which nothing has been searched yet.
    fresh: BTreeSet<u64>,
    reaches: slice::Iter<'static, u64>,
    reach: u64,
    /// Whether the ids above all others are searched, which is the last step.
    is_last: bool,
    /// The ranges that are searched next.
    ahead: VecDeque<(u64, u64)>,
    /// The ids asked for: first and last id of each range, no two of which touch.
    asked: BTreeMap<u64, u64>,
    left: u64,
    until_recount: u64,
}

impl Beyond {
    pub(super) fn new((lowest, highest): (u64, u64), firsts: &BTreeSet<u64>) -> Self {
        let mut anchors = BTreeSet::from([lowest]);
        anchors.extend(firsts.range(lowest..=highest));
        Beyond {
            lowest,
            highest,
            anchors,
            fresh: BTreeSet::new(),
            reaches: REACHES.iter(),
            reach: 0,
            is_last: false,
            ahead: VecDeque::new(),
            asked: BTreeMap::new(),
            left: MOST_BEYOND,
            until_recount: RECOUNT,
        }
    }

    /// Notes that there is a job with this id.
    pub(super) fn saw(&mut self, id: u64) {
        if self.anchors.insert(id) {
            self.fresh.insert(id);
        }
    }

    /// Whether the server's count should be asked for again; true once.
    pub(super) fn takes_recount(&mut self) -> bool {
        let is_due = self.until_recount == 0;
        if is_due {
            self.until_recount = RECOUNT;
        }
        is_due
    }

    /// The next ids to ask for: the first and the last of them.
    pub(super) fn next(&mut self) -> Option<(u64, u64)> {
        while self.left > 0 {
            if let Some((from, to)) = self.ahead.pop_front() {
                let Some((first, last)) = self.unasked(from, to) else { continue };
                if let Some(behind) = last.checked_add(1).filter(|behind| *behind <= to) {
                    self.ahead.push_front((behind, to));
                }
                self.note(first, last);
                let count = last - first + 1;
                self.left = self.left.saturating_sub(count);
                self.until_recount = self.until_recount.saturating_sub(count);
                return Some((first, last));
            }
            if self.is_last {
                break;
            } else if !self.fresh.is_empty() {
                self.ahead = spans(&mem::take(&mut self.fresh), self.reach);
            } else if let Some(reach) = self.reaches.next() {
                self.reach = *reach;
                self.fresh.clone_from(&self.anchors);
            } else {
                self.is_last = true;
                let top = self.anchors.last().copied().unwrap_or(self.lowest);
                self.ahead.push_back((top, self.highest));
            }
        }
        None
    }

    /// The first part of a range that has not been asked for, as far as it goes together.
    fn unasked(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let (mut first, to) = (from.max(self.lowest), to.min(self.highest));
        while let Some((_, end)) = self.asked.range(..=first).next_back()
            && *end >= first
        {
            first = end.checked_add(1)?;
        }
        let free = self.asked.range(first..).next().map_or(u64::MAX, |(start, _)| start - 1);
        let most = first.saturating_add(CHUNK.min(self.left) - 1);
        (first <= to).then(|| (first, to.min(free).min(most)))
    }

    fn note(&mut self, first: u64, last: u64) {
        let mut range = (first, last);
        if let Some((&start, &end)) = self.asked.range(..first).next_back()
            && end + 1 == first
        {
            range.0 = start;
        }
        if let Some(end) = last.checked_add(1).and_then(|next| self.asked.remove(&next)) {
            range.1 = end;
        }
        self.asked.insert(range.0, range.1);
    }
}

/// The ids within reach of any of the anchors, as ranges that do not touch: jobs often follow each other.
fn spans(anchors: &BTreeSet<u64>, reach: u64) -> VecDeque<(u64, u64)> {
    let mut spans: VecDeque<(u64, u64)> = VecDeque::new();
    for anchor in anchors {
        let (from, to) = (anchor.saturating_sub(reach), anchor.saturating_add(reach));
        match spans.back_mut() {
            Some((_, end)) if from <= end.saturating_add(1) => *end = to,
            _ => spans.push_back((from, to)),
        }
    }
    spans
}
