//! What can be typed in a session: the commands of the command line, and the verbs that only make sense on
//! connections that last.

use crate::commands::run::RunArgs;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use ctl_core::repl::help::Group;
use ctl_core::repl::tree;

/// The verbs of a session.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Start jobs and go on with something else (SUBMIT_JOB)
    #[command(after_help = START_HELP)]
    Start(RunArgs),
    /// List the jobs of this session
    #[command(name = ":jobs", after_help = JOBS_HELP)]
    Jobs,
    /// Come back to a job of this session: its results, then its end
    #[command(
        after_help = "Ctrl-C leaves it again.\nExamples:\n  fg\n  fg H:host:17\n  fg -o json"
    )]
    Fg {
        /// The job [default: the last one]
        #[arg(value_name = "HANDLE")]
        handle: Option<String>,
    },
    /// Watch how far any job of the server is, until it has ended (GET_STATUS)
    #[command(
        after_help = "Protocol: GET_STATUS, again and again. Nothing else is told of a job that somebody else waits for.\nExample: attach H:host:17"
    )]
    Attach {
        /// The job
        #[arg(value_name = "HANDLE")]
        handle: String,
    },
    /// Go to other servers
    #[command(after_help = "Example: connect 10.0.0.5:4730,10.0.0.6:4730")]
    Connect {
        #[arg(
            value_name = "ADDR",
            help = "host, host:port, [::1]:4730, unix:/path; several with commas"
        )]
        servers: String,
    },
}

const START_HELP: &str = "\
As run, but the session goes on: fg shows the results, :jobs lists the jobs. Several jobs go one after the other, or -j
at once. Results that nobody looks at are kept, up to 64 MiB for each start; then the jobs have to wait.
Foreground jobs need their client: leaving the session asks what becomes of them.

Examples:
  start resize @photo.jpg
  start resize --lines -j 4 @list";

const JOBS_HELP: &str = "\
Foreground jobs that were started, or left with Ctrl-C, and background jobs that were submitted here. The server tells of
a job only whether it is queued or running, and how far; one that it does not know any more has ended. Foreground jobs
at servers that the session has left are elsewhere: fg brings them back all the same.";

/// Commands of the command line that make no sense in a session; `:watch` repeats.
const LEFT_OUT: &[&str] = &["docs", "watch"];

/// Global flags of this tool that only count when the session starts.
pub(super) const START_FLAGS: &[&str] = &["server"];

/// The grammar of a session, made from that of the command line.
pub(super) fn grammar(command_line: &Command) -> Command {
    let verbs = Verb::augment_subcommands(Command::new("verbs"));
    tree::grammar("gearctl", command_line, &verbs, LEFT_OUT, &["timeout"], |command| command)
}

/// The verb of a line, if it is one of the session's own.
pub(super) fn verb(matches: &ArgMatches) -> Option<Verb> {
    let name = matches.subcommand_name()?;
    Verb::has_subcommand(name).then(|| Verb::from_arg_matches(matches).ok()).flatten()
}

/// The groups of `help`.
pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "submit",
        title: "Submitting jobs",
        verbs: &["run", "start", "submit", "map", "import", ":jobs", "fg", "attach"],
    },
    Group { name: "work", title: "Serving functions", verbs: &["work"] },
    Group {
        name: "inspect",
        title: "Looking without changing anything",
        verbs: &[
            "functions",
            "workers",
            "job",
            "jobs",
            "unique-jobs",
            "server",
            "version",
            "pid",
            "verbose",
            "raw",
            "peek",
        ],
    },
    Group {
        name: "change",
        title: "Changing what the server has",
        verbs: &["cancel", "function", "drain", "move", "export", "shutdown"],
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
    fn what_makes_no_sense_in_a_session_is_left_out() {
        let names = visible();
        for name in ["repl", "serve", "completions", "man", "docs"] {
            assert!(!names.iter().any(|other| other == name), "{name}");
        }
    }

    #[test]
    fn flags_of_the_start_are_refused_on_a_line() {
        let mut grammar = grammar(&crate::cli::command_tree());
        let mut flag = |line: &[&str]| {
            let matches = grammar.try_get_matches_from_mut(line).expect("fits the grammar");
            tree::misplaced_flag(&matches, START_FLAGS)
        };
        assert_eq!(flag(&["functions", "--retry", "1"]).as_deref(), Some("--retry"));
        assert_eq!(flag(&["-s", "x", "functions"]).as_deref(), Some("--server"));
        assert_eq!(flag(&["connect", "x:1"]), None);
        assert_eq!(flag(&["run", "f", "x", "--timeout", "1s"]), None);
    }
}
