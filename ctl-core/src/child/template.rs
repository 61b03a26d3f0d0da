//! What a worker runs for each job: a program with its arguments, or a line for the shell.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;

use super::data::{Data, DataArgs};
use crate::error::CliError;

/// A word in arguments that stands for something of the job, such as `{tube}`, and where a line of the shell finds the
/// same: `$BSCTL_TUBE`.
pub type Place = (&'static str, &'static str);

/// A command to be made for each job.
#[derive(Debug, Clone)]
pub struct Template {
    words: Vec<OsString>,
    lines: Vec<Line>,
    is_shell: bool,
}

/// The words that a shell reads as its options and as a program, which comes last: nothing is ever put into them, since
/// a shell would run that.
type Line = RangeInclusive<usize>;

/// The word for the file with the job's data, and where a line of the tool's own shell finds it.
const FILE: Place = ("{file}", "$1");

impl Template {
    /// From a line for the shell, if there is one, else from the words of a command.
    ///
    /// # Errors
    /// There is neither, or one of the places is in what a shell is to run, be it behind `sh -c`: exit 2.
    pub fn new(
        shell: Option<&OsStr>,
        words: &[OsString],
        places: &[Place],
    ) -> Result<Self, CliError> {
        let template = match shell {
            Some(line) => Self { words: shell_words(line), lines: vec![2..=2], is_shell: true },
            None => Self { words: words.to_vec(), lines: lines_of(words), is_shell: false },
        };
        if template.words.is_empty() {
            return Err(CliError::usage("no command given"));
        }
        for line in &template.lines {
            template.check(line, places)?;
        }
        Ok(template)
    }

    /// Refuses places in a line for a shell.
    fn check(&self, line: &Line, places: &[Place]) -> Result<(), CliError> {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let words: Vec<String> =
            self.words.get(line.clone()).unwrap_or_default().iter().map(text).collect();
        for &(place, own) in places.iter().chain([&FILE]) {
            if !words.iter().any(|word| has_place(word, place)) {
                continue;
            }
            let instead = if place == FILE.0 { self.file_for(line) } else { own.to_owned() };
            return Err(CliError::usage(format!(
                "{place} is not replaced in a line for the shell, which would run whatever it stands for: \
                 the line finds it as \"{instead}\""
            ))
            .hint(format!("--shell 'echo \"{own}\"'")));
        }
        Ok(())
    }

    /// Where a line finds the file: what comes behind the line is `$0`, `$1`, and so on. A file that no word names is
    /// the last.
    fn file_for(&self, line: &Line) -> String {
        let behind = self.words.get(line.end() + 1..).unwrap_or_default();
        let named = behind.iter().position(|word| word.to_string_lossy().contains(FILE.0));
        match named.unwrap_or(behind.len()) {
            digit @ 0..=9 => format!("${digit}"),
            number => format!("${{{number}}}"),
        }
    }

    /// Whether the tool's own shell runs it.
    #[must_use]
    pub fn is_shell(&self) -> bool {
        self.is_shell
    }

    /// The command for one job, without the rest of its environment. Its data comes as `how` says; `values` stand for
    /// the places in its arguments.
    ///
    /// # Errors
    /// As those of [`DataArgs`]: the data cannot be an argument (65), or its file cannot be written (74).
    pub fn command(
        &self,
        values: &[(&str, &str)],
        how: DataArgs,
        body: &Bytes,
    ) -> Result<(Command, Data), CliError> {
        let data = how.hand_over(body)?;
        let mut values: Vec<(&str, &OsStr)> =
            values.iter().map(|(place, value)| (*place, OsStr::new(*value))).collect();
        let path = data.path().map(Path::as_os_str);
        values.extend(path.map(|path| (FILE.0, path)));
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        let mut is_named = false;
        for (at, word) in words.enumerate() {
            if self.lines.iter().any(|line| line.contains(&(at + 1))) {
                command.arg(word);
                continue;
            }
            is_named |= word.to_string_lossy().contains(FILE.0);
            command.arg(fill_in(word, &values));
        }
        command.args(path.filter(|_| !is_named)).args(data.argument());
        command.stdin(if how.is_stdin() { Stdio::piped() } else { Stdio::null() });
        Ok((command, data))
    }
}

/// What comes behind these words is `$1` to the line.
fn shell_words(line: &OsStr) -> Vec<OsString> {
    if cfg!(windows) {
        return vec!["cmd".into(), "/C".into(), line.to_owned()];
    }
    vec!["sh".into(), "-c".into(), line.to_owned(), "sh".into()]
}

