//! What can be typed in a session beside the commands of the command line: the verbs that only make sense on a lasting
//! connection.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand};
use ctl_core::named::Leading;
use ctl_core::repl::builtin;
use ctl_core::repl::guest::Words;
use ctl_core::repl::help::Group;

use crate::names::Queue;

/// The verbs of a session.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Pull a message and keep it (pull)
    #[command(after_help = PULL_HELP)]
    Pull {
        #[command(flatten)]
        queue: Leading<Queue>,
        /// How long to wait; 0 looks once [default: until Ctrl-C; 0 in a script]
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
    #[command(after_help = "Protocol: rcancel. Nobody who waits is woken.\nExample: rcancel 5")]
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
    /// Write the body of the message that was pulled last to a new file
    #[command(name = ":save", after_help = "Example: :save body.bin")]
    SaveLast {
        /// The file; it must not exist yet
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// What the session holds, all or one.
#[derive(Clone, Debug, Args)]
pub struct Held {
    /// The request id of the pull, or all [default: the last message]
    #[arg(value_name = "PULL")]
    pub(super) pull: Option<String>,
}

const PULL_HELP: &str = "\
Protocol: pull; count before it when it does not wait.
The message is yours until you delete it or put it back, or the session ends. It is called by the request id of its pull.
A pull cannot be taken back from the server: one that is given up goes on waiting, and what it brings is told and held
when it comes.

Examples:
  pull /mail        wait until a message comes or Ctrl-C; a script looks once
  pull /mail 0      look once
  pull /mail 30s    wait at most 30 seconds";

const LCANCEL_HELP: &str = "\
Protocol: lcancel. Several go back in the order in which they were. Nobody who waits is woken: the next pull or push does
that.
Example: lcancel all";

/// What sessions know by name.
pub(super) const WORDS: Words = Words {
    groups: GROUPS,
    reads: &["queues", "count", "ping", "pulled"],
    renames: &["push", "queue", "pop", "clear", "drain", "import", "move", "copy"],
    secrets: &["raw"],
    left_out: &["work"],
    line_flags: &[],
    lost: crate::error::CONNECTION_LOST,
    on_exit: "what becomes of pulled messages at the end",
};

/// The groups of `help`.
const GROUPS: &[Group] = &[
    Group { name: "produce", title: "Adding messages", verbs: &["push", "import"] },
    Group {
        name: "consume",
        title: "Taking messages, and what can be done with a pulled one",
        verbs: &[
            "pull", "pulled", "delete", "lcancel", "rcancel", "save", ":save", "pop", "recover",
        ],
    },
    Group {
        name: "queues",
        title: "Queues and what is in them",
        verbs: &["queues", "count", "queue", "clear", "drain", "move", "copy", "export", "raw"],
    },
    Group {
        name: "observe",
        title: "Checks and waiting",
        verbs: &["top", "smoke", "check", "wait", "ping", "latency"],
    },
    builtin::GROUP,
];
