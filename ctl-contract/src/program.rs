//! Running a tool's program, and its output.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};
use std::thread;

use ctl_core::context::Tool;
use ctl_core::program::TlsNames;
use serde_json::Value;

/// The result of a run.
pub struct Ran {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The content of stdout.
    pub bytes: Vec<u8>,
    /// The content of stderr.
    pub err: String,
}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let out = String::from_utf8_lossy(&self.bytes);
        write!(f, "exit {:?}\nstdout: {out}\nstderr: {}", self.code, self.err)
    }
}

impl Ran {
    /// The content of stdout, which must be text.
    #[must_use]
    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// The lines on stdout.
    #[must_use]
    pub fn lines(&self) -> Vec<&str> {
        self.out().lines().collect()
    }

    /// The document on stdout, which must be the only one.
    #[allow(clippy::must_use_candidate)]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: stdout is {:?}, {}", self.out(), self.err))
    }

    /// The objects on the lines of stdout.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        self.lines().into_iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The error object at the end of stderr.
    #[must_use]
    pub fn error(&self) -> Value {
        let last = self.err.lines().last().unwrap_or_default();
        let value: Value = serde_json::from_str(last)
            .unwrap_or_else(|error| panic!("{error}: stderr ends with {last:?}"));
        value["error"].clone()
    }

    /// As [`Ran::error`], with nothing on stdout.
    #[must_use]
    pub fn error_alone(&self) -> Value {
        assert!(self.bytes.is_empty(), "{:?}", self.out());
        self.error()
    }

    /// Whether a line of stderr starts with this.
    #[must_use]
    pub fn says(&self, start: &str) -> bool {
        self.err.lines().any(|line| line.starts_with(start))
    }

    /// Whether a line of stdout starts with this.
    #[must_use]
    pub fn says_out(&self, start: &str) -> bool {
        String::from_utf8_lossy(&self.bytes).lines().any(|line| line.starts_with(start))
    }

    /// This run, which must have ended with `code`.
    #[track_caller]
    #[allow(clippy::return_self_not_must_use)]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// The folder of the settings that every tool has in its tests.
pub(crate) const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/settings");

/// A tool's program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its path.
    pub path: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The flag for the servers.
    pub flag: &'static str,
    /// The prefix of its variables.
    pub prefix: &'static str,
    /// The variables with addresses.
    pub variables: &'static [&'static str],
    /// The folder of its settings.
    pub(crate) settings: &'static str,
    tls: TlsNames,
}

impl Program {
    /// The program of this tool.
    #[must_use]
    pub const fn of<T: Tool>(path: &'static str) -> Self {
        let program = T::PROGRAM;
        Self {
            path,
            name: program.name,
            flag: program.servers.flag,
            prefix: program.prefix,
            variables: program.servers.variables,
            settings: SETTINGS,
            tls: program.tls,
        }
    }

    /// The program without the settings of tests, with which it takes its time before it looks at a silent server.
    #[must_use]
    pub const fn unconfigured(self) -> Self {
        Self { settings: "/none", ..self }
    }

    /// The program with a clean environment and empty stdin.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let own = format!("{}_", self.prefix);
            let TlsNames { authorities, certificate, key, .. } = self.tls;
            let is_ours = text.starts_with(&own)
                || ["NO_COLOR", "CLICOLOR"].iter().any(|start| text.starts_with(start))
                || self.variables.iter().any(|variable| text == *variable)
                || [authorities, certificate, key].contains(&&*text);
            if is_ours {
                command.env_remove(&name);
            }
        }
        // All the time that a busy machine needs, also for connecting: tests of time limits set their own.
        command.env("XDG_CONFIG_HOME", self.settings).args(arguments);
        command.env(format!("{}_TIMEOUT", self.prefix), "60s");
        // Without notes that a busy server is waited for.
        command.env(format!("{}_PROGRESS", self.prefix), "never");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    #[must_use]
    pub fn bare(&self, arguments: &[&str]) -> Ran {
        ended(self.command(arguments).spawn().unwrap())
    }

    /// Runs it against a server.
    #[must_use]
    pub fn at(&self, address: &str, arguments: &[&str]) -> Ran {
        self.bare(&[&[self.flag, address], arguments].concat())
    }

    /// Runs it against a server, with these bytes as its stdin.
    #[must_use]
    pub fn fed(&self, address: &str, arguments: &[&str], stdin: &[u8]) -> Ran {
        fed(self.command(&[&[self.flag, address], arguments].concat()), stdin)
    }
}

/// A command run by a shell: `"$@"` of this script.
#[cfg(unix)]
#[must_use]
pub fn by_shell(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Runs a command with these bytes as its stdin.
#[must_use]
pub fn fed(mut command: Command, stdin: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    // Written concurrently, so that a child that writes much before it reads everything does not block both. One that
    // does not read its stdin may end first.
    let writer = thread::spawn(move || drop(pipe.write_all(&stdin)));
    let ran = ended(child);
    writer.join().unwrap();
    ran
}

/// A run that says this after its time limit has ended. A busy machine may take all the time for what comes before that:
/// then a longer limit follows.
#[track_caller]
pub fn late(said: &str, mut run: impl FnMut(&str) -> Ran) -> Ran {
    let mut last = None;
    for limit in ["2s", "8s", "60s"] {
        let ran = run(limit);
        if String::from_utf8_lossy(&ran.bytes).contains(said) || ran.err.contains(said) {
            return ran;
        }
        last = Some(ran);
    }
    panic!("it never says {said:?}: {last:?}");
}

/// Waits for the end of a child.
#[must_use]
pub fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: output.status.code(), bytes: output.stdout, err }
}

/// Reads lines up to the first one that has this text, and gives them.
pub fn hears(output: &mut impl BufRead, text: &str) -> String {
    let mut said = String::new();
    while !said.contains(text) {
        assert!(output.read_line(&mut said).unwrap() > 0, "it ended before {text:?}: {said}");
    }
    said
}

/// Sends a signal to a child, unless it has ended already.
#[cfg(unix)]
pub fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A program that runs beside a test; it is killed if the test fails before its end.
pub struct Running(Option<Child>);

impl Running {
    /// Takes a child over.
    #[must_use]
    pub fn of(child: Child) -> Self {
        Self(Some(child))
    }

    /// The first line on its stdout, which is then closed.
    pub fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for its end.
    #[must_use]
    pub fn ended(mut self) -> Ran {
        ended(self.0.take().unwrap())
    }

    /// Ends it as a supervisor does.
    #[cfg(unix)]
    pub fn terminated(self) -> Ran {
        signal(&self, rustix::process::Signal::TERM);
        self.ended().exits(143)
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
