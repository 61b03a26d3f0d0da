//! A session at a pseudo-terminal, as a user sees it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ctl_core::context::Tool;
use ctl_core::link::Link as _;
use fixtures::fault::Fault;
use rexpect::process::{Signal, WaitStatus};
use rexpect::session::{PtySession, spawn_command};

use crate::Case;
use crate::program::{Program, ended};

/// Time limit in milliseconds, which only broken code reaches.
pub const PATIENCE: u64 = 60_000;

/// Sent when the line editor starts to read: bracketed paste on.
pub const READS: &str = "\u{1b}[?2004h";

/// A session at a terminal.
pub struct Terminal {
    /// The terminal.
    pub pty: PtySession,
    /// The folder of the history.
    pub state: tempfile::TempDir,
    /// All output that was already examined.
    pub shown: String,
    name: &'static str,
}

impl Terminal {
    /// A session with these environment variables in addition to the default ones.
    #[must_use]
    pub fn start(program: &Program, address: &str, variables: &[(&str, &str)]) -> Self {
        let mut terminal = Self::run(program, address, variables, &["repl"]);
        terminal.sees("(type help");
        terminal.sees("> ");
        terminal
    }

    /// Any command line, not necessarily a session.
    #[must_use]
    pub fn run(
        program: &Program,
        address: &str,
        variables: &[(&str, &str)],
        words: &[&str],
    ) -> Self {
        let words = [&[program.flag, address], words].concat();
        Self::by(Command::new(program.path), program, variables, &words)
    }

    /// A command line without an address.
    #[must_use]
    pub fn bare(program: &Program, variables: &[(&str, &str)], words: &[&str]) -> Self {
        Self::by(Command::new(program.path), program, variables, words)
    }

    /// The same on a terminal with this many columns.
    #[must_use]
    pub fn sized(
        program: &Program,
        address: &str,
        variables: &[(&str, &str)],
        columns: usize,
        words: &[&str],
    ) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("stty cols {columns} rows 24 && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, program.path]);
        let words = [&[program.flag, address], words].concat();
        Self::by(shell, program, variables, &words)
    }

    fn by(
        mut command: Command,
        program: &Program,
        variables: &[(&str, &str)],
        words: &[&str],
    ) -> Self {
        let state = tempfile::tempdir().unwrap();
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm");
        command.env("HOME", state.path()).env("XDG_STATE_HOME", state.path());
        command.env("XDG_CONFIG_HOME", program.settings);
        command.envs(variables.iter().copied()).args(words);
        let pty = spawn_command(command, Some(PATIENCE)).unwrap();
        Self { pty, state, shown: String::new(), name: program.name }
    }

    /// A session without colours and hints, whose output is easy to follow.
    #[must_use]
    pub fn plain(program: &Program, address: &str) -> Self {
        Self::start(program, address, &[("NO_COLOR", "1")])
    }

    /// Waits for a text.
    pub fn sees(&mut self, text: &str) -> String {
        let before = self.pty.exp_string(text).unwrap_or_else(|error| {
            panic!("waiting for {text:?}, after {:?}: {error}", self.shown);
        });
        self.shown.push_str(&before);
        self.shown.push_str(text);
        before
    }

    /// Types keys.
    pub fn types(&mut self, keys: &str) {
        self.pty.send(keys).unwrap();
        self.pty.flush().unwrap();
    }

    /// Types a line and waits for its output.
    pub fn says(&mut self, line: &str, answer: &str) -> String {
        self.types(&format!("{line}\r"));
        self.sees(answer)
    }

    /// Types the start of a line and Tab until this name, which the server has to be asked for, completes it. With a slow
    /// answer, the names stay as they were and the bell rings.
    pub fn completes(&mut self, line: &str, name: &str) {
        for attempt in 0.. {
            assert!(attempt < 1000, "{}", self.shown);
            self.types(&format!("{line}\t"));
            let (before, heard) = self.pty.exp_regex(&format!("{name}|\u{7}")).unwrap();
            self.shown.extend([&*before, &*heard]);
            if heard == name {
                return;
            }
            // Kills the line.
            self.types("\u{15}");
        }
    }

