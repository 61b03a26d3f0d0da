//! `exporter`: the counts of every function as metrics.

use ctl_core::commands::exporter::{Choice, Counts, Exports, Kind, Known, Metrics};
use ctl_core::error::CliError;
use gearman_client::protocol::AdminCommand;

use super::functions::priorities;
use crate::link::{Answer, Link, counts, status_of, statuses};
use crate::names::show_function;
use crate::tool::Gearctl;

/// The end of `exporter --help`.
pub const HELP: &str = "\
Protocol: status; version and prioritystatus where supported.
GET /metrics queries all servers in parallel, each for at most --timeout (2s): gearman_up is 0 for a server that does
not answer, and its other metrics are omitted. GET /scale?queue=NAME[&queue=NAME] returns JSON for autoscalers such as
KEDA's metrics-api: queued, running, workers, and value, the sum of queued and running; 503 unless all servers answer,
because a sum of some of them would look like less work. GET /healthz covers only the exporter itself.

Examples:
  gearctl exporter --listen 127.0.0.1:9419 --only '!tmp_*'
  gearctl -s one:4730,two:4730 exporter
  gearctl exporter -c 1 > /var/lib/node_exporter/gearman.prom";

/// The exported metrics. `top`, the dashboard and the alerts in `docs/monitoring` find their figures by these names.
pub static EXPORTS: Exports<Gearctl> = Exports {
    prefix: "gearman",
    noun: "function",
    scrape,
    valid: |name| crate::names::function(name).map(drop),
    scale,
    work: &["queued", "running"],
    more_work: &[],
};

fn scrape(link: &mut Link, choice: &Choice, known: &mut Known) -> Result<Metrics, CliError> {
    let mut metrics = Metrics::default();
    let (functions, more) = choice.of(statuses(link)?, |status| show_function(&status.name));
    for (name, status) in &functions {
        let label = [("function", name.as_str())];
        let mut add = |name: &str, help, value: i64| {
            metrics.add(Kind::Gauge, name, help, label, value as f64);
        };
        add("gearman_jobs", "Jobs, waiting and running.", status.total);
        add("gearman_jobs_running", "Jobs being run by workers.", status.running);
        add("gearman_jobs_waiting", "Jobs waiting for a worker.", status.queued());
        add("gearman_workers", "Worker registrations.", status.workers);
    }
    if let Some(version) = known.ask("version", || version(link))? {
        let label = [("version", version.as_str())];
        metrics.add(Kind::Gauge, "gearman_version_info", "The server's version.", label, 1.0);
    }
    let priorities = || priorities(link).map(Answer::came);
    let priorities = known.ask("prioritystatus", priorities)?.unwrap_or_default();
    for (name, status) in &functions {
        let Some(row) = priorities.get(&status.name) else { continue };
        for (priority, count) in [("high", row.high), ("normal", row.normal), ("low", row.low)] {
            let labels = [("function", name.as_str()), ("priority", priority)];
            let help = "Jobs waiting for a worker, by priority.";
            let family = "gearman_jobs_waiting_by_priority";
            metrics.add(Kind::Gauge, family, help, labels, count as f64);
        }
    }
    let help = "Functions not exported because of --max.";
    metrics.add(Kind::Gauge, "gearman_functions_left_out", help, [], more as f64);
    Ok(metrics)
}

fn version(link: &mut Link) -> Result<Option<String>, CliError> {
    let answer = link.probe(&AdminCommand::Version)?;
    answer.and_then(|reply| reply.value().map_err(crate::error::cli_error)).map(Answer::came)
}

fn scale(link: &mut Link, function: &str) -> Result<Counts, CliError> {
    let function = crate::names::function(function)?;
    // A function exists only while it is in use.
    let status = status_of(link, &function)?;
    let [_, counts @ ..] = counts(status.as_ref());
    Ok(counts.to_vec())
}
