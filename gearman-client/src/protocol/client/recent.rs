//! Requests in flight, by increasing numbers.

use std::collections::{HashMap, VecDeque};

use crate::names::keys::Keys;

/// How many numbers in a row may be missing before the row starts anew.
const GAP: usize = 64;

/// Values by numbers that increase, and wrap around. Most leave in about the order in which they came, so they stand in
/// a row: the next one to be looked up is near the last, and a processor fetches it in advance, where a table of
/// thousands costs it several waits each. The few that stay much longer than their neighbours move to a table, so that
/// the row is never much longer than what is in it.
#[derive(Debug)]
pub(crate) struct RecentItems<T> {
    /// The number of the first in the row.
    first: u32,
    row: VecDeque<Option<T>>,
    /// How many of the row are there.
    in_row: usize,
    old: HashMap<u32, T, Keys>,
}

impl<T> Default for RecentItems<T> {
    fn default() -> Self {
        RecentItems { first: 0, row: VecDeque::new(), in_row: 0, old: HashMap::default() }
    }
}

impl<T> RecentItems<T> {
    pub(crate) fn len(&self) -> usize {
        self.in_row + self.old.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a value under a number greater than all before it. Returns one that has had this number ever since it last
    /// came round.
    pub(crate) fn insert(&mut self, number: u32, value: T) -> Option<T> {
        let missing = (number.wrapping_sub(self.first) as usize).checked_sub(self.row.len());
        match missing {
            Some(missing @ 0..=GAP) => self.row.extend((0..missing).map(|_| None)),
            _ => {
                while !self.row.is_empty() {
                    self.retire();
                }
                self.first = number;
            }
        }
        self.row.push_back(Some(value));
        self.in_row += 1;
        while self.row.len() > 2 * self.in_row + GAP {
            self.retire();
        }
        if self.old.is_empty() { None } else { self.old.remove(&number) }
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.row.get_mut(number.wrapping_sub(self.first) as usize) {
            Some(place) => place.as_mut(),
            None => self.old.get_mut(&number),
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let Some(place) = self.row.get_mut(number.wrapping_sub(self.first) as usize) else {
            return self.old.remove(&number);
        };
        let value = place.take()?;
        self.in_row -= 1;
        while matches!(self.row.front(), Some(None)) {
            self.retire();
        }
        Some(value)
    }

    /// Everything, the oldest first as far as that is known.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        self.old.into_values().chain(self.row.into_iter().flatten())
    }

    /// Moves the first of the row to the table.
    fn retire(&mut self) {
        if let Some(Some(value)) = self.row.pop_front() {
            self.in_row -= 1;
            self.old.insert(self.first, value);
        }
        self.first = self.first.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// Adds one, after a gap.
        Insert(u32),
        /// Removes one of those that are there, counted from the oldest.
        Remove(usize),
        /// Looks one up that is not there.
        Miss(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let gap = prop_oneof![20 => Just(0u32), 2 => 1u32..5, 1 => 50u32..200];
        let place = prop_oneof![4 => Just(0usize), 1 => 0usize..400];
        let step = prop_oneof![
            6 => gap.prop_map(Step::Insert),
            5 => place.prop_map(Step::Remove),
            1 => any::<u32>().prop_map(Step::Miss),
        ];
        proptest::collection::vec(step, 0..250)
    }

    proptest! {
        /// It answers as a plain map does, across the wrap of numbers too, and its row stays in proportion.
        #[test]
        fn it_is_a_map(start in prop_oneof![Just(0u32), Just(u32::MAX - 100)], steps in steps()) {
            let (mut recent, mut plain) = (RecentItems::default(), Vec::new());
            let mut next = start;
            for step in steps {
                match step {
                    Step::Insert(gap) => {
                        next = next.wrapping_add(gap);
                        prop_assert_eq!(recent.insert(next, next), None);
                        plain.push(next);
                        next = next.wrapping_add(1);
                    }
                    Step::Remove(place) if !plain.is_empty() => {
                        let number = plain.remove(place % plain.len());
                        prop_assert_eq!(recent.get_mut(number).copied(), Some(number));
                        prop_assert_eq!(recent.remove(number), Some(number));
                        prop_assert_eq!(recent.remove(number), None);
                    }
                    Step::Miss(number) if !plain.contains(&number) => {
                        prop_assert_eq!(recent.get_mut(number), None);
                        prop_assert_eq!(recent.remove(number), None);
                    }
                    Step::Remove(_) | Step::Miss(_) => {}
                }
                prop_assert_eq!(recent.len(), plain.len());
                prop_assert_eq!(recent.is_empty(), plain.is_empty());
                prop_assert!(recent.row.len() <= 2 * recent.len() + 2 * GAP + 1);
            }
            let mut left: Vec<u32> = recent.into_values().collect();
            left.sort_unstable();
            plain.sort_unstable();
            prop_assert_eq!(left, plain);
        }
    }

    #[test]
    fn values_with_gaps_between_them_take_no_more_room_than_values() {
        let mut recent = RecentItems::default();
        for value in 1..=100 {
            recent.insert(60 * value, value);
            assert!(recent.row.len() <= 2 * recent.len() + GAP, "{}", recent.row.len());
        }
        assert_eq!(recent.len(), 100);
        assert!((1..=100).all(|value| recent.remove(60 * value) == Some(value)));
    }

    #[test]
    fn an_old_entry_costs_no_room_and_is_replaced() {
        let mut recent = RecentItems::default();
        recent.insert(7, "stays");
        for number in 8..100_000 {
            assert_eq!(recent.insert(number, "goes"), None);
            assert_eq!(recent.remove(number), Some("goes"));
        }
        assert!(recent.row.len() <= GAP + 2, "{}", recent.row.len());
        assert_eq!(recent.get_mut(7), Some(&mut "stays"));
        assert_eq!(recent.insert(7, "new"), Some("stays"));
        assert_eq!((recent.remove(7), recent.len()), (Some("new"), 0));
    }
}
