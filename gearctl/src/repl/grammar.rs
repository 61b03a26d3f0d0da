//! The grammar of a session besides the commands of the command line: the verbs that need lasting connections.

use clap::Subcommand;
use ctl_core::repl::guest::Words;

use crate::commands::run::RunArgs;

/// The verbs of a session.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start jobs in the background of the session (SUBMIT_JOB)
    #[command(after_help = START_HELP)]
    Start(RunArgs),
    /// List the jobs of this session
    #[command(name = ":jobs", after_help = JOBS_HELP)]
    Jobs,
    /// Bring a job of this session to the front: its results, then its end
    #[command(after_help = "Ctrl-C detaches again.\nExamples:\n  fg\n  fg H:host:17\n  fg -o json")]
    Fg {
        /// The job [default: the last one]
        #[arg(value_name = "HANDLE")]
        handle: Option<String>,
    },
}

const START_HELP: &str = "\
As run, but the session goes on: fg shows the results, :jobs lists the jobs. Several jobs go one after the other, or -j
at once. Results not shown yet are kept, up to 64 MiB for each start; then the jobs have to wait.
Foreground jobs need their client: on leaving the session, you are asked what to do with them.

Examples:
  start resize @photo.jpg
  start resize --lines -j 4 @list";

const JOBS_HELP: &str = "\
Foreground jobs that were started, or left with Ctrl-C; `jobs` lists those of the server. The server reports only whether
a job is queued or running, and its progress; a job that it no longer knows has ended. Jobs at servers that the session
has left are `elsewhere`: fg still brings them back.";

/// The names that sessions know.
pub(super) const WORDS: Words = Words {
    verbs: &[("Submit", &["start", ":jobs", "fg"])],
    reads: &[":jobs"],
    renames: &["start"],
    line_flags: &["timeout"],
    lost: "CONNECTION_LOST",
    on_exit: "what to do with foreground jobs on exit",
};
