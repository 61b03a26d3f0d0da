//! `exporter`: the servers' queues for Prometheus, and for autoscalers that query a single queue.

mod collect;
mod http;
mod metrics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use hyper::StatusCode;
use hyper::body::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

pub use self::collect::{Choice, Known};
pub(crate) use self::collect::{Collector, Look};
use self::http::{Asked, Reply};
pub use self::metrics::{Kind, Metrics};
use crate::commands::address;
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::{Column, Output, Shape};
use crate::system::listen;
use crate::text::{escape, units};

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

    /// Naming scheme of the metrics
    #[arg(long, value_name = "NAMES")]
    names: Option<String>,

    #[command(flatten)]
    choice: Choice,
}

/// A tool's queries and names for the exporter.
pub struct Exports<T: Tool> {
    /// The prefix of its own metrics, such as `beanstalkd`.
    pub prefix: &'static str,
    /// The name of a queue: the label, and the parameter of `/scale`.
    pub noun: &'static str,
    /// Naming schemes; the first one is the default.
    pub names: &'static [Names],
    /// The current metrics of a server, with these names.
    pub scrape: Scrape<T>,
    /// Whether this can be the name of a queue.
    pub valid: fn(&str) -> Result<(), CliError>,
    /// The pending work in the queue with this name, which may not exist. `value` is the number to scale by.
    pub scale: fn(&mut T::Link, &str) -> Result<Counts, CliError>,
}

/// Named counts.
pub type Counts = Vec<(&'static str, i64)>;

/// Queries a server for its metrics.
pub type Scrape<T> =
    fn(&mut <T as Tool>::Link, &Names, &Choice, &mut Known) -> Result<Metrics, CliError>;

/// A naming scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Its name for `--names`.
    pub name: &'static str,
    /// The label for the server.
    pub server: &'static str,
}

/// Runs `exporter`: requests query all servers anew, in parallel. Those that come during a query share the next one.
///
/// # Errors
/// Invalid flags (2); an address that cannot be bound (69). With `--count`, the error of the worst server.
pub fn run<T: Tool>(
    context: &mut Context<T>,
    args: &ExporterArgs,
    exports: &'static Exports<T>,
) -> Result<Exit, CliError> {
    let names = exports.names(args.names.as_deref())?;
    if args.count.is_none() {
        context.stamp();
    }
    let collector = Collector::new(context, exports, names, args.choice.clone())?;
    let interrupts = context.interrupts()?;
    if let Some(count) = args.count {
        for _ in 1..count {
            print(&mut context.out, &collector)?;
            interrupts.sleep(Duration::from_secs(1))?;
        }
        return print(&mut context.out, &collector);
    }
    let wanted = listen::tcp_address(&args.listen, args.allow_remote, "exporter")?;
    let (listener, address) = listen::bind(wanted)?;
    context.messages.note(format!("metrics on http://{address}/metrics"));
    address::print(&mut context.out, address)?;
    let exporter = Arc::new(Exporter::new(collector));
    http::serve(listener, &interrupts, address.ip().is_loopback(), move |asked| {
        Arc::clone(&exporter).answer(asked)
    })
}

