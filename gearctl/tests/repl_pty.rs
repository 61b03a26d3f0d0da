//! `gearctl repl` as a person meets it: through a pseudo-terminal.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs
)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use fixtures::gearmand::Server;
use fixtures::real::Gearmand;
use gearman_client::SubmitOptions;
use gearman_client::blocking::Client;
use rexpect::process::WaitStatus;
use rexpect::session::{PtySession, spawn_command};

/// How long anything may take, in milliseconds: only reached when something is broken.
const PATIENCE: u64 = 60_000;

/// Sent when the line editor begins to read: bracketed paste on.
const READS: &str = "\u{1b}[?2004h";

/// A session at a terminal.
struct Terminal {
    pty: PtySession,
    /// Where the history is.
    state: tempfile::TempDir,
    /// Everything that was shown and has been looked at.
    shown: String,
}

impl Terminal {
    /// With these environment variables on top of a plain one, and these words of the command line.
    fn start(address: &str, variables: &[(&str, &str)], words: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gearctl"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm");
        command.env("HOME", state.path()).env("XDG_STATE_HOME", state.path());
        command.envs(variables.iter().copied()).args(["-s", address]).args(words);
        let pty = spawn_command(command, Some(PATIENCE)).unwrap();
        let mut terminal = Self { pty, state, shown: String::new() };
        terminal.sees("help explains");
        terminal.sees("> ");
        terminal
    }

    /// One without colours and hints, whose output is easy to follow.
    fn plain(address: &str) -> Self {
        Self::start(address, &[("NO_COLOR", "1")], &["repl"])
    }

    /// Waits for a text.
    fn sees(&mut self, text: &str) -> String {
        let before = self.pty.exp_string(text).unwrap_or_else(|error| {
            panic!("waiting for {text:?}, after {:?}: {error}", self.shown);
        });
        self.shown.push_str(&before);
        self.shown.push_str(text);
        before
    }

    /// Types keys.
    fn types(&mut self, keys: &str) {
        self.pty.send(keys).unwrap();
        self.pty.flush().unwrap();
    }

    /// Types a line and waits for what it says.
    fn says(&mut self, line: &str, answer: &str) -> String {
        self.types(&format!("{line}\r"));
        self.sees(answer)
    }

    /// Types Ctrl-C at the line editor and waits until it reads again: like a terminal that gets a signal, it
    /// forgets keys that were typed together with it.
    fn interrupts(&mut self) {
        self.types("\u{3}");
        self.sees(READS);
    }

    /// Waits for the end and gives the exit code.
    fn ends(&mut self) -> i32 {
        self.shown.push_str(&self.pty.exp_eof().unwrap());
        match self.pty.process().wait().unwrap() {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }

    fn history(&self) -> PathBuf {
        self.state.path().join("gearctl/history")
    }
}

/// Runs a scenario against the in-memory server, and against the real one where it is installed.
fn on_both(scenario: impl Fn(&str)) {
    let server = Server::start().unwrap();
    scenario(server.address());
    if let Some(server) = Gearmand::start() {
        scenario(server.address());
    }
}

#[test]
fn tab_completes_verbs_flags_handles_and_live_function_names() {
    on_both(|address| {
        let mut terminal = Terminal::plain(address);
        let mut client = Client::connect(address).unwrap();
        client.submit_background("newsletter", "x", SubmitOptions::default()).unwrap();
        // Names are fetched again after a command that may have made a function.
        terminal.says("submit other x", "H:");
        terminal.sees(READS);
        // A slow answer leaves the names as they were, and the bell rings: the next Tab has them.
        for attempt in 0.. {
            assert!(attempt < 1000, "{}", terminal.shown);
            terminal.types("submit newsl\t");
            let (_, heard) = terminal.pty.exp_regex("newsletter|\u{7}").unwrap();
            if heard == "newsletter" {
                break;
            }
            // Kills the line.
            terminal.types("\u{15}");
        }
        let handle = terminal.says("y", "H:");
        assert!(!handle.contains("error"), "{handle}");
        terminal.sees(READS);
        // A subcommand of a command, a flag with its value, the handle that was shown last.
        terminal.types("cance\t");
        terminal.sees("cancel");
        terminal.interrupts();
        terminal.types("function maxq\tnewsl\t7\r");
        terminal.sees("newsletter");
        terminal.sees(READS);
        // All handles begin alike.
        terminal.types("cancel H\t3 -o json -n\r");
        terminal.sees("\"handles\": [");
        terminal.says("quit", "\n");
        assert_eq!(terminal.ends(), 0);
    });
}

#[test]
fn a_bare_command_line_on_a_terminal_is_a_session() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::start(server.address(), &[("NO_COLOR", "1")], &[]);
    terminal.says("version", READS);
    terminal.types("\u{4}");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn the_prompt_names_the_servers_and_their_loss() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let both = format!("{},{}", one.address(), two.address());
    let mut terminal = Terminal::plain(&both);
    terminal.says("version", &format!("{both}> "));
    terminal.says(&format!("connect {}", two.address()), "connected to ");
    terminal.sees(&format!("{}> ", two.address()));
    let address = two.address().to_owned();
    two.stop();
    // While idle: nobody types anything.
    terminal.sees("connection lost");
    terminal.types("\r");
    terminal.sees("not connected> ");
    let listen = fixtures::gearmand::Listen::Tcp(address.parse().unwrap());
    let _again = Server::builder().listen(listen).start().unwrap();
    terminal.sees("connected again");
    terminal.types("\r");
    terminal.sees(&format!("{address}> "));
    terminal.says("quit", "\n");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn the_history_is_private_and_keeps_no_secrets() {
    let server = Server::start().unwrap();
    let mut terminal = Terminal::plain(server.address());
    let long = "x".repeat(5000);
    terminal.says("submit f hello", "H:");
    terminal.sees(READS);
    terminal.says(" submit f hidden", "H:");
    terminal.sees(READS);
    terminal.says("raw version", READS);
    terminal.says(&format!("submit f {long}"), "\nH:");
    terminal.sees(READS);
    terminal.types("submit f <<E\rone\rE\r");
    terminal.sees("\nH:");
    terminal.sees(READS);
    terminal.says("quit", "\n");
    assert_eq!(terminal.ends(), 0);
    let text = std::fs::read_to_string(terminal.history()).unwrap();
    assert_eq!(text, "submit f hello\nsubmit f @<5000 bytes>\nsubmit f <<E\\none\\nE\nquit\n");
    let mode = std::fs::metadata(terminal.history()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
