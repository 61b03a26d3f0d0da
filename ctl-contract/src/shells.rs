//! Completion, tested with a real shell.

use std::process::Command;

use ctl_core::commands::tap;
use ctl_core::context::Tool;
use ctl_core::program::sheet;
use ctl_core::repl::guest::Interactive;
use ctl_core::rules::filter::Field;
use ctl_core::tool::cli;

use crate::Case;
use crate::program::{Program, ended};

/// The completions of a line in bash.
fn offered(program: &Program, address: &str, line: &str) -> Vec<String> {
    let [offered] = <[_; 1]>::try_from(all_offered(program, address, &[line])).unwrap();
    offered
}

/// The completions of each of these lines in bash.
fn all_offered(program: &Program, address: &str, lines: &[impl AsRef<str>]) -> Vec<Vec<String>> {
    let folder = std::path::Path::new(program.path).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let name = program.name;
    let script = format!(
        "source <({name} completions bash); for COMP_LINE; do COMP_POINT=${{#COMP_LINE}} COMPREPLY=(); \
         _{name}; printf '%s\\n' \"${{COMPREPLY[@]/%/|}}\" ''; done"
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script, "bash"]).args(lines.iter().map(AsRef::as_ref));
    bash.env("PATH", format!("{}:{path}", folder.display()));
    bash.env(program.variables[0], address);
    bash.stdin(std::process::Stdio::null());
    bash.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let ran = ended(bash.spawn().unwrap());
    assert_eq!(ran.err, "");
    let mut offered = vec![Vec::new()];
    for line in ran.lines() {
        match line.strip_suffix('|') {
            Some(word) => offered.last_mut().unwrap().push(word.to_owned()),
            None => offered.push(Vec::new()),
        }
    }
    offered.pop();
    assert_eq!(offered.len(), lines.len(), "{ran:?}");
    offered
}

/// Waits until bash offers the name of this queue: completion waits only briefly for a server's names, so a busy
/// machine may offer none.
#[track_caller]
fn offers_name(program: &Program, address: &str, line: &str, queue: &str) {
    let mut found = Vec::new();
    for _ in 0..100 {
        found = offered(program, address, line);
        if found.iter().any(|name| name.ends_with(queue)) {
            return;
        }
    }
    panic!("{line}: {queue} is not in {found:?}");
}

/// Commands where a command is expected, names where a name is, and otherwise nothing.
pub fn bash_completes_commands_flags_and_values<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let (name, flag) = (case.program.name, case.program.flag);
    let offered = |line: &str| offered(&case.program, &address, &format!("{name} {line}"));
    let commands = offered("");
    for known in ["ping", "repl", case.list] {
        assert!(commands.iter().any(|command| command == known), "{known}: {commands:?}");
    }
    let no_command = |command: &&String| {
        command.starts_with('-') || ["docs", "complete", "shell"].contains(&command.as_str())
    };
    assert_eq!(commands.iter().find(no_command), None);
    let offers =
        |line: &str, queue| offers_name(&case.program, &address, &format!("{name} {line}"), queue);
    offers(&format!("{} ", case.list), "mail");
    for free_text in [format!("{flag} "), "wait --for ".to_owned(), "ping -c ".to_owned()] {
        assert_eq!(offered(&free_text), [""; 0], "{free_text}");
    }
    let topics: Vec<_> = sheet::sheets(T::PROGRAM.sheets).map(|sheet| sheet.topic).collect();
    assert_eq!(offered("help examples "), topics);
    assert!(offered("help o").contains(&"options".to_owned()));
    assert!(offered("help to").contains(&"top".to_owned()));
    assert_eq!(offered("-o j"), ["json"]);
    assert_eq!(offered("--output=j"), ["json"]);
    assert!(offered("ping --t").contains(&"--timeout".to_owned()));
    // The servers come from the line, including from a context in a file that it names.
    let folder = tempfile::tempdir().unwrap();
    let (_other, elsewhere) = Case::<T>::server();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, format!("[contexts.there]\nserver = \"{elsewhere}\"\n")).unwrap();
    let _ = case.run(&elsewhere, case.add_to, &["there", "x"]).exits(0);
    let there = format!("--config {} --context there {} ", file.display(), case.list);
    offers(&there, "there");
    offers(&format!("{flag} {elsewhere} {} ", case.list), "there");
    // An unreachable server causes neither delay nor output.
    assert_eq!(offered(&format!("{flag} 127.0.0.1:1 {} ", case.list)), [""; 0]);
}