/// Prints the metrics: as records in document formats, otherwise in the scrape format.
fn print<T: Tool>(out: &mut Output, collector: &Collector<T>) -> Result<Exit, CliError> {
    let (metrics, failures) = scrape(collector);
    let are_all_down = failures.len() == collector.addresses().len();
    let worst = failures.into_iter().max_by_key(|error| error.exit.code());
    match (out.style.format, worst) {
        (format, Some(worst)) if format.has_records() && are_all_down => Err(worst),
        (format, worst) if format.has_records() => {
            let mut list = out.list(&METRICS)?;
            metrics.records().try_for_each(|record| list.push(record))?;
            list.finish()?;
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

impl<T: Tool> Exports<T> {
    pub(crate) fn names(&self, wanted: Option<&str>) -> Result<Names, CliError> {
        let found = match wanted {
            Some(wanted) => self.names.iter().find(|names| names.name == wanted),
            None => self.names.first(),
        };
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = self.names.iter().map(|names| names.name).collect();
            let wanted = wanted.unwrap_or_default();
            CliError::usage(format!(
                "there is no naming scheme `{}`",
                crate::text::escape::line(wanted)
            ))
            .hint(format!("--names {}", known.join(" or --names ")))
        })
    }
}

struct Exporter<T: Tool> {
    collector: Arc<Collector<T>>,
    turns: Turns,
}

impl<T: Tool> Exporter<T> {
    fn new(collector: Collector<T>) -> Self {
        Self { collector: Arc::new(collector), turns: Turns::default() }
    }

    async fn answer(self: Arc<Self>, asked: Asked) -> Reply {
        match asked.path.as_str() {
            "/metrics" => {
                asked.keep();
                match self.metrics().await {
                    Ok(body) => Reply {
                        status: StatusCode::OK,
                        // The same lines serve both formats; older readers do not know the newer name.
                        content_type: match asked.accept.contains("application/openmetrics-text") {
                            true => "application/openmetrics-text; version=1.0.0; charset=utf-8",
                            false => "text/plain; version=0.0.4; charset=utf-8",
                        },
                        body,
                    },
                    Err(error) => {
                        http::plain(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message))
                    }
                }
            }
            "/scale" => {
                asked.keep();
                let (status, document) = self.scale(&asked.query).await.unwrap_or_else(|error| {
                    let status = match error.exit {
                        Exit::Usage | Exit::BadData => StatusCode::BAD_REQUEST,
                        _ => StatusCode::SERVICE_UNAVAILABLE,
                    };
                    (status, json!({ "error": error.message }))
                });
                let body = format!("{document}\n").into();
                Reply { status, content_type: "application/json", body }
            }
            "/healthz" => http::plain(StatusCode::OK, "ok\n"),
            "/" => http::plain(StatusCode::OK, "/metrics\n/healthz\n/scale?queue=NAME\n"),
            _ => {
                http::plain(StatusCode::NOT_FOUND, "not found; try /metrics, /healthz or /scale\n")
            }
        }
    }

    async fn metrics(&self) -> Result<Bytes, CliError> {
        let collector = Arc::clone(&self.collector);
        self.turns.share(move || Bytes::from(scrape(&collector).0.text())).await
    }

    /// The pending work in one queue, summed over all servers: a sum of some of them would make an autoscaler scale
    /// down while the others are out of reach.
    async fn scale(&self, query: &str) -> Result<(StatusCode, Value), CliError> {
        let exports = self.collector.exports;
        let name = queue_of(query)?;
        (exports.valid)(&name)?;
        let (collector, asked) = (Arc::clone(&self.collector), name.clone());
        let ask = move || collector.ask_all(|link, _| (exports.scale)(link, &asked));
        let answers = self.turns.take(ask).await?;
        let servers = answers.len();
        let mut sums = BTreeMap::<&str, i64>::new();
        let mut failures = Vec::new();
        for (answer, address) in answers.into_iter().zip(self.collector.addresses()) {
            match answer {
                Ok(counts) => counts.into_iter().for_each(|(key, count)| {
                    let sum = sums.entry(key).or_default();
                    *sum = sum.saturating_add(count);
                }),
                Err(error) => failures.push(error.at(address)),
            }
        }
        if !failures.is_empty() {
            let why = failures.join("; ");
            let which =
                format!("{} of {} failed", failures.len(), units::count(servers as u64, "server"));
            return Err(CliError::unavailable(format!("{which}: {why}")));
        }
        let mut document = Map::new();
        document.insert("queue".to_owned(), name.into());
        document.insert("servers".to_owned(), servers.into());
        document.extend(sums.into_iter().map(|(key, sum)| (key.to_owned(), sum.into())));
        Ok((StatusCode::OK, document.into()))
    }
}

