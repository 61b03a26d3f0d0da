//! The exporter over HTTP: metrics, the work that is pending in a queue, and a sign of life.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Request, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Collector, scrape};
use crate::context::Tool;
use crate::error::{CliError, Exit};
use crate::system::listen::Claim;
use crate::system::listen::http::{self, Reply, plain};
use crate::system::signals::Interrupts;
use crate::text::{escape, units};

/// Maximum number of connections at once.
const CONNECTIONS: usize = 512;
/// Maximum number of queues of a query: each is a round trip to every server.
const QUEUES: usize = 100;
/// Time limit of a connection, from its first byte to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers until a signal arrives. With `is_local`, only requests for this host: a page in a browser could ask for
/// others, which it has bound to this address.
///
/// # Errors
/// The operating system refuses what a server needs: exit 70.
pub(super) fn serve<T: Tool>(
    listener: TcpListener,
    interrupts: &Interrupts,
    is_local: bool,
    collector: Collector<T>,
) -> Result<Exit, CliError> {
    let collector = Arc::new(collector);
    let exporter = Arc::new(Exporter { collector, turns: Turns::default(), is_local });
    http::serve(listener, CONNECTIONS, interrupts, |stream, _, claim| {
        let exporter = Arc::clone(&exporter);
        async move {
            let respond = |request| exporter.answer(request, claim.clone());
            let _ = timeout(PATIENCE, http::answer(stream, respond)).await;
        }
    })
}

struct Exporter<T: Tool> {
    collector: Arc<Collector<T>>,
    turns: Turns,
    is_local: bool,
}

impl<T: Tool> Exporter<T> {
    async fn answer(&self, request: Request<Incoming>, claim: Claim) -> Reply {
        if let Some(refused) = http::refused(&request, self.is_local) {
            return refused;
        }
        match request.uri().path() {
            "/metrics" => {
                claim.stake();
                match self.metrics().await {
                    Ok(text) => scraped(request.headers(), text),
                    Err(error) => {
                        plain(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message))
                    }
                }
            }
            "/scale" => {
                claim.stake();
                let scaled = self.scale(request.uri().query().unwrap_or_default()).await;
                let (status, document) = match scaled {
                    Ok(document) => (StatusCode::OK, document),
                    Err(error) => {
                        let status = match error.exit {
                            Exit::Usage | Exit::BadData => StatusCode::BAD_REQUEST,
                            _ => StatusCode::SERVICE_UNAVAILABLE,
                        };
                        (status, json!({ "error": error.message }))
                    }
                };
                let body = Full::from(format!("{document}\n"));
                http::reply(status, "application/json", body)
            }
            "/healthz" => plain(StatusCode::OK, "ok\n"),
            "/" => plain(StatusCode::OK, "/metrics\n/healthz\n/scale?queue=NAME[&queue=NAME]\n"),
            _ => plain(StatusCode::NOT_FOUND, "not found; try /metrics, /healthz or /scale\n"),
        }
    }

    async fn metrics(&self) -> Result<Bytes, CliError> {
        let collector = Arc::clone(&self.collector);
        self.turns.share(move || Bytes::from(scrape(&collector).0.text())).await
    }

    /// The pending work in these queues, summed over all servers: a sum of some of them would make an autoscaler scale
    /// down while the others are out of reach.
    async fn scale(&self, query: &str) -> Result<Value, CliError> {
        let exports = self.collector.exports;
        let Wanted { queues, included } = Wanted::read(query, exports.more_work)?;
        queues.iter().try_for_each(|queue| (exports.valid)(queue))?;
        let (collector, asked) = (Arc::clone(&self.collector), queues.clone());
        let ask = move || {
            collector.ask_all(|link, _| {
                let counts = asked.iter().map(|queue| (exports.scale)(link, queue));
                Ok(counts.collect::<Result<Vec<_>, _>>()?.concat())
            })
        };
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
        let work = exports.work.iter().chain(&included).filter_map(|key| sums.get(key));
        let value = work.fold(0, |value: i64, count| value.saturating_add(*count));
        sums.insert("value", value);
        let mut document = Map::new();
        document.insert("queues".to_owned(), queues.into_iter().collect());
        document.insert("servers".to_owned(), servers.into());
        document.extend(sums.into_iter().map(|(key, sum)| (key.to_owned(), sum.into())));
        Ok(document.into())
    }
}

