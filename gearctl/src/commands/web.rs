//! `web`: what the page shows about functions, workers and jobs, and which actions it offers.

use ctl_core::live::web::{Action, Field, Kind, Site, View};

/// The end of `web --help`.
pub const HELP: &str = "\
Protocol: status, version and prioritystatus while a page is open; everything else runs as gearctl commands, with the
same counts, confirmations and refusals.
The page is built in and contacts only this address; names and data are shown as text. It shows servers and functions
live, with the history since it was opened. Without --write it is read-only; with it, you can submit, move and remove
jobs, and limit and drop functions, each after a preview of what would be done.
Open the printed link: its token is needed for everything that the page shows and does, from this machine as from
others, and each start has a new one unless --token-file gives it. Changes are logged on stderr. The page accepts
requests for its address and localhost (and --host NAME) only. It is not encrypted: from other machines, use
ssh -L 8030:127.0.0.1:8030 HOST, or --allow-remote behind a proxy with HTTPS. A command of the page ends with its
request, and after 60 s.

Examples:
  gearctl web
  gearctl -s one:4730,two:4730 web --listen 127.0.0.1:8031 --write
  gearctl web --listen 0.0.0.0:8030 --allow-remote --token-file /etc/gearctl.token --host queues.example";

/// The contents and the actions of the page.
pub static SITE: Site = Site {
    views: &[View::new("Workers", &["workers", "--function={queue}"])],
    server: &[
        View::new("All workers", &["workers"]),
        View::new("Jobs", &["jobs"]),
        View::new("Server details", &["server"]),
    ],
    actions: &[
        Action::new(
            "submit",
            &["submit", "--function={queue}", "--priority={priority}", "-"],
            &[
                Field::new("body", Kind::Body),
                Field::new("priority", Kind::Word(&["high", "normal", "low"])).or("normal"),
            ],
        )
        .unasked(),
        Action::new(
            "move",
            &["move", "--from={queue}", "--to={to}"],
            &[Field::new("to", Kind::Name)],
        ),
        Action::new("clear", &["clear", "--function={queue}"], &[]),
        Action::new(
            "limit",
            &["function", "maxqueue", "{queue}", "{jobs}"],
            &[Field::new("jobs", Kind::Number)],
        ),
        Action::new("drop", &["function", "drop", "{queue}"], &[]),
    ],
};
