//! `web`: what the page shows about tubes and jobs, and which actions it offers.

use ctl_core::envelope::DECODERS;
use ctl_core::live::web::{Action, Field, Kind, Site, View};

/// The end of `web --help`.
pub const HELP: &str = "\
Protocol: stats, list-tubes and stats-tube while a page is open; jobs and actions run as bsctl commands, with the same
counts, confirmations and refusals.
The page is built in and contacts only this address; names and bodies are shown as text. It shows servers and tubes
live, with the history since it was opened. Without --write it is read-only; with it, you can put, kick, move, bury,
release and delete jobs, one by one or by filter, and pause and clear tubes, each after a preview of what would be done.
Open the printed link: its token is needed for everything that the page shows and does, from this machine as from
others, and each start has a new one unless --token-file gives it. Changes are logged on stderr. The page accepts
requests for its address and localhost (and --host NAME) only. For other machines, use --allow-remote with --https-cert
and --https-key, which encrypt the browser's connection; --tls and related flags apply to the queue servers only. A
command of the page ends with its request, and after 60 s.

Examples:
  bsctl web
  bsctl -s one:11300,two:11300 web --listen 127.0.0.1:8031 --write
  bsctl web --listen 0.0.0.0:8030 --allow-remote --token-file /etc/bsctl.token \\
    --https-cert page.pem --https-key page.key";

const ID: Field = Field::new("id", Kind::Number);
const STATES: Kind = Kind::Word(&["ready", "reserved", "delayed", "buried"]);

/// What the page shows and does.
pub static SITE: Site = Site {
    views: &[
        View {
            name: "Jobs",
            line: &[
                "jobs",
                "--tube={queue}",
                "--state={state}",
                "--filter={filter}",
                "--filter=id<={to}",
                "--count={limit}",
                "--decode={decode}",
                "--with-body",
            ],
            fields: &[
                Field::new("state", STATES),
                Field::new("filter", Kind::Text),
                Field::new("limit", Kind::Number).or("50"),
                Field::new("decode", Kind::Word(&DECODERS)).or("auto"),
                Field::new("to", Kind::Number),
            ],
            pages: Some(("id", "to")),
            actions: &["kick job", "bury", "release", "delete"],
        },
        View {
            name: "Statistics",
            line: &["stats-tube", "--tube={queue}"],
            fields: &[],
            pages: None,
            actions: &[],
        },
    ],
    server: &[
        View {
            name: "Server statistics",
            line: &["stats"],
            fields: &[],
            pages: None,
            actions: &[],
        },
        View { name: "Server details", line: &["server"], fields: &[], pages: None, actions: &[] },
    ],
    actions: &[
        Action {
            name: "put",
            line: &[
                "put",
                "--tube={queue}",
                "--pri={priority}",
                "--delay={delay}",
                "--ttr={ttr}",
                "-",
            ],
            fields: &[
                Field::new("body", Kind::Body),
                Field::new("priority", Kind::Number).or("1024"),
                Field::new("delay", Kind::Text).or("0s"),
                Field::new("ttr", Kind::Text).or("60s"),
            ],
            is_of_queue: true,
            asks: false,
        },
        Action {
            name: "kick",
            line: &["kick", "--tube={queue}", "--state={state}", "--count={count}"],
            fields: &[
                Field::new("state", Kind::Word(&["buried", "delayed"])),
                Field::new("count", Kind::Number).or("1"),
            ],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "retry buried",
            line: &["retry", "--tube={queue}", "--filter={filter}"],
            fields: &[Field::new("filter", Kind::Text)],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "move",
            line: &["move", "--from={queue}", "--to={to}", "--state={state}", "--filter={filter}"],
            fields: &[
                Field::new("to", Kind::Name),
                Field::new("state", Kind::Word(&["ready", "delayed", "buried"])),
                Field::new("filter", Kind::Text),
            ],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "pause",
            line: &["pause", "--tube={queue}", "{time}"],
            fields: &[Field::new("time", Kind::Text).or("10m")],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "resume",
            line: &["resume", "--tube={queue}"],
            fields: &[],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "clear",
            line: &["clear", "--tube={queue}", "--state={state}", "--filter={filter}"],
            fields: &[
                Field::new("state", Kind::Word(&["ready", "delayed", "buried"])),
                Field::new("filter", Kind::Text),
            ],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "kick job",
            line: &["kick", "--job={id}"],
            fields: &[ID],
            is_of_queue: false,
            asks: true,
        },
        Action {
            name: "bury",
            line: &["bury", "{id}"],
            fields: &[ID],
            is_of_queue: false,
            asks: true,
        },
        Action {
            name: "release",
            line: &["release", "{id}"],
            fields: &[ID],
            is_of_queue: false,
            asks: true,
        },
        Action {
            name: "delete",
            line: &["delete", "{id}"],
            fields: &[ID],
            is_of_queue: false,
            asks: true,
        },
    ],
};
