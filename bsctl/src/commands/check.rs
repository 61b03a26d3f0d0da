//! `check`: a monitoring plugin and a gate for CI, with its own exit codes 0 to 3.

mod measure;
mod report;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Format;
use ctl_core::thresholds::{Threshold, Verdict};

use crate::tool::Tool;
use measure::Metric;
pub use report::unknown;

/// The end of `check --help`.
pub const HELP: &str = "\
Protocol: stats; stats-tube and peek-ready; put, reserve-job and delete for roundtrip.
Thresholds are METRIC=RANGE, with the ranges of monitoring plugins: 10 alerts below 0 and above 10, 10: below 10,
~:10 above 10, 10:20 outside of 10 to 20, @10:20 inside.
Metrics of server:  ready buried delayed reserved urgent waiting workers connections uptime draining rtt
Metrics of a tube:  ready buried delayed reserved urgent waiting watching workers oldest-age pause-left rtt
Metrics of roundtrip: rtt (milliseconds)
oldest-age is the age of the job that would be reserved next. A tube with ready jobs that nobody watches is
CRITICAL (--zero-workers). A tube can look fine while its workers are stuck: roundtrip proves that the server
stores and returns jobs, without competing with workers.
Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also for wrong arguments).
--timeout is 2s unless given.

Examples:
  bsctl check tube mail -w ready=100 -c ready=1000 -c workers=1:
  bsctl check tubes 'mail*' --exclude mail.test -c buried=0
  bsctl check roundtrip -c rtt=50";

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    what: What,

    /// Warn outside of this range; may be given several times
    #[arg(short, long, global = true, value_name = "METRIC=RANGE")]
    warning: Vec<Threshold>,

    /// Critical outside of this range; may be given several times
    #[arg(short, long, global = true, value_name = "METRIC=RANGE")]
    critical: Vec<Threshold>,

    /// What is written
    #[arg(long, global = true, value_name = "FMT")]
    format: Option<CheckFormat>,

    /// What a timeout means
    #[arg(long, global = true, value_name = "VERDICT", default_value = "critical")]
    on_timeout: OnTimeout,

    /// What ready jobs without anybody who watches the tube mean
    #[arg(long, global = true, value_name = "VERDICT", default_value = "crit")]
    zero_workers: ZeroWorkers,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The server as a whole
    Server,
    /// One tube
    Tube {
        /// The tube
        #[arg(value_name = "TUBE")]
        tube: String,
    },
    /// Every tube that fits a pattern
    Tubes {
        /// The patterns (* and ?)
        #[arg(value_name = "GLOB", required = true)]
        patterns: Vec<String>,

        /// But not those that fit this pattern; may be given several times
        #[arg(long, value_name = "GLOB")]
        exclude: Vec<String>,
    },
    /// Put a job, take it back, delete it
    Roundtrip,
}

/// The value of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// One line with performance data, for monitoring systems.
    Nagios,
    /// One JSON document.
    Json,
    /// Lines for people.
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnTimeout {
    /// Exit 2.
    Critical,
    /// Exit 3.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ZeroWorkers {
    /// Fine.
    Ok,
    /// Exit 1.
    Warn,
    /// Exit 2.
    Crit,
}

/// The bound where the flags say nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs `check`. Failures are verdicts.
///
/// # Errors
/// Only failures of writing.
pub fn run(tool: &mut Tool, args: CheckArgs) -> Result<Exit, CliError> {
    tool.link.default_timeout(PATIENCE);
    let format = match (args.format, tool.out.style.format) {
        (Some(format), _) => format,
        (None, Format::Json | Format::Ndjson) => CheckFormat::Json,
        (None, Format::Table | Format::Wide) => CheckFormat::Text,
        (None, _) => CheckFormat::Nagios,
    };
    let checked = measure::measure(tool, &args.what).and_then(|metrics| judge(metrics, &args));
    let report = match checked {
        Ok(judged) => report::Report::of(&args.what, judged),
        Err(error) => report::Report::failed(&error, args.on_timeout),
    };
    report.write(&mut tool.out, format)?;
    Ok(report.verdict.exit())
}

/// A metric with what its thresholds say.
struct Judged {
    metric: Metric,
    warning: Option<String>,
    critical: Option<String>,
    verdict: Verdict,
}

fn judge(metrics: Vec<Metric>, args: &CheckArgs) -> Result<Vec<Judged>, CliError> {
    for threshold in args.warning.iter().chain(&args.critical) {
        if !metrics.iter().any(|metric| metric.name == threshold.metric) {
            let mut known: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
            known.dedup();
            known.sort_unstable();
            known.dedup();
            return Err(CliError::usage(format!("there is no metric `{}`", threshold.metric))
                .hint(format!("metrics: {}", known.join(", "))));
        }
    }
    let find = |thresholds: &[Threshold], metric: &Metric| {
        thresholds.iter().rev().find(|threshold| threshold.metric == metric.name).cloned()
    };
    let unattended = |metric: &Metric| {
        metric.name == "workers" && metric.unattended && args.zero_workers != ZeroWorkers::Ok
    };
    Ok(metrics
        .into_iter()
        .map(|metric| {
            let warning = find(&args.warning, &metric);
            let critical = find(&args.critical, &metric);
            let alerts = |threshold: &Option<Threshold>| {
                threshold.as_ref().is_some_and(|threshold| threshold.range.alerts(metric.value))
            };
            let verdict = if alerts(&critical)
                || unattended(&metric) && args.zero_workers == ZeroWorkers::Crit
            {
                Verdict::Critical
            } else if alerts(&warning) || unattended(&metric) {
                Verdict::Warning
            } else {
                Verdict::Ok
            };
            let text = |threshold: Option<Threshold>| threshold.map(|t| t.range.to_string());
            Judged { warning: text(warning), critical: text(critical), verdict, metric }
        })
        .collect())
}