/// Field names, the operators of a field, and the words it can have as values: for every command with filters.
pub fn bash_completes_filters<T: Interactive>(case: &Case<T>) {
    let name = case.program.name;
    let tree = cli::tree::<T>();
    let names = |fields: &[Field]| fields.iter().map(Field::name).collect::<Vec<_>>();
    let mut commands = vec![("tap".to_owned(), names(tap::FIELDS))];
    let own = names(T::FILTERS);
    for command in tree.get_subcommands() {
        for (line, command) in with_children(command) {
            if command.get_arguments().any(|arg| arg.get_id() == "filters") {
                commands.push((line, own.clone()));
            }
        }
    }
    assert!(T::FILTERS.is_empty() == (commands.len() == 1), "{commands:?}");
    let lines = |(command, fields): &(String, Vec<&str>)| {
        ["", fields[0]].map(|field| format!("{name} {command} --filter {field}"))
    };
    let lines: Vec<String> = commands.iter().flat_map(lines).collect();
    let found = all_offered(&case.program, "127.0.0.1:1", &lines);
    for ((command, fields), found) in commands.iter().zip(found.chunks(2)) {
        for field in fields {
            let is_there = found[0].iter().any(|found| found.starts_with(field));
            assert!(is_there, "{command}: {field:?} is not in {:?}", found[0]);
        }
        assert!(found[1].contains(&format!("{}==", fields[0])), "{command}: {:?}", found[1]);
    }
    // Bash treats the text before an equals sign as a separate word.
    offers_each(
        case,
        &[
            ("tap --filter from=c", &["client"]),
            ("tap --filter from==", &["client", "server"]),
            ("tap --filter=error!=t", &["true"]),
            (
                "tap --filter took",
                &["took==", "took\\!=", "took\\<", "took\\<=", "took\\>", "took\\>="],
            ),
            ("tap --filter body~=x", &[]),
        ],
    );
}

/// Each of these lines is continued by these words.
#[track_caller]
fn offers_each<T: Tool>(case: &Case<T>, lines: &[(&str, &[&str])]) {
    let typed: Vec<_> =
        lines.iter().map(|(line, _)| format!("{} {line}", case.program.name)).collect();
    let found = all_offered(&case.program, "127.0.0.1:1", &typed);
    for ((line, words), found) in lines.iter().zip(found) {
        assert_eq!(found, *words, "{line}");
    }
}

/// Metrics of the check, and their operators.
pub fn bash_completes_thresholds<T: Interactive>(case: &Case<T>) {
    let lines: Vec<String> = T::CHECKS
        .iter()
        .map(|check| format!("{} check {} --warning ", case.program.name, check.what))
        .collect();
    let found = all_offered(&case.program, "127.0.0.1:1", &lines);
    for (check, found) in T::CHECKS.iter().zip(found) {
        let of = |word: &String| check.metrics().find(|(metric, _)| word.starts_with(metric));
        assert!(found.iter().all(|word| of(word).is_some()), "{}: {found:?}", check.what);
        for (metric, _) in check.metrics() {
            assert!(found.iter().any(|word| word.starts_with(metric)), "{}: {metric}", check.what);
        }
    }
    let (many, waiting) = (format!("check {}s -c {}", case.noun, case.waiting), case.waiting);
    offers_each(
        case,
        &[(&format!("{many}\\>"), &[&format!("{waiting}\\>=")]), (&format!("{many}=1"), &[])],
    );
    let any = offered(&case.program, "127.0.0.1:1", &format!("{} check -w ", case.program.name));
    assert!(any.contains(&waiting.to_owned()), "{any:?}");
}

