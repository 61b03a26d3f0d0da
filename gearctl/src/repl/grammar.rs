//! What can be typed in a session besides the commands of the command line: the verbs that need lasting connections.

use clap::Subcommand;
use ctl_core::input::named::One;
use ctl_core::repl::guest::Words;

use crate::commands::run::RunArgs;
use crate::names::Function;
use crate::work::builtin::Builtin;

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
    /// Follow the progress of any job on the server until it ends (GET_STATUS)
    #[command(
        after_help = "Protocol: GET_STATUS, polled. The server reports nothing else about another client's job.\nExample: attach H:host:17"
    )]
    Attach {
        /// The job
        #[arg(value_name = "HANDLE")]
        handle: String,
    },
    /// Serve a function in the background of the session (CAN_DO, GRAB_JOB_ALL, WORK_COMPLETE)
    #[command(after_help = REGISTER_HELP)]
    Register {
        #[command(flatten)]
        function: One<Function>,
        /// Built-in handler: echo, reverse, upper, wc, sleep=DUR, fail, exception, progress=N
        #[arg(long, value_name = "NAME")]
        builtin: Builtin,
    },
    /// Stop serving a function (CANT_DO)
    #[command(
        after_help = "Waits for a running job; Ctrl-C gives it back to the server.\nExample: unregister echo"
    )]
    Unregister {
        #[command(flatten)]
        function: One<Function>,
    },
    /// List the functions that this session serves
    #[command(after_help = "Example: registered -o json")]
    Registered,
}

const REGISTER_HELP: &str = "\
A worker with a built-in handler, on a connection of its own, one job at a time, until unregister, connect or the end of
the session, which give a job that is being done back to the server. It connects again by itself, and says so. The
prompt shows what is served, registered lists it.

Examples:
  register echo --builtin echo
  register slow --builtin sleep=2s";

const START_HELP: &str = "\
As run, but the session goes on: fg shows the results, :jobs lists the jobs. Several jobs go one after the other, or -j
at once. Results that nobody looks at are kept, up to 64 MiB for each start; then the jobs have to wait.
Foreground jobs need their client: on leaving the session, you are asked what to do with them.

Examples:
  start resize @photo.jpg
  start resize --lines -j 4 @list";

const JOBS_HELP: &str = "\
Foreground jobs that were started, or left with Ctrl-C, and background jobs that were submitted here. The server reports
only whether a job is queued or running, and its progress; a job that it no longer knows has ended. Foreground jobs at
servers that the session has left are `elsewhere`: fg still brings them back.";

/// The names that sessions know.
pub(super) const WORDS: Words = Words {
    verbs: &[
        ("Submit", &["start", ":jobs", "fg", "attach"]),
        ("Work", &["register", "unregister", "registered"]),
    ],
    reads: &[":jobs", "attach", "registered"],
    renames: &["start", "register"],
    line_flags: &["timeout"],
    lost: "CONNECTION_LOST",
    on_exit: "what to do with foreground jobs on exit",
};
