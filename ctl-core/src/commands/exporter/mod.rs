//! `exporter`: the servers' queues for Prometheus, and for autoscalers that query a single queue.

mod collect;
mod metrics;
mod serve;

use std::time::Duration;

use clap::Args;

pub use self::collect::{Choice, Known};
pub(crate) use self::collect::{Collector, Look};
pub use self::metrics::{Kind, Metrics};
pub(super) use self::serve::scraped;
use crate::commands::address;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::{Column, Output, Shape};
use crate::system::listen;

/// Arguments of `exporter`.
#[derive(Debug, Args)]
pub struct ExporterArgs {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9419")]
    listen: String,

    /// Allow addresses that other machines can reach
    #[arg(long)]
    allow_remote: bool,

    /// Print the metrics N times, a second apart, and exit: -c 1 for a textfile collector
    #[arg(short, long, value_name = "N", conflicts_with_all = ["listen", "allow_remote"],
          value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    #[command(flatten)]
    choice: Choice,
}

/// A tool's queries for the exporter.
pub struct Exports<T: Tool> {
    /// The prefix of its own metrics, such as `beanstalkd`.
    pub prefix: &'static str,
    /// The name of a queue: the label, and the parameter of `/scale`.
    pub noun: &'static str,
    /// The current metrics of a server.
    pub scrape: Scrape<T>,
    /// Whether this can be the name of a queue.
    pub valid: fn(&str) -> Result<(), CliError>,
    /// The counts of the queue with this name, which may not exist.
    pub scale: fn(&mut T::Link, &str) -> Result<Counts, CliError>,
    /// The counts whose sum is the number to scale by.
    pub work: &'static [&'static str],
    /// The counts that `include=` adds to it.
    pub more_work: &'static [&'static str],
}

/// Named counts.
pub type Counts = Vec<(&'static str, i64)>;

/// Queries a server for its metrics.
pub type Scrape<T> = fn(&mut <T as Tool>::Link, &Choice, &mut Known) -> Result<Metrics, CliError>;

/// Runs `exporter`: requests query all servers anew, in parallel. Those that come during a query share the next one.
///
/// # Errors
/// Invalid flags (2); an address that cannot be bound (69). With `--count`, the error of the worst server.
pub fn run<T: Tool>(
    context: &mut Context<T>,
    args: &ExporterArgs,
    exports: &'static Exports<T>,
) -> Result<Exit, CliError> {
    if args.count.is_none() {
        context.stamp();
    }
    let collector = Collector::new(context, exports, args.choice.clone())?;
    let interrupts = context.interrupts()?;
    if let Some(count) = args.count {
        for _ in 1..count {
            print(&mut context.out, &collector)?;
            interrupts.sleep(Duration::from_secs(1))?;
        }
        return print(&mut context.out, &collector);
    }
    let (listener, address) =
        listen::tcp(("--listen", &args.listen), args.allow_remote, "exporter")?;
    context.messages.note(format!("metrics on http://{address}/metrics"));
    address::print(&mut context.out, address)?;
    serve::serve(listener, &interrupts, address.ip().is_loopback(), collector)
}

/// Prints the metrics: as records in document formats, otherwise in the scrape format.
fn print<T: Tool>(out: &mut Output, collector: &Collector<T>) -> Result<Exit, CliError> {
    let (metrics, failures) = scrape(collector);
    let are_all_down = failures.len() == collector.addresses().len();
    let worst = failures.into_iter().max_by_key(|error| error.exit.code());
    match (out.style.format, worst) {
        (format, Some(worst)) if format.has_records() && are_all_down => Err(worst),
        (format, worst) if format.has_records() => {
            out.list(&METRICS)?.all(metrics.records())?;
            Ok(worst.map_or(Exit::Done, |worst| worst.exit))
        }
        (_, worst) => {
            out.foreign_text(&metrics.text())?;
            out.flush()?;
            worst.map_or(Ok(Exit::Done), Err)
        }
    }
}

static METRICS: Shape =
    Shape::rows("metric", &[Column::new("metric", "METRIC"), Column::new("value", "VALUE")]);

/// The metrics of all servers that answer, and the errors of the others.
fn scrape<T: Tool>(collector: &Collector<T>) -> (Metrics, Vec<CliError>) {
    let Collector { exports, .. } = collector;
    let (mut all, mut failures) = (Metrics::default(), Vec::new());
    let (up, seconds) =
        (format!("{}_up", exports.prefix), format!("{}_scrape_duration_seconds", exports.prefix));
    for (address, answer) in collector.addresses().zip(collector.looks()) {
        let label = ("server", address);
        let is_up = if answer.is_ok() { 1.0 } else { 0.0 };
        all.add(Kind::Gauge, &up, "Whether the server answers.", [label], is_up);
        match answer {
            Ok(Look { metrics, took, .. }) => {
                let help = "The server's response time in seconds.";
                all.add(Kind::Gauge, &seconds, help, [label], took.as_secs_f64());
                all.merge(metrics, label);
            }
            Err(error) => failures.push(error),
        }
    }
    (all, failures)
}
