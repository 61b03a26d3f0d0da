//! `check`: a monitoring plugin and a gate for CI, with its own exit codes 0 to 3.

use std::time::Instant;

use clap::{Args, Subcommand};
use ctl_core::commands::check::{self, CheckFlags, Measured, Metric, Problem, Stated, Subject};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::{Patterns, glob};
use ctl_core::input::named::{self, One};
use ctl_core::rules::metrics::{Group, Measurable};
use gearman_client::{
    FunctionName, FunctionPriorities, FunctionStatus, JobStatus, SubmitOptions, UniqueId,
};

use super::functions::{priorities, workers};
use crate::error::{TIMEOUT, cli_error};
use crate::link::{Answer, Link, counts, or_near, status_of, statuses};
use crate::names::{Function, show_function};
use crate::tool::Tool;
use ctl_core::link::{Link as _, PATIENCE};
use ctl_core::system::at_once::these_at_once;
use ctl_core::text::units::milliseconds;

/// The end of `check --help`.
pub const HELP: &str = "\
Protocol: status; GET_STATUS; SUBMIT_JOB for a roundtrip through a function.
Thresholds alert where they hold, 'queued>100' or 'rtt>50ms', or outside a range, queued=100 (gearctl help comparisons).
Metrics:
  server:     functions queued running workers rtt queued-high queued-normal queued-low
  a function: queued running workers rtt queued-high queued-normal queued-low
  roundtrip:  rtt (milliseconds)
The last three are queried only if a threshold uses them, and need a server that supports prioritystatus.
A function with queued jobs and no workers is CRITICAL, for the server, too, unless -c says what is normal (workers=0: is
always fine). One
that does not exist counts as having neither, unless --must-exist is given. Cancelled jobs count as queued until a worker asks for work. Workers
can be registered and stuck: roundtrip through a function proves that they answer, and the message says whether the
server or the worker failed. A result 0: to 3: and a text is the worker's own verdict, with figures behind a |, as for
check_gearman, unless --expect is given. The jobs of a function have one id: unserved ones do not add up, and
while one is queued, the check fails at once, as on a timeout.
With several servers, each is checked, and the verdict is the most severe one; a server that is down is CRITICAL. A
roundtrip through a function goes to any of them.
Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (also for wrong arguments). --timeout defaults to 2s.

Examples:
  gearctl check function mail -w queued=100 -c queued=1000 -c workers=1:
  gearctl check functions 'mail*' '!mail.test' -c queued=10
  gearctl check roundtrip echo --send ping --expect ping -c rtt=50";

/// The metrics that thresholds can name.
pub const METRICS: &[Measurable] = &[
    Measurable { what: "server", groups: &[("", &["functions"]), JOBS, RTT, BY_PRIORITY] },
    Measurable { what: "function", groups: &[JOBS, RTT, BY_PRIORITY] },
    Measurable { what: "functions", groups: &[JOBS, BY_PRIORITY] },
    Measurable { what: "roundtrip", groups: &[RTT] },
];

const JOBS: Group = ("", &["queued", "running", "workers"]);
const RTT: Group = ("ms", &["rtt"]);
/// Queued jobs by priority, queried only if a threshold uses them.
const BY_PRIORITY: Group = ("", &["queued-high", "queued-normal", "queued-low"]);

/// Number of bytes shown of an unexpected result.
const SHOWN: usize = 60;

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
    /// One function
    Function(One<Function>),
    /// Every function matching a pattern
    Functions(Patterns),
    /// A round trip to the server, or through a worker
    #[command(mut_args(named::described("The function; if omitted, the server itself answers")))]
    Roundtrip {
        #[command(flatten)]
        function: One<Function>,

        /// The workload
        #[arg(long, value_name = "TEXT", default_value = "")]
        send: String,

        /// The expected result; * and ? match anything
        #[arg(long, value_name = "TEXT", requires = named::NAMES)]
        expect: Option<String>,
    },
}

/// Runs `check`. Failures become verdicts.
///
/// # Errors
/// Only write failures.
pub fn run(tool: &mut Tool, args: CheckArgs) -> Result<Exit, CliError> {
    let (what, flags) = (&args.what, &args.flags);
    let subject = match what {
        What::Server => Subject::one("server", "server"),
        What::Function(function) => {
            Subject::one("function", function.text().unwrap_or_else(|| "function".to_owned()))
        }
        What::Functions(_) => Subject { many: true, ..Subject::one("function", "functions") },
        What::Roundtrip { function, .. } => {
            let function = function.text();
            let of_any = function.is_some();
            let name = function.unwrap_or_else(|| "roundtrip".to_owned());
            Subject { changes: true, of_any, ..Subject::one("server", name) }
        }
    };
    check::run(tool, flags, subject, |link| link, |link| measure(link, what, flags))
}

