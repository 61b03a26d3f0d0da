//! `exporter`: the server's and its tubes' statistics as metrics.

use beanstalk_client::protocol::{ListTubes, Stats, StatsTube};
use beanstalk_client::{ServerStats, TubeName, TubeStats};
use ctl_core::error::CliError;
use ctl_core::exporter::{Choice, Counts, Exports, Kind, Known, Metrics, Names};

use crate::link::Link;
use crate::tool::Bsctl;
use crate::tube_stats::{self, Answer, oldest_age};

/// The end of `exporter --help`.
pub const HELP: &str = "\
Protocol: stats, list-tubes, stats-tube; use, peek-ready and stats-job for the age of the oldest job.
GET /metrics asks every server anew, all at once, each for at most --timeout (2s): beanstalkd_up is 0 for one that does
not answer, and its other metrics are left out. GET /scale?tube=NAME is JSON for autoscalers such as KEDA's metrics-api:
ready, reserved, delayed, buried, and value, which is ready and reserved. GET /healthz is about the exporter alone.
The names are beanstalkd_* (native), or those of the exporters that dashboards exist for (messagebird, davidtannock).

Examples:
  bsctl exporter --listen 127.0.0.1:9419 --exclude 'tmp.*'
  bsctl -a one:11300 exporter --names davidtannock
  bsctl exporter --once > /var/lib/node_exporter/beanstalkd.prom";

/// What is exported.
pub static EXPORTS: Exports<Bsctl> = Exports {
    prefix: "beanstalkd",
    noun: "tube",
    names: &[
        Names { name: NATIVE, server: "server" },
        Names { name: MESSAGEBIRD, server: "instance" },
        Names { name: DAVIDTANNOCK, server: "server" },
    ],
    scrape,
    scale,
};

const NATIVE: &str = "native";
const MESSAGEBIRD: &str = "messagebird";
const DAVIDTANNOCK: &str = "davidtannock";

/// What a figure is called, by its key in the server's words.
struct Figure {
    key: &'static str,
    kind: Kind,
    /// Behind the prefix.
    native: &'static str,
    help: &'static str,
}

const fn gauge(key: &'static str, native: &'static str, help: &'static str) -> Figure {
    Figure { key, kind: Kind::Gauge, native, help }
}

const fn counter(key: &'static str, native: &'static str, help: &'static str) -> Figure {
    Figure { key, kind: Kind::Counter, native, help }
}

/// The figures of a server.
static SERVER: &[Figure] = &[
    gauge("current-jobs-urgent", "current_jobs_urgent", "Ready jobs with a priority below 1024."),
    gauge("current-jobs-ready", "current_jobs_ready", "Ready jobs."),
    gauge("current-jobs-reserved", "current_jobs_reserved", "Jobs reserved by any connection."),
    gauge("current-jobs-delayed", "current_jobs_delayed", "Delayed jobs."),
    gauge("current-jobs-buried", "current_jobs_buried", "Buried jobs."),
    counter("cmd-put", "cmd_put", "put commands, also refused ones."),
    counter("cmd-peek", "cmd_peek", "peek commands."),
    counter("cmd-peek-ready", "cmd_peek_ready", "peek-ready commands."),
    counter("cmd-peek-delayed", "cmd_peek_delayed", "peek-delayed commands."),
    counter("cmd-peek-buried", "cmd_peek_buried", "peek-buried commands."),
    counter("cmd-reserve", "cmd_reserve", "reserve commands."),
    counter(
        "cmd-reserve-with-timeout",
        "cmd_reserve_with_timeout",
        "reserve-with-timeout commands.",
    ),
    counter("cmd-delete", "cmd_delete", "delete commands."),
    counter("cmd-release", "cmd_release", "release commands."),
    counter("cmd-use", "cmd_use", "use commands."),
    counter("cmd-watch", "cmd_watch", "watch commands."),
    counter("cmd-ignore", "cmd_ignore", "ignore commands."),
    counter("cmd-bury", "cmd_bury", "bury commands."),
    counter("cmd-kick", "cmd_kick", "kick commands."),
    counter("cmd-touch", "cmd_touch", "touch commands."),
    counter("cmd-stats", "cmd_stats", "stats commands."),
    counter("cmd-stats-job", "cmd_stats_job", "stats-job commands."),
    counter("cmd-stats-tube", "cmd_stats_tube", "stats-tube commands."),
    counter("cmd-list-tubes", "cmd_list_tubes", "list-tubes commands."),
    counter("cmd-list-tube-used", "cmd_list_tube_used", "list-tube-used commands."),
    counter("cmd-list-tubes-watched", "cmd_list_tubes_watched", "list-tubes-watched commands."),
    counter("cmd-pause-tube", "cmd_pause_tube", "pause-tube commands."),
    counter("job-timeouts", "job_timeouts", "Reservations whose time to run was over."),
    counter("total-jobs", "jobs_put", "Jobs put since the server started."),
    gauge("max-job-size", "max_job_size_bytes", "The largest body a put may have, in bytes."),
    gauge("current-tubes", "current_tubes", "Tubes that exist."),
    gauge("current-connections", "current_connections", "Open connections."),
    gauge("current-producers", "current_producers", "Open connections that have put a job."),
    gauge("current-workers", "current_workers", "Open connections that have reserved."),
    gauge("current-waiting", "current_waiting", "Open connections that wait in a reserve."),
    counter("total-connections", "connections_opened", "Connections since the server started."),
    counter(
        "rusage-utime",
        "rusage_utime_seconds",
        "Processor time spent in the server, in seconds.",
    ),
    counter(
        "rusage-stime",
        "rusage_stime_seconds",
        "Processor time spent in the system, in seconds.",
    ),
    gauge("uptime", "uptime_seconds", "Seconds since the server started."),
    gauge("binlog-oldest-index", "binlog_oldest_index", "The oldest log file that is needed."),
    gauge("binlog-current-index", "binlog_current_index", "The log file that is written."),
    counter(
        "binlog-records-migrated",
        "binlog_records_migrated",
        "Records written to compact the log.",
    ),
    counter("binlog-records-written", "binlog_records_written", "Records written to the log."),
    gauge("binlog-max-size", "binlog_max_size_bytes", "The size of one log file, in bytes."),
    gauge("draining", "draining", "Whether the server takes no new jobs."),
];

