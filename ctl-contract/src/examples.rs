//! The cheat sheets do what they say.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ctl_core::context::Tool;
use ctl_core::program::sheet::{self, Example, Sheet};
use rustix::process::Signal;

use crate::Case;
use crate::program::{Running, ended, signal};

/// Time for a line to say something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with what the lines need, and servers that replace those that they name.
struct Stage<T: Tool> {
    folder: tempfile::TempDir,
    /// The placeholders of lines, and their replacements.
    meant: Vec<(String, String)>,
    _servers: [crate::Server<T>; 2],
}

impl<T: Tool> Stage<T> {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
        };
        file("letter.txt", "Dear Joe,\nall is well.\n");
        file("names.txt", "ann\nbob\ncarol\n");
        file("send", "#!/bin/sh\nexec wc -c > /dev/null\n");
        file("test.sh", "#!/bin/sh\nexec test -n \"$1$ADDRESS\"\n");
        for program in ["send", "test.sh"] {
            let path = folder.path().join(program);
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let (first, address) = Case::<T>::server();
        let (second, other) = Case::<T>::server();
        let meant = vec![("queue1".to_owned(), address), ("queue2".to_owned(), other)];
        Self { folder, meant, _servers: [first, second] }
    }

    /// A shell that runs this line and can be killed as one process.
    fn shell(&self, case: &Case<T>, example: &Example) -> Command {
        let mut line = any_port(example.line);
        for (named, meant) in &self.meant {
            line = line.replace(named, meant);
        }
        let exec = if example.exit().is_none() { "exec " } else { "" };
        let programs = Path::new(case.program.path).parent().unwrap().display();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
        let address = &self.meant[0].1;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{exec}{line}")]).current_dir(&self.folder);
        shell.env("PATH", path).env(case.program.variables[0], address).env("ADDRESS", address);
        // Without the user's settings and history.
        shell.env("XDG_CONFIG_HOME", self.folder.path()).env("HOME", self.folder.path());
        // All the time that a busy machine needs, and no note about it.
        shell.env(format!("{}_TIMEOUT", case.program.prefix), "60s");
        shell.env(format!("{}_PROGRESS", case.program.prefix), "never");
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    }

    /// The address that is printed here, which is not that of a server.
    fn address_in(&self, said: &str) -> String {
        let words = said.split(|c: char| !c.is_ascii_digit() && !".:".contains(c));
        let known = |word: &str| self.meant.iter().any(|(_, meant)| meant == word);
        let mut words = words.map(|word| word.trim_matches([':', '.']));
        let found = words.find(|word| word.starts_with("127.0.0.1:") && !known(word));
        found.unwrap_or_else(|| panic!("no address is printed: {said}")).to_owned()
    }
}

/// The address that a line listens on.
fn listened(line: &str) -> Option<&str> {
    line.split(' ').skip_while(|word| *word != "--listen").nth(1)
}

/// The line with port 0 for the ports that it listens on.
fn any_port(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        if words[at - 1] == "--listen"
            && let Some((host, _)) = words[at].rsplit_once(':')
        {
            words[at] = format!("{host}:0");
        }
    }
    words.join(" ")
}

/// Runs every line of every sheet in a shell, one after the other, against fresh servers. Lines that do not end by
/// themselves run until the end of their sheet.
pub fn cheat_sheets_run<T: Tool>(case: &Case<T>) {
    let sheets: Vec<Sheet> = sheet::sheets(T::PROGRAM.sheets).collect();
    assert!(sheets.len() >= 10, "{}", sheets.len());
    for sheet in &sheets {
        assert!(sheet.examples().next().is_some(), "{} is empty", sheet.topic);
    }
    // A comment takes at most two lines of a narrow terminal, and is not a sentence.
    let mut about = sheets.iter().flat_map(Sheet::examples).map(|example| example.about());
    let wrong = about.find(|about| about.len() > 76 || about.ends_with('.'));
    assert_eq!(wrong, None);
    thread::scope(|scope| {
        for sheet in &sheets {
            scope.spawn(|| perform(case, sheet));
        }
    });
}

