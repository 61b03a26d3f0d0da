//! Scripts for a session: from a pipe, `-f` and `-e`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout, Stdio};

use ctl_core::context::Tool;
use ctl_core::repl::guest::Interactive;

use crate::Case;
#[cfg(unix)]
use crate::program::hears;
use crate::program::{Program, Ran, Running, fed};

/// Runs a script.
#[must_use]
pub fn repl(program: &Program, address: &str, arguments: &[&str], script: impl AsRef<[u8]>) -> Ran {
    let mut command = program.command(&[&[program.flag, address, "repl"], arguments].concat());
    // It would make each wait of the script last as long.
    command.env_remove(format!("{}_TIMEOUT", program.prefix));
    fed(command, script.as_ref())
}

/// For sessions that connect to another server, which has a second to answer by default.
pub const PATIENTLY: &[&str] = &["--timeout", "60s"];

/// A session that is fed line by line.
pub struct Fed {
    child: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Fed {
    /// Starts a session.
    #[must_use]
    pub fn start(program: &Program, address: &str, arguments: &[&str]) -> Self {
        let line = [&[program.flag, address, "repl"], arguments].concat();
        let child = program.command(&line).stdin(Stdio::piped()).spawn().unwrap();
        let mut child = Running::of(child);
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Waits for the next line on stdout; the test runner limits the wait.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads its stderr up to this text, which the result of its end then lacks.
    pub fn complains(&mut self, text: &str) -> String {
        let (mut said, mut byte) = (Vec::new(), [0]);
        let err = self.child.stderr.as_mut().unwrap();
        while !said.ends_with(text.as_bytes()) {
            // Byte by byte, so that the rest stays there.
            let ends = err.read(&mut byte).unwrap() == 0;
            assert!(!ends, "it ended before {text:?}: {}", String::from_utf8_lossy(&said));
            said.extend(byte);
        }
        String::from_utf8(said).unwrap()
    }

    /// Closes its stdin, and waits for it to end. The result lacks the lines already heard.
    #[must_use]
    pub fn end(mut self) -> Ran {
        let mut rest = Vec::new();
        drop(self.stdin);
        self.stdout.read_to_end(&mut rest).unwrap();
        Ran { bytes: rest, ..self.child.ended() }
    }

    /// Waits for it to end with its stdin open: after a signal, a session must not wait for the end of input.
    #[must_use]
    pub fn ends_by_itself(self) -> Ran {
        let stdin = self.stdin;
        let ended = self.child.ended();
        drop(stdin);
        ended
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub fn signal(&self, signal: rustix::process::Signal) {
        crate::program::signal(&self.child, signal);
    }
}

/// The error names the line that could not connect; the lines before it needed no connection.
pub fn session_exits_69_and_names_the_failing_line<T: Tool>(case: &Case<T>) {
    let (_port, address) = Case::<T>::dead_address();
    let ended = repl(&case.program, &address, &[], ":set\nping").exits(69);
    assert!(ended.says("stdin:2: UNAVAILABLE"), "{ended:?}");
    assert!(ended.err.contains(", or connect ADDRESS"), "{ended:?}");
    assert!(!ended.err.contains("--embedded") && !ended.err.contains(case.program.variables[0]));
}

/// The error names its line, in JSON too, and no later line runs.
pub fn session_errors_end_the_script_with_their_exit_code<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let add = case.add;
    for (line, code) in [
        ("pign".to_owned(), 2),
        ("ping --nope".to_owned(), 2),
        (format!("{add} \"x"), 2),
        (format!("{add} @/does/not/exist"), 66),
    ] {
        for format in ["table", "json"] {
            let text = format!("# a comment\n{line}\n{add} never\n");
            let ended = repl(&case.program, &address, &["-o", format], text).exits(code);
            let said = match format {
                "json" => ended.error()["message"].as_str().unwrap().starts_with("stdin:2: "),
                _ => ended.says("stdin:2: "),
            };
            assert!(said, "{line}: {ended:?}");
            assert_eq!(ended.err.contains("did you mean ping?"), line == "pign", "{ended:?}");
        }
    }
    assert_eq!((case.jobs)(&server), 0);
}

/// Flags that only matter when the session starts are refused on its lines, and named.
pub fn session_rejects_startup_flags_on_a_line<T: Interactive>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let flag = T::PROGRAM.servers.flag;
    let bounded = Some("--timeout").filter(|_| !T::WORDS.line_flags.contains(&"timeout"));
    let lines = [
        ("ping --wait-for-server 1".to_owned(), Some("--wait-for-server")),
        ("ping --tls".to_owned(), Some("--tls")),
        (format!("ping {flag} x"), Some(flag)),
        (format!("connect {address}"), None),
        ("connect --context prod".to_owned(), None),
        ("ping --context prod".to_owned(), Some("--context")),
        ("connect --context prod --tls".to_owned(), Some("--tls")),
        (format!("connect --context prod {flag} x"), Some(flag)),
        ("ping -o json -y".to_owned(), None),
        ("ping --timeout 1s".to_owned(), bounded),
    ];
    let script: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
    let ran = repl(&case.program, &address, &["--keep-going"], script.join("\n"));
    let refused = |at: usize| {
        let place = format!("stdin:{}: ", at + 1);
        let error = ran.err.lines().find(|line| line.contains(&place))?;
        error.split_once(" only works when the session starts")?.0.rsplit(' ').next()
    };
    for (at, (line, flag)) in lines.iter().enumerate() {
        assert_eq!(refused(at), *flag, "{line}: {ran:?}");
    }
}

/// `-e` and `-f` are scripts with their own names.
pub fn arguments_and_files_win_over_redirected_stdin<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let add = case.add;
    let run =
        |arguments: &[&str]| repl(&case.program, &address, arguments, format!("{add} never\n"));
    let (one, two) = (format!("{add} a"), format!("{add} \"b\""));
    run(&["-e", &one, "-e", &two]).exits(0);
    assert_eq!((case.jobs)(&server), 2);
    let ended = run(&["-e", &one, "-e", "nonsense"]).exits(2);
    assert!(ended.says("-e:2: unknown command"), "{ended:?}");
    let ended = run(&["-e", "bench"]).exits(2);
    assert!(ended.says("-e:1: `bench` runs in a shell only"), "{ended:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a script");
    std::fs::write(&file, format!("{add} a\r\n{add} @/does/not/exist\r\n")).unwrap();
    let name = file.to_str().unwrap();
    let ended = run(&[name]).exits(66);
    assert!(ended.says(&format!("{name}:2: ")), "{ended:?}");
    run(&["/does/not/exist"]).exits(66);
    assert_eq!((case.jobs)(&server), 4);
}

