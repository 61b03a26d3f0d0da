//! `web`: what the page shows about tubes and jobs, and which actions it offers.

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
requests for its address and localhost (and --host NAME) only. It is not encrypted: from other machines, use
ssh -L 8030:127.0.0.1:8030 HOST, or --allow-remote behind a proxy with HTTPS. A command of the page ends with its
request, and after 60 s.

Examples:
  bsctl web
  bsctl -s one:11300,two:11300 web --listen 127.0.0.1:8031 --write
  bsctl web --listen 0.0.0.0:8030 --allow-remote --token-file /etc/bsctl.token --host queues.example";

const STATES: Kind = Kind::Word(&["ready", "reserved", "delayed", "buried"]);

/// The contents and the actions of the page.
pub static SITE: Site = Site {
    views: &[
        View {
            fields: &[
                Field::new("state", STATES),
                Field::new("filter", Kind::Text),
                Field::new("limit", Kind::Number).or("50"),
                Field::new("decode", Kind::Text).or("auto"),
                Field::new("to", Kind::Number),
            ],
            pages: Some(("id", "to")),
            actions: &["kick job", "bury", "release", "delete"],
            ..View::new(
                "Jobs",
                &[
                    "jobs",
                    "--tube={queue}",
                    "--state={state}",
                    "--filter={filter}",
                    "--filter=id<={to}",
                    "--count={limit}",
                    "--decode={decode}",
                    "--with-body",
                ],
            )
        },
        View::new("Statistics", &["stats-tube", "--tube={queue}"]),
    ],
    server: &[View::new("Server statistics", &["stats"]), View::new("Server details", &["server"])],
    actions: &[
        Action::new(
            "put",
            &["put", "--tube={queue}", "--pri={priority}", "--delay={delay}", "--ttr={ttr}", "-"],
            &[
                Field::new("body", Kind::Body),
                Field::new("priority", Kind::Number).or("1024"),
                Field::new("delay", Kind::Text).or("0s"),
                Field::new("ttr", Kind::Text).or("60s"),
            ],
        )
        .unasked(),
        Action::new(
            "kick",
            &["kick", "--tube={queue}", "--state={state}", "--count={count}"],
            &[
                Field::new("state", Kind::Word(&["buried", "delayed"])),
                Field::new("count", Kind::Number).or("1"),
            ],
        ),
        Action::new(
            "retry buried",
            &["retry", "--tube={queue}", "--filter={filter}"],
            &[Field::new("filter", Kind::Text)],
        ),
        Action::new(
            "move",
            &["move", "--from={queue}", "--to={to}", "--state={state}", "--filter={filter}"],
            &[
                Field::new("to", Kind::Name),
                Field::new("state", Kind::Word(&["ready", "delayed", "buried"])),
                Field::new("filter", Kind::Text),
            ],
        ),
        Action::new(
            "pause",
            &["pause", "--tube={queue}", "{time}"],
            &[Field::new("time", Kind::Text).or("10m")],
        ),
        Action::new("resume", &["resume", "--tube={queue}"], &[]),
        Action::new(
            "clear",
            &["clear", "--tube={queue}", "--state={state}", "--filter={filter}"],
            &[
                Field::new("state", Kind::Word(&["ready", "delayed", "buried"])),
                Field::new("filter", Kind::Text),
            ],
        ),
        Action::of_row("kick job", &["kick", "--job={id}"]),
        Action::of_row("bury", &["bury", "{id}"]),
        Action::of_row("release", &["release", "{id}"]),
        Action::of_row("delete", &["delete", "{id}"]),
    ],
};