    /// Types Ctrl-C at the line editor and waits until it reads again: like a terminal that gets a signal, it drops
    /// keys that were typed together with it.
    pub fn interrupts(&mut self) {
        self.types("\u{3}");
        self.sees(READS);
    }

    /// Waits for the end and returns the exit code.
    pub fn ends(&mut self) -> i32 {
        self.shown.push_str(&self.pty.exp_eof().unwrap());
        match self.pty.process().wait().unwrap() {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }

    /// Leaves a session that asks nothing.
    pub fn leaves(&mut self) {
        self.says("quit", "\n");
        assert_eq!(self.ends(), 0);
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) {
        self.pty.process_mut().signal(signal).unwrap();
    }

    /// Continues a program that is stopping, until it shows this text: a program that has not stopped yet would stop
    /// after the signal.
    pub fn resumes(&mut self, text: &str) {
        let started = Instant::now();
        let mut shown = String::new();
        while !shown.ends_with(text) {
            match self.pty.try_read() {
                Some(next) => shown.push(next),
                None => {
                    assert!(started.elapsed().as_millis() < PATIENCE.into(), "{shown:?}");
                    self.signal(Signal::SIGCONT);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            }
        }
        self.shown.push_str(&shown);
    }

    /// The file of the history.
    #[must_use]
    pub fn history(&self) -> PathBuf {
        self.state.path().join(self.name).join("history")
    }
}

/// Lines with a leading space, long bodies and raw requests are kept in memory only.
pub fn history_is_private_and_omits_secrets<T: Tool>(case: &Case<T>) {
    use std::os::unix::fs::PermissionsExt as _;
    let (server, address) = Case::<T>::server();
    let mut terminal = Terminal::plain(&case.program, &address);
    let (add, long) = (case.add, "x".repeat(5000));
    let lines = [
        format!("{add} hello"),
        format!(" {add} hidden"),
        "raw x".to_owned(),
        format!("{add} {long}"),
    ];
    for line in lines {
        terminal.says(&line, READS);
    }
    terminal.types(&format!("{add} <<E\rone\rE\r"));
    terminal.leaves();
    assert_eq!((case.jobs)(&server), 4, "{}", terminal.shown);
    let text = std::fs::read_to_string(terminal.history()).unwrap();
    assert_eq!(text, format!("#V2\n{add} hello\n{add} @<5000 bytes>\n{add} <<E\\none\\nE\nquit\n"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let history = terminal.history();
    assert_eq!((mode(&history), mode(history.parent().unwrap())), (0o600, 0o700));
    let none = format!("{}_HISTFILE", case.program.prefix);
    let mut terminal = Terminal::start(&case.program, &address, &[("NO_COLOR", "1"), (&none, "")]);
    terminal.says(&format!("{add} hello"), READS);
    terminal.leaves();
    assert!(!terminal.history().exists());
}

/// Not even where the error is coloured.
pub fn usage_errors_escape_control_characters<T: Tool>(case: &Case<T>) {
    let word = "ctl\u{1b}[31mred\u{7}\u{202e}x";
    let flag = format!("--{word}");
    for variable in ["NO_COLOR", "CLICOLOR_FORCE"] {
        for line in [&[word][..], &[&flag], &["help", word], &["ping", "--timeout", word]] {
            let mut terminal = Terminal::bare(&case.program, &[(variable, "1")], line);
            terminal.sees(r"ctl\x1b[31mred\x07\u{202e}x");
            assert_eq!(terminal.ends(), 2, "{line:?}");
            let acts = ["\u{1b}[31mred", "\u{7}", "\u{202e}"];
            let acting = acts.iter().find(|acts| terminal.shown.contains(**acts));
            assert_eq!(acting, None, "{line:?}: {:?}", terminal.shown);
        }
    }
}

/// Without an installed server; it ends with the session.
pub fn embedded_session_on_a_terminal<T: Tool>(case: &Case<T>) {
    let variables = [("NO_COLOR", "1")];
    let mut terminal = Terminal::bare(&case.program, &variables, &["--embedded", "repl"]);
    terminal.sees("embedded server on ");
    let address = terminal.sees("\r\n");
    let address = address.trim_end().to_owned();
    terminal.sees(READS);
    terminal.says(&format!("{} hello", case.add), READS);
    terminal.says(case.list, "mail");
    terminal.sees(READS);
    terminal.leaves();
    assert!(TcpStream::connect(&address).is_err(), "{address}");
}

/// `\e`.
pub fn edits_a_command_in_the_editor<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let add = case.add;
    let variables = [("NO_COLOR", "1"), ("VISUAL", ""), ("EDITOR", "sed -i -e s/one/two/")];
    let mut terminal = Terminal::start(&case.program, &address, &variables);
    terminal.says(&format!("{add} one"), READS);
    // The last command; then one of its own; then one that stays unchanged.
    terminal.says("\\e", &format!("> {add} two"));
    terminal.sees(READS);
    assert_eq!((case.jobs)(&server), 2);
    terminal.says(&format!("\\e {add} \"one  more\""), &format!("> {add} \"two  more\""));
    terminal.sees(READS);
    assert_eq!((case.jobs)(&server), 3);
    terminal.says(&format!("\\e {add} same"), "nothing was run");
    terminal.sees(READS);
    terminal.leaves();
    let variables = [("NO_COLOR", "1"), ("EDITOR", "false")];
    let mut terminal = Terminal::start(&case.program, &address, &variables);
    let refused = "nothing was done: the editor `false` exited with code 1";
    terminal.says(&format!("\\e {add} x"), refused);
    terminal.sees(READS);
    terminal.says("!echo the\\ shell", "the shell");
    terminal.sees(READS);
    terminal.leaves();
    assert_eq!((case.jobs)(&server), 3);
}

/// With a replrc; errors in it are reported, and do not prevent working.
pub fn replrc_runs_at_start<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let config = tempfile::tempdir().unwrap();
    let folder = config.path().join(case.program.name);
    std::fs::create_dir_all(&folder).unwrap();
    let rc = ":format wide\n# my own\nnope\n:format json\n";
    std::fs::write(folder.join("replrc"), rc).unwrap();
    let path = config.path().display().to_string();
    let variables = [("NO_COLOR", "1"), ("XDG_CONFIG_HOME", path.as_str())];
    let mut terminal = Terminal::run(&case.program, &address, &variables, &["repl"]);
    terminal.sees("replrc:3: ");
    terminal.sees("> ");
    // Its lines ran, but none after the error.
    terminal.says(":set format", "format  wide");
    terminal.says(&format!("{} > '{path}/list'", case.list), READS);
    terminal.says(&format!("{} \\G", case.nothing), READS);
    assert!(std::fs::exists(format!("{path}/list")).unwrap());
    terminal.leaves();
    // A script behaves the same wherever it runs.
    let mut script = case.program.command(&[case.program.flag, &address, "repl", "-e", ":set"]);
    let ran = crate::program::ended(script.env("XDG_CONFIG_HOME", &path).spawn().unwrap());
    assert!(ran.exits(0).err.is_empty());
}

/// Ctrl-C discards the whole command.
pub fn heredocs_have_a_continuation_prompt<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let mut terminal = Terminal::plain(&case.program, &address);
    terminal.says(&format!("{} <<END", case.add), "...> ");
    terminal.says("one \"line", "...> ");
    terminal.says("help", "...> ");
    terminal.says("END", READS);
    assert_eq!((case.jobs)(&server), 1);
    terminal.says(&format!("{} <<END", case.add), "...> ");
    terminal.interrupts();
    terminal.says(&format!("{} two", case.add), READS);
    assert_eq!((case.jobs)(&server), 2);
    terminal.leaves();
}

/// A person sees that there is no result, where a result ends, and whole words.
pub fn terminal_output_is_rendered<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let variables = [("NO_COLOR", "1")];
    let words: Vec<&str> = case.nothing.split(' ').collect();
    let mut terminal = Terminal::run(&case.program, &address, &variables, &words);
    terminal.sees("(none)\r\n");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(case.program.at(&address, &words).exits(0).out(), "");
    let mut terminal = Terminal::plain(&case.program, &address);
    terminal.says("!stty rows 24 cols 40", READS);
    let said = terminal.says("connect a:b:c", READS);
    let said = said.split_once("error:").map_or("", |(_, said)| said);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
    terminal.leaves();
}

