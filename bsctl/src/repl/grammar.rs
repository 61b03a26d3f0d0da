//! What can be typed in a session: the commands of the command line, and the verbs that only make sense
//! on a lasting connection.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ValueHint;
use clap::{Command, FromArgMatches, Subcommand};
use ctl_core::repl::help::Group;
use ctl_core::repl::tree;
use ctl_core::units;

/// The verbs of a session.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a tube the used one: put, peek and kick act on it (use)
    #[command(after_help = "Protocol: use TUBE.\nExample: use mail")]
    Use {
        /// The tube
        #[arg(value_name = "TUBE")]
        tube: String,
    },
    /// Add tubes to those that reserve takes from (watch)
    #[command(after_help = "Protocol: watch TUBE.\nExample: watch mail sms")]
    Watch {
        /// The tubes
        #[arg(value_name = "TUBE", required = true)]
        tubes: Vec<String>,
    },
    /// Take tubes off those that reserve takes from (ignore)
    #[command(
        after_help = "Protocol: ignore TUBE. The last tube cannot be ignored.\nExample: ignore default"
    )]
    Ignore {
        /// The tubes
        #[arg(value_name = "TUBE", required = true)]
        tubes: Vec<String>,
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
    /// Go to another server; asks about reserved jobs first
    #[command(after_help = "Example: connect 10.0.0.5:11300")]
    Connect {
        #[arg(value_name = "ADDR", help = "host, host:port, [::1]:11300, unix:/path")]
        server: String,
    },
}

const RESERVE_HELP: &str = "\
Protocol: reserve-with-timeout, in slices of a second, so that Ctrl-C ends the waiting and not the connection.
The job is yours until you delete, release or bury it, its time to run is over, or the session ends.

Examples:
  reserve        wait until a job comes or Ctrl-C; a script looks once
  reserve 0      look once
  reserve 30s    wait at most 30 seconds";

/// Commands of the command line that make no sense in a session.
const LEFT_OUT: &[&str] = &["work"];
/// Commands whose ids may be left out here: the last reserved job is meant.
pub(super) const ON_LAST_JOB: &[&str] = &["release", "bury", "delete"];
/// Global flags of this tool that only count when the session starts.
pub(super) const START_FLAGS: &[&str] = &["addr", "timeout"];

/// The grammar of a session, made from that of the command line.
pub(super) fn grammar(command_line: &Command) -> Command {
    let verbs = Verb::augment_subcommands(Command::new("verbs"));
    let here = |command: Command| match ON_LAST_JOB.contains(&command.get_name()) {
        true => command.mut_arg("ids", |ids| ids.required(false)),
        false => command,
    };
    tree::grammar("bsctl", command_line, &verbs, LEFT_OUT, &[], here)
}

/// The verb of a line, if it is one of the session's own.
pub(super) fn verb(matches: &clap::ArgMatches) -> Option<Verb> {
    let name = matches.subcommand_name()?;
    Verb::has_subcommand(name).then(|| Verb::from_arg_matches(matches).ok()).flatten()
}

/// The groups of `help`.
pub(super) const GROUPS: &[Group] = &[
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
            "kick", "pause", "resume", "clear", "drain", "export", "move", "copy", "requeue",
            "retry", "bury-all",
        ],
    },
    Group {
        name: "observe",
        title: "Checks and waiting",
        verbs: &[
            "smoke", "check", "wait", "ping", "latency", "top", "bench", "exporter", "doctor",
            "context", "config", "examples",
        ],
    },
    Group {
        name: "session",
        title: "The session itself",
        verbs: &[
            "connect", "help", "quit", "expect", ":watch", ":set", ":source", ":timing", ":format",
            ":pager", ":history", ":cls", "\\e", "!",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn visible() -> Vec<String> {
        tree::visible(&grammar(&crate::cli::command_tree()))
    }

    #[test]
    fn every_command_is_in_exactly_one_group_of_help() {
        for name in visible() {
            let groups = GROUPS.iter().filter(|group| group.verbs.contains(&name.as_str()));
            assert_eq!(groups.count(), 1, "{name}");
        }
    }

    #[test]
    fn the_sessions_own_verbs_stand_for_those_of_the_command_line() {
        let names = visible();
        for name in ["reserve", "watch", "touch"] {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        for name in ["repl", "serve", "completions", "man", "work"] {
            assert!(!names.iter().any(|other| other == name), "{name}");
        }
    }

    #[test]
    fn flags_of_the_start_are_refused_on_a_line() {
        let mut grammar = grammar(&crate::cli::command_tree());
        let mut flag = |line: &[&str]| {
            tree::misplaced_flag(
                &grammar.try_get_matches_from_mut(line).expect("fits the grammar"),
                START_FLAGS,
            )
        };
        assert_eq!(flag(&["put", "x", "--timeout", "1s"]).as_deref(), Some("--timeout"));
        assert_eq!(flag(&["-a", "x", "put", "x"]).as_deref(), Some("--addr"));
        assert_eq!(flag(&["connect", "x:1"]), None);
        assert_eq!(flag(&["put", "x", "-o", "json", "-y"]), None);
    }
}