/// All lines use the same server, which ends with the session.
pub fn embedded_server_lasts_for_the_session<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    std::fs::write(&file, format!("{} a\n{} mail -o name\n", case.add, case.list)).unwrap();
    let line = ["--embedded", "repl", file.to_str().unwrap()];
    let ended = case.program.bare(&line).exits(0);
    assert!(ended.lines().last().unwrap().ends_with("mail"), "{ended:?}");
    let address = ended.err.split_whitespace().find(|word| word.starts_with("127.0.0.1:")).unwrap();
    assert!(TcpStream::connect(address).is_err(), "no listener is left behind");
    case.program.at("127.0.0.1:1", &["--embedded", "repl"]).exits(2);
}

/// Later lines go to the other server.
pub fn connect_switches_servers<T: Tool>(case: &Case<T>) {
    let ((one, first), (two, second)) = (Case::<T>::server(), Case::<T>::server());
    let add = case.add;
    let text = format!("{add} a\nconnect {second}\n{add} b\n{add} c\n");
    let ended = repl(&case.program, &first, PATIENTLY, text).exits(0);
    assert_eq!(((case.jobs)(&one), (case.jobs)(&two)), (1, 2));
    assert!(ended.lines().iter().any(|line| line.contains(&second)), "{ended:?}");
}

/// The state of the session is kept, too.
pub fn a_failed_connect_keeps_the_old_connection<T: Tool>(case: &Case<T>) {
    let ((one, first), (_port, second)) = (Case::<T>::server(), Case::<T>::dead_address());
    let add = case.add;
    let text = format!("{add} a\nconnect {second}\n{add} b\n");
    let ended = repl(&case.program, &first, &["--keep-going"], text).exits(3);
    assert!(ended.err.contains(&format!("still connected to {first}")), "{ended:?}");
    assert_eq!((case.jobs)(&one), 2);
}

/// To files and to other programs.
#[cfg(unix)]
pub fn session_redirects_output<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let (add, list, name) = (case.add, case.list, file.display());
    let text = format!(
        "{add} \">\"\n{add} a>b|c\n{list} > '{name}'\n{list} -o json >> \"{name}\"\n{list} | tr a-z A-Z\n{list} \\G\n"
    );
    let ended = repl(&case.program, &address, &[], text).exits(0);
    assert_eq!((case.jobs)(&server), 2);
    let written = std::fs::read_to_string(&file).unwrap();
    let (plain, json) = written.split_once('[').unwrap();
    assert!(plain.contains("mail\t"), "{written}");
    assert!(serde_json::from_str::<serde_json::Value>(&format!("[{json}")).is_ok(), "{written}");
    let out = ended.out();
    let has_line = out.lines().any(|line| line.contains(": ") && line.ends_with("mail"));
    assert!(out.contains("MAIL\t") && has_line && !out.contains("mail\t"), "{out}");
    // Nothing is sent if its result could not be written.
    let lost = format!("{add} lost > '{name}/x'");
    let ended = repl(&case.program, &address, &[], lost).exits(74);
    assert!(ended.err.contains("results/x"), "{ended:?}");
    repl(&case.program, &address, &[], format!("{list} | head -c 1 > /dev/null\n{list}")).exits(0);
    assert_eq!((case.jobs)(&server), 2);
}

/// An unreachable server is reported once, and is waited for.
#[cfg(unix)]
pub fn a_repeated_listing_survives_a_lost_connection<T: Tool>(case: &Case<T>) {
    let port = fixtures::Port::take().unwrap();
    let (server, address) = Case::<T>::server_at(&port);
    case.adds(&address, "x");
    let line = [case.program.flag, &address, case.list, "-i", "100ms"];
    let mut child = case.program.command(&line).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut err = BufReader::new(child.stderr.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    drop(server);
    hears(&mut err, "retrying until it works");
    let _again = Case::<T>::server_at(&port);
    let said = hears(&mut err, "the server is back");
    assert_eq!(said.matches("trying again").count(), 0, "{said}");
    crate::program::signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