/// The figures of a tube, beside its jobs by state.
static TUBE: &[Figure] = &[
    gauge("current-jobs-urgent", "current_jobs_urgent", "Ready jobs with a priority below 1024."),
    counter("total-jobs", "jobs_put", "Jobs put into the tube since it exists."),
    gauge("current-using", "current_using", "Connections that use the tube."),
    gauge("current-watching", "current_watching", "Connections that watch the tube."),
    gauge("current-waiting", "current_waiting", "Connections that wait for its jobs."),
    counter("cmd-delete", "cmd_delete", "Jobs deleted from the tube."),
    counter("cmd-pause-tube", "cmd_pause_tube", "pause-tube commands for the tube."),
    gauge("pause", "pause_seconds", "The length of the present pause, in seconds."),
    gauge("pause-time-left", "pause_time_left_seconds", "What is left of the pause, in seconds."),
];

/// The states of jobs, and their keys.
const STATES: [(&str, &str); 4] = [
    ("ready", "current-jobs-ready"),
    ("reserved", "current-jobs-reserved"),
    ("delayed", "current-jobs-delayed"),
    ("buried", "current-jobs-buried"),
];

fn scrape(
    link: &mut Link,
    names: &Names,
    choice: &Choice,
    _: &mut Known,
) -> Result<Metrics, CliError> {
    let mut metrics = Metrics::default();
    let stats = link.call(Stats)?;
    of_server(&mut metrics, names, &stats);
    let all = link.call(ListTubes)?;
    let (tubes, more) = choice.of(all, |tube| tube.as_str().to_owned());
    let tubes: Vec<TubeName> = tubes.into_iter().map(|(_, tube)| tube).collect();
    let answers = tube_stats::ask(link, &tubes)?;
    for (tube, answer) in tubes.iter().zip(answers) {
        // Tubes that have gone meanwhile, or have names that this server cannot be asked about, are left out.
        let Answer::Stats(stats) = answer else { continue };
        of_tube(&mut metrics, names, tube, &stats);
        if names.name == NATIVE {
            let is_waiting = stats.current_jobs_ready > 0;
            let age = if is_waiting { oldest_age(link, tube)? } else { 0 };
            let help = "The age of the job that is reserved next, in seconds; 0 without one.";
            let name = "beanstalkd_tube_oldest_job_age_seconds";
            metrics.add(Kind::Gauge, name, help, [("tube", tube.as_str())], age as f64);
        }
    }
    let help = "Tubes that are not exported because there are more than --max.";
    metrics.add(Kind::Gauge, "beanstalkd_tubes_left_out", help, [], more as f64);
    Ok(metrics)
}

