//! `exporter`: the servers' queues for Prometheus, and for autoscalers that query a single queue.

mod collect;
mod http;
mod metrics;

use std::collections::BTreeMap;

use clap::Args;
use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

pub use self::collect::{Choice, Known};
pub(crate) use self::collect::{Collector, Look};
use self::http::{Asked, Reply};
pub use self::metrics::{Kind, Metrics};
use crate::error::{CliError, Exit};
use crate::output::{Column, Output, Shape};
use crate::system::listen;
use crate::tool::{Context, Tool};

/// Arguments of `exporter`.
#[derive(Debug, Args)]
pub struct ExporterArgs {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9419")]
    listen: String,

    /// Allow listening on addresses that other machines can reach
    #[arg(long)]
    allow_remote: bool,

    /// Print the address on stdout, on a line of its own
    #[arg(long, conflicts_with = "once")]
    print_addr: bool,

    /// Print the metrics once and exit, for a textfile collector
    #[arg(long, conflicts_with_all = ["listen", "allow_remote"])]
    once: bool,

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

/// Runs `exporter`: every request queries all servers anew, in parallel.
///
/// # Errors
/// Invalid flags (2); an address that cannot be bound (69). With `--once`, the error of the worst server.
pub fn run<T: Tool>(
    context: &mut Context<T>,
    args: &ExporterArgs,
    exports: &'static Exports<T>,
) -> Result<Exit, CliError> {
    let names = exports.names(args.names.as_deref())?;
    if !args.once {
        context.messages = context.messages.stamped();
    }
    let exporter = Exporter(Collector::new(context, exports, names, args.choice.clone())?);
    if args.once {
        return print(&mut context.out, &exporter);
    }
    let interrupts = context.interrupts()?;
    let wanted = listen::tcp_address(&args.listen, args.allow_remote, "exporter")?;
    let (listener, address) = listen::bind(wanted)?;
    context.messages.note(format!("metrics on http://{address}/metrics"));
    if args.print_addr {
        listen::print(&mut context.out, address)?;
    }
    http::serve(listener, &interrupts, move |asked| exporter.answer(asked))
}

/// Prints the metrics: as records in document formats, otherwise in the scrape format.
fn print<T: Tool>(out: &mut Output, exporter: &Exporter<T>) -> Result<Exit, CliError> {
    let (metrics, failures) = exporter.scrape();
    let are_all_down = failures.len() == exporter.0.addresses().len();
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
                crate::output::escape::line(wanted)
            ))
            .hint(format!("--names {}", known.join(" or --names ")))
        })
    }
}

struct Exporter<T: Tool>(Collector<T>);

impl<T: Tool> Exporter<T> {
    fn answer(&self, asked: &Asked<'_>) -> Reply {
        match asked.path {
            "/metrics" => Reply {
                status: StatusCode::OK,
                // The same lines serve both formats; older readers do not know the newer name.
                content_type: match asked.accept.contains("application/openmetrics-text") {
                    true => "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    false => "text/plain; version=0.0.4; charset=utf-8",
                },
                body: self.scrape().0.text(),
            },
            "/scale" => self.scale(asked.query),
            "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
            "/" => {
                let noun = self.0.exports.noun;
                let known = format!("/metrics\n/healthz\n/scale?{noun}=NAME\n");
                text(StatusCode::OK, known)
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "not found; try /metrics, /healthz or /scale\n".to_owned(),
            ),
        }
    }

    /// The metrics of all servers that answer, and the errors of the others.
    fn scrape(&self) -> (Metrics, Vec<CliError>) {
        let Self(Collector { exports, names, .. }) = self;
        let (mut all, mut failures) = (Metrics::default(), Vec::new());
        let (up, seconds) = (
            format!("{}_up", exports.prefix),
            format!("{}_scrape_duration_seconds", exports.prefix),
        );
        for (address, answer) in self.0.addresses().zip(self.0.looks()) {
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

    /// The pending work in one queue, summed over all servers that answer.
    fn scale(&self, query: &str) -> Reply {
        let noun = self.0.exports.noun;
        let Some(name) = parameter(query, noun) else {
            return json(
                StatusCode::BAD_REQUEST,
                &json!({ "error": format!("which {noun}? /scale?{noun}=NAME") }),
            );
        };
        let mut sums = BTreeMap::<&str, i64>::new();
        let mut failure = None;
        let answers = self.0.ask_all(|link, _| (self.0.exports.scale)(link, &name));
        let came = answers.iter().filter(|answer| answer.is_ok()).count();
        for answer in answers {
            match answer {
                Ok(counts) => {
                    for (key, count) in counts {
                        let sum = sums.entry(key).or_default();
                        *sum = sum.saturating_add(count);
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) if came == 0 => {
                let status = match error.exit {
                    Exit::Usage | Exit::BadData => StatusCode::BAD_REQUEST,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                json(status, &json!({ "error": error.message }))
            }
            _ => {
                let mut document = Map::new();
                document.insert(noun.to_owned(), name.into());
                document.insert("servers".to_owned(), came.into());
                document.extend(sums.into_iter().map(|(key, sum)| (key.to_owned(), sum.into())));
                json(StatusCode::OK, &document.into())
            }
        }
    }
}

fn text(status: StatusCode, body: String) -> Reply {
    Reply { status, content_type: "text/plain; charset=utf-8", body }
}

fn json(status: StatusCode, document: &Value) -> Reply {
    Reply { status, content_type: "application/json", body: format!("{document}\n") }
}

/// The value of a parameter.
fn parameter(query: &str, wanted: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(wanted)?.strip_prefix('='))?;
    let plain = value.replace('+', " ");
    Some(percent_decode_str(&plain).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_decoded_and_only_whole_names_count() {
        assert_eq!(
            parameter("tubes=x&tube=a%20b%2Bc+d&tube=e", "tube").as_deref(),
            Some("a b+c d")
        );
        assert_eq!(parameter("tube", "tube"), None);
        assert_eq!(parameter("", "tube"), None);
    }
}
