//! `exporter`: the counts of the status page as metrics.

use adf_queue_client::QueueStats;
use ctl_core::commands::exporter::{Choice, Counts, Exports, Kind, Known, Metrics};
use ctl_core::error::CliError;

use crate::link::Link;
use crate::tool::Adfctl;

/// The end of `exporter --help`.
pub const HELP: &str = "\
Protocol: the status page, over HTTP on the same port.
GET /metrics queries every server for at most --timeout (2s): adfqueue_up is 0 for a server that does not answer, and
its other metrics are omitted. The status page lists at most 100 queues; adfqueue_queues is their actual number.
GET /scale?queue=NAME[&queue=NAME] returns JSON for autoscalers such as KEDA's metrics-api: ready, pulled, waiting, and
value, the sum of ready and pulled; 503 unless all servers answer, because a sum of some of them would look like less
work.
GET /healthz covers only the exporter itself.

Examples:
  adfctl exporter --listen 127.0.0.1:9419 --only '!/tmp*'
  adfctl exporter -c 1 > /var/lib/node_exporter/adfqueue.prom";

/// The exported metrics. `top`, the dashboard and the alerts in `docs/monitoring` find their figures by these names.
pub static EXPORTS: Exports<Adfctl> = Exports {
    prefix: "adfqueue",
    noun: "queue",
    scrape,
    valid: |name| crate::names::queue(name).map(drop),
    scale,
    work: &["ready", "pulled"],
    more_work: &[],
};

fn scrape(link: &mut Link, choice: &Choice, _: &mut Known) -> Result<Metrics, CliError> {
    let mut metrics = Metrics::default();
    let stats = link.stats()?;
    let mut add = |name, help, labels: &[(&str, &str)], value| {
        metrics.add(Kind::Gauge, name, help, labels.iter().copied(), value);
    };
    let info = [("version", stats.version.as_str()), ("host", stats.host.as_str())];
    add("adfqueue_server_info", "Information about the server.", &info, 1.0);
    add("adfqueue_connections", "WebSocket connections.", &[], stats.connections as f64);
    add("adfqueue_queues", "Existing queues.", &[], stats.queue_count as f64);
    let (queues, more) = choice.of(stats.queues, |queue| queue.name.clone());
    for (name, QueueStats { ready, pulled, waiting, .. }) in &queues {
        let label = ("queue", name.as_str());
        let help = "Messages of the queue, by state.";
        let messages = "adfqueue_messages";
        add(messages, help, &[label, ("state", "ready")], *ready as f64);
        add(messages, help, &[label, ("state", "pulled")], *pulled as f64);
        let help = "Pulls waiting for a message of the queue.";
        add("adfqueue_pulls_waiting", help, &[label], *waiting as f64);
    }
    let help = "Queues not exported because of --max.";
    add("adfqueue_queues_left_out", help, &[], more as f64);
    Ok(metrics)
}

fn scale(link: &mut Link, queue: &str) -> Result<Counts, CliError> {
    let queue = crate::names::queue(queue)?;
    let stats = link.queue_stats(&queue)?;
    let of = |figure: fn(&QueueStats) -> i64| stats.as_ref().map_or(0, figure);
    Ok(vec![
        ("ready", of(|stats| i64::try_from(stats.ready).unwrap_or(i64::MAX))),
        ("pulled", of(|stats| stats.pulled.max(0))),
        ("waiting", of(|stats| i64::try_from(stats.waiting).unwrap_or(i64::MAX))),
    ])
}
