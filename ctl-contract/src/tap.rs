//! `tap`, between a program and its server.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, Stdio};

use ctl_core::context::Tool;
use ctl_core::link::Link as _;
use rustix::process::Signal;
use serde_json::Value;

use crate::Case;
use crate::program::{Program, Ran, Running, signal};

/// A running tap.
pub struct Tap {
    child: Running,
    stdout: BufReader<ChildStdout>,
    /// The address that applications connect to.
    pub address: String,
}

impl Tap {
    /// The tap of a program in front of a server; its lines are NDJSON.
    #[must_use]
    pub fn start(program: &Program, server: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let file = ready.to_str().unwrap();
        let line = ["tap", "--to", server, "--ready-file", file, "-o", "ndjson"];
        let child = program.command(&[&line[..], flags].concat()).spawn().unwrap();
        let mut child = Running::of(child);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        crate::until(|| ready.exists());
        let address = std::fs::read_to_string(&ready).unwrap().trim_end().to_owned();
        Self { child, stdout, address }
    }

    /// Waits for a line for which this is true, and returns it.
    pub fn line(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the tap has ended");
            let line = serde_json::from_str(&line).unwrap();
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Ends it by a signal; returns the rest of its lines, and how it ended.
    pub fn end(mut self) -> (Vec<Value>, Ran) {
        signal(&self.child, Signal::TERM);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let lines = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (lines, self.child.ended().exits(143))
    }
}

/// A Python script with a third-party client, run with an address; none if no Python has this module. The variable
/// `CLIENTS_PYTHON` names one that has it.
#[must_use]
pub fn python(module: &str, script: &str, address: &str) -> Option<Command> {
    let python = std::env::var_os("CLIENTS_PYTHON").unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: there is no Python with {module}");
        return None;
    }
    let mut command = Command::new(&python);
    command.args(["-c", script, address]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// A filter may match more of a body than is shown.
pub fn tap_filters_match_more_than_is_shown<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let mut tap = Tap::start(&case.program, &address, &["--body", "4", "--filter", "body~=needle"]);
    let add: Vec<&str> = case.add.split(' ').collect();
    for body in ["nothing in it", "hay, hay, hay and a needle"] {
        case.program.at(&tap.address, &[&add[..], &[body]].concat()).exits(0);
    }
    let line = tap.line(|line| line["body"].is_string());
    assert!(line["body"].as_str().unwrap().len() <= 4, "{line}");
    assert!(line["size"].as_u64().unwrap() >= 26, "{line}");
    tap.end();
}

/// Even if less of the body is shown.
pub fn tap_decodes_bodies<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let mut tap = Tap::start(&case.program, &address, &["--decode", "auto", "--body", "5"]);
    let body = r#"{"class":"Newsletter","args":["a much longer argument than is shown"]}"#;
    let add: Vec<&str> = case.add.split(' ').chain([body]).collect();
    case.program.at(&tap.address, &add).exits(0);
    let line = tap.line(|line| line["envelope"].is_object());
    assert_eq!(line["envelope"]["class"], "Newsletter", "{line}");
    assert_eq!(line["body"].as_str().unwrap(), r#"{"cla"#);
    tap.end();
}

/// With bodies, response times and a summary.
pub fn tap_prints_traffic<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let tap = Tap::start(&case.program, &address, &[]);
    let add: Vec<&str> = case.add.split(' ').chain(["body \x1b[2J"]).collect();
    case.program.at(&tap.address, &add).exits(0);
    assert_eq!((case.jobs)(&server), 1);
    let (lines, ran) = tap.end();
    let told = |from: &str, key: &str| {
        lines.iter().any(|line| line["from"] == from && !line[key].is_null())
    };
    assert!(told("client", "body") && told("server", "duration_ms"), "{lines:?}");
    assert!(
        lines.iter().any(|line| line["body"].as_str().is_some_and(|body| body.contains("body")))
    );
    assert!(lines.iter().all(|line| line["verb"] != "(undecoded)"), "{lines:?}");
    assert!(ran.err.contains("1 connection, 0 lines dropped"), "{}", ran.err);
    assert!(!ran.err.contains('\x1b') && ran.err.contains("SENT"), "{}", ran.err);
}

/// To the server, and from the application.
pub fn tap_relays_between_unix_sockets<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (socket, taps, file) = (path("server"), path("tap"), path("file"));
    let (server, address) = T::Link::start(&format!("unix:{}", socket.display()), None).unwrap();
    let listen = format!("unix:{}", taps.display());
    let mut tap = Tap::start(&case.program, &address, &["--listen", &listen]);
    assert_eq!(tap.address, listen);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&taps).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    case.adds(&listen, "body");
    assert_eq!((case.jobs)(&server), 1);
    tap.line(|line| line["body"].as_str().is_some_and(|body| body.contains("body")));
    tap.end();
    assert!(!taps.exists());
    // A file that is not a socket is left alone.
    std::fs::write(&file, "").unwrap();
    let listen = format!("unix:{}", file.display());
    let ran = case.program.bare(&["tap", "--to", &address, "--listen", &listen]);
    assert!(ran.exits(69).err.contains("is not a socket"));
    assert!(std::fs::metadata(&file).unwrap().is_file());
}

/// Each error names the alternative.
pub fn tap_errors_name_the_alternative<T: Tool>(case: &Case<T>) {
    let refused = |flags: &[&str], why: &str| {
        let line = [&["tap", "--to", "127.0.0.1:1"], flags].concat();
        let ran = case.program.bare(&line).exits(2);
        assert!(ran.err.contains(why), "{flags:?}: {}", ran.err);
    };
    refused(&["--listen", "0.0.0.0:0"], "without --allow-remote");
    refused(&["--filter", "color==red"], "a line has no `color`");
    refused(&["--filter", "loud"], "must be KEY OP VALUE");
    refused(&["--sort-by", "duration_ms"], "--summary");
    refused(&["-o", "raw"], "--body 4096");
    refused(&["--dry-run"], "does not support --dry-run");
    let several = case.program.bare(&["tap", "--to", "127.0.0.1:1,127.0.0.1:2"]).exits(2);
    assert!(several.err.contains("needs exactly one server"), "{}", several.err);
}