/// Keeps the answers that arrived even if others did not: a server that leaves one query unanswered may answer the
/// other. Both are sent at the same time, so that a silent server costs the wait only once.
fn measure(link: &Link, what: &What, flags: &CheckFlags) -> Measured {
    let rtt: &Question<'_> = &|link| ping(link, what);
    let figures: &Question<'_> =
        &|link| figures_of(link, what).and_then(|found| with_priorities(link, what, flags, found));
    let questions = [rtt, figures].map(|question| (question, link.sibling()));
    match these_at_once(questions, |(question, link)| question(link)).into() {
        (Ok(rtt), Ok(mut measured)) => {
            measured.metrics.extend(rtt.metrics);
            measured
        }
        (Ok(rtt), Err(error)) if error.code == TIMEOUT => Measured { failure: Some(error), ..rtt },
        (Err(late), Ok(measured)) if late.code == TIMEOUT => {
            Measured { failure: Some(late), ..measured }
        }
        // The server's own failure explains that of the other query.
        (Err(error), _) | (_, Err(error)) => error.into(),
    }
}

/// Queries that run concurrently.
type Question<'a> = dyn Fn(&mut Link) -> Result<Measured, CliError> + Sync + 'a;

fn figures_of(link: &mut Link, what: &What) -> Result<Measured, CliError> {
    let metrics = match what {
        What::Server => {
            let all = statuses(link)?;
            let sum = |of: fn(&FunctionStatus) -> i64| all.iter().map(of).sum::<i64>() as f64;
            let problem = all.iter().find_map(unattended);
            vec![
                Metric::new("queued", sum(FunctionStatus::queued), "").usual(),
                Metric::new("running", sum(|function| function.running), ""),
                Metric { problem, ..Metric::new("workers", workers(&all) as f64, "").usual() },
                Metric::new("functions", all.len() as f64, ""),
            ]
        }
        What::Function(function) => {
            let function = function.name_or_usual(link.dialer.settings())?;
            let name = show_function(&function);
            let status = status_of(link, &function)?;
            let metrics = figures(&name, status.as_ref());
            if status.is_none() {
                let why = format!("there is no function {name}{}", or_near(link, &function));
                return Ok(Measured::absent(why, metrics));
            }
            metrics
        }
        What::Functions(patterns) => {
            let mut all = statuses(link)?;
            all.retain(|status| patterns.want(&show_function(&status.name)));
            all.sort_by(|a, b| a.name.cmp(&b.name));
            if all.is_empty() {
                let why = format!("no function matches {patterns}");
                return Ok(Measured::nothing(why, figures("", None)));
            }
            all.iter()
                .flat_map(|status| figures(&show_function(&status.name), Some(status)))
                .collect()
        }
        What::Roundtrip { function, send, expect } => {
            let Some(function) = function.given()? else { return Ok(Measured::default()) };
            return worker(link, function, send, expect.as_deref())
                .map_err(|error| error.context("worker roundtrip"));
        }
    };
    Ok(metrics.into())
}

/// The same with queued jobs by priority, if requested and reported by the server.
fn with_priorities(
    link: &mut Link,
    what: &What,
    flags: &CheckFlags,
    mut measured: Measured,
) -> Result<Measured, CliError> {
    let (unit, names) = BY_PRIORITY;
    let is_asked = names.iter().any(|name| flags.ask_for(name));
    if !is_asked || matches!(what, What::Roundtrip { .. }) {
        return Ok(measured);
    }
    if !measured.known.is_empty() {
        measured.known.extend(names.iter().map(|name| Metric::new(name, 0.0, unit)));
        return Ok(measured);
    }
    let Answer::Came(rows) = priorities(link)? else { return Ok(measured) };
    let counts: [fn(&FunctionPriorities) -> i64; 3] =
        [|row| row.high, |row| row.normal, |row| row.low];
    let metrics = |rows: &[&FunctionPriorities]| {
        let sums = counts.map(|count| rows.iter().map(|row| count(row)).sum::<i64>());
        names.iter().zip(sums).map(|(name, sum)| Metric::new(name, sum as f64, unit))
    };
    if matches!(what, What::Server) {
        measured.metrics.extend(metrics(&rows.values().collect::<Vec<_>>()));
        return Ok(measured);
    }
    let queued = measured.metrics.iter().filter(|metric| metric.name == "queued");
    let names: Vec<String> = queued.filter_map(|metric| metric.subject.clone()).collect();
    for name in names {
        let row = rows.values().find(|row| show_function(&row.name) == name);
        measured.metrics.extend(metrics(row.as_slice()).map(|metric| metric.of(&name)));
    }
    Ok(measured)
}

