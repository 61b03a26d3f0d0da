//! Pushes that one caller asks together, and what came of each.

use crate::{
    Error, MessageId, Push, RequestId, Result,
    protocol::{Encoding, session::Ids},
};

/// Pushes that one caller asks together.
#[derive(Debug)]
pub(super) struct Batch {
    /// The id at the first place; the others have the numbers behind it.
    pub(super) first: u64,
    places: Vec<Place>,
    /// How many are not over.
    undone: usize,
    /// The connection has those that are not over.
    pub(super) is_sent: bool,
}

#[derive(Debug)]
enum Place {
    Open(Push),
    Done(Result<MessageId>),
}

impl Batch {
    /// Those that cannot be sent are over, and `refused` is told each.
    pub(super) fn new(
        pushes: Vec<Push>,
        encoding: Encoding,
        ids: &mut Ids,
        mut refused: impl FnMut(&Error),
    ) -> Self {
        let first = ids.run(pushes.len() as u64);
        let mut undone = pushes.len();
        let places = pushes.into_iter().zip(first..).map(|(push, id)| {
            let Err(error) = encoding.check(&push.asked("")) else { return Place::Open(push) };
            let error = error.with_request(push.action(), &RequestId::of(id));
            undone -= 1;
            refused(&error);
            Place::Done(Err(error))
        });
        let places = places.collect();
        Batch { first, places, undone, is_sent: false }
    }

    /// The same, for another connection.
    pub(super) fn unsent(self) -> Self {
        Batch { is_sent: false, ..self }
    }

    /// How many are not over.
    pub(super) fn undone(&self) -> usize {
        self.undone
    }

    /// Whether this is an id of it.
    pub(super) fn has(&self, id: &RequestId) -> bool {
        let number = queue_core::decimal(id.as_str().as_bytes());
        let place = number.and_then(|number| number.checked_sub(self.first));
        place.is_some_and(|place| place < self.places.len() as u64)
    }

    /// Those that are not over, each at its place.
    pub(super) fn open(&self) -> impl Iterator<Item = Option<&Push>> {
        self.places.iter().map(|place| match place {
            Place::Open(push) => Some(push),
            Place::Done(_) => None,
        })
    }

    /// What came of the push at a place. Gives the error as its caller is told it.
    pub(super) fn settle(&mut self, place: usize, outcome: Result<MessageId>) -> Option<&Error> {
        let id = self.first + place as u64;
        let place = self.places.get_mut(place)?;
        let Place::Open(push) = place else { return None };
        let outcome =
            outcome.map_err(|error| error.with_request(push.action(), &RequestId::of(id)));
        self.undone -= 1;
        *place = Place::Done(outcome);
        match place {
            Place::Done(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// All that are not over end with this error; `told` gets it as each caller is told it.
    pub(super) fn fail(&mut self, error: &Error, mut told: impl FnMut(&Error)) {
        for place in 0..self.places.len() {
            self.settle(place, Err(error.share())).into_iter().for_each(&mut told);
        }
    }

    /// What came of each, once all are over.
    pub(super) fn take_outcomes(&mut self) -> Vec<Result<MessageId>> {
        let over = std::mem::take(&mut self.places).into_iter();
        over.filter_map(|place| match place {
            Place::Done(outcome) => Some(outcome),
            Place::Open(_) => None,
        })
        .collect()
    }
}
