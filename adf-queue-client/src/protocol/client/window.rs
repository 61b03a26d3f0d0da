//! The pushes of a pipeline that are in flight, without I/O.

use std::collections::VecDeque;

use super::{Answer, Ask};
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
pub(crate) enum Next {
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

    pub(crate) fn next(&mut self) -> Next {
        loop {
            if let Some(outcome) = self.outcomes.pop_front() {
                return Next::Tell(outcome);
            }
            let Some(oldest) = self.under_way.front() else { return Next::End };
            match &oldest.begun {
                Ok(number) => return Next::Wait(*number),
                Err(error) => {
                    let error = error.share();
                    self.came(Err(error));
                }
            }
        }
    }

    /// Handles the outcome of the oldest task. After a failure that does not concern a single push, no more pushes are
    /// taken.
    pub(crate) fn came(&mut self, answer: Result<Answer>) {
        let Some(UnderWay { len, .. }) = self.under_way.pop_front() else { return };
        match answer.and_then(Answer::all_pushed) {
            Ok(outcomes) => self.outcomes.extend(outcomes),
            Err(error) => self.outcomes.extend((0..len).map(|_| Err(error.share()))),
        }
        self.is_ended |= self.outcomes.iter().any(|outcome| match outcome {
            Ok(_) => false,
            Err(error) => !is_of_one(error),
        });
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
