//! The pushes of a pipeline that are under way, without the input and output.

use std::collections::VecDeque;

use super::{Answer, Ask};
use crate::{ErrorKind, MessageId, Push, Result};

/// So many pushes are under way at most.
const SIZE: usize = 256;

/// No further push is begun while the bodies of those under way have so many bytes.
const BYTES: usize = 1 << 20;

/// Takes pushes as there is room, and gives what came of them in their order.
#[derive(Debug, Default)]
pub(crate) struct Window {
    under_way: VecDeque<UnderWay>,
    bytes: usize,
    is_ended: bool,
}

#[derive(Debug)]
struct UnderWay {
    /// Its task, unless it could not be begun.
    begun: Result<u64>,
    bytes: usize,
}

impl Window {
    /// Begins pushes while there is room. It waits until half of the window is free, so that many go out in one write while
    /// the server works on the others. With nothing under way it takes one in any case. Tells whether it took some.
    pub(crate) fn fill(
        &mut self,
        pushes: &mut impl Iterator<Item = Push>,
        mut begin: impl FnMut(Ask) -> Result<u64>,
    ) -> bool {
        let before = self.under_way.len();
        if before > SIZE / 2 || self.bytes > BYTES / 2 {
            return false;
        }
        while !self.is_ended && self.under_way.len() < SIZE && self.bytes < BYTES {
            let Some(push) = pushes.next() else {
                self.is_ended = true;
                break;
            };
            let bytes = push.body.len();
            self.bytes += bytes;
            self.under_way.push_back(UnderWay { begun: begin(push.into_ask()), bytes });
        }
        self.under_way.len() > before
    }

    /// The oldest push under way: its task, or nothing when it could not be begun. `None` when there is none.
    pub(crate) fn head(&self) -> Option<Option<u64>> {
        self.under_way.front().map(|push| push.begun.as_ref().ok().copied())
    }

    /// Takes the oldest push out, with what came of its task. A failure that is not of this push alone is the last: no
    /// further push is taken.
    pub(crate) fn complete(
        &mut self,
        outcome: Option<Result<Answer>>,
    ) -> Option<Result<MessageId>> {
        let UnderWay { begun, bytes } = self.under_way.pop_front()?;
        self.bytes -= bytes;
        let outcome = match (begun, outcome) {
            (Err(error), _) => Err(error),
            (Ok(_), outcome) => outcome?.and_then(Answer::pushed),
        };
        if let Err(error) = &outcome {
            self.is_ended |= !matches!(
                error.kind(),
                ErrorKind::Refused(_) | ErrorKind::InvalidInput | ErrorKind::MessageTooLarge
            );
        }
        Some(outcome)
    }

    /// Takes no further push. Gives the tasks of those under way.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = u64> + use<'_> {
        self.is_ended = true;
        self.under_way.drain(..).filter_map(|push| push.begun.ok())
    }
}
