//! The grammar of a session besides the commands of the command line: the verbs that need a lasting connection.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand};
use ctl_core::input::named::Leading;
use ctl_core::repl::guest::Words;

use crate::names::Queue;

/// The verbs of a session.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Pull a message and keep it (pull)
    #[command(after_help = PULL_HELP)]
    Pull {
        #[command(flatten)]
        queue: Leading<Queue>,
        /// How long to wait; 0 checks once [default: until Ctrl-C; 0 in a script]
        #[arg(value_name = "DUR")]
        wait: Option<OsString>,
    },
    /// List the messages that this session holds
    #[command(after_help = "Example: pulled -o json")]
    Pulled,
    /// Delete pulled messages (delete)
    #[command(after_help = "Protocol: delete.\nExample: delete 5")]
    Delete(Held),
    /// Put pulled messages back at the left end (lcancel)
    #[command(after_help = LCANCEL_HELP)]
    Lcancel(Held),
    /// Put pulled messages back at the right end (rcancel)
    #[command(
        after_help = "Protocol: rcancel. This does not wake waiting clients.\nExample: rcancel 5"
    )]
    Rcancel(Held),
    /// Write the body of a pulled message to a new file
    #[command(after_help = "Example: save 5 body.bin")]
    Save {
        /// The request id of the pull
        #[arg(value_name = "PULL")]
        pull: String,
        /// The file; it must not exist yet
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Write the body of the last pulled message to a new file
    #[command(name = ":save", after_help = "Example: :save body.bin")]
    SaveLast {
        /// The file; it must not exist yet
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// One or all of the messages that the session holds.
#[derive(Clone, Debug, Args)]
pub struct Held {
    /// The request id of the pull, or all [default: the last message]
    #[arg(value_name = "PULL")]
    pub(super) pull: Option<String>,
}

const PULL_HELP: &str = "\
Protocol: pull; without waiting, count first.
The message is yours until you delete it or put it back, or the session ends. Its name is the request id of its pull. A
pull cannot be cancelled in the server: an abandoned one keeps waiting, and its message is reported and held when it
arrives.

Examples:
  pull /mail        wait until a message arrives or Ctrl-C; a script checks once
  pull /mail 0      check once
  pull /mail 30s    wait at most 30 seconds";

const LCANCEL_HELP: &str = "\
Protocol: lcancel. Several messages keep their order. This does not wake waiting clients: the next pull or push does.
Example: lcancel all";

/// The names that sessions know.
pub(super) const WORDS: Words = Words {
    verbs: &[("Consume", &["pulled", "delete", "lcancel", "rcancel", "save", ":save"])],
    reads: &["pulled"],
    renames: &[],
    line_flags: &[],
    lost: crate::error::CONNECTION_LOST,
    on_exit: "what to do with pulled messages on exit",
};
