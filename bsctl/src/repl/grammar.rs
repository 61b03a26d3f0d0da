//! What can be typed in a session beside the commands of the command line: the verbs that only make sense on a lasting
//! connection.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use clap::builder::ValueHint;
use ctl_core::named::{One, Several};
use ctl_core::repl::builtin;
use ctl_core::repl::guest::Words;
use ctl_core::repl::help::Group;
use ctl_core::units;

use crate::names::Tube;

/// The verbs of a session.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Make a tube the used one: put, peek and kick act on it (use)
    #[command(after_help = "Protocol: use TUBE.\nExample: use mail")]
    Use {
        #[command(flatten)]
        tube: One<Tube>,
    },
    /// Add tubes to those that reserve takes from (watch)
    #[command(after_help = "Protocol: watch TUBE.\nExample: watch mail sms")]
    Watch {
        #[command(flatten)]
        tubes: Several<Tube>,
    },
    /// Take tubes off those that reserve takes from (ignore)
    #[command(
        after_help = "Protocol: ignore TUBE. The last tube cannot be ignored.\nExample: ignore default"
    )]
    Ignore {
        #[command(flatten)]
        tubes: Several<Tube>,
    },
    /// Reserve a job and keep it (reserve-with-timeout, reserve-job)
    #[command(after_help = RESERVE_HELP)]
    Reserve {
        /// How long to wait; 0 looks once [default: until Ctrl-C; 0 in a script]
        #[arg(value_name = "DUR", value_parser = units::duration)]
        wait: Option<Duration>,
        /// Reserve this job, whatever its tube (server 1.12 or later)
        #[arg(long, value_name = "ID", conflicts_with = "wait")]
        job: Option<u64>,
    },
    /// List the jobs that this session holds
    #[command(after_help = "Example: reserved -o json")]
    Reserved,
    /// Give reserved jobs their full time again (touch)
    #[command(after_help = "Protocol: touch ID.\nExample: touch all")]
    Touch {
        /// A job, or all [default: the last reserved job]
        #[arg(value_name = "ID")]
        job: Option<String>,
    },
    /// Keep touching reserved jobs, so that their time does not run out
    #[command(
        after_help = "Protocol: touch ID, each third of the job's time to run.\nExample: hold all"
    )]
    Hold {
        /// A job, or all [default: the last reserved job]
        #[arg(value_name = "ID")]
        job: Option<String>,
    },
    /// Stop keeping jobs
    #[command(after_help = "Example: unhold all")]
    Unhold {
        /// A job, or all [default: all]
        #[arg(value_name = "ID")]
        job: Option<String>,
    },
    /// Write a job's body to a new file
    #[command(after_help = "Example: save 42 body.bin")]
    Save {
        /// The job
        #[arg(value_name = "ID")]
        id: u64,
        /// The file; it must not exist yet
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Write the body of the job that was shown last to a new file
    #[command(name = ":save", after_help = "Example: :save body.bin")]
    SaveLast {
        /// The file; it must not exist yet
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

const RESERVE_HELP: &str = "\
Protocol: reserve-with-timeout, in slices of a second, so that Ctrl-C ends the waiting and not the connection.
The job is yours until you delete, release or bury it, its time to run is over, or the session ends.

Examples:
  reserve        wait until a job comes or Ctrl-C; a script looks once
  reserve 0      look once
  reserve 30s    wait at most 30 seconds";

/// Commands whose ids may be left out here: the last reserved job is meant.
pub(super) const ON_LAST_JOB: &[&str] = &["release", "bury", "delete"];

/// What sessions know by name.
pub(super) const WORDS: Words = Words {
    groups: GROUPS,
    reads: &["peek", "jobs", "job", "tubes", "stats", "stats-tube", "server", "ping", "reserved"],
    renames: &[
        "put", "use", "watch", "ignore", "delete", "pop", "clear", "drain", "import", "populate",
        "move", "copy",
    ],
    secrets: &["raw"],
    left_out: &["work"],
    line_flags: &[],
    lost: "CONNECTION_LOST",
    on_exit: "what becomes of reserved jobs at the end",
};

/// The groups of `help`.
const GROUPS: &[Group] = &[
    Group { name: "produce", title: "Adding jobs", verbs: &["use", "put", "populate", "import"] },
    Group {
        name: "consume",
        title: "Taking jobs, and what can be done with a reserved one",
        verbs: &[
            "watch", "ignore", "reserve", "reserved", "touch", "hold", "unhold", "delete",
            "release", "bury", "save", ":save", "pop", "tail",
        ],
    },
    Group {
        name: "inspect",
        title: "Looking without changing anything",
        verbs: &["peek", "jobs", "job", "tubes", "stats", "stats-tube", "server", "raw"],
    },
    Group {
        name: "bulk",
        title: "Acting on many jobs or on whole tubes",
        verbs: &[
            "kick", "retry", "bury-all", "pause", "resume", "clear", "drain", "move", "copy",
            "requeue", "export",
        ],
    },
    Group {
        name: "observe",
        title: "Checks and waiting",
        verbs: &["top", "smoke", "check", "wait", "ping", "latency"],
    },
    builtin::GROUP,
];
