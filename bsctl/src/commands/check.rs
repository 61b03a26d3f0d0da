//! `check`: a monitoring plugin and a gate for CI, with its own exit codes 0 to 3.

mod measure;
mod roundtrip;

use beanstalk_client::JobId;
use clap::{Args, Subcommand};
use ctl_core::commands::check::{self, CheckFlags, Subject};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::Patterns;
use ctl_core::input::named::One;
use ctl_core::rules::metrics::{Group, Measurable};
use ctl_core::text::units;

use crate::jobs::select::SelectArgs;
use crate::link::Link;
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `check --help`.
pub const HELP: &str = "\
Protocol: stats; stats-tube and peek-ready; stats-job; put to stats-tube for roundtrip.
Thresholds alert where they hold, 'ready>100' or 'oldest-age>10m', or outside a range, ready=100 (bsctl help comparisons).
Metrics:
  server:     ready buried delayed reserved urgent waiting workers connections uptime draining binlog-lag timeouts/s rtt
  a tube:     ready buried delayed reserved urgent waiting watching workers oldest-age pause-left rtt
              and matching, the number of jobs that fit --filter, which changes no other metric
  a job:      age time-left reserves timeouts releases buries kicks, and 1 or 0 for ready reserved delayed buried
  roundtrip:  rtt (milliseconds)
binlog-lag is the number of log files older than the current one. timeouts/s is measured over a second, and only if a
threshold uses it. A job that is gone counts as done, unless --must-exist is given.
oldest-age is the age of the job that would be reserved next. A tube with ready jobs and no workers is CRITICAL,
unless -c says what is normal (workers=0: is always fine); buried jobs and a pause are a WARNING, unless a threshold of
buried or pause-left says what is normal.
Workers are the connections that watch the tube. Every connection watches default: its workers are those that have also
reserved, and UNKNOWN is the verdict if the server does not tell whether there are any. The tool's own connection is in
no figure. A tube that does not exist counts as empty, unless --must-exist is given. A tube can look fine
while its workers are stuck: roundtrip puts, reserves, touches, buries, kicks and deletes a job with every byte value in
a temporary tube, and proves that the server stores and returns jobs; its rtt is that of all steps.
With several servers, each value is for one of them, and the verdict is the most severe one; a server that is down is
CRITICAL.
Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also for wrong arguments).
--timeout defaults to 2s. With --filter, the tube's jobs are found by id, as with `jobs`, which takes longer.
Filters: see `bsctl help filters`.

Examples:
  bsctl check tube mail -w ready=100 -c ready=1000 -c workers=1:
  bsctl check tubes 'mail*' '!mail.test' -c buried=0
  bsctl check job 42 -w age=3600 -c buried=0
  bsctl check tube mail --filter 'envelope.class~=SendMail' --filter 'age>1h' -c matching=0
  bsctl check roundtrip -c rtt=50";

/// The metrics that thresholds can name.
pub const METRICS: &[Measurable] = &[
    Measurable { what: "server", groups: &[JOBS, CONNECTIONS, UPTIME, LOG, RTT] },
    Measurable { what: "tube", groups: &[JOBS, WATCHING, AGES, RTT, ("", &["matching"])] },
    Measurable { what: "tubes", groups: &[JOBS, WATCHING, AGES, RTT] },
    Measurable { what: "job", groups: &[("s", &["age", "time-left"]), COUNTERS, STATES] },
    Measurable { what: "roundtrip", groups: &[RTT] },
];

const JOBS: Group =
    ("", &["ready", "buried", "delayed", "reserved", "urgent", "waiting", "workers"]);
const CONNECTIONS: Group = ("", &["connections"]);
const UPTIME: Group = ("s", &["uptime"]);
const LOG: Group = ("", &["draining", "binlog-lag", "timeouts/s"]);
const WATCHING: Group = ("", &["watching"]);
const AGES: Group = ("s", &["oldest-age", "pause-left"]);
const COUNTERS: Group = ("", &["reserves", "timeouts", "releases", "buries", "kicks"]);
const STATES: Group = ("", &["ready", "reserved", "delayed", "buried"]);
const RTT: Group = ("ms", &["rtt"]);

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    flags: CheckFlags,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The server as a whole
    Server,
    /// One tube
    Tube {
        #[command(flatten)]
        tube: One<Tube>,

        #[command(flatten)]
        select: SelectArgs,
    },
    /// Every tube matching a pattern
    Tubes(Patterns),
    /// Jobs by id
    Job {
        /// Job ids
        #[arg(value_name = "ID", required = true)]
        ids: Vec<JobId>,
    },
    /// A job from put to delete, in a temporary tube
    Roundtrip,
}

/// Runs `check`. Failures become verdicts.
///
/// # Errors
/// Only write failures.
pub fn run(tool: &mut Tool, args: CheckArgs) -> Result<Exit, CliError> {
    let messages = tool.messages.clone();
    let subject = match &args.what {
        What::Server => Subject::one("server", "server"),
        What::Tube { tube, .. } => {
            Subject::one("tube", tube.text().unwrap_or_else(|| "tube".to_owned()))
        }
        What::Tubes(_) => Subject { many: true, ..Subject::one("tube", "tubes") },
        What::Job { ids } => {
            Subject { many: ids.len() > 1, ..Subject::one("job", units::which("job", ids)) }
        }
        What::Roundtrip => Subject { changes: true, ..Subject::one("server", "roundtrip") },
    };
    check::run(tool, &args.flags, subject, Link::side, |link| {
        measure::measure(link, &args.what, &args.flags, &messages).into()
    })
}
