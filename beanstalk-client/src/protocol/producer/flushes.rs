//! Barriers: when everything accepted before a given moment is done.

use std::collections::VecDeque;

/// Counts open puts by generation; each flush starts a new generation.
#[derive(Debug)]
pub(super) struct Flushes {
    /// Open puts of each generation, from the oldest that has any.
    open: VecDeque<u64>,
    /// The oldest generation in `open`.
    first: u64,
}

impl Flushes {
    pub(super) fn new() -> Self {
        Flushes { open: VecDeque::from([0]), first: 0 }
    }

    /// Counts an accepted put; returns its generation.
    pub(super) fn enter(&mut self) -> u64 {
        if let Some(last) = self.open.back_mut() {
            *last += 1;
        }
        self.first + self.open.len() as u64 - 1
    }

    /// Counts a finished put of this generation. Returns whether it was the last one.
    pub(super) fn leave(&mut self, generation: u64) -> bool {
        let at = generation.saturating_sub(self.first);
        let count = usize::try_from(at).ok().and_then(|at| self.open.get_mut(at));
        let is_last = count.is_some_and(|count| {
            *count = count.saturating_sub(1);
            *count == 0
        });
        while self.open.len() > 1 && self.open.front() == Some(&0) {
            self.open.pop_front();
            self.first += 1;
        }
        is_last
    }

    /// The mark that [is passed](Self::is_passed) once everything accepted so far is done.
    pub(super) fn raise(&mut self) -> u64 {
        if self.open.back().is_some_and(|last| *last > 0) {
            self.open.push_back(0);
        }
        self.first + self.open.len() as u64 - 1
    }

    pub(super) fn is_passed(&self, mark: u64) -> bool {
        self.first >= mark
    }

    pub(super) fn is_clear(&self) -> bool {
        self.open.iter().all(|count| *count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_put_before_a_flush_is_distinguished() {
        let mut barrier = Flushes::new();
        let [a, b] = [(); 2].map(|()| barrier.enter());
        barrier.raise();
        let c = barrier.enter();
        assert!(!barrier.leave(a) && barrier.leave(b) && barrier.leave(c));
    }
}