/// Otherwise they seem to hang.
pub fn announces_that_it_reads_the_terminal<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let add: Vec<&str> = case.add.split(' ').chain(["-"]).collect();
    for (words, what) in [(&["import", "-"][..], "records"), (&add, "the body")] {
        let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], words);
        terminal.sees(&format!("reading {what} from the terminal; Ctrl-D ends it"));
        terminal.types("\u{4}");
        assert_eq!(terminal.ends(), 0, "{words:?}");
    }
}

/// On a terminal, too, it is the only copy.
pub fn deleted_bodies_are_printed_in_full<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let body = ["x".repeat(40_000), "END".to_owned()].concat();
    let words: Vec<&str> = case.add.split(' ').chain(["-"]).collect();
    case.program.fed(&address, &words, body.as_bytes()).exits(0);
    let words: Vec<&str> = case.pop.split(' ').collect();
    let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
    let shown = terminal.sees("END");
    assert_eq!(terminal.ends(), 0);
    assert!(shown.matches('x').count() >= 40_000, "{} bytes", shown.len());
    assert_eq!((case.jobs)(&server), 0);
}

/// With what has arrived until then.
pub fn ping_prints_each_reply_and_a_summary<T: Tool>(case: &Case<T>) {
    let (_server, address) = Case::<T>::server();
    let words = ["ping", "-c", "1000000", "-i", "50ms"];
    let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
    terminal.sees("MS\r\n");
    // They appear long before the end.
    (0..3).for_each(|_| drop(terminal.sees("\r\n")));
    terminal.types("\u{3}");
    terminal.sees(" answered, min ");
    terminal.sees(" max ");
    let ended = terminal.pty.process().wait().unwrap();
    assert!(matches!(ended, WaitStatus::Exited(_, 130)), "{ended:?}");
    let ran = case.program.at(&address, &["ping", "-c", "3", "-i", "1ms", "-o", "json"]).exits(0);
    assert_eq!(ran.json().as_array().map(Vec::len), Some(3), "{ran:?}");
    assert!(ran.err.contains(": 3 of 3 answered, min "), "{ran:?}");
}

