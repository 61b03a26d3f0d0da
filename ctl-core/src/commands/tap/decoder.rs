//! The tool's part of the tap: where a command, a reply or a packet ends, and what it contains.

use std::borrow::Cow;

/// The sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The application.
    Client,
    /// The server.
    Server,
}

impl Side {
    /// Its name in lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Maximum number of bytes shown of a body.
pub(super) const SHOWN: usize = 4096;

/// The beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A unit of this many bytes: a command with its body, a reply, a packet, a frame.
    Unit(u64),
    /// A unit that ends with the stream.
    ToTheEnd,
    /// It is unknown until more bytes arrive.
    More,
    /// Not this protocol, and why. The rest of what this side sends is not decoded.
    Stranger(&'static str),
}

/// Decodes one connection. Its methods are called in the order in which bytes have passed.
pub trait Decoder: Send + 'static {
    /// What `data`, which `side` has sent and which is never empty, begins with. Called again with more bytes as long
    /// as the answer is [`Look::More`].
    fn look(&mut self, side: Side, data: &[u8]) -> Look;

    /// The contents of a unit of `len` bytes, of which at most the first 16 KiB are given. None for a unit without its
    /// own line, such as a part of a message.
    fn read(&mut self, side: Side, unit: &[u8], len: u64) -> Option<Said>;
}

/// The contents of a unit.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The command, or the keyword of the answer.
    pub verb: Cow<'static, str>,
    /// Its arguments, as on the wire: ids, names, numbers.
    pub arguments: String,
    /// The beginning of its body, and how many bytes it has in all.
    pub body: Option<(Vec<u8>, u64)>,
    /// Its relation to other units.
    pub role: Role,
    /// Whether it is a refusal.
    pub is_error: bool,
}

/// The relation of a unit to others on its connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    #[default]
    Tells,
    /// It will be answered, by an answer with this key.
    Asks(Cow<'static, str>),
    /// It answers the oldest request with this key, or without a key the oldest of all.
    Answers(Option<Cow<'static, str>>),
}

impl Said {
    /// A unit with this verb, and nothing more.
    #[must_use]
    pub fn new(verb: impl Into<Cow<'static, str>>) -> Self {
        Self { verb: verb.into(), ..Self::default() }
    }

    /// Adds its arguments; bytes that are not text are shown as U+FFFD.
    #[must_use]
    pub fn of(mut self, arguments: &[u8]) -> Self {
        self.arguments = String::from_utf8_lossy(arguments).into_owned();
        self
    }

    /// Adds a body of `size` bytes, which begins like this.
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

    /// It answers the oldest request with this key.
    #[must_use]
    pub fn answers(mut self, key: impl Into<Cow<'static, str>>) -> Self {
        self.role = Role::Answers(Some(key.into()));
        self
    }

    /// Sets whether it is a refusal.
    #[must_use]
    pub fn error_if(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }
}
