//! `exporter`, as its scrapers see it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use ctl_core::context::Tool;
use fixtures::Port;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Case;
use crate::program::{Program, Ran, Running, fed};

/// A running exporter.
pub struct Exporter {
    child: Running,
    address: String,
}

impl Exporter {
    /// Starts the exporter of a program for these servers.
    #[must_use]
    pub fn start(program: &Program, servers: &str) -> Self {
        Self::with(program, servers, &[])
    }

    fn with(program: &Program, servers: &str, flags: &[&str]) -> Self {
        let line = ["exporter", "--listen", "127.0.0.1:0"];
        let line = [&line[..], flags].concat();
        let line = [&[program.flag, servers], &line[..]].concat();
        let mut child = Running::of(program.command(&line).spawn().unwrap());
        let address = child.first_line();
        Self { child, address }
    }

    /// Another program that has metrics at this address.
    pub(crate) fn of(child: Running, address: String) -> Self {
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// The head and the body of the response.
    pub(crate) fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// The body of a scrape.
    #[must_use]
    pub fn metrics(&self) -> String {
        let (head, body) = self.get("/metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        body
    }

    /// The status line and the document of `/scale`.
    #[must_use]
    pub fn scale(&self, query: &str) -> (String, Value) {
        let (head, body) = self.get(&format!("/scale?{query}"));
        (head.lines().next().unwrap().to_owned(), serde_json::from_str(&body).unwrap())
    }

    /// Stops it with a signal.
    #[allow(clippy::must_use_candidate)]
    pub fn end(self) -> Ran {
        self.child.terminated()
    }
}

/// Including after one server has been replaced by another.
pub fn exporter_queries_the_servers_on_every_scrape<T: Tool>(case: &Case<T>) {
    let port = Port::take().unwrap();
    let (server, address) = Case::<T>::server_at(&port);
    let prefix = case.metrics;
    let exporter = Exporter::start(&case.program, &address);
    let up = |is_up: u8| format!("{prefix}_up{{server=\"{address}\"}} {is_up}.0\n");
    assert!(exporter.metrics().contains(&up(1)));
    case.adds(&address, "one");
    assert!(exporter.metrics().contains("mail"), "{}", exporter.metrics());
    drop(server);
    let without = exporter.metrics();
    assert!(without.contains(&up(0)) && !without.contains("mail"), "{without}");
    let _again = Case::<T>::server_at(&port);
    assert!(exporter.metrics().contains(&up(1)));
    exporter.end();
}

/// Each under its own label, independent of the others.
pub fn exporter_labels_each_server<T: Tool>(case: &Case<T>) {
    let [(_one, first), (_two, second)] = [(); 2].map(|()| Case::<T>::server());
    let dead = "127.0.0.1:1";
    let all = [&first, &second, dead].join(",");
    let once = case.program.at(&all, &["exporter", "-c", "1"]).exits(69);
    for (address, is_up) in [(&*first, "1.0"), (&second, "1.0"), (dead, "0.0")] {
        let label = format!("{}\"}}", address.trim_start_matches("adf://"));
        let lines = once.lines();
        let at = lines.iter().filter(|line| line.contains(&label));
        let up = at.filter(|line| line.starts_with(&format!("{}_up{{", case.metrics)));
        assert_eq!(up.map(|line| line.rsplit(' ').next().unwrap()).collect::<Vec<_>>(), [is_up]);
    }
    let records = case.program.at(&all, &["exporter", "-c", "1", "-o", "json"]).exits(69).json();
    let is_up = |record: &&Value| record["metric"] == format!("{}_up", case.metrics);
    let up: Vec<&Value> = records.as_array().unwrap().iter().filter(is_up).collect();
    assert_eq!(
        up.iter().map(|record| record["value"].as_f64()).collect::<Vec<_>>(),
        [Some(1.0), Some(1.0), Some(0.0)]
    );
    assert!(up[2]["server"].as_str().unwrap().ends_with(dead));
    assert!(once.says("warning: ") && once.err.contains(dead), "{}", once.err);
    let living = [&first, &second].map(String::as_str).join(",");
    case.program.at(&living, &["exporter", "-c", "1"]).exits(0);
    // A sum without a server's share would look like less work.
    let exporter = Exporter::start(&case.program, &all);
    let (status, document) = exporter.scale("queue=mail");
    let error = document["error"].as_str().unwrap();
    assert!(status.contains("503") && document["value"].is_null(), "{status} {document}");
    assert!(error.starts_with("1 of 3 servers failed: ") && error.contains(dead), "{error}");
    exporter.end();
}

/// An autoscaler gets zeros for a missing queue, and none from an unreachable server.
pub fn exporter_scale_reports_the_backlog<T: Tool>(case: &Case<T>) {
    let port = Port::take().unwrap();
    let (server, address) = Case::<T>::server_at(&port);
    let exporter = Exporter::start(&case.program, &address);
    for body in ["one", "two"] {
        case.adds(&address, body);
    }
    let (status, document) = exporter.scale("queue=mail");
    assert_eq!((&*status, &document["value"]), ("HTTP/1.1 200 OK", &2.into()), "{document}");
    let (both, sum) = exporter.scale("queue=none&queue=mail");
    assert_eq!((&*both, &sum["value"]), ("HTTP/1.1 200 OK", &2.into()), "{sum}");
    assert_eq!((&document["queues"], &sum["queues"]), (&json!(["mail"]), &json!(["mail", "none"])));
    let (status, document) = exporter.scale("queue=none");
    assert_eq!((&*status, &document["value"]), ("HTTP/1.1 200 OK", &0.into()), "{document}");
    assert!(exporter.scale("").0.contains("400"));
    // A bad query says nothing about the server.
    for wrong in ["queue=", "queue=a&queue=", "queue=a&x=y", "queue=a&include=x"] {
        let (status, document) = exporter.scale(wrong);
        assert!(status.contains("400") && document["error"].is_string(), "{status} {document}");
    }
    assert!(exporter.metrics().contains(&format!("{}_up", case.metrics)));
    drop(server);
    assert!(exporter.scale("queue=").0.contains("400"));
    let (status, document) = exporter.scale("queue=mail");
    assert!(status.contains("503") && document["error"].is_string(), "{status} {document}");
    let said = exporter.end().err;
    assert_eq!(said.matches("warning:").count(), 1, "only the server that has gone: {said}");
}

/// Nor do the scrapes, however many wait for it.
pub fn healthz_answers_while_a_server_is_frozen<T: Tool>(case: &Case<T>) {
    // The kernel accepts, and the program never answers.
    let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = frozen.local_addr().unwrap().to_string();
    let exporter = Exporter::with(&case.program, &address, &["--timeout", "1h"]);
    let scrapes: Vec<TcpStream> = (0..80)
        .map(|_| {
            let mut stream = exporter.connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(exporter.get("/healthz").1, "ok\n");
    for mut scrape in scrapes {
        scrape.set_nonblocking(true).unwrap();
        assert!(scrape.read(&mut [0]).is_err(), "a scrape has been answered");
    }
    for line in exporter.end().err.lines() {
        let is_stamped = line.starts_with("20") && line.contains("Z ");
        assert!(is_stamped, "every line of a log has its time: {line}");
    }
}

/// A slow client does not block others.
pub fn exporter_survives_malformed_requests<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let exporter = Exporter::start(&case.program, &address);
    let mut slow: Vec<TcpStream> = (0..20).map(|_| exporter.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(b"GET /metrics HT").unwrap());
    assert_eq!(exporter.get("/healthz").1, "ok\n");
    assert!(exporter.get("/nothing").0.starts_with("HTTP/1.1 404 "));
    assert!(
        exporter
            .ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .0
            .starts_with("HTTP/1.1 405 ")
    );
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let mut stream = exporter.connect();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The exporter may close the connection before all is written.
    let _ = stream.write_all(long.as_bytes());
    let _ = stream.read_to_end(&mut Vec::new());
    assert!(exporter.ask("\x16\x03\x01 no HTTP\r\n\r\n").0.contains("400"));
    // A page whose name was bound to this address afterwards.
    let rebound = exporter.ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n").0;
    assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    let (head, body) = exporter.ask(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n",
    );
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(
        body.ends_with("# EOF\n") && head.contains("x-content-type-options: nosniff"),
        "{head}"
    );
    exporter.end();
    let remote = ["exporter", "--listen", "0.0.0.0:0"];
    let refused = case.program.at(&address, &remote).exits(2);
    assert!(refused.err.contains("without --allow-remote"), "{}", refused.err);
}

/// Uses a strict parser. `METRICS_PYTHON` names a Python that has `prometheus_client`.
///
/// # Panics
/// Panics if there is none although `CI=true` is set.
pub fn metrics_pass_a_strict_parser<T: Tool>(case: &Case<T>) {
    let python = std::env::var_os("METRICS_PYTHON").unwrap_or_else(|| "python3".into());
    let has_parser =
        Command::new(&python).args(["-c", "import prometheus_client.openmetrics"]).output();
    if !has_parser.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("CI").is_none_or(|value| value != "true"),
            "set METRICS_PYTHON to a Python that has prometheus_client"
        );
        eprintln!("left out: there is no Python with prometheus_client");
        return;
    }
    let (_server, address) = case.filled();
    let script = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
        print(sum(len(family.samples) for family in read(sys.stdin.read())))";
    let once = case.program.at(&address, &["exporter", "-c", "1"]).exits(0);
    let mut parser = Command::new(&python);
    parser.args(["-c", script]).stdout(std::process::Stdio::piped());
    parser.stderr(std::process::Stdio::piped());
    assert!(once.bytes.ends_with(b"# EOF\n"));
    let read = fed(parser, &once.bytes).exits(0);
    let samples = once.lines().iter().filter(|line| !line.starts_with('#')).count();
    assert_eq!(read.out().trim(), samples.to_string());
}

/// Every metric used by the dashboard and the alerts in `docs/monitoring` is exported.
pub fn dashboards_and_alerts_use_exported_metrics<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let once = case.program.at(&address, &["exporter", "-c", "1"]).exits(0);
    let exported: Vec<&str> =
        once.lines().into_iter().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/monitoring");
    let of =
        |end: &str| std::fs::read_to_string(format!("{folder}/{}{end}", case.metrics)).unwrap();
    let dashboard: Value = serde_json::from_str(&of(".dashboard.json")).unwrap();
    let alerts: Value = serde_yaml::from_str(&of(".alerts.yml")).unwrap();
    let mut asked = Vec::new();
    expressions(&dashboard, &mut asked);
    expressions(&alerts, &mut asked);
    assert!(asked.len() >= 8, "{asked:?}");
    for expression in asked {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: Vec<&str> =
            words.filter(|word| word.starts_with(&format!("{}_", case.metrics))).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(exported.contains(&name), "{name} of {expression} is not exported");
        }
    }
}

