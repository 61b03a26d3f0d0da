//! Cheat sheets as data: command lines that can be copied, and how they end.

/// Command lines about one topic.
#[derive(Debug, Clone, Copy)]
pub struct Sheet {
    /// The word that `examples` takes.
    pub topic: &'static str,
    /// What the command lines are for.
    pub about: &'static str,
    /// The command lines. They are run one after the other, so a later one may need what an earlier one did.
    pub examples: &'static [Example],
}

/// A command line that can be copied.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// What it does, without a full stop.
    pub about: &'static str,
    /// The line, for a POSIX shell.
    pub line: &'static str,
    /// How it ends.
    pub ends: Ends,
}

/// How a command line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// By itself, with this exit code.
    With(u8),
    /// When somebody stops it.
    Stopped,
}

impl Example {
    /// A line that ends by itself, with exit code 0.
    #[must_use]
    pub const fn new(about: &'static str, line: &'static str) -> Self {
        Self { about, line, ends: Ends::With(0) }
    }

    /// The same line, which ends with another exit code.
    #[must_use]
    pub const fn exits(self, code: u8) -> Self {
        Self { ends: Ends::With(code), ..self }
    }

    /// The same line, which runs until somebody stops it.
    #[must_use]
    pub const fn until_stopped(self) -> Self {
        Self { ends: Ends::Stopped, ..self }
    }

    /// The exit code; none for a line that does not end by itself.
    #[must_use]
    pub const fn exit(&self) -> Option<u8> {
        match self.ends {
            Ends::With(code) => Some(code),
            Ends::Stopped => None,
        }
    }

    /// What it does and how it ends, where that is not a success.
    #[must_use]
    pub fn explained(&self) -> String {
        match self.ends {
            Ends::With(0) => self.about.to_owned(),
            Ends::With(code) => format!("{} (exit code {code})", self.about),
            Ends::Stopped => format!("{} (until Ctrl-C)", self.about),
        }
    }
}
