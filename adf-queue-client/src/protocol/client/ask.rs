//! What callers ask of a client, whatever its transport, and what they get.

use bytes::Bytes;
use queue_core::Epoch;

use crate::{
    Delivery, Error, ErrorKind, Fate, MessageId, Push, QueueName, RequestId, Result,
    protocol::{Action, Request, Success},
};

/// What a caller asks.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A connection, by one attempt to make one.
    Ready,
    /// A sign of life.
    Ping,
    /// An action that needs no pulled message. The client chooses the id.
    Plain(Action, QueueName, Bytes),
    /// Pushes that are sent together, and answered together.
    Pushes(Vec<Push>),
    /// A request as it is.
    Raw(Request),
    /// An action on the message that the pull of this id brought, on this connection.
    Settle(Action, QueueName, RequestId, Option<Epoch>),
    /// The next message, however long that takes, or as long as the call may.
    Pull(QueueName),
    /// The next message, if one is ready.
    TryPull(QueueName),
}

/// The outcome.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Nothing but that it is so.
    Yes,
    /// What the server answered.
    Success(Success),
    /// What came of each push.
    Pushed(Vec<Result<MessageId>>),
    /// A message.
    Delivery(Delivery),
    /// No message in time.
    Nothing,
}

impl Ask {
    /// What the server is asked, if it is asked something.
    pub(crate) fn action(&self) -> Option<Action> {
        match self {
            Ask::Ready | Ask::Ping | Ask::Pushes(_) => None,
            Ask::Plain(action, ..) | Ask::Settle(action, ..) => Some(*action),
            Ask::Raw(request) => Some(request.action()),
            Ask::Pull(_) | Ask::TryPull(_) => Some(Action::Pull),
        }
    }

    /// Of which queue.
    pub(crate) fn queue(&self) -> Option<&QueueName> {
        match self {
            Ask::Ready | Ask::Ping | Ask::Pushes(_) => None,
            Ask::Raw(request) => Some(request.queue()),
            Ask::Plain(_, queue, _)
            | Ask::Settle(_, queue, ..)
            | Ask::Pull(queue)
            | Ask::TryPull(queue) => Some(queue),
        }
    }

    /// Whether the server may be asked again after a connection was lost: it was only asked for something to know, or to be
    /// had over that connection.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Ask::Ready | Ask::Ping | Ask::Pull(_) | Ask::TryPull(_) => true,
            Ask::Plain(action, ..) => *action == Action::Count,
            Ask::Raw(request) => matches!(request.action(), Action::Count | Action::Pull),
            Ask::Settle(..) | Ask::Pushes(_) => false,
        }
    }
}

impl Answer {
    /// Nothing but that it was done.
    pub(crate) fn done(self) -> Result<()> {
        match self {
            Answer::Yes | Answer::Success(Success::Done) => Ok(()),
            other => Err(other.unexpected()),
        }
    }

    /// The number of the message that was pushed.
    pub(crate) fn pushed(self) -> Result<MessageId> {
        match self {
            Answer::Success(Success::Pushed(id)) => Ok(id),
            other => Err(other.unexpected()),
        }
    }

    /// What came of each push.
    pub(crate) fn all_pushed(self) -> Result<Vec<Result<MessageId>>> {
        match self {
            Answer::Pushed(outcomes) => Ok(outcomes),
            other => Err(other.unexpected()),
        }
    }

    /// How many there are, or were.
    pub(crate) fn counted(self) -> Result<u32> {
        match self {
            Answer::Success(Success::Counted(count)) => Ok(count),
            other => Err(other.unexpected()),
        }
    }

    /// What the server answered.
    pub(crate) fn success(self) -> Result<Success> {
        match self {
            Answer::Success(success) => Ok(success),
            other => Err(other.unexpected()),
        }
    }

    /// A message, if there is one.
    pub(crate) fn delivery(self) -> Result<Option<Delivery>> {
        match self {
            Answer::Delivery(delivery) => Ok(Some(delivery)),
            Answer::Nothing => Ok(None),
            other => Err(other.unexpected()),
        }
    }

    /// A message, which comes if anything comes.
    pub(crate) fn message(self) -> Result<Delivery> {
        self.delivery()?.ok_or_else(|| Answer::Nothing.unexpected())
    }

    fn unexpected(&self) -> Error {
        let what = match self {
            Answer::Yes => "a sign of life",
            Answer::Success(_) | Answer::Pushed(_) => "the answer to another action",
            Answer::Delivery(_) => "a message",
            Answer::Nothing => "nothing",
        };
        Error::new(
            ErrorKind::Protocol,
            Fate::Unknown,
            format!("{what} came, and was not asked for"),
        )
    }
}