/// Programs that run their argument behind `-c`.
const SHELLS: &[&str] = &[
    "sh", "ash", "bash", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "rbash", "tcsh", "yash",
    "zsh",
];

/// Long options of shells whose argument is the next word.
const WITH_ARGUMENT: &[&[u8]] = &[b"--init-file", b"--rcfile"];

/// The lines that shells run among the words of a command. The shell may be any word: `timeout 5 sh -c` runs it, too.
fn lines_of(words: &[OsString]) -> Vec<Line> {
    let shells = words.iter().enumerate().filter(|(_, word)| is_shell(word));
    shells
        .filter_map(|(at, _)| {
            let behind = at + 1;
            let line = behind + line_among(words.get(behind..)?)?;
            Some(behind..=line)
        })
        .collect()
}

fn is_shell(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| SHELLS.contains(&name))
}

/// Which of a shell's arguments is the line that it runs, if one is.
fn line_among(arguments: &[OsString]) -> Option<usize> {
    let mut runs_line = false;
    let last = arguments.len().checked_sub(1);
    let mut arguments = arguments.iter().map(|word| word.as_encoded_bytes()).enumerate();
    while let Some((at, word)) = arguments.next() {
        let skipped = match word {
            b"-" | b"--" => return arguments.next().filter(|_| runs_line).map(|(at, _)| at),
            [b'-', b'-', ..] => {
                runs_line |= word.starts_with(b"--command");
                usize::from(WITH_ARGUMENT.contains(&word))
            }
            [sign @ (b'-' | b'+'), letters @ ..] => {
                runs_line |= *sign == b'-' && letters.contains(&b'c');
                // Each of them names an option of its own: `-euo pipefail`.
                letters.iter().filter(|letter| matches!(letter, b'o' | b'O')).count()
            }
            _ => return runs_line.then_some(at),
        };
        for _ in 0..skipped {
            arguments.next();
        }
    }
    // The line may be part of the last option: `--command=LINE`.
    last.filter(|_| runs_line)
}

/// Whether the place is in the line; `${id}` is a variable of the shell.
fn has_place(line: &str, place: &str) -> bool {
    let mut before = line.match_indices(place).filter_map(|(at, _)| line.get(..at));
    before.any(|before| !before.ends_with('$'))
}

