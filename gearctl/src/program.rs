//! The name of this tool and the texts of its help.

use ctl_core::context::command;
use ctl_core::error::Exit;
use ctl_core::link::Link as _;
use ctl_core::program::{CommonHelp, Program, QueueKey, TlsNames};
use ctl_core::tool::cli;

use crate::filters::FILTERS;
use crate::link::Link;
use crate::names;
use crate::servers::SERVERS;
use crate::tool::Gearctl;

/// What the tool is called and how its own commands are grouped.
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
    environment: &[
        (
            "GEARCTL_SERVER",
            "server addresses if -s is not given; then GEARMAN_SERVER, GEARMAN_SERVERS",
        ),
        (
            "GEARMAND_CA_CERTIFICATE, GEARMAN_CLIENT_PEM, GEARMAN_CLIENT_KEY",
            "TLS files, as --tls=ca, --tls=cert, --tls=key",
        ),
        ("GEARCTL_TLS_CRL", "as --tls=crl"),
        ("GEARCTL_CONFIG, GEARCTL_CONTEXT", "as --config, --context"),
        ("GEARCTL_TIMEOUT", "as --timeout"),
        ("GEARCTL_OUTPUT", "as --output"),
        ("GEARCTL_LOG", "log filter in RUST_LOG syntax: debug, or gearctl::protocol=trace"),
        ("GEARCTL_LOG_FORMAT", "format of stderr lines: text or json"),
        ("GEARCTL_PROGRESS", "how to show progress on stderr: auto, bar, plain, json, never"),
        ("GEARCTL_HISTFILE", "history file of the REPL; empty or /dev/null for none"),
        ("VISUAL, EDITOR", "editor of the REPL [default: vi]"),
        ("NO_COLOR, CLICOLOR, CLICOLOR_FORCE", "colours if --color is not given"),
    ],
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
        serve: SERVE,
    },
    guesses: &[
        ("wait --empty", "gearctl wait FUNCTION --for empty"),
        ("wait --idle", "gearctl wait FUNCTION --for empty"),
        ("wait --server", "gearctl wait --for server"),
        ("move WORD", "gearctl move --from OLD --to NEW"),
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

const SERVE: &str = "\
An in-memory gearmand: nothing is stored, and everything is gone when it stops. It listens on this machine only unless
--allow-remote is given, because it has no authentication. Its standard port is 4730. Limits: 1024 connections, 65,536
functions, 1,000,000 jobs, 1 GiB of workloads, 64 MiB per packet. When full, it closes connections that have never sent
anything.
With a command, the server runs as long as the command; GEARCTL_SERVER, GEARMAN_SERVER and GEARMAN_SERVERS hold the
address, and the command's exit code becomes the exit code.

--fail scripts faults as [VERB:]WHEN:ACTION,..: WHEN is nth=K, every=K, drawn=SEED/K or always; ACTION is a reply in
capitals, reply=TEXT, delay=5ms, chunk=N, cut=N, reset=N, hang, duplicate, executed or unexecuted. Requests are counted
from the start.
--seed-file submits records (see `import`) before accepting anything else.

Examples:
  gearctl serve --seed-file jobs.ndjson --listen 127.0.0.1:0
  gearctl serve --fail always:delay=5ms --fail 'SUBMIT_JOB_BG:every=10:hang'
  gearctl serve --listen 127.0.0.1:4730
  gearctl serve --listen 127.0.0.1:0 --ready-file /tmp/ready
  gearctl serve -- cargo test";