/// KEDA's triggers in the documentation ask for what the exporter answers, and find a number in it.
pub fn autoscaler_examples_find_a_number<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let exporter = Exporter::start(&case.program, &address);
    for page in ["monitoring/README.md", "guide/src/cookbook.md"] {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/").to_owned() + page;
        let text = std::fs::read_to_string(&page).unwrap();
        let blocks = text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let documents = blocks.flat_map(serde_yaml::Deserializer::from_str);
        let mut triggers = Vec::new();
        for document in documents {
            let document = serde_yaml::Value::deserialize(document).unwrap();
            let spec = document.get("spec").unwrap_or(&document);
            triggers.extend(spec["triggers"].as_sequence().into_iter().flatten().cloned());
        }
        assert!(!triggers.is_empty(), "{page}");
        for trigger in triggers {
            let of = |key| trigger["metadata"][key].as_str().unwrap();
            assert_eq!(trigger["type"], "metrics-api");
            let (_, query) = of("url").split_once(":9419/scale?").unwrap();
            let (status, document) = exporter.scale(query);
            assert!(status.contains("200"), "{query}: {status} {document}");
            assert!(document[of("valueLocation")].is_i64(), "{document}");
            assert!(of("targetValue").parse::<u64>().unwrap() > 0);
        }
    }
    exporter.end();
}

/// All values of `expr`.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text) if key == "expr" => found.push(text.clone()),
                    value => expressions(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}