/// Ids that arrive during input are on separate lines, with nothing else between them.
pub fn streaming_results_show_no_progress_bar<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let words: Vec<&str> = case.add.split(' ').chain(["--lines"]).collect();
    let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
    for n in 1..=3 {
        if n == 3 {
            // A bar would be shown with the next id.
            std::thread::sleep(std::time::Duration::from_millis(400));
        }
        terminal.types(&format!("body {n}\r"));
        crate::until(|| (case.jobs)(&server) >= n);
    }
    terminal.types("\u{4}");
    terminal.sees(" 3 ");
    terminal.sees(" in ");
    assert!(!terminal.shown.contains("/s"), "{}", terminal.shown);
}

/// In a pipe it says nothing before its end.
pub fn wait_shows_its_condition_on_a_terminal<T: Tool>(case: &Case<T>) {
    let dead = "127.0.0.1:1";
    let wait = ["wait", "--for", "server", "--timeout", "1h"];
    let mut terminal = Terminal::run(&case.program, dead, &[("NO_COLOR", "1")], &wait);
    terminal.sees("waiting for `server`");
    terminal.sees(" of 1h");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
    let line = [&[case.program.flag, dead], &wait[..4], &["2s"]].concat();
    let mut piped = case.program.command(&line);
    piped.env_remove(format!("{}_PROGRESS", case.program.prefix));
    let ran = ended(piped.spawn().unwrap()).exits(124);
    assert!(!ran.err.contains("waiting for"), "{}", ran.err);
    let ping = ["ping", "--wait-for-server", "1h"];
    let mut terminal = Terminal::run(&case.program, dead, &[("NO_COLOR", "1")], &ping);
    terminal.sees(&format!("waiting for {dead}, "));
    terminal.sees(" of 1h: ");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130);
    // It goes on as soon as the server is there.
    let (port, late) = Case::<T>::dead_address();
    let line = [&ping[..], &["-c", "1"]].concat();
    let mut terminal = Terminal::run(&case.program, &late, &[("NO_COLOR", "1")], &line);
    terminal.sees(&format!("waiting for {late}, "));
    let _server = Case::<T>::server_at(&port);
    assert_eq!(terminal.ends(), 0, "{}", terminal.shown);
}

