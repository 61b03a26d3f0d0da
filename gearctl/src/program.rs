//! The name of this tool and the texts of its help.

use ctl_core::context::command;
use ctl_core::error::Exit;
use ctl_core::link::Link as _;
use ctl_core::program::{CommonHelp, Program, QueueKey, ServeHelp, TlsNames};
use ctl_core::tool::cli;

use crate::filters::FILTERS;
use crate::link::Link;
use crate::names;
use crate::servers::SERVERS;
use crate::tool::Gearctl;

/// The tool's name, texts and groups of commands.
pub const PROGRAM: Program = Program {
    name: "gearctl",
    prefix: "GEARCTL",
    version: env!("CARGO_PKG_VERSION"),
    about: "Talk to Gearman job servers: submit jobs, inspect them, administer servers",
    first: &[
        ("gearctl submit mail hello", "queue a job for the function mail"),
        ("gearctl functions", "list the functions with their jobs and workers"),
        ("gearctl work mail -- ./send", "serve a function: run a command for every job"),
        ("gearctl run mail hello", "run a job and print its result"),
        ("gearctl top", "watch backlog, rates and problems live"),
    ],
    topics: &[("filters", "jobs that a command applies to", FILTERS)],
    tree: cli::tree::<Gearctl>,
    groups: command::groups::<Gearctl>,
    own_variables: &[],
    servers: SERVERS,
    check: |text| Link::parse(text).map(drop),
    queue: QueueKey { key: "function", check: |text| names::function(text).map(drop) },
    tls: TlsNames {
        scheme: "gearmans",
        authorities: "GEARMAND_CA_CERTIFICATE",
        revocations: "GEARCTL_TLS_CRL",
        certificate: "GEARMAN_CLIENT_PEM",
        key: "GEARMAN_CLIENT_KEY",
    },
    seed: &["import"],
    help: CommonHelp {
        ping: PING,
        repl: ("Start an interactive session: connections, completion, history", REPL, SESSIONS),
        serve: ServeHelp {
            about: "An in-memory gearmand: nothing is stored, and everything is gone when it stops.",
            limits: "65,536 functions, 1,000,000 jobs, 1 GiB of workloads, 64 MiB per packet",
            seed: "submits records (see `import`) before accepting anything else",
            fault: "SUBMIT_JOB_BG:every=10:hang",
        },
    },
    guesses: &[
        ("wait --empty", "gearctl wait FUNCTION --for empty"),
        ("wait --idle", "gearctl wait FUNCTION --for empty"),
        ("wait --server", "gearctl wait --for server"),
        ("move WORD", "gearctl move --from OLD --to NEW"),
        (
            "function WORD",
            "gearctl functions FUNCTION shows a function, gearctl function create FUNCTION makes one",
        ),
        (
            "jobs WORD",
            "gearctl functions FUNCTION shows how many jobs it has; gearctl jobs lists those of all functions",
        ),
        ("recover", "gearctl import FILE submits jobs that were exported or drained"),
        ("flush", "gearctl clear FUNCTION deletes its queued jobs"),
        ("list", "gearctl functions lists the functions, gearctl jobs the jobs"),
    ],
    sheets: include_str!("examples.md"),
    meanings: &[(Exit::Negative, "a failed job"), (Exit::TryAgain, "or a queue is full")],
    colors: &[],
};

const PING: &str = "\
Protocol: ECHO_REQ; the reply must return the bytes that were sent. If a server has not answered after half of the time
limit, as with geard, GET_STATUS is sent; `packet` in JSON says which one was answered.
The time limit is 2 s each for connecting and for the reply, unless --timeout is given.";

const REPL: &str = "\
Takes the commands of the command line, and some that need a session: start, fg, :jobs. Type help for a list.
Ctrl-C during run leaves the job running: fg brings it back. Foreground jobs need their client: on leaving the session,
you are asked what to do with them.";

const SESSIONS: &str = "  \
  gearctl repl
  gearctl repl -e 'submit mail \"a letter\"' -e 'functions'
  gearctl -s one:4730,two:4730 repl test.script";