fn of_server(metrics: &mut Metrics, names: &Names, stats: &ServerStats) {
    for (key, text) in stats.entries() {
        let Some(value) = number(text) else { continue };
        let figure = SERVER.iter().find(|figure| figure.key == key);
        let (kind, name, help) = match (names.name, figure) {
            (NATIVE, Some(figure)) => {
                (figure.kind, format!("beanstalkd_{}", figure.native), figure.help)
            }
            (MESSAGEBIRD, figure) if key != "pid" => {
                let help = figure.map_or("A figure of the server.", |figure| figure.help);
                (Kind::Gauge, plain(key), help)
            }
            (DAVIDTANNOCK, Some(figure)) if has_davidtannock(key) => {
                (figure.kind_of_davidtannock(), davidtannock("beanstalkd_", key), figure.help)
            }
            _ => continue,
        };
        metrics.add(kind, &name, help, [], value);
    }
    if names.name == NATIVE {
        let labels =
            [("version", &stats.version), ("hostname", &stats.hostname), ("id", &stats.id)];
        let labels = labels.map(|(key, text)| (key, text.as_str()));
        metrics.add(Kind::Gauge, "beanstalkd_server_info", "What the server is.", labels, 1.0);
    }
}

fn of_tube(metrics: &mut Metrics, names: &Names, tube: &TubeName, stats: &TubeStats) {
    let label = ("tube", tube.as_str());
    for (key, text) in stats.entries() {
        let Some(value) = number(text) else { continue };
        let figure = TUBE.iter().find(|figure| figure.key == key);
        let state = STATES.iter().find(|(_, of)| *of == key);
        let (kind, name, help) = match (names.name, figure, state) {
            (NATIVE, _, Some((state, _))) => {
                let labels = [label, ("state", state)];
                let help = "Jobs of the tube, by state.";
                metrics.add(Kind::Gauge, "beanstalkd_tube_jobs", help, labels, value);
                continue;
            }
            (NATIVE, Some(figure), _) => {
                (figure.kind, format!("beanstalkd_tube_{}", figure.native), figure.help)
            }
            (MESSAGEBIRD, figure, _) if key != "name" => {
                let help = figure.map_or("A figure of the tube.", |figure| figure.help);
                (Kind::Gauge, format!("tube_{}", plain(key)), help)
            }
            (DAVIDTANNOCK, figure, _) if key != "name" => {
                let kind = figure.map_or(Kind::Gauge, Figure::kind_of_davidtannock);
                let help = figure.map_or("Jobs of the tube.", |figure| figure.help);
                (kind, davidtannock("beanstalkd_tube_", key), help)
            }
            _ => continue,
        };
        metrics.add(kind, &name, help, [label], value);
    }
}

/// The server writes numbers, `true` and `false`, and text, which is not exported.
fn number(text: &str) -> Option<f64> {
    match text {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn plain(key: &str) -> String {
    key.replace('-', "_")
}

/// That exporter counts commands and times, and has no other figures than these.
fn has_davidtannock(key: &str) -> bool {
    ["cmd-", "current-", "total-"].iter().any(|start| key.starts_with(start))
        || key == "job-timeouts"
}

fn davidtannock(prefix: &str, key: &str) -> String {
    let end = match key {
        // `_total` is put behind the names of counters.
        _ if key.starts_with("cmd-") => "",
        "pause" | "pause-time-left" => "_seconds_total",
        _ => "_count",
    };
    format!("{prefix}{}{end}", plain(key))
}

impl Figure {
    fn kind_of_davidtannock(&self) -> Kind {
        if self.key.starts_with("cmd-") { Kind::Counter } else { Kind::Gauge }
    }
}

fn scale(link: &mut Link, tube: &str) -> Result<Counts, CliError> {
    let tube = crate::names::tube(tube)?;
    // A tube is there only while it is used.
    let stats = link.call(StatsTube(tube))?;
    let of = |figure: fn(&TubeStats) -> u64| {
        stats.as_ref().map_or(0, |stats| i64::try_from(figure(stats)).unwrap_or(i64::MAX))
    };
    let (ready, reserved) =
        (of(|stats| stats.current_jobs_ready), of(|stats| stats.current_jobs_reserved));
    Ok(vec![
        ("ready", ready),
        ("reserved", reserved),
        ("delayed", of(|stats| stats.current_jobs_delayed)),
        ("buried", of(|stats| stats.current_jobs_buried)),
        ("waiting", of(|stats| stats.current_waiting)),
        ("value", ready.saturating_add(reserved)),
    ])
}
