//! `top`: the functions and their load, live.

use ctl_core::live::top::{Board, Figure, Row, columns};
use ctl_core::output::{Column, Shape};

/// The end of `top --help`.
pub const HELP: &str = "\
Protocol: status; version and prioritystatus where supported.
On a terminal, this is a live view: ? lists the keys, Enter shows the details of a row, q quits. Columns that do not fit
are hidden. In a pipe, or with -o json, ndjson or yaml, it prints snapshots instead; -o
json and yaml print one unless --count is given. CHANGE/S is the change in the number of jobs per second since the
previous snapshot: gearmand has no counters that only grow. A function with jobs and no workers is a PROBLEM.

Examples:
  gearctl top
  gearctl -s one:4730,two:4730 top --only 'mail*' --sort-by workers
  gearctl top -c 1 -o json | jq '.queues[] | select(.problem)'";

const FIGURES: [Figure; 10] = [
    Figure::server(),
    Figure::name("FUNCTION").escaped(),
    Figure::count(Column::new("queued", "QUEUED"), "gearman_jobs_waiting", 1),
    Figure::count(Column::new("running", "RUNNING"), "gearman_jobs_running", 3),
    Figure::count(Column::new("workers", "WORKERS"), "gearman_workers", 2),
    Figure::rate(Column::new("change_per_second", "CHANGE/S"), "gearman_jobs", 4),
    by_priority("high", "HIGH", 5),
    by_priority("normal", "NORMAL", 7),
    by_priority("low", "LOW", 6),
    Figure::problem(),
];

const fn by_priority(priority: &'static str, title: &'static str, rank: u8) -> Figure {
    let figure =
        Figure::count(Column::wide(priority, title), "gearman_jobs_waiting_by_priority", rank);
    figure.labelled(("priority", priority))
}

static SHAPE: Shape = Shape::rows("queue", &columns(&FIGURES));

/// The contents of the view.
pub static BOARD: Board = Board {
    shape: &SHAPE,
    figures: &FIGURES,
    server: &[
        Figure::sum(Column::new("queued", "queued")),
        Figure::sum(Column::new("running", "running")),
        Figure::sum(Column::new("workers", "workers")),
    ],
    main: "queued",
    problem,
    acts: &[],
    jobs: Err("the server shows jobs to workers only: gearctl peek takes some and gives them back"),
};

fn problem(function: &Row<'_>) -> Option<String> {
    let is_alone = function.count("queued") > 0.0 && function.count("workers") <= 0.0;
    is_alone.then(|| "no workers".to_owned())
}