/// Completion offers each metric that a check takes, and knows which are times.
pub fn completion_offers_the_metrics_of_check<T: Interactive>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let tree = cli::tree::<T>();
    let check = tree.find_subcommand("check").unwrap();
    let kinds: Vec<_> = check.get_subcommands().map(clap::Command::get_name).collect();
    assert_eq!(T::CHECKS.iter().map(|check| check.what).collect::<Vec<_>>(), kinds);
    for kind in T::CHECKS {
        let mut line = vec!["check", kind.what];
        match kind.what {
            "server" | "roundtrip" => {}
            // The first job of a server.
            "job" => line.push("1"),
            _ => line.push("mail"),
        }
        let command = check.find_subcommand(kind.what).unwrap();
        let filter = T::FILTERS.first().map(|field| format!("{}!=0", field.name()));
        if command.get_arguments().any(|arg| arg.get_id() == "filters") {
            line.extend(["--filter", filter.as_deref().unwrap()]);
        }
        let known = |thresholds: Vec<String>| {
            let flags = thresholds.iter().flat_map(|threshold| ["-w", threshold]);
            let ran =
                case.program.at(&address, &line.iter().copied().chain(flags).collect::<Vec<_>>());
            assert_ne!(ran.code, Some(3), "{line:?} {thresholds:?}: {}", ran.out());
        };
        known(kind.metrics().map(|(metric, _)| format!("{metric}=~:")).collect());
        let times = kind.metrics().filter(|(_, unit)| !unit.is_empty());
        known(times.map(|(metric, _)| format!("{metric}=~:5m")).collect());
        for (metric, _) in kind.metrics().filter(|(_, unit)| unit.is_empty()) {
            let wrong = ["-w", &format!("{metric}=~:5m")];
            let ran = case.program.at(&address, &[&line[..], &wrong].concat());
            assert_eq!(ran.code, Some(3), "{line:?} {metric}: {}", ran.out());
        }
        // What is measured without being asked for is in the table, too.
        let report = case.program.at(&address, &[&line[..], &["-o", "json"]].concat()).json();
        let measured = report["metrics"].as_array().unwrap();
        assert!(!measured.is_empty(), "{line:?}: {report}");
        for metric in measured {
            let of = |key: &str| metric[key].as_str().unwrap();
            assert!(
                kind.metrics().any(|named| named == (of("name"), of("unit"))),
                "{line:?}: {metric}"
            );
        }
    }
}

/// A command and its descendants, with the words that name them.
fn with_children(command: &clap::Command) -> Vec<(String, &clap::Command)> {
    let name = command.get_name();
    let below = command.get_subcommands().flat_map(with_children);
    let below = below.map(|(words, command)| (format!("{name} {words}"), command));
    [(name.to_owned(), command)].into_iter().chain(below).collect()
}

/// Names of queues are also completed for patterns.
pub fn bash_completes_names_for_patterns<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let checked = format!("check {}s ", case.noun);
    for line in ["top --only ", "exporter --only ", "web --only ", &checked] {
        let line = format!("{} {line}", case.program.name);
        offers_name(&case.program, &address, &line, "mail");
    }
}

/// Files are left to the shell, and scripts are short.
pub fn completion_scripts_leave_files_to_the_shell<T: Tool>(case: &Case<T>) {
    for (line, code) in [
        (&["complete", "zsh", "--", "repl", ""][..], 3),
        (&["complete", "fish", "--", "drain", "--to", "x"], 3),
        (&["complete", "nushell", "--", "drain", "--to", "'x"], 3),
        (&["complete", "zsh", "--", "tap", "--filter", "fr"], 4),
        (&["complete", "zsh", "--", "tap", "--filter", "from==c"], 0),
        (&["complete", "zsh", "--", "nonsense", ""], 0),
        (&["complete", "zsh"], 0),
        (&["complete", "nu"], 0),
        (&["complete", "elvish", "--", "nonsense", ""], 2),
        (&["complete", "powershell", "--", "nonsense", ""], 2),
        (&["complete", "man", "--", "nonsense", ""], 2),
    ] {
        let _ = case.program.at("127.0.0.1:1", line).exits(code);
    }
    for shell in ["bash", "zsh", "fish", "nushell"] {
        let script = case.program.bare(&["completions", shell]).exits(0);
        assert!(script.out().contains(case.program.name) && script.bytes.len() < 2000, "{shell}");
    }
}
