//! `web`: what the page shows about queues, and which actions it offers.

use ctl_core::live::web::{Action, Field, Kind, Site, View};

/// The end of `web --help`.
pub const HELP: &str = "\
Protocol: the status page while a page is open; everything else runs as adfctl commands, with the same counts,
confirmations and refusals. The server shows messages only to clients that pull them, so the page shows none.
The page is built in and contacts only this address; names are shown as text. It shows servers and queues live, with the
history since it was opened. Without --write it is read-only; with it, you can push and move messages, and clear and
delete queues, each after a preview of what would be done.
Open the printed link: its token is needed for everything that the page shows and does, from this machine as from
others, and each start has a new one unless --token-file gives it. Changes are logged on stderr. The page accepts
requests for its address and localhost (and --host NAME) only. It is not encrypted: from other machines, use
ssh -L 8030:127.0.0.1:8030 HOST, or --allow-remote behind a proxy with HTTPS. A command of the page ends with its
request, and after 60 s.

Examples:
  adfctl web
  adfctl web --listen 127.0.0.1:8031 --write
  adfctl web --listen 0.0.0.0:8030 --allow-remote --token-file /etc/adfctl.token --host queues.example";

/// The contents and the actions of the page.
pub static SITE: Site = Site {
    views: &[View::new("Queue", &["queues", "--queue={queue}"])],
    server: &[View::new("All queues", &["queues"])],
    actions: &[
        Action::new("push", &["push", "--queue={queue}", "-"], &[Field::new("body", Kind::Body)])
            .unasked(),
        Action::new(
            "move",
            &["move", "--from={queue}", "--to={to}", "--create", "--filter={filter}"],
            &[Field::new("to", Kind::Name), Field::new("filter", Kind::Text)],
        ),
        Action::new("clear", &["clear", "--queue={queue}"], &[]),
        Action::new("delete queue", &["queue", "delete", "--queue={queue}"], &[]),
    ],
};
