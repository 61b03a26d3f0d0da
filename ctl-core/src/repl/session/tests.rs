use std::collections::VecDeque;
use std::fs;
use std::io::Write;

use clap::{Arg, ArgMatches, Command, value_parser};

use super::super::editor::Edited;
use super::super::history::Keep;
use super::super::shell::Setting;
use super::super::{Prompt, builtin};
use super::*;
use crate::output::Destination;
use crate::system::signals::Interrupts;

/// A shell whose only commands are `say TEXT`, `fail CODE`, `secret`, `interrupt`.
struct Fake {
    grammar: Command,
    interrupts: Interrupts,
    said: Vec<String>,
    stderr: Vec<String>,
    left: Vec<Leaving>,
    stays: bool,
    color: String,
    diverted: Option<Box<dyn Write + Send>>,
    is_upright: bool,
}

impl Fake {
    fn new() -> Self {
        let text = Arg::new("text").num_args(0..).value_parser(value_parser!(std::ffi::OsString));
        let code = Arg::new("code").required(true).value_parser(value_parser!(u8));
        let grammar = Command::new("fake")
            .no_binary_name(true)
            .disable_help_subcommand(true)
            .subcommand(Command::new("say").about("Say something").arg(text))
            .subcommand(Command::new("fail").arg(code))
            .subcommand(Command::new("secret"))
            .subcommand(Command::new("interrupt"))
            .subcommand(Command::new("stop"))
            .subcommands(builtin::commands("host:port"));
        Self {
            grammar,
            interrupts: Interrupts::none(),
            said: Vec::new(),
            stderr: Vec::new(),
            left: Vec::new(),
            stays: false,
            color: "red".into(),
            diverted: None,
            is_upright: false,
        }
    }
}

fn texts(matches: &ArgMatches) -> Vec<String> {
    let texts = matches.subcommand().and_then(|(_, arguments)| {
        arguments.try_get_many::<std::ffi::OsString>("text").ok().flatten()
    });
    texts.into_iter().flatten().map(|text| text.to_string_lossy().into_owned()).collect()
}

impl Shell for Fake {
    fn grammar(&mut self) -> &mut Command {
        &mut self.grammar
    }

    fn help(&mut self, topic: Option<&str>, more: Option<&str>) -> Result<String, CliError> {
        if topic == Some("formats") {
            return Ok(format!("formats {}\n", more.unwrap_or_default()));
        }
        let group = help::Group { title: builtin::TITLE, verbs: builtin::VERBS.to_vec() };
        help::text(&self.grammar, &[group], topic)
    }

    fn prompt(&mut self) -> Prompt {
        Prompt::new().text("fake> ")
    }

    fn run(
        &mut self,
        matches: &ArgMatches,
        _: &[Word],
        _: Option<&mut dyn Terminal>,
    ) -> Result<Exit, CliError> {
        match matches.subcommand() {
            Some(("fail", arguments)) => {
                let code = *arguments.get_one::<u8>("code").unwrap();
                Err(CliError::new(Exit::Own(code), "FAILED", format!("failed with {code}")))
            }
            Some(("interrupt", _)) => {
                self.interrupts.raise();
                Err(CliError::interrupted(Exit::Interrupted))
            }
            Some(("stop", _)) => Ok(Exit::Negative),
            _ => {
                let text = texts(matches).join(if self.is_upright { "|" } else { " " });
                if let Some(sink) = &mut self.diverted {
                    writeln!(sink, "{text}").map_err(|error| CliError::writing("x", &error))?;
                    return Ok(Exit::Done);
                }
                self.said.push(text);
                Ok(Exit::Done)
            }
        }
    }

    fn divert(&mut self, sink: Box<dyn Write + Send>, _: Destination) {
        self.diverted = Some(sink);
    }

    fn undivert(&mut self) -> Result<(), CliError> {
        let flushed = self.diverted.take().map_or(Ok(()), |mut sink| sink.flush());
        flushed.map_err(|error| CliError::writing("x", &error))
    }

    fn upright(&mut self, on: bool) {
        self.is_upright = on;
    }