/// The first one names the pending reply, the second one abandons it, and the session continues.
pub fn ctrl_c_abandons_a_missing_reply<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let first: Vec<&str> = case.add.split(' ').chain(["body"]).collect();
    case.program.at(&address, &first).exits(0);
    let (add, request) = case.changes.first().expect("a command that adds a job");
    let mut terminal = Terminal::plain(&case.program, &address);
    T::Link::faults(&server).add(Fault::always().of(*request).hang());
    terminal.types(&format!("{add}\r"));
    crate::until(|| T::Link::faults(&server).struck() > 0);
    terminal.types("\u{3}");
    terminal.sees("waiting for the answer of the server; Ctrl-C again gives it up");
    terminal.types("\u{3}");
    terminal.sees("GIVEN_UP: ");
    terminal.sees(" may have been ");
    terminal.sees(READS);
    T::Link::faults(&server).clear();
    terminal.says(":set", "on_exit");
    let before = (case.jobs)(&server);
    terminal.types(&format!("{add}\r"));
    crate::until(|| (case.jobs)(&server) != before);
}

/// As in a session, and the exit code is that of an unknown outcome.
pub fn ctrl_c_abandons_the_reply_to_a_command<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let (add, request) = case.changes.first().expect("a command that adds a job");
    T::Link::faults(&server).add(Fault::always().of(*request).hang());
    let words: Vec<&str> = add.split(' ').chain(["--timeout", "60s"]).collect();
    let mut terminal = Terminal::run(&case.program, &address, &[("NO_COLOR", "1")], &words);
    crate::until(|| T::Link::faults(&server).struck() > 0);
    terminal.types("\u{3}");
    terminal.sees("waiting for the answer of the server; Ctrl-C again gives it up");
    terminal.types("\u{3}");
    terminal.sees(" may have been ");
    assert_eq!(terminal.ends(), 4, "{}", terminal.shown);
}

/// Nothing was sent.
pub fn ctrl_c_cancels_connecting<T: Tool>(case: &Case<T>) {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let (add, _) = case.changes.first().expect("a command that adds a job");
    let (program, words) = (case.program.unconfigured(), add.split(' ').collect::<Vec<_>>());
    let mut terminal = Terminal::run(&program, &address, &[("NO_COLOR", "1")], &words);
    terminal.sees("has not answered within 1s: still waiting");
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(), 130, "{}", terminal.shown);
    let mut terminal = Terminal::run(&program, &address, &[("NO_COLOR", "1")], &["repl"]);
    terminal.sees("has not answered within 1s: still waiting");
    terminal.types("\u{3}");
    terminal.sees("INTERRUPTED");
    terminal.sees(READS);
}
