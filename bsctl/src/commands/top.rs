//! `top`: the tubes and their load, live.

use ctl_core::live::top::{Act, Board, Figure, Row, columns};
use ctl_core::output::{Column, Shape};

use super::exporter::{WORKERS_MAX, WORKERS_MIN};
use crate::attendance::{Load, Workers};

/// The end of `top --help`.
pub const HELP: &str = "\
Protocol: stats, list-tubes, stats-tube; use, peek-ready and stats-job for the age of the oldest job.
On a terminal, this is a live view: ? lists the keys, Enter shows the details of a row and then its jobs, q quits.
Columns that do not fit are hidden. In a pipe, or with -o json, ndjson or yaml, it prints snapshots instead; -o
json and yaml print one unless --count is given. PUT/S and DELETE/S cover the time since the previous snapshot, so the
first one has none.
OLDEST is the age of the job that would be reserved next. A tube with ready jobs and no workers is a PROBLEM; so are
buried jobs and a pause. WORKERS are the connections that watch the tube; for default, which every connection watches,
those known to reserve.
With --write, k kicks the buried jobs of the selected tube and P pauses or resumes it, after confirmation.

Examples:
  bsctl top
  bsctl -s one:11300,two:11300 top --only 'mail*' --sort-by buried
  bsctl top -c 1 -o json | jq '.queues[] | select(.problem)'";

const FIGURES: [Figure; 15] = [
    Figure::server(),
    Figure::name("TUBE"),
    jobs("ready", "READY", 1),
    jobs("reserved", "RESERVED", 3),
    jobs("delayed", "DELAYED", 7),
    jobs("buried", "BURIED", 2),
    Figure::rate(Column::new("put_per_second", "PUT/S"), "beanstalkd_tube_jobs_put", 4),
    Figure::rate(Column::new("delete_per_second", "DELETE/S"), "beanstalkd_tube_cmd_delete", 5),
    Figure::seconds(
        Column::new("oldest_age_seconds", "OLDEST"),
        "beanstalkd_tube_oldest_job_age_seconds",
        4,
    ),
    Figure::count(Column::new("waiting", "WAITING"), "beanstalkd_tube_current_waiting", 6),
    Figure::count(Column::wide("watching", "WATCHING"), "beanstalkd_tube_current_watching", 8),
    Figure::count(Column::wide(LEAST, "WORKERS"), WORKERS_MIN, 8),
    Figure::count(Column::on_request(MOST, "AT MOST"), WORKERS_MAX, 10),
    Figure::seconds(Column::wide(PAUSE, "PAUSE"), "beanstalkd_tube_pause_time_left_seconds", 9),
    Figure::problem(),
];

const LEAST: &str = "workers_min";
const MOST: &str = "workers_max";
const PAUSE: &str = "pause_left_seconds";

const fn jobs(state: &'static str, title: &'static str, rank: u8) -> Figure {
    let figure = Figure::count(Column::new(state, title), "beanstalkd_tube_jobs", rank);
    figure.labelled(("state", state))
}

static SHAPE: Shape = Shape::rows("queue", &columns(&FIGURES));

/// The contents of the view.
pub static BOARD: Board = Board {
    shape: &SHAPE,
    figures: &FIGURES,
    server: &[
        Figure::count(Column::new("ready", "ready"), "beanstalkd_current_jobs_ready", 0),
        Figure::count(Column::new("reserved", "reserved"), "beanstalkd_current_jobs_reserved", 0),
        Figure::count(Column::new("delayed", "delayed"), "beanstalkd_current_jobs_delayed", 0),
        Figure::count(Column::new("buried", "buried"), "beanstalkd_current_jobs_buried", 0),
        Figure::rate(Column::new("put_per_second", "put/s"), "beanstalkd_jobs_put", 0),
        Figure::rate(Column::new("delete_per_second", "delete/s"), "beanstalkd_cmd_delete", 0),
        Figure::count(Column::new("workers", "workers"), "beanstalkd_current_workers", 0),
        Figure::count(Column::new("waiting", "waiting"), "beanstalkd_current_waiting", 0),
        Figure::count(
            Column::new("connections", "connections"),
            "beanstalkd_current_connections",
            0,
        ),
        Figure::seconds(Column::new("uptime_seconds", "up"), "beanstalkd_uptime_seconds", 0),
        Figure::flag(Column::new("draining", "draining"), "beanstalkd_draining", 0),
    ],
    main: "ready",
    problem,
    acts: &[
        Act {
            key: 'k',
            name: "kick the buried jobs",
            line: &["kick", "--tube={queue}", "--state=buried", "--all"],
            fits: |tube| tube.count("buried") > 0.0,
        },
        Act {
            key: 'P',
            name: "resume",
            line: &["resume", "--tube={queue}"],
            fits: |tube| tube.count(PAUSE) > 0.0,
        },
        Act {
            key: 'P',
            name: "pause for an hour",
            line: &["pause", "--tube={queue}", "1h"],
            fits: |_| true,
        },
    ],
    jobs: Ok(&["jobs", "--tube={queue}", "--count=100", "--columns=id,state,pri,age,body"]),
};

fn problem(tube: &Row<'_>) -> Option<String> {
    let count = |key| tube.count(key) as u64;
    let load = Load {
        ready: count("ready"),
        workers: Workers { least: count(LEAST), most: count(MOST) },
        pause_left: count(PAUSE),
        buried: count("buried"),
    };
    load.problems().next().map(|problem| problem.short().to_owned())
}