/// Puts the values into their places, each once: what a value holds is not looked at again.
fn fill_in(word: &OsStr, values: &[(&str, &OsStr)]) -> OsString {
    let Some(mut rest) = word.to_str() else { return word.to_owned() };
    let mut filled = OsString::new();
    let next = |rest: &str| {
        let found = values.iter().filter_map(|value| Some((rest.find(value.0)?, *value)));
        found.min_by_key(|(at, _)| *at)
    };
    while let Some((at, (place, value))) = next(rest) {
        let (before, from) = rest.split_at(at);
        filled.push(before);
        filled.push(value);
        rest = from.get(place.len()..).unwrap_or_default();
    }
    filled.push(rest);
    filled
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: &[Place] = &[("{tube}", "$BSCTL_TUBE"), ("{id}", "$BSCTL_JOB_ID")];
    const STDIN: DataArgs = DataArgs { file: false, arg: false };
    const FILED: DataArgs = DataArgs { file: true, arg: false };

    fn template(words: &[&str]) -> Result<Template, CliError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Template::new(None, &words, PLACES)
    }

    fn shell(line: &str) -> Result<Template, CliError> {
        Template::new(Some(line.as_ref()), &[], PLACES)
    }

    fn arguments(template: &Template, how: DataArgs, tube: &str) -> Vec<String> {
        let values = [("{tube}", tube), ("{id}", "7")];
        let (command, _data) = template.command(&values, how, &"body".into()).unwrap();
        command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn places_in_a_line_for_the_shell_are_refused() {
        for (line, place, instead) in [
            ("echo {tube}", "{tube}", "$BSCTL_TUBE"),
            ("echo ${tube} {tube}", "{tube}", "$BSCTL_TUBE"),
            ("cat {file}", "{file}", "$1"),
        ] {
            let error = shell(line).unwrap_err();
            assert_eq!(error.exit.code(), 2);
            assert!(error.message.contains(place) && error.message.contains(instead), "{error}");
        }
        for words in [
            &["sh", "-c", "echo {id}"][..],
            &["/bin/bash", "-eu", "-c", "echo {tube}"],
            &["bash", "-ec", "-x", "{tube}"],
        ] {
            assert!(template(words).is_err(), "{words:?}");
        }
        assert_eq!(template(&[]).unwrap_err().exit.code(), 2);
    }

    #[test]
    fn a_shell_is_known_behind_its_options_and_other_programs() {
        for command in [
            "bash -o pipefail -c",
            "bash -euo pipefail -c",
            "bash -ec -o pipefail",
            "bash +o posix -O extglob -c",
            "bash -c --",
            "bash --norc --rcfile x -c",
            "bash --init-file x -c -",
            "/usr/bin/timeout 5 /bin/sh -c",
            "env A=b sh -c",
            "nice -n 5 sh -c",
            "busybox sh -c",
            "csh -fc",
            "tcsh -c",
            "rbash -c",
            "fish --command",
        ] {
            let mut words: Vec<&str> = command.split(' ').collect();
            words.push("echo {tube}");
            let error = template(&words).unwrap_err();
            assert!(error.message.contains("\"$BSCTL_TUBE\""), "{command}: {error}");
            *words.last_mut().unwrap() = "echo ${tube}";
            words.extend(["name", "{tube}"]);
            let made = arguments(&template(&words).unwrap(), STDIN, "a;b");
            assert_eq!(&made[made.len() - 3..], ["echo ${tube}", "name", "a;b"], "{command}");
        }
        assert!(template(&["fish", "--command=echo {tube}"]).is_err());
        // Scripts and the arguments of scripts are no lines.
        for command in ["bash -o pipefail", "sh --", "nice sh -e"] {
            let mut words: Vec<&str> = command.split(' ').collect();
            words.extend(["{tube}.sh", "-c", "{id}"]);
            let made = arguments(&template(&words).unwrap(), STDIN, "mail");
            assert_eq!(&made[made.len() - 3..], ["mail.sh", "-c", "7"], "{command}");
        }
    }

    #[test]
    fn a_line_of_an_own_shell_is_told_where_its_file_is() {
        for (behind, instead) in [
            (&[][..], "\"$0\""),
            (&["sh"], "\"$1\""),
            (&["sh", "a", "{file}", "b"], "\"$2\""),
            (&["x"; 10], "\"${10}\""),
        ] {
            let words = [&["sh", "-c", "wc {file}"], behind].concat();
            let error = template(&words).unwrap_err();
            assert_eq!(error.exit.code(), 2);
            assert!(error.message.contains(instead), "{behind:?}: {error}");
        }
        // And there it is.
        let named = template(&["sh", "-c", "wc \"$2\"", "sh", "a", "{file}", "b"]).unwrap();
        let made = arguments(&named, FILED, "mail");
        assert!(Path::new(&made[4]).is_absolute() && made[5] == "b", "{made:?}");
        let last = template(&["sh", "-c", "wc \"$1\"", "sh"]).unwrap();
        assert!(Path::new(&arguments(&last, FILED, "mail")[3]).is_absolute());
    }

    #[test]
    fn nothing_is_put_into_a_line_for_the_shell() {
        let line = shell("echo ${tube} $1").unwrap();
        assert_eq!(arguments(&line, STDIN, "a;b"), ["-c", "echo ${tube} $1", "sh"]);
        let own = template(&["sh", "-c", "echo ${tube} $0 ${file}", "{tube}"]).unwrap();
        let made = arguments(&own, FILED, "a;b");
        assert_eq!(&made[..3], ["-c", "echo ${tube} $0 ${file}", "a;b"]);
        // A program that only looks like a shell keeps its places.
        let other = template(&["curl", "-c", "{tube}"]).unwrap();
        assert_eq!(arguments(&other, STDIN, "mail"), ["-c", "mail"]);
    }

    #[test]
    fn values_are_put_in_once() {
        let both = template(&["echo", "{id}{tube}.{id}", "{other}"]).unwrap();
        assert_eq!(arguments(&both, STDIN, "{id}"), ["7{id}.7", "{other}"]);
    }

    #[test]
    fn a_file_is_where_the_arguments_say_and_goes_with_the_job() {
        let named = template(&["convert", "-i", "{file}:{file}"]).unwrap();
        let (command, data) = named.command(&[], FILED, &"body".into()).unwrap();
        let place = command.get_args().nth(1).unwrap().to_str().unwrap().to_owned();
        let (path, again) = place.split_once(':').unwrap();
        assert_eq!((command.get_args().count(), path), (2, again));
        assert_eq!(std::fs::read(path).unwrap(), b"body");
        assert!(data.input().is_empty());
        drop(data);
        assert!(!Path::new(path).exists());
        let (command, _data) =
            template(&["cat"]).unwrap().command(&[], FILED, &"x".into()).unwrap();
        assert_eq!(std::fs::read(command.get_args().next().unwrap()).unwrap(), b"x");
    }
}