    fn settings(&self) -> Vec<Setting> {
        let value = self.color.clone();
        vec![Setting { name: "color", value, allowed: &["red", "blue"], about: "the colour" }]
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError> {
        self.color = format!("{name}={value}");
        Ok(())
    }

    fn show(&mut self, text: &str) -> Result<(), CliError> {
        self.said.push(text.to_owned());
        Ok(())
    }

    fn report(&mut self, error: &CliError, place: Option<&str>) {
        let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        self.stderr.push(format!("{place}{}", error.message));
    }

    fn note(&mut self, text: &str) {
        self.stderr.push(text.to_owned());
    }

    fn starts(&mut self) {}

    fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    fn ending(&self) -> Option<Exit> {
        None
    }

    fn has(&self, verb: &str, mark: Mark) -> bool {
        [("secret", Mark::Secret), ("work", Mark::Absent)].contains(&(verb, mark))
    }

    fn may_leave(
        &mut self,
        reason: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError> {
        assert_eq!(person.is_some(), reason != Leaving::End);
        self.left.push(reason);
        Ok(!std::mem::take(&mut self.stays))
    }
}

/// A terminal on which this text is typed.
#[derive(Default)]
struct Typed {
    lines: VecDeque<Edited>,
    kept: Vec<Keep>,
    entries: Vec<String>,
    hints: Option<bool>,
}

impl Typed {
    fn texts(texts: &[&str]) -> Self {
        let lines = texts.iter().map(|text| Edited::Text(text.as_bytes().to_vec())).collect();
        Self { lines, ..Self::default() }
    }
}

impl Terminal for Typed {
    fn read(&mut self, _: &Prompt) -> Result<Edited, CliError> {
        Ok(self.lines.pop_front().unwrap_or(Edited::End))
    }

    fn ask(&mut self, _: &Prompt) -> Result<Edited, CliError> {
        Ok(Edited::End)
    }

    fn remember(&mut self, entry: Keep) {
        if let Keep::InFile(entry) | Keep::InMemory(entry) = &entry {
            self.entries.push(entry.clone());
        }
        self.kept.push(entry);
    }

    fn entries(&self) -> &[String] {
        &self.entries
    }

    fn set_hints(&mut self, on: bool) {
        self.hints = Some(on);
    }
}

fn script(text: &str, keep_going: bool) -> (Exit, Fake) {
    let mut fake = Fake::new();
    let exit = Session::new(&mut fake, keep_going)
        .script("stdin", Script::new(ReadLines(text.as_bytes())))
        .unwrap();
    (exit, fake)
}

fn typed(terminal: &mut Typed) -> Fake {
    let mut fake = Fake::new();
    let exit = Session::new(&mut fake, false).interactive(terminal).unwrap();
    assert_eq!(exit, Exit::Done);
    fake
}

#[test]
fn a_script_stops_at_its_first_error_with_that_exit() {
    let (exit, fake) = script("say a\nfail 75\nsay b\n", false);
    assert_eq!(exit.code(), 75);
    assert_eq!(fake.said, ["a"]);
    assert_eq!(fake.stderr, ["stdin:2: failed with 75"]);
    assert_eq!(fake.left, [Leaving::End]);
}

#[test]
fn exit_1_stops_a_script_too() {
    let (exit, fake) = script("stop\nsay b\n", false);
    assert_eq!((exit, fake.said.len()), (Exit::Negative, 0));
}

#[test]
fn keep_going_exits_3() {
    let (exit, fake) = script("fail 75\nsay b\nnope\n", true);
    assert_eq!(exit, Exit::Partial);
    assert_eq!(fake.said, ["b"]);
    assert_eq!(fake.stderr[1], "stdin:3: unknown command `nope`");
}

#[test]
fn a_command_that_only_shells_have_is_not_called_unknown() {
    let (exit, fake) = script("work --now\nwork > /nowhere/file\n", true);
    assert_eq!((exit, fake.stderr.len()), (Exit::Partial, 2));
    for said in &fake.stderr {
        assert!(said.ends_with("`work` runs in a shell only"), "{said}");
    }
}

#[test]
fn bad_quotes_cost_only_their_line() {
    let (exit, fake) = script("say \"a\nsay b\n", true);
    assert_eq!(exit, Exit::Partial);
    assert!(fake.stderr[0].starts_with("stdin:1: Invalid argument(s)"), "{:?}", fake.stderr);
    assert_eq!(fake.said, ["b"]);
}

#[test]
fn a_signal_ends_a_script_despite_keep_going() {
    let (exit, fake) = script("interrupt\nsay b", true);
    assert_eq!((exit, fake.said.len()), (Exit::Interrupted, 0));
}

#[test]
fn errors_do_not_end_an_interactive_session() {
    let mut terminal = Typed::texts(&["fail 75", "say a", "nope", "say \"b\" c", "say d\nsay e"]);
    let fake = typed(&mut terminal);
    assert_eq!(fake.said, ["a", "b c", "d", "e"]);
    assert_eq!(fake.stderr, ["failed with 75", "unknown command `nope`"]);
    assert_eq!(fake.left, [Leaving::Quit]);
}

#[test]
fn pasted_commands_stop_at_the_first_error() {
    let fake = typed(&mut Typed::texts(&["say a\nfail 1\nsay b\n"]));
    assert_eq!(fake.said, ["a"]);
}

#[test]
fn history_omits_secrets_and_mistakes() {
    let mut terminal =
        Typed::texts(&["say a", " say b", "secret", "say \"a\"b", "# x", ":history"]);
    let fake = typed(&mut terminal);
    let expected = [
        Keep::InFile("say a".into()),
        Keep::Nothing,
        Keep::InMemory("secret".into()),
        Keep::InMemory("say \"a\"b".into()),
        Keep::Nothing,
        Keep::InFile(":history".into()),
    ];
    assert_eq!(terminal.kept, expected);
    let shown = fake.said.last().unwrap();
    assert!(shown.contains("    1  say a\n") && shown.contains("say \"a\"b"), "{shown}");
}

#[test]
fn three_interrupts_in_a_second_exit() {
    let interrupted = |n| (0..n).map(|_| Edited::Interrupted);
    let mut lines: VecDeque<_> = interrupted(2).collect();
    lines.push_back(Edited::Text(b"say a".to_vec()));
    lines.extend(interrupted(3));
    lines.push_back(Edited::Text(b"say never".to_vec()));
    let fake = typed(&mut Typed { lines, ..Typed::default() });
    assert_eq!(fake.said, ["a"]);
    assert_eq!(fake.left, [Leaving::Quit]);
}

#[test]
fn exit_can_be_cancelled() {
    let mut fake = Fake::new();
    fake.stays = true;
    let mut terminal = Typed::texts(&["quit", "say a", "\\q", "say never"]);
    Session::new(&mut fake, false).interactive(&mut terminal).unwrap();
    assert_eq!(fake.said, ["a"]);
    assert_eq!(fake.left, [Leaving::Quit, Leaving::Quit]);
}

#[test]
fn an_interrupted_command_keeps_the_session() {
    let fake = typed(&mut Typed::texts(&["interrupt", "say a"]));
    assert_eq!(fake.said, ["a"]);
}

#[test]
fn settings_are_shown_changed_and_checked() {
    let mut terminal = Typed::texts(&[
        ":set",
        ":set color blue",
        ":set color green",
        ":set nope 1",
        ":set nohints",
        ":set timing",
    ]);
    let fake = typed(&mut terminal);
    for name in ["color", "hints", "timing"] {
        assert!(fake.said[0].contains(name), "{}", fake.said[0]);
    }
    assert_eq!(fake.stderr[0], "color cannot be `green`: it is one of red, blue");
    assert!(fake.stderr[1].starts_with("there is no setting `nope`"));
    assert!(fake.stderr[2].ends_with(" ms)"), "timing was switched on: {:?}", fake.stderr);
    assert_eq!((&*fake.color, terminal.hints), ("color=blue", Some(false)));
}

#[test]
fn help_explains_commands_and_groups() {
    let fake = typed(&mut Typed::texts(&[
        "help",
        "? say",
        "say --help",
        "help @session",
        "help x",
        "help formats a",
    ]));
    assert!(fake.said[0].contains("@session"));
    assert!(fake.said[1].contains("Say something") && fake.said[2].contains("Say something"));
    assert!(fake.said[3].contains(":history"));
    assert_eq!(fake.said[4], "formats a\n");
    assert!(fake.stderr[0].contains("no help for `x`"));
}

#[cfg(unix)]
#[test]
fn session_redirects_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a file");
    let name = file.display();
    let text = format!(
        "say a > \"{name}\"\nsay b '>' >> '{name}'\nsay c | sed s/^/+/ >> '{name}'\nsay d \\G\nsay e f \\G >> '{name}'\nsay g"
    );
    let (exit, fake) = script(&text, false);
    assert_eq!(
        (exit, fake.said),
        (Exit::Done, vec!["d".to_owned(), "g".to_owned()]),
        "{:?}",
        fake.stderr
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\nb >\n+c\ne|f\n");
    // A command that cannot be run leaves the file unchanged, and one whose target cannot be written is not run.
    for (line, exit) in [
        (format!("nope > '{name}'"), 2),
        (format!("say x > '{name}/x'"), 74),
        ("say x | exit 3".to_owned(), 1),
        ("fail 9 | cat".to_owned(), 9),
        ("say x |".to_owned(), 2),
    ] {
        let (ended, fake) = script(&line, false);
        assert_eq!((ended.code(), fake.said.len()), (exit, 0), "{line}: {:?}", fake.stderr);
    }
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 4);
}

#[cfg(unix)]
#[test]
fn shell_commands_run() {
    let (exit, fake) = script("!true && test 'a b' = \"a b\"\nsay a\n!exit 3\nsay b", false);
    assert_eq!((exit, fake.said), (Exit::Negative, vec!["a".to_owned()]));
    assert_eq!(fake.stderr, ["stdin:3: the shell command exited with code 3"]);
    assert_eq!(script("!", false).0, Exit::Usage);
    let (exit, fake) = script("!read -r line\nsay never", false);
    assert_eq!((exit, fake.said.len()), (Exit::Negative, 0), "its stdin is closed");
    assert_eq!(script("\\e say a", false).0, Exit::Usage, "a script has no editor");
}

#[cfg(unix)]
#[test]
fn ignores_a_replrc_that_others_can_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("replrc");
    std::fs::write(&file, "say a\n").unwrap();
    let prepare = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut fake = Fake::new();
        let result = Session::new(&mut fake, false).prepare(&file);
        (result.map_err(|error| (error.code, error.message)), fake.said)
    };
    assert_eq!(prepare(0o600), (Ok(false), vec!["a".to_owned()]));
    let (result, said) = prepare(0o666);
    let (code, message) = result.unwrap_err();
    assert!(code == "CONFIG" && message.contains("is writable by other users"), "{message}");
    assert!(said.is_empty());
}
