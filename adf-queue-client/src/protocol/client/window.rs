//! The pushes of a pipeline that are in flight, without I/O.

use std::collections::VecDeque;

use super::{Ask, AskAnswer};
use crate::{Error, ErrorKind, MessageId, Push, Result};

/// Maximum number of pushes in a batch, and of bytes in their bodies, unless a single push exceeds it.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 512 << 10;

/// Maximum number of batches in flight: the server works on one while the other travels.
const BATCHES: usize = 2;

/// Takes pushes as there is room, and returns their outcomes in order.
#[derive(Debug, Default)]
pub(crate) struct Window {
    under_way: VecDeque<UnderWay>,
    /// Outcomes of the oldest pushes.
    outcomes: VecDeque<Result<MessageId>>,
    is_ended: bool,
}

#[derive(Debug)]
struct UnderWay {
    /// Its task, unless it could not be started.
    begun: Result<u64>,
    len: usize,
}

/// The next step for a face.
#[derive(Debug)]
pub(crate) enum WindowStep {
    /// Return the outcome of the oldest push.
    Tell(Result<MessageId>),
    /// Wait for the outcome of this task.
    Wait(u64),
    /// Done.
    End,
}

impl Window {
    /// Starts pushes while there is room. Returns whether it took any.
    pub(crate) fn fill(
        &mut self,
        pushes: &mut impl Iterator<Item = Push>,
        mut begin: impl FnMut(Ask) -> Result<u64>,
    ) -> bool {
        let before = self.under_way.len();
        while !self.is_ended && self.under_way.len() < BATCHES {
            let batch = self.batch(pushes);
            if !batch.is_empty() {
                let len = batch.len();
                self.under_way.push_back(UnderWay { begun: begin(Ask::Pushes(batch)), len });
            }
        }
        self.under_way.len() > before
    }

    fn batch(&mut self, pushes: &mut impl Iterator<Item = Push>) -> Vec<Push> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(push) = pushes.next() else {
                self.is_ended = true;
                break;
            };
            bytes += push.body().len();
            batch.push(push);
        }
        batch
    }

    pub(crate) fn next(&mut self) -> WindowStep {
        loop {
            if let Some(outcome) = self.outcomes.pop_front() {
                return WindowStep::Tell(outcome);
            }
            let Some(oldest) = self.under_way.front() else { return WindowStep::End };
            match &oldest.begun {
                Ok(number) => return WindowStep::Wait(*number),
                Err(error) => {
                    let error = error.share();
                    self.came(Err(error));
                }
            }
        }
    }

    /// Handles the outcome of the oldest task. After a failure that does not concern a single push, no more pushes are
    /// taken.
    pub(crate) fn came(&mut self, answer: Result<AskAnswer>) {
        let Some(UnderWay { len, .. }) = self.under_way.pop_front() else { return };
        match answer.and_then(AskAnswer::all_pushed) {
            Ok(outcomes) => self.outcomes.extend(outcomes),
            Err(error) => self.outcomes.extend((0..len).map(|_| Err(error.share()))),
        }
        let is_of_all = |error: &Error| !is_of_one(error);
        self.is_ended |= self.outcomes.iter().any(|one| one.as_ref().is_err_and(is_of_all));
    }

    /// Takes no further push. Returns the tasks in flight.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = u64> + use<'_> {
        self.is_ended = true;
        self.under_way.drain(..).filter_map(|batch| batch.begun.ok())
    }
}

/// Whether the error concerns a single push, so that the next one may succeed.
fn is_of_one(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Refused(_) | ErrorKind::InvalidInput | ErrorKind::MessageTooLarge
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fate, Refusal};

    /// A window over pushes, and the sizes of the batches that were begun.
    struct Bench<I> {
        window: Window,
        pushes: I,
        begun: Vec<usize>,
    }

    fn bench(number: usize, len: usize) -> Bench<impl Iterator<Item = Push>> {
        let push = move |_| Push::right("/q".parse().unwrap(), vec![b'x'; len]);
        Bench { window: Window::default(), pushes: (0..number).map(push), begun: Vec::new() }
    }

    impl<I: Iterator<Item = Push>> Bench<I> {
        fn fill(&mut self) -> bool {
            let begun = &mut self.begun;
            self.window.fill(&mut self.pushes, |ask| {
                let Ask::Pushes(pushes) = ask else { panic!("{ask:?}") };
                begun.push(pushes.len());
                Ok(begun.len() as u64)
            })
        }

        fn waits_for(&mut self) -> Option<u64> {
            match self.window.next() {
                WindowStep::Wait(number) => Some(number),
                _ => None,
            }
        }
    }

    #[test]
    fn a_failure_ends_the_window_unless_it_is_of_a_single_push() {
        let refused: Error = Refusal::QueueNotFound.into();
        let lost = Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "lost");
        for (error, goes_on) in [(refused, true), (lost, false)] {
            let mut bench = bench(300, 1);
            bench.fill();
            bench.window.came(Ok(AskAnswer::Pushed(vec![Err(error)])));
            assert_eq!(bench.fill(), goes_on);
        }
        let mut bench = bench(300, 1);
        bench.fill();
        bench.window.came(Err(Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "lost")));
        let outcomes = std::iter::from_fn(|| match bench.window.next() {
            WindowStep::Tell(outcome) => Some(outcome.is_err()),
            _ => None,
        });
        assert_eq!(outcomes.collect::<Vec<_>>(), [true; 128]);
    }

    #[test]
    fn two_batches_are_in_flight_and_another_follows_the_oldest() {
        let mut bench = bench(300, 1);
        assert!(bench.fill() && !bench.fill());
        assert_eq!(bench.begun, [128, 128]);
        assert_eq!(bench.waits_for(), Some(1));
        bench.window.came(Ok(AskAnswer::Pushed(vec![Ok(7.into())])));
        assert!(bench.fill());
        assert_eq!(bench.begun, [128, 128, 44]);
        assert!(matches!(bench.window.next(), WindowStep::Tell(Ok(id)) if id.get() == 7));
        assert_eq!(bench.waits_for(), Some(2));
        assert_eq!(bench.window.end().collect::<Vec<_>>(), [2, 3]);
        assert!(!bench.fill() && matches!(bench.window.next(), WindowStep::End));
    }

    #[test]
    fn a_batch_ends_with_the_push_that_makes_it_large_enough() {
        let mut bench = bench(5, 256 << 10);
        bench.fill();
        assert_eq!(bench.begun, [2, 2]);
        bench.window.came(Ok(AskAnswer::Pushed(Vec::new())));
        bench.fill();
        assert_eq!(bench.begun, [2, 2, 1]);
    }
}
