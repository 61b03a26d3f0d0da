//! What a tool tells the tap of its protocol: where a command, a reply or a packet ends, and what it says.

use std::borrow::Cow;
use std::ops::Range;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The application.
    Client,
    /// The server.
    Server,
}

impl Side {
    /// Its name in lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// The most that can be shown of a body.
pub(super) const SHOWN: usize = 4096;

/// What bytes begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A unit of so many bytes: a command with its body, a reply, a packet, a frame.
    Unit(u64),
    /// A unit that ends with the stream.
    ToTheEnd,
    /// It cannot be told before more bytes are here.
    More,
    /// Nothing of this protocol, and why. The rest of what this side sends is not decoded.
    Stranger(&'static str),
}

/// Decodes one connection. It is asked and told in the order in which bytes have passed.
pub trait Decoder: Send + 'static {
    /// What `data` begins with, which `side` has sent and which is never empty. Asked again with more bytes as long as
    /// the answer is [`Look::More`].
    fn look(&mut self, side: Side, data: &[u8]) -> Look;

    /// What a unit of `len` bytes says, of which the first 16 KiB are kept at the most. None for what has no line of
    /// its own, such as a part of a message.
    fn read(&mut self, side: Side, unit: &[u8], len: u64) -> Option<Said>;

    /// The ids that the server has given, in a unit that is read next: in an answer, or in a request that is about
    /// them. A replay puts those that its server gives in their places. They do not overlap, and come in their order.
    fn ids(&self, _side: Side, _unit: &[u8]) -> Vec<Id> {
        Vec::new()
    }

    /// Corrects a length that the unit announces in its beginning, whose ids were replaced by others of other lengths:
    /// it has `change` bytes more now.
    fn mend(&self, _side: Side, _unit: &mut Vec<u8>, _change: i64) {}

    /// Whether the next unit of the server can be told apart before all of it is here; otherwise a replay compares
    /// bytes.
    fn compares_units(&self) -> bool {
        true
    }
}

/// An id that a server has given, in a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id {
    /// Where it stands.
    pub at: Range<usize>,
    /// What it is an id of, such as a queue whose messages have numbers of their own. None for a value that may be
    /// another one each time, such as an age.
    pub space: Option<Vec<u8>>,
}

/// What a unit says.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The command, or the word of the answer.
    pub verb: Cow<'static, str>,
    /// What it is said of, as on the wire: ids, names, numbers.
    pub arguments: String,
    /// The beginning of its body, and how many bytes it has in all.
    pub body: Option<(Vec<u8>, u64)>,
    /// What it has to do with others.
    pub role: Role,
    /// It is a refusal.
    pub is_error: bool,
}

/// What a unit has to do with others on its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    #[default]
    Tells,
    /// It will be answered, by an answer with this key.
    Asks(Cow<'static, str>),
    /// It answers the oldest question with this key, or the oldest of all without one.
    Answers(Option<Cow<'static, str>>),
}

impl Said {
    /// A unit with this verb, and nothing more.
    #[must_use]
    pub fn new(verb: impl Into<Cow<'static, str>>) -> Self {
        Self { verb: verb.into(), ..Self::default() }
    }

    /// With what it is said of; bytes that are no text are shown as U+FFFD.
    #[must_use]
    pub fn of(mut self, arguments: &[u8]) -> Self {
        self.arguments = String::from_utf8_lossy(arguments).into_owned();
        self
    }

    /// With a body of `size` bytes, which begins like this.
    #[must_use]
    pub fn with_body(mut self, beginning: &[u8], size: u64) -> Self {
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(SHOWN);
        self.body = Some((beginning.get(..len).unwrap_or(beginning).to_vec(), size));
        self
    }

    /// It will be answered.
    #[must_use]
    pub fn asks(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.role = Role::Asks(key.into());
        self
    }

    /// It answers the oldest question with this key.
    #[must_use]
    pub fn answers(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.role = Role::Answers(Some(key.into()));
        self
    }

    /// It answers the oldest question.
    #[must_use]
    pub fn answers_first(mut self) -> Self {
        self.role = Role::Answers(None);
        self
    }

    /// It is a refusal, if so.
    #[must_use]
    pub fn error_if(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }
}
