//! The grammar of a session besides the commands of the command line: the verbs that need a lasting connection.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use clap::builder::ValueHint;
use ctl_core::input::named::{One, Several};
use ctl_core::repl::guest::Words;
use ctl_core::text::units;

use crate::names::Tube;

/// The verbs of a session.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Select the used tube, which put, peek and kick act on (use)
    #[command(after_help = "Protocol: use TUBE.\nExample: use mail")]
    Use {
        #[command(flatten)]
        tube: One<Tube>,
    },
    /// Add tubes to the watch list, which reserve takes from (watch)
    #[command(after_help = "Protocol: watch TUBE.\nExample: watch mail sms")]
    Watch {
        #[command(flatten)]
        tubes: Several<Tube>,
    },
    /// Remove tubes from the watch list (ignore)
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
        /// How long to wait; 0 checks once [default: until Ctrl-C; 0 in a script]
        #[arg(value_name = "DUR", value_parser = units::duration)]
        wait: Option<Duration>,
        /// Reserve this job, whatever its tube (server 1.12 or later)
        #[arg(long, value_name = "ID", conflicts_with = "wait")]
        job: Option<u64>,
        /// As DUR, as on the command line
        #[arg(
            long = "wait",
            id = "wait_for",
            value_name = "DUR",
            value_parser = units::duration,
            conflicts_with_all = ["wait", "job"],
            hide = true
        )]
        wait_for: Option<Duration>,
        /// On the command line only: a session has a watch list
        #[arg(short = 't', long = "tube", value_name = "TUBE", hide = true)]
        tubes: Vec<String>,
    },
    /// List the jobs that this session holds
    #[command(after_help = "Example: reserved -o json")]
    Reserved,
    /// Restart the time to run of reserved jobs (touch)
    #[command(after_help = "Protocol: touch ID.\nExample: touch all")]
    Touch {
        /// A job, or all [default: the last reserved job]
        #[arg(value_name = "ID")]
        job: Option<String>,
    },
    /// Keep touching reserved jobs, so that their time does not expire
    #[command(
        after_help = "Protocol: touch ID, at every third of the job's time to run.\nExample: hold all"
    )]
    Hold {
        /// A job, or all [default: the last reserved job]
        #[arg(value_name = "ID")]
        job: Option<String>,
    },
    /// Stop holding jobs
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
    /// Write the body of the last shown job to a new file
    #[command(name = ":save", after_help = "Example: :save body.bin")]
    SaveLast {
        /// The file; it must not exist yet
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

const RESERVE_HELP: &str = "\
Protocol: reserve-with-timeout, in slices of a second, so that Ctrl-C ends the wait and not the connection. The job is
yours until you delete, release or bury it, its time to run expires, or the session ends.

Examples:
  reserve        wait until a job arrives or Ctrl-C; a script checks once
  reserve 0      check once
  reserve 30s    wait at most 30 seconds";

/// Commands whose ids may be omitted here, which means the last reserved job.
pub(super) const ON_LAST_JOB: &[&str] = &["release", "bury", "delete"];

/// The names that sessions know.
pub(super) const WORDS: Words = Words {
    verbs: &[
        ("Produce", &["use"]),
        ("Consume", &["watch", "ignore", "reserved", "touch", "hold", "unhold", "save", ":save"]),
    ],
    reads: &["reserved"],
    renames: &["use", "watch", "ignore"],
    line_flags: &[],
    lost: "CONNECTION_LOST",
    on_exit: "what to do with reserved jobs on exit",
};
