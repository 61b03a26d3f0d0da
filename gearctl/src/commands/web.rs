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
requests for its address and localhost (and --host NAME) only. For other machines, use --allow-remote with --https-cert
and --https-key, which encrypt the browser's connection; --tls and related flags apply to the queue servers only. A
command of the page ends with its request, and after 60 s.

Examples:
  gearctl web
  gearctl -s one:4730,two:4730 web --listen 127.0.0.1:8031 --write
  gearctl web --listen 0.0.0.0:8030 --allow-remote --token-file /etc/gearctl.token \\
    --https-cert page.pem --https-key page.key";

/// What the page shows and does.
pub static SITE: Site = Site {
    views: &[View {
        name: "Workers",
        line: &["workers", "--function={queue}"],
        fields: &[],
        pages: None,
        actions: &[],
    }],
    server: &[
        View { name: "All workers", line: &["workers"], fields: &[], pages: None, actions: &[] },
        View { name: "Jobs", line: &["jobs"], fields: &[], pages: None, actions: &[] },
        View { name: "Server details", line: &["server"], fields: &[], pages: None, actions: &[] },
    ],
    actions: &[
        Action {
            name: "submit",
            line: &["submit", "--function={queue}", "--priority={priority}", "-"],
            fields: &[
                Field::new("body", Kind::Body),
                Field::new("priority", Kind::Word(&["high", "normal", "low"])).or("normal"),
            ],
            is_of_queue: true,
            asks: false,
        },
        Action {
            name: "move",
            line: &["move", "--from={queue}", "--to={to}"],
            fields: &[Field::new("to", Kind::Name)],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "clear",
            line: &["clear", "--function={queue}"],
            fields: &[],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "limit",
            line: &["function", "maxqueue", "{queue}", "{jobs}"],
            fields: &[Field::new("jobs", Kind::Number)],
            is_of_queue: true,
            asks: true,
        },
        Action {
            name: "drop",
            line: &["function", "drop", "{queue}"],
            fields: &[],
            is_of_queue: true,
            asks: true,
        },
    ],
};
