//! The programs of the guide that are their own files, run as a user would, and what the guide takes from files.
#![cfg(unix)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use crate::source::text;
use fixtures::{beanstalkd::Server, fault::Fault};

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/guide/src")
}

fn example(name: &str) -> PathBuf {
    fixtures::built::example(env!("CARGO_PKG_NAME"), name).unwrap()
}

/// The web service of the cookbook.
struct Service {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Service {
    fn start(queue: &str) -> Self {
        let mut child = Command::new(example("mail_service"))
            .args(["127.0.0.1:0", queue])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Service { child, output, address }
    }

    /// The status and the body of the response to one request over its own connection.
    fn ask(&self, request: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        write!(stream, "{head}content-length: {length}\r\n\r\n{body}").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// Waits for its end, which has to be successful; returns what it printed last.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

#[test]
fn the_web_service_puts_jobs_and_reports_its_health() {
    let mut server = Some(Server::start().unwrap());
    let service = Service::start(server.as_ref().unwrap().address());
    assert_eq!(service.ask("GET /health/live", "").0, 200);
    assert_eq!(service.ask("GET /health/ready", "").0, 200);
    let (status, id) = service.ask("POST /mail", "ann");
    assert_eq!(status, 202);
    let jobs = server.as_ref().unwrap().jobs();
    assert_eq!((jobs.len(), jobs[0].id.to_string()), (1, id));
    assert_eq!((jobs[0].tube.as_str(), jobs[0].body.as_slice()), ("mail", &b"ann"[..]));

    // The connection is lost with the server, and attempts to make another fail.
    drop(server.take());
    while service.ask("GET /health/ready", "").0 != 503 {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(service.ask("GET /health/live", "").0, 200, "a restart would not help");
    service.terminate();
    assert!(service.end().contains("1 of 1 jobs put"));
}

#[test]
fn the_web_service_answers_accepted_requests_after_sigterm() {
    let server = Server::start().unwrap();
    let service = Service::start(server.address());
    // The answer to the put is held back until the service has its signal.
    server.faults().add(Fault::nth(1).of("put").delay(Duration::from_secs(2)));
    thread::scope(|scope| {
        let asked = scope.spawn(|| service.ask("POST /mail", "ann"));
        while server.jobs().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        service.terminate();
        assert_eq!(asked.join().unwrap().0, 202);
    });
    assert!(service.end().contains("1 of 1 jobs put"));
}

/// mdBook leaves a block empty whose file is not there.
#[test]
fn guide_includes_only_tested_examples() {
    let mut included = 0;
    for page in fs::read_dir(guide()).unwrap() {
        let page = fs::read_to_string(page.unwrap().path()).unwrap();
        for part in page.split("{{#include ").skip(1) {
            let path = part.split("}}").next().unwrap();
            let file =
                guide().join(path).canonicalize().unwrap_or_else(|why| panic!("{path}: {why}"));
            let name = file.file_stem().unwrap().to_str().unwrap();
            let folder = file.parent().unwrap();
            assert!(folder.ends_with("examples"), "{path}");
            let tests = text(&folder.with_file_name("tests"));
            assert!(tests.contains(&format!("\"{name}\"")), "no test runs {path}");
            included += 1;
        }
    }
    assert!(included >= 2, "{included}");
}

/// A path between backticks, with `<tool>` for each tool, exists in the repository, perhaps below other folders.
#[test]
fn paths_in_documents_exist() {
    let root = crate::source::root();
    let list = Command::new("git").args(["ls-files"]).current_dir(&root).output();
    // A source archive has no list.
    let Some(list) = list.ok().filter(|list| list.status.success()) else { return };
    let files = String::from_utf8(list.stdout).unwrap();
    let mut known: Vec<&Path> =
        files.lines().flat_map(|file| Path::new(file).ancestors()).collect();
    known.sort_unstable();
    known.dedup();
    let (mut checked, mut missing) = (0, Vec::new());
    let documents = files.lines().filter(|file| {
        let name = file.trim_start_matches("docs/");
        ["CONTRIBUTING.md", "tests/README.md"].contains(file)
            || file.starts_with("docs/") && name.ends_with(".md") && !name.contains('/')
    });
    for document in documents {
        let page = fs::read_to_string(root.join(document)).unwrap();
        for quoted in
            page.split("```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2))
        {
            let is_path = quoted.contains('/')
                && quoted.chars().all(|c| c.is_ascii_alphanumeric() || "-_./<>".contains(c))
                && !quoted.starts_with("target/");
            for tool in ["bsctl", "gearctl", "adfctl"].iter().take_while(|_| is_path) {
                checked += 1;
                let path = quoted.replace("<tool>", tool).replace("<name>", "bench");
                let path = path.replace("<server>", "gearmand").replace("<protocol>", "gearmand");
                if !known.iter().any(|known| known.ends_with(&path)) {
                    missing.push(format!("{document}: {path}"));
                }
            }
        }
    }
    assert!(checked > 300, "{checked}");
    assert!(missing.is_empty(), "{missing:#?}");
}
