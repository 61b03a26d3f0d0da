//! `top`: the queues and their load, live.

use ctl_core::live::top::{Board, Figure, Row, columns};
use ctl_core::output::{Column, Shape};

/// The end of `top --help`.
pub const HELP: &str = "\
Protocol: the status page, over HTTP on the same port; it lists at most 100 queues.
On a terminal, this is a live view: ? lists the keys, Enter shows the details of a row, q quits. Columns that do not fit
are hidden. In a pipe, or with -o json, ndjson or yaml, it prints snapshots instead; -o
json and yaml print one unless --count is given. CHANGE/S is the change in the number of ready messages per second
since the previous snapshot: the server has no counters that only grow. A queue with ready messages and no workers is a
PROBLEM: the server knows no workers, so this means no waiting pulls and no pulled messages.
A server that does not answer is shown as down and recovers automatically.

Examples:
  adfctl top
  adfctl top --only '/mail*' --sort-by pulled
  adfctl top -c 1 -o json | jq '.queues[] | select(.problem)'";

const FIGURES: [Figure; 7] = [
    Figure::server(),
    Figure::name("QUEUE"),
    messages("ready", "READY", 1),
    messages("pulled", "PULLED", 2),
    Figure::count(Column::new("waiting", "WAITING"), "adfqueue_pulls_waiting", 3),
    Figure::rate(Column::new("change_per_second", "CHANGE/S"), "adfqueue_messages", 4)
        .labelled(("state", "ready")),
    Figure::problem(),
];

const fn messages(state: &'static str, title: &'static str, rank: u8) -> Figure {
    let figure = Figure::count(Column::new(state, title), "adfqueue_messages", rank);
    figure.labelled(("state", state))
}

static SHAPE: Shape = Shape::rows("queue", &columns(&FIGURES));

/// The contents of the view.
pub static BOARD: Board = Board {
    shape: &SHAPE,
    figures: &FIGURES,
    server: &[
        Figure::sum(Column::new("ready", "ready")),
        Figure::sum(Column::new("pulled", "pulled")),
        Figure::sum(Column::new("waiting", "waiting")),
        Figure::count(Column::new("connections", "connections"), "adfqueue_connections", 0),
        Figure::count(Column::new("queues", "queues"), "adfqueue_queues", 0),
    ],
    main: "ready",
    problem,
    acts: &[],
    jobs: Err("the server does not list messages: adfctl pull shows some and gives them back"),
};

fn problem(queue: &Row<'_>) -> Option<String> {
    let is_taken = queue.count("waiting") > 0.0 || queue.count("pulled") > 0.0;
    (queue.count("ready") > 0.0 && !is_taken).then(|| "no workers".to_owned())
}
