//! The pushes of a pipeline that are under way, without the input and output.

use std::collections::VecDeque;

use super::{Answer, Ask};
use crate::{Error, ErrorKind, MessageId, Push, Result};

/// So many pushes are sent together at most, and so many bytes of bodies, unless one push alone has more.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 512 << 10;

/// So many batches are under way at most: the server works on the one while the other comes and goes.
const BATCHES: usize = 2;

/// Takes pushes as there is room, and gives what came of them in their order.
#[derive(Debug, Default)]
pub(crate) struct Window {
    under_way: VecDeque<UnderWay>,
    /// What came of the oldest.
    outcomes: VecDeque<Result<MessageId>>,
    is_ended: bool,
}

#[derive(Debug)]
struct UnderWay {
    /// Its task, unless it could not be begun.
    begun: Result<u64>,
    len: usize,
}

/// What a face has to do next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Tell what came of the oldest push.
    Tell(Result<MessageId>),
    /// Wait for what comes of this task.
    Wait(u64),
    /// That was all.
    End,
}

impl Window {
    /// Begins pushes while there is room. Tells whether it took some.
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

    /// What is to be done next.
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

    /// What came of the oldest task. After a failure that is not of one push alone no further push is taken.
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

    /// Takes no further push. Gives the tasks of those under way.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = u64> + use<'_> {
        self.is_ended = true;
        self.under_way.drain(..).filter_map(|batch| batch.begun.ok())
    }
}

/// Whether the next push may fare better.
fn is_of_one(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Refused(_) | ErrorKind::InvalidInput | ErrorKind::MessageTooLarge
    )
}