/// The text of metrics, for a request with these headers.
pub(in crate::commands) fn scraped(headers: &HeaderMap, text: Bytes) -> Reply {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    // The same lines serve both formats; older readers do not know the newer name.
    let content_type = match accept.unwrap_or_default() {
        types if types.contains("application/openmetrics-text") => {
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
        _ => "text/plain; version=0.0.4; charset=utf-8",
    };
    http::reply(StatusCode::OK, content_type, Full::from(text))
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
        http::in_thread(query).await
    }

    /// The result of its own query.
    async fn take<O: Send + 'static>(
        &self,
        query: impl FnOnce() -> O + Send + 'static,
    ) -> Result<O, CliError> {
        let turn = Arc::clone(&self.last).lock_owned().await;
        // It continues, and keeps its turn, without waiting clients.
        let query = move || (query(), drop(turn));
        http::in_thread(query).await.map(|(result, ())| result)
    }
}

/// The subject of a query.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    queues: BTreeSet<String>,
    /// The counts that it adds to the usual ones.
    included: BTreeSet<&'static str>,
}

impl Wanted {
    /// Refuses what it does not understand: a parameter that is ignored would give a wrong number.
    fn read(query: &str, includable: &[&'static str]) -> Result<Self, CliError> {
        let mut wanted = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if value.contains('+') {
                return wrong("a + may mean itself or a space, so write %2B or %20");
            }
            let value = percent_decode_str(value).decode_utf8();
            let Ok(value) = value else { return wrong("the value is not UTF-8") };
            match (key, includable.iter().find(|count| **count == value)) {
                ("queue", _) => drop(wanted.queues.insert(value.into_owned())),
                ("include", Some(count)) => drop(wanted.included.insert(count)),
                ("include", None) => {
                    let value = escape::line(&value).into_owned();
                    return wrong(match includable {
                        [] => format!("nothing can be included, and `{value}` is asked for"),
                        _ => format!(
                            "`{value}` cannot be included, only {}",
                            includable.join(" or ")
                        ),
                    });
                }
                _ => return wrong(format!("unknown parameter `{}`", escape::line(key))),
            }
        }
        match wanted.queues.len() {
            0 => wrong("which queue?"),
            1..=QUEUES => Ok(wanted),
            given => wrong(format!("{given} queues are more than {QUEUES}")),
        }
    }
}

fn wrong(why: impl Display) -> Result<Wanted, CliError> {
    Err(CliError::usage(format!("{why}: /scale?queue=NAME[&queue=NAME][&include=COUNT]")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    /// Only the first one had begun when the others came.
    #[test]
    fn requests_during_a_query_share_the_next_one() {
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
    fn rejects_an_unknown_parameter() {
        let of = |query: &str| {
            let read = Wanted::read(query, &["delayed"]);
            let wanted = read.map_err(|error| error.message)?;
            Ok::<_, String>((Vec::from_iter(wanted.queues), Vec::from_iter(wanted.included)))
        };
        let queues = |names: &[&str]| names.iter().copied().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(of("queue=a%20b%2Bc"), Ok((queues(&["a b+c"]), vec![])));
        assert_eq!(of("&queue=b&queue=a&queue=b"), Ok((queues(&["a", "b"]), vec![])));
        let delayed = (queues(&["a"]), vec!["delayed"]);
        assert_eq!(of("include=delayed&queue=a&include=delayed"), Ok(delayed));
        let many: Vec<_> = (0..=QUEUES).map(|number| format!("queue={number}")).collect();
        for (query, why) in [
            ("", "which queue?"),
            ("include=delayed", "which queue?"),
            ("queues=x&queue=a", "unknown parameter `queues`"),
            ("queue=a&include=buried", "`buried` cannot be included, only delayed"),
            ("queue=a&include", "`` cannot be included"),
            ("queue=a+b", "%2B or %20"),
            ("queue=%ff", "not UTF-8"),
            (&many.join("&"), "101 queues are more than 100"),
        ] {
            assert!(of(query).unwrap_err().contains(why), "{query}: {:?}", of(query));
        }
        let refused = Wanted::read("queue=a&include=delayed", &[]).unwrap_err().message;
        assert!(refused.contains("nothing can be included"), "{refused}");
    }
}