/// Requests that query the servers, one after the other: each server has one connection.
#[derive(Default)]
struct Turns {
    /// The last shared result, and when its query began.
    last: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl Turns {
    /// The result of a query that began after this was called, which all that wait for one share.
    async fn share(
        &self,
        query: impl FnOnce() -> Bytes + Send + 'static,
    ) -> Result<Bytes, CliError> {
        let asked = Instant::now();
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some((begun, result)) = &*last
            && *begun >= asked
        {
            return Ok(result.clone());
        }
        let query = move || {
            let (begun, result) = (Instant::now(), query());
            *last = Some((begun, result.clone()));
            result
        };
        listen::http::in_thread(query).await
    }

    /// The result of a query of its own.
    async fn take<O: Send + 'static>(
        &self,
        query: impl FnOnce() -> O + Send + 'static,
    ) -> Result<O, CliError> {
        let turn = Arc::clone(&self.last).lock_owned().await;
        // It goes on if nobody waits any more, and its turn with it.
        let query = move || (query(), drop(turn));
        listen::http::in_thread(query).await.map(|(result, ())| result)
    }
}

/// The metrics of all servers that answer, and the errors of the others.
fn scrape<T: Tool>(collector: &Collector<T>) -> (Metrics, Vec<CliError>) {
    let Collector { exports, names, .. } = collector;
    let (mut all, mut failures) = (Metrics::default(), Vec::new());
    let (up, seconds) =
        (format!("{}_up", exports.prefix), format!("{}_scrape_duration_seconds", exports.prefix));
    for (address, answer) in collector.addresses().zip(collector.looks()) {
        let label = (names.server, address);
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

/// The name in a query that has no other parameter: one that is ignored would give a wrong number.
fn queue_of(query: &str) -> Result<String, CliError> {
    let wrong = |why: String| Err(CliError::usage(format!("{why}: /scale?queue=NAME")));
    let mut name = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != "queue" {
            return wrong(format!("unknown parameter `{}`", escape::line(key)));
        }
        if value.contains('+') {
            return wrong("a + may mean itself or a space, so write %2B or %20".to_owned());
        }
        let value = percent_decode_str(value).decode_utf8();
        let Ok(value) = value else { return wrong("the name is not UTF-8".to_owned()) };
        if name.replace(value.into_owned()).is_some() {
            return wrong("several queues are given, and the answer is about one".to_owned());
        }
    }
    name.map_or_else(|| wrong("which queue?".to_owned()), Ok)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    /// Only the first one had begun when the others came.
    #[test]
    fn requests_that_come_during_a_query_share_the_next() {
        let turns = Turns::default();
        let (count, (go, gone)) = (Arc::new(AtomicUsize::new(0)), channel::<()>());
        let gone = Arc::new(std::sync::Mutex::new(gone));
        let begun = Arc::new(AtomicBool::new(false));
        let request = || {
            let (count, gone, begun) = (Arc::clone(&count), Arc::clone(&gone), Arc::clone(&begun));
            turns.share(move || {
                begun.store(true, Ordering::SeqCst);
                gone.lock().unwrap().recv().unwrap();
                count.fetch_add(1, Ordering::SeqCst).to_string().into()
            })
        };
        let later = async || {
            while !begun.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
            request().await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (one, two, three, ()) = runtime.block_on(async {
            tokio::join!(request(), later(), later(), async {
                while !begun.load(Ordering::SeqCst) {
                    tokio::task::yield_now().await;
                }
                tokio::task::yield_now().await;
                go.send(()).unwrap();
                go.send(()).unwrap();
            })
        });
        let results = [one, two, three].map(|result| result.unwrap());
        assert_eq!(results, ["0", "1", "1"].map(Bytes::from));
    }

    #[test]
    fn a_parameter_is_decoded_and_only_one_queue_is_asked_for() {
        let of = |query| queue_of(query).map_err(|error| error.message);
        assert_eq!(of("queue=a%20b%2Bc").as_deref(), Ok("a b+c"));
        assert_eq!(of("&queue=a&").as_deref(), Ok("a"));
        for (query, why) in [
            ("", "which queue?"),
            ("queues=x&queue=a", "unknown parameter `queues`"),
            ("queue=a&include=delayed", "unknown parameter `include`"),
            ("queue=a&queue=b", "several queues"),
            ("queue=a+b", "%2B or %20"),
            ("queue=%ff", "not UTF-8"),
        ] {
            assert!(of(query).unwrap_err().contains(why), "{query}: {:?}", of(query));
        }
    }
}