/// A round trip to the server, and its time unless the check is about something else.
fn ping(link: &mut Link, what: &What) -> Result<Measured, CliError> {
    let took = link.round_trip().map_err(|error| error.context("server ping"))?;
    let rtt = Metric::new("rtt", milliseconds(took), "ms").usual();
    let rtt = match what {
        What::Functions(_) => None,
        What::Roundtrip { function, .. } if function.given()?.is_some() => None,
        What::Function(function) => {
            let function = function.name_or_usual(link.dialer.settings())?;
            Some(rtt.of(&show_function(&function)))
        }
        What::Server | What::Roundtrip { .. } => Some(rtt),
    };
    Ok(rtt.into_iter().collect::<Vec<_>>().into())
}

/// A function that does not exist counts as one without jobs and workers.
fn figures(name: &str, status: Option<&FunctionStatus>) -> Vec<Metric> {
    let [_, queued, running, workers] =
        counts(status).map(|(key, count)| Metric::new(key, count as f64, "").of(name));
    let problem = status.and_then(unattended);
    vec![queued.usual(), running, Metric { problem, ..workers.usual() }]
}

fn unattended(status: &FunctionStatus) -> Option<Problem> {
    let is_alone = status.queued() > 0 && status.workers == 0;
    is_alone.then_some(Problem::Unattended("queued jobs but no workers"))
}

/// A round trip through a worker.
fn worker(
    link: &mut Link,
    function: FunctionName,
    send: &str,
    expect: Option<&str>,
) -> Result<Measured, CliError> {
    let name = show_function(&function);
    let timeout = link.dialer.timeout().unwrap_or(PATIENCE);
    let options = as_before(link, (&function, send), SubmitOptions::default().timeout(timeout))?;
    let start = Instant::now();
    let mut result = Vec::new();
    for event in link.client()?.submit(function, send, options).map_err(cli_error)? {
        use gearman_client::JobEvent as Event;
        match event.map_err(cli_error)? {
            Event::Data(bytes) | Event::Complete(bytes) => result.extend_from_slice(&bytes),
            Event::Fail | Event::Exception(_) => {
                return Err(CliError::new(Exit::Negative, "JOB_FAILED", "the job failed"));
            }
            _ => {}
        }
    }
    let rtt = Metric::new("rtt", milliseconds(start.elapsed()), "ms").of(&name).usual();
    let text = String::from_utf8_lossy(&result);
    if expect.is_some_and(|expect| expect.as_bytes() != result && !glob(expect, &text)) {
        let shown = String::from_utf8_lossy(result.get(..SHOWN).unwrap_or(&result));
        let text = format!("unexpected result: {shown}");
        return Err(CliError::new(Exit::Negative, "UNEXPECTED_RESULT", text));
    }
    let stated = if expect.is_none() { Stated::read(&text) } else { None };
    Ok(Measured { metrics: vec![rtt], stated, ..Measured::default() })
}

/// The options with the id of this check. A job with it that is still queued was left by an earlier check: no
/// worker has asked for a job since, or the server would have dropped it.
fn as_before(
    link: &mut Link,
    (function, send): (&FunctionName, &str),
    options: SubmitOptions,
) -> Result<SubmitOptions, CliError> {
    let parts = [b"gearctl check roundtrip", function.as_bytes(), send.as_bytes()];
    let id = UniqueId::of_payload(parts.join(&0));
    let bound = link.patience();
    let client = link.client()?;
    // Not every server answers this.
    client.set_reply_timeout(bound / 2);
    match Answer::of(client.status_unique(id).map_err(cli_error))? {
        Answer::Came(JobStatus { is_known: true, is_running: false, waiting: Some(0), .. }) => {
            let text = "the job of an earlier check is still queued: no worker has asked for it";
            Err(CliError::timeout(text))
        }
        Answer::Came(_) => Ok(options.unique(id)),
        Answer::Unsupported(_) | Answer::Silent(_) => {
            client.reconnect().map_err(cli_error)?;
            Ok(options)
        }
    }
}