fn perform<T: Tool>(case: &Case<T>, sheet: &Sheet) {
    let mut stage = Stage::<T>::new();
    let mut running = Vec::new();
    let examples: Vec<Example> = sheet.examples().collect();
    for (at, example) in examples.iter().enumerate() {
        let place = format!("{}: {}", sheet.topic, example.line);
        let mut shell = stage.shell(case, example);
        match example.exit() {
            Some(code) => {
                let ran = ended(shell.spawn().unwrap());
                let said = (String::from_utf8_lossy(&ran.bytes), &ran.err);
                assert_eq!(ran.code, Some(code.into()), "{place}: {said:?}");
            }
            None => {
                let begun = Begun::of(shell);
                if let Some(shown) = listened(example.line) {
                    let said = begun.first_words(&place);
                    stage.meant.push((shown.to_owned(), stage.address_in(&said)));
                }
                running.push((place, begun, examples.get(at + 1)));
            }
        }
    }
    for (place, begun, next) in running {
        begun.stop(&place, || {
            if let Some(next) = next {
                let _ = ended(stage.shell(case, next).spawn().unwrap());
            }
        });
    }
}

/// A line that runs in the background.
struct Begun {
    child: Running,
    said: Arc<(Mutex<(String, usize)>, Condvar)>,
}

impl Begun {
    fn of(mut shell: Command) -> Self {
        let mut child = shell.spawn().unwrap();
        let said = Arc::new((Mutex::new((String::new(), 0)), Condvar::new()));
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for mut stream in streams {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                loop {
                    let read = stream.read(&mut buffer).unwrap_or(0);
                    let mut state = said.0.lock().unwrap();
                    state.0 += &String::from_utf8_lossy(&buffer[..read]);
                    state.1 += usize::from(read == 0);
                    said.1.notify_all();
                    if read == 0 {
                        return;
                    }
                }
            });
        }
        Self { child: Running::of(child), said }
    }

    /// Its output once there is a line, once it has ended, or after this time.
    fn says(&self, within: Duration) -> String {
        let (state, news) = &*self.said;
        let waits = |state: &mut (String, usize)| !state.0.contains('\n') && state.1 < 2;
        news.wait_timeout_while(state.lock().unwrap(), within, waits).unwrap().0.0.clone()
    }

    /// Its first line of output; from then on, it does its work.
    fn first_words(&self, place: &str) -> String {
        let said = self.says(PATIENCE);
        assert!(said.contains('\n'), "{place} said {said:?}");
        said
    }

    /// Ends it as a supervisor does, unless it polled only once because its output is not a terminal. A watching line
    /// may have started too late for the line after it, which is then run `again`.
    fn stop(mut self, place: &str, mut again: impl FnMut()) {
        let looked_once = place.ends_with(" top") && self.child.wait().unwrap().success();
        for _ in 0..5 {
            if self.says(Duration::from_secs(5)).contains('\n') {
                break;
            }
            again();
        }
        self.first_words(place);
        if !looked_once {
            signal(&self.child, Signal::TERM);
            let status = self.child.wait().unwrap();
            let (state, news) = &*self.said;
            let state = news.wait_while(state.lock().unwrap(), |state| state.1 < 2).unwrap();
            assert_eq!(status.code(), Some(143), "{place}: {}", state.0);
        }
    }
}

/// The list, a sheet as a script, the examples of a command, and an unknown topic.
pub fn lists_and_shows_cheat_sheets<T: Tool>(case: &Case<T>) {
    let program = &case.program;
    let sheets: Vec<Sheet> = sheet::sheets(T::PROGRAM.sheets).collect();
    let listed = program.bare(&["help", "examples"]).exits(0);
    for sheet in &sheets {
        let is_row = |line: &str| line.starts_with(&format!("  {} ", sheet.topic));
        let mut rows = listed.lines().into_iter().filter(|line| is_row(line));
        assert!(rows.next().is_some_and(|row| row.ends_with(sheet.about)), "{}", listed.out());
    }
    assert_eq!(program.bare(&["examples"]).exits(0).out(), listed.out());
    let sheet = &sheets[0];
    let script = program.bare(&["help", "examples", sheet.topic]).exits(0);
    assert!(script.says_out(&format!("# {}", sheet.about)), "{}", script.out());
    assert!(sheet.examples().all(|example| script.out().contains(example.line)));
    let by_command = program.bare(&["help", "examples", "ping"]).exits(0);
    let mut lines = by_command.lines().into_iter().filter(|l| !l.is_empty() && !l.starts_with('#'));
    assert!(lines.all(|line| line.contains(" ping")), "{}", by_command.out());
    let wrong = program.bare(&["help", "examples", "nonsense"]).exits(2);
    assert!(wrong.err.contains(sheet.topic), "{}", wrong.err);
    // In a session as outside it.
    let (_server, address) = Case::<T>::server();
    let line = format!("examples {}", sheet.topic);
    let session = program.at(&address, &["repl", "-e", &line]).exits(0);
    assert_eq!(session.out(), script.out());
}
