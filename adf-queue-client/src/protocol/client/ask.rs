//! Requests of callers to a client over any transport, and their outcomes.

use bytes::Bytes;
use queue_core::Epoch;

use crate::{
    Delivery, Error, ErrorKind, Fate, MessageId, Push, QueueName, RequestId, Result,
    protocol::{Action, Request, Success},
};

#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A connection, with one attempt to connect.
    Ready,
    /// A ping.
    Ping,
    /// An action that needs no pulled message. The client chooses the id.
    Plain(Action, QueueName, Bytes),
    /// Pushes that are sent and answered together.
    Pushes(Vec<Push>),
    /// A request, unchanged.
    Raw(Request),
    /// An action on the message delivered to the pull with this id, on this connection.
    Settle(Action, QueueName, RequestId, Option<Epoch>),
    /// The next message, without a limit other than the call's.
    Pull(QueueName),
    /// The next message, if one is ready.
    TryPull(QueueName),
}

/// The outcome.
#[derive(Debug)]
pub(crate) enum AskAnswer {
    /// Success without a value.
    Yes,
    /// The answer of the server.
    Success(Success),
    /// The outcome of each push.
    Pushed(Vec<Result<MessageId>>),
    /// A message.
    Delivery(Delivery),
    /// No message in time.
    Nothing,
}

impl Ask {
    /// The action requested from the server, if any.
    pub(crate) fn action(&self) -> Option<Action> {
        match self {
            Ask::Ready | Ask::Ping | Ask::Pushes(_) => None,
            Ask::Plain(action, ..) | Ask::Settle(action, ..) => Some(*action),
            Ask::Raw(request) => Some(request.action()),
            Ask::Pull(_) | Ask::TryPull(_) => Some(Action::Pull),
        }
    }

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

    /// The body of a single push.
    pub(super) fn body(&self) -> &[u8] {
        match self {
            Ask::Plain(_, _, body) => body,
            Ask::Raw(request) => request.body(),
            _ => b"",
        }
    }

    /// Whether the server may be asked again after a connection was lost: the request is read-only, or its effect ends
    /// with the connection.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Ask::Ready | Ask::Ping | Ask::Pull(_) | Ask::TryPull(_) => true,
            Ask::Plain(action, ..) => *action == Action::Count,
            Ask::Raw(request) => matches!(request.action(), Action::Count | Action::Pull),
            Ask::Settle(..) | Ask::Pushes(_) => false,
        }
    }
}

/// Methods that take a part out of an answer; any other answer is unexpected.
macro_rules! parts {
    ($($(#[$doc:meta])? $name:ident -> $part:ty: $($answer:pat => $value:expr),+;)+) => {$(
        $(#[$doc])?
        pub(crate) fn $name(self) -> Result<$part> {
            match self {
                $($answer => Ok($value),)+
                other => Err(other.unexpected()),
            }
        }
    )+};
}

impl AskAnswer {
    parts! {
        done -> (): AskAnswer::Yes | AskAnswer::Success(Success::Done) => ();
        /// The number of the pushed message.
        pushed -> MessageId: AskAnswer::Success(Success::Pushed(id)) => id;
        all_pushed -> Vec<Result<MessageId>>: AskAnswer::Pushed(outcomes) => outcomes;
        counted -> u32: AskAnswer::Success(Success::Counted(count)) => count;
        success -> Success: AskAnswer::Success(success) => success;
        /// A message, if there is one.
        delivery -> Option<Delivery>:
            AskAnswer::Delivery(delivery) => Some(delivery), AskAnswer::Nothing => None;
    }

    /// A message. There always is one.
    pub(crate) fn message(self) -> Result<Delivery> {
        self.delivery()?.ok_or_else(|| AskAnswer::Nothing.unexpected())
    }

    fn unexpected(&self) -> Error {
        let what = match self {
            AskAnswer::Yes => "heartbeat",
            AskAnswer::Success(_) | AskAnswer::Pushed(_) => "reply to another action",
            AskAnswer::Delivery(_) => "message",
            AskAnswer::Nothing => "empty reply",
        };
        Error::new(ErrorKind::Protocol, Fate::Unknown, format!("unexpected {what}"))
    }
}
