//! The name of this tool and the texts of its help.

use ctl_core::context::command;
use ctl_core::error::Exit;
use ctl_core::link::Link as _;
use ctl_core::program::{CommonHelp, Program, QueueKey, ServeHelp, TlsNames};
use ctl_core::tool::cli;

use crate::link::Link;
use crate::messages::FILTERS;
use crate::names;
use crate::servers::SERVERS;
use crate::tool::Adfctl;

/// The tool's name, texts and groups of commands.
pub const PROGRAM: Program = Program {
    name: "adfctl",
    prefix: "ADFCTL",
    version: env!("CARGO_PKG_VERSION"),
    about: "Talk to Adf.QueueServer: push, pull and move messages, from scripts and by hand",
    first: &[
        ("adfctl push /mail hello --create", "push a message to the queue /mail"),
        ("adfctl queues", "list the queues and their messages"),
        ("adfctl pull /mail", "show a message, and give it back"),
        ("adfctl pop /mail", "take a message: print it, then delete it"),
        ("adfctl top", "watch backlog, rates and problems live"),
    ],
    topics: &[("filters", "messages that a command applies to", FILTERS)],
    tree: cli::tree::<Adfctl>,
    groups: command::groups::<Adfctl>,
    own_variables: &[(
        "ADFCTL_PING_INTERVAL",
        "idle time before a WebSocket connection sends a ping; 0 for none [default: 30s]",
    )],
    servers: SERVERS,
    check: |text| Link::parse(text).map(drop),
    queue: QueueKey { key: "queue", check: |text| names::queue(text).map(drop) },
    tls: TlsNames {
        scheme: "adfs",
        authorities: "ADFCTL_TLS_CA",
        revocations: "ADFCTL_TLS_CRL",
        certificate: "ADFCTL_TLS_CERT",
        key: "ADFCTL_TLS_KEY",
    },
    seed: &["import", "--create"],
    help: CommonHelp {
        ping: PING,
        repl: ("Start an interactive session: one WebSocket, completion, history", REPL, SESSIONS),
        serve: ServeHelp {
            about: "An in-memory Adf.QueueServer, like the real one: everything is gone when it stops. WebSocket and HTTP share its port.",
            limits: "65,536 queues, 1,000,000 messages, 1 GiB of bodies",
            seed: "pushes records (see `import`) before accepting anything else, and creates their queues",
            fault: "rpush:every=10:reply=not today.",
        },
    },
    guesses: &[
        ("wait --empty", "adfctl wait QUEUE --for empty"),
        ("wait --server", "adfctl wait --for server"),
        ("move WORD", "adfctl move --from OLD --to NEW"),
        ("copy WORD", "adfctl copy --from OLD --to NEW"),
        ("queue WORD", "adfctl queues QUEUE shows a queue, adfctl queue create QUEUE makes one"),
        ("purge", "adfctl clear QUEUE deletes its messages"),
        ("flush", "adfctl clear QUEUE deletes its messages"),
    ],
    sheets: include_str!("examples.md"),
    meanings: &[(Exit::Negative, "nothing pulled, or a queue that does not exist")],
    colors: &[],
};

const PING: &str = "\
Protocol: a WebSocket ping and its pong; over HTTP, the status page.
The time limit for connecting and for the reply is 2 s unless --timeout is given.";

const REPL: &str = "\
Takes the commands of the command line, on one WebSocket, and the verbs that need one: pull, pulled, delete, lcancel and
rcancel act on messages that the session holds. Type help for a list.
Pulled messages are yours until you settle them or leave; on leaving, you are asked what to do with them. An abandoned
pull stays active in the server, so the next message of its queue still comes to the session, which reports it.";

const SESSIONS: &str = "  \
  adfctl repl
  adfctl repl -e 'queue create /mail' -e 'push /mail \"x\"'
  adfctl --embedded repl test.script";
