//! The command that a worker runs for each job: a program with its arguments, or a shell line.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};

use bytes::Bytes;

use super::data::{Data, DataArgs};
use crate::error::CliError;

/// A placeholder in arguments, such as `{tube}`, and its equivalent in a shell line: `$BSCTL_TUBE`.
pub type Place = (&'static str, &'static str);

/// The template of the command for each job.
#[derive(Debug, Clone)]
pub struct Template {
    words: Vec<OsString>,
    lines: Vec<Line>,
    is_shell: bool,
}

/// A shell line, into which nothing is ever substituted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// The words that the shell reads as its options and as the line.
    words: RangeInclusive<usize>,
    /// Whether the words after it become `$0`, `$1`, and so on.
    has_arguments: bool,
}

/// The placeholder for the file with the job's data, and its equivalent in a line of the tool's own shell.
const FILE: Place = ("{file}", "$1");

impl Template {
    /// From a shell line, if given, else from the words of a command.
    ///
    /// # Errors
    /// Neither is given, or a placeholder occurs in a shell line, including one after `sh -c`: exit 2.
    pub fn new(
        shell: Option<&OsStr>,
        words: &[OsString],
        places: &[Place],
    ) -> Result<Self, CliError> {
        let template = match shell {
            Some(line) => Self {
                words: match cfg!(windows) {
                    true => vec!["cmd".into(), "/C".into(), line.to_owned()],
                    // Words after these become `$1` and so on.
                    false => vec!["sh".into(), "-c".into(), line.to_owned(), "sh".into()],
                },
                lines: vec![Line { words: 2..=2, has_arguments: true }],
                is_shell: true,
            },
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

    /// Refuses placeholders in a shell line.
    fn check(&self, line: &Line, places: &[Place]) -> Result<(), CliError> {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        let words: Vec<String> =
            self.words.get(line.words.clone()).unwrap_or_default().iter().map(text).collect();
        for &(place, own) in places.iter().chain([&FILE]) {
            if !words.iter().any(|word| has_place(word, place)) {
                continue;
            }
            let instead = match (place == FILE.0, line.has_arguments) {
                (false, _) => format!("use \"{own}\" instead"),
                (true, true) => format!("use \"{}\" instead", self.file_for(line)),
                (true, false) => "pass it to a script of your own as an argument".to_owned(),
            };
            return Err(CliError::usage(format!(
                "{place} is not replaced in a shell line, because the shell would execute its value: {instead}"
            ))
            .hint(format!("--shell 'echo \"{own}\"'")));
        }
        Ok(())
    }

    /// Where a line finds the file: words after the line are `$0`, `$1`, and so on. A file without a placeholder comes
    /// last.
    fn file_for(&self, line: &Line) -> String {
        let behind = self.words.get(line.words.end() + 1..).unwrap_or_default();
        let named = behind.iter().position(|word| word.to_string_lossy().contains(FILE.0));
        match named.unwrap_or(behind.len()) {
            digit @ 0..=9 => format!("${digit}"),
            number => format!("${{{number}}}"),
        }
    }

    /// Whether the tool's own shell runs it.
    pub(crate) fn is_shell(&self) -> bool {
        self.is_shell
    }

    /// The command for one job, without its further environment. `how` says how it gets the data; `values` replace the
    /// placeholders in its arguments.
    ///
    /// # Errors
    /// Those of [`DataArgs`]: the data cannot be an argument (65), or its file cannot be written (74).
    pub fn command(
        &self,
        values: &[(&str, &str)],
        how: DataArgs,
        body: &Bytes,
    ) -> Result<(Command, Data), CliError> {
        let data = how.hand_over(body)?;
        let mut values: Vec<(&str, &OsStr)> =
            values.iter().map(|(place, value)| (*place, OsStr::new(*value))).collect();
        let path = match &data {
            Data::File(file) => Some(file.path().as_os_str()),
            Data::Input(_) | Data::Argument(_) => None,
        };
        values.extend(path.map(|path| (FILE.0, path)));
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        let mut is_named = false;
        for (at, word) in words.enumerate() {
            if self.lines.iter().any(|line| line.words.contains(&(at + 1))) {
                command.arg(word);
                continue;
            }
            is_named |= word.to_string_lossy().contains(FILE.0);
            command.arg(fill_in(word, &values));
        }
        command.args(path.filter(|_| !is_named)).stdin(Stdio::null());
        match &data {
            Data::Input(_) => drop(command.stdin(Stdio::piped())),
            Data::Argument(argument) => drop(command.arg(argument)),
            Data::File(_) => {}
        }
        Ok((command, data))
    }
}

/// Programs that run a shell line, and which of their arguments that is.
const SHELLS: &[(&[&str], Reads)] = &[
    (
        &[
            "sh", "ash", "bash", "csh", "dash", "elvish", "ksh", "ksh93", "lksh", "mksh", "nu",
            "oksh", "posh", "rbash", "rksh", "rzsh", "tcsh", "xonsh", "yash", "zsh",
        ],
        Reads::Line,
    ),
    (&["fish"], Reads::Behind { letters: b"cC", long: &["--command", "--init-command"] }),
    (
        &["su", "runuser"],
        Reads::Behind { letters: b"c", long: &["--command", "--session-command"] },
    ),
    (&["script", "flock"], Reads::Behind { letters: b"c", long: &["--command"] }),
    (&["env"], Reads::First { letter: b'S', long: "--split-string" }),
    // A remote shell gets all words joined, and these programs do the same.
    (&["ssh", "rsh", "watch", "parallel"], Reads::All),
    (&["cmd", "cmd.exe"], Reads::From(&["/c", "/k", "/r"])),
    (&["pwsh", "pwsh.exe", "powershell", "powershell.exe"], Reads::AllBut("-f")),
];

/// Which arguments of a program are its line.
#[derive(Debug, Clone, Copy)]
enum Reads {
    /// The one after the options, if `-c` is among them; what follows are its arguments.
    Line,
    /// Each argument after one of these letters, or in the same word; or of one of these long options.
    Behind { letters: &'static [u8], long: &'static [&'static str] },
    /// As `Behind`, but only before the first argument that is not an option: what follows is another program.
    First { letter: u8, long: &'static str },
    /// All arguments.
    All,
    /// All after one of these, in upper or lower case.
    From(&'static [&'static str]),
    /// All, unless an option with this prefix names a script.
    AllBut(&'static str),
}

/// Long options of shells that take the next word.
const WITH_ARGUMENT: &[&[u8]] = &[b"--init-file", b"--rcfile"];

/// Options of `env` that take the next word.
const ENV_WITH_ARGUMENT: &[&[u8]] = &[b"-u", b"-C", b"--unset", b"--chdir"];

/// The shell lines among the words of a command. The shell may be any word, since `timeout 5 sh -c` runs it, too.
fn lines_of(words: &[OsString]) -> Vec<Line> {
    let shells = words.iter().enumerate().filter_map(|(at, word)| Some((at, reads(word)?)));
    shells
        .flat_map(|(at, reads)| {
            let behind = at + 1;
            let has_arguments = matches!(reads, Reads::Line);
            let lines = reads.lines(words.get(behind..).unwrap_or_default());
            lines.into_iter().map(move |line| Line {
                words: behind + line.start()..=behind + line.end(),
                has_arguments,
            })
        })
        .collect()
}

/// How a program reads lines, if known.
fn reads(word: &OsStr) -> Option<Reads> {
    let word = word.to_str()?;
    let name = word.rsplit(['/', '\\']).next()?;
    let is_it = |known: &&str| known.eq_ignore_ascii_case(name);
    SHELLS.iter().find(|(names, _)| names.iter().any(is_it)).map(|(_, reads)| *reads)
}

impl Reads {
    /// The shell lines among its arguments.
    fn lines(self, arguments: &[OsString]) -> Vec<RangeInclusive<usize>> {
        let Some(last) = arguments.len().checked_sub(1) else { return Vec::new() };
        match self {
            Self::Line => line_among(arguments).map(|line| 0..=line).into_iter().collect(),
            Self::All => vec![0..=last],
            Self::From(options) => {
                let is_it = |word: &OsString| options.iter().any(|option| starts(word, option));
                arguments.iter().position(is_it).map(|at| at..=last).into_iter().collect()
            }
            Self::AllBut(script) => {
                let mut options = arguments.iter().take_while(|word| starts(word, "-"));
                if options.any(|word| starts(word, script)) { Vec::new() } else { vec![0..=last] }
            }
            Self::Behind { letters, long } => {
                let all = arguments.iter().enumerate();
                let found =
                    all.filter(|(_, word)| is_option(word.as_encoded_bytes(), letters, long));
                found.map(|(at, _)| at..=last.min(at + 1)).collect()
            }
            Self::First { letter, long } => {
                let mut all = arguments.iter().map(|word| word.as_encoded_bytes()).enumerate();
                while let Some((at, word)) = all.next() {
                    if is_option(word, &[letter], &[long]) {
                        return vec![at..=last.min(at + 1)];
                    }
                    if !word.starts_with(b"-") || word == b"--" {
                        break;
                    }
                    if ENV_WITH_ARGUMENT.contains(&word) {
                        all.next();
                    }
                }
                Vec::new()
            }
        }
    }
}

/// Whether a word has this prefix, in upper or lower case.
fn starts(word: &OsStr, begin: &str) -> bool {
    let begins = word.as_encoded_bytes().get(..begin.len());
    begins.is_some_and(|word| word.eq_ignore_ascii_case(begin.as_bytes()))
}

/// Whether a word has one of these letters as an option, or is one of these long options, with or without an argument.
fn is_option(word: &[u8], letters: &[u8], long: &[&str]) -> bool {
    match word {
        [b'-', b'-', ..] => {
            let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
            // Long options may be abbreviated.
            name.len() > 2 && long.iter().any(|option| option.as_bytes().starts_with(name))
        }
        [b'-', given @ ..] => given.iter().any(|letter| letters.contains(letter)),
        _ => false,
    }
}

/// Which argument of a shell is its line, if any.
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
                // Each of them takes an option name: `-euo pipefail`.
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

/// Whether the line has the placeholder; `${id}` is a shell variable.
fn has_place(line: &str, place: &str) -> bool {
    let mut before = line.match_indices(place).filter_map(|(at, _)| line.get(..at));
    before.any(|before| !before.ends_with('$'))
}

/// Substitutes the values in a single pass: a value is not scanned again.
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
    use std::path::Path;

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
    fn rejects_placeholders_in_a_shell_line() {
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
    fn recognizes_a_shell_behind_options_and_wrappers() {
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
            "fish -C",
            "fish -ic",
            "sudo -u x sh -c",
            "timeout 5 bash -c",
            "nice sh -c",
            "su -c",
            "su mail -c",
            "su - mail --command",
            "runuser -u mail -- sh -c",
            "env -S",
            "env -u A -iS",
            "script -q -c",
            "flock file -c",
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
        for words in [
            &["fish", "--command=echo {tube}"][..],
            &["fish", "-C", "set a {tube}", "-c", "true"],
            &["su", "mail", "--command=echo {tube}"],
            &["env", "-Ssh {tube}"],
            &["env", "--split=sh {tube}"],
            &["ssh", "host", "echo", "{tube}"],
            &["sudo", "ssh", "-p", "22", "mail@host", "--", "echo {tube}"],
            &["watch", "-n1", "echo", "{tube}"],
            &["cmd", "/S", "/C", "echo", "{tube}"],
            &[r"C:\Windows\System32\CMD.EXE", "/c", "echo {tube}"],
            &["pwsh", "-NoProfile", "-Command", "echo", "{tube}"],
            &["powershell.exe", "echo {tube}"],
        ] {
            let error = template(words).unwrap_err();
            assert!(error.message.contains("\"$BSCTL_TUBE\""), "{words:?}: {error}");
        }
        let error = template(&["ssh", "host", "wc {file}"]).unwrap_err();
        assert!(error.message.contains("a script of your own"), "{error}");
        // A program after one of these reads its own options.
        for words in [
            &["env", "A=b", "curl", "-S", "{tube}"][..],
            &["env", "-i", "-u", "S", "curl", "-S", "{tube}"],
            &["pwsh", "-NoProfile", "-File", "mail.ps1", "-Command", "{tube}"],
            &["su"],
            &["ssh-keygen", "{tube}"],
        ] {
            assert!(template(words).is_ok(), "{words:?}");
        }
        // Scripts and their arguments are not lines.
        for command in ["bash -o pipefail", "sh --", "nice sh -e"] {
            let mut words: Vec<&str> = command.split(' ').collect();
            words.extend(["{tube}.sh", "-c", "{id}"]);
            let made = arguments(&template(&words).unwrap(), STDIN, "mail");
            assert_eq!(&made[made.len() - 3..], ["mail.sh", "-c", "7"], "{command}");
        }
    }

    #[test]
    fn passes_the_file_path_to_an_explicit_shell() {
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
        // The placeholder names the argument.
        let named = template(&["sh", "-c", "wc \"$2\"", "sh", "a", "{file}", "b"]).unwrap();
        let made = arguments(&named, FILED, "mail");
        assert!(Path::new(&made[4]).is_absolute() && made[5] == "b", "{made:?}");
        let last = template(&["sh", "-c", "wc \"$1\"", "sh"]).unwrap();
        assert!(Path::new(&arguments(&last, FILED, "mail")[3]).is_absolute());
    }

    #[test]
    fn never_substitutes_into_a_shell_line() {
        let line = shell("echo ${tube} $1").unwrap();
        assert_eq!(arguments(&line, STDIN, "a;b"), ["-c", "echo ${tube} $1", "sh"]);
        let own = template(&["sh", "-c", "echo ${tube} $0 ${file}", "{tube}"]).unwrap();
        let made = arguments(&own, FILED, "a;b");
        assert_eq!(&made[..3], ["-c", "echo ${tube} $0 ${file}", "a;b"]);
        // A program that only resembles a shell keeps its placeholders.
        let other = template(&["curl", "-c", "{tube}"]).unwrap();
        assert_eq!(arguments(&other, STDIN, "mail"), ["-c", "mail"]);
    }

    #[test]
    fn substitutes_values_once() {
        let both = template(&["echo", "{id}{tube}.{id}", "{other}"]).unwrap();
        assert_eq!(arguments(&both, STDIN, "{id}"), ["7{id}.7", "{other}"]);
    }

    #[test]
    fn the_body_file_lives_as_long_as_the_job() {
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
