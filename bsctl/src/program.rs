//! The name of this tool and the texts of its help.

use ctl_core::context::command;
use ctl_core::error::Exit;
use ctl_core::link::Link as _;
use ctl_core::program::{CommonHelp, Program, QueueKey, ServeHelp, TlsNames};
use ctl_core::text::color::Role;
use ctl_core::tool::cli;

use crate::jobs::select::FILTERS;
use crate::link::Link;
use crate::names;
use crate::servers::SERVERS;
use crate::tool::Bsctl;

/// The tool's name, texts and groups of commands.
pub const PROGRAM: Program = Program {
    name: "bsctl",
    prefix: "BSCTL",
    version: env!("CARGO_PKG_VERSION"),
    about: "Talk to beanstalkd: put, take, inspect and move jobs, from scripts and by hand",
    first: &[
        ("bsctl put -t mail hello", "put a job into the tube mail"),
        ("bsctl tubes", "list the tubes and their jobs"),
        ("bsctl jobs mail --with-body", "show the jobs of a tube, and leave them there"),
        ("bsctl pop mail", "take a job: print it, then delete it"),
        ("bsctl top", "watch backlog, rates and problems live"),
    ],
    topics: &[("filters", "jobs that a command applies to", FILTERS)],
    tree: cli::tree::<Bsctl>,
    groups: command::groups::<Bsctl>,
    own_variables: &[(
        "BSCTL_CONFIRM_ABOVE",
        "kick --all asks for confirmation above this number of jobs [default: 100]",
    )],
    servers: SERVERS,
    check: |text| Link::parse(text).map(drop),
    queue: QueueKey { key: "tube", check: |text| names::tube(text).map(drop) },
    tls: TlsNames {
        scheme: "beanstalks",
        authorities: "BSCTL_TLS_CA",
        revocations: "BSCTL_TLS_CRL",
        certificate: "BSCTL_TLS_CERT",
        key: "BSCTL_TLS_KEY",
    },
    seed: &["import", "--keep-state"],
    help: CommonHelp {
        ping: PING,
        repl: ("Start an interactive session: one connection, completion, history", REPL, SESSIONS),
        serve: ServeHelp {
            about: "An in-memory beanstalkd: nothing is stored, and everything is gone when it stops.",
            limits: "65,536 tubes, 1,000,000 jobs, 1 GiB of bodies, 65535 bytes per body",
            seed: "loads records (see `import`) before accepting anything else, delayed and buried as they were",
            fault: "put:every=10:DRAINING",
        },
    },
    guesses: &[
        ("wait --empty", "bsctl wait TUBE --for empty"),
        ("wait --server", "bsctl wait --for server"),
        ("kick WORD", "bsctl kick --job ID... for jobs, bsctl kick TUBE for one tube"),
        ("touch", "bsctl repl: only the connection that reserved a job can touch it"),
        ("pause --for", "bsctl pause TUBE DUR"),
        ("move WORD", "bsctl move --from OLD --to NEW"),
        ("copy WORD", "bsctl copy --from OLD --to NEW"),
        ("recover", "bsctl retry TUBE kicks its buried jobs"),
        ("purge", "bsctl clear TUBE deletes its jobs"),
        ("flush", "bsctl clear TUBE deletes its jobs"),
    ],
    sheets: include_str!("examples.md"),
    meanings: &[
        (Exit::Negative, "nothing reserved"),
        (Exit::TryAgain, "or the server is draining, is out of memory, or buried a new job"),
    ],
    colors: &[("buried", Role::Error), ("delayed", Role::Warning), ("reserved", Role::Warning)],
};

const PING: &str = "\
Protocol: list-tube-used, the cheapest command.
The time limit for connecting and for the reply is 2 s unless --timeout is given.";

const REPL: &str = "\
Takes the commands of the command line, on one connection, and the protocol verbs that need one: use, watch, ignore,
reserve, touch. Type help for a list.
Reserved jobs are yours until you finish them or leave; on leaving, you are asked what to do with them.";

const SESSIONS: &str = "  \
  bsctl repl
  bsctl repl -e 'use mail' -e 'put \"x\"'
  bsctl --embedded repl test.script";
