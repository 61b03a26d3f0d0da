//! Completions, man pages and the README match the grammar.

use clap::Command;
use clap::builder::StyledStr;
use ctl_core::context::Tool;
use ctl_core::error::EXIT_CODES;
use ctl_core::help::visible;
use ctl_core::repl::guest::Interactive;
use ctl_core::repl::tree;
use ctl_core::text::lexer;
use ctl_core::tool::cli;
use ctl_core::tool::docs::section;

use crate::program::Program;
use crate::{Case, lines};

/// The longest summary of a command, so that a list of commands has a line for each on a terminal of 80 columns.
const SUMMARY: usize = 65;

fn names<T: Tool>() -> Vec<String> {
    visible(&cli::tree::<T>()).map(|command| command.get_name().to_owned()).collect()
}

/// For every shell.
pub fn completions_cover_every_command<T: Tool>(Case { program, .. }: &Case<T>) {
    for shell in ["elvish", "powershell"] {
        let script = program.bare(&["completions", shell]).exits(0);
        for name in names::<T>() {
            assert!(script.out().contains(&name), "{shell} {name}");
        }
    }
    program.bare(&["completions", "nonsense"]).exits(2);
}

/// Unless it sends none of its own; a command below another one is explained with that one. The line that lists it
/// tells newcomers what it does, without the words of the protocol.
pub fn help_names_the_protocol_command<T: Tool>(_: &Case<T>) {
    let rows = T::KIT.iter().flat_map(|(_, rows)| *rows);
    let of_every_tool: Vec<&str> = rows.map(|row| row.name).chain(["help"]).collect();
    for command in visible(&cli::tree::<T>()) {
        let text = |text: Option<&StyledStr>| text.map(ToString::to_string).unwrap_or_default();
        let (name, about) = (command.get_name(), text(command.get_about()));
        let end = text(command.get_after_help());
        assert!(of_every_tool.contains(&name) || end.contains("Protocol: "), "{name}: {end}");
        assert!(!about.contains('(') && about.len() <= SUMMARY, "{name}: {about}");
        assert!(name == "help" || !end.is_empty(), "{name} has no examples");
        for inner in visible(command) {
            let its_end = text(inner.get_after_help());
            assert_eq!(its_end, end, "{name} {}", inner.get_name());
        }
    }
}

/// The tool's own page has exit codes and environment.
pub fn every_command_has_a_complete_man_page<T: Tool>(Case { program, .. }: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("man1");
    program.bare(&["man", "--out", out.to_str().unwrap()]).exits(0);
    for name in names::<T>() {
        let page = std::fs::read_to_string(out.join(format!("{}-{name}.1", program.name))).unwrap();
        assert!(page.contains(".SH"), "{name}");
    }
    let page = std::fs::read_to_string(out.join(format!("{}.1", program.name))).unwrap();
    assert_eq!(program.bare(&["man"]).exits(0).out(), page);
    for (exit, _) in EXIT_CODES {
        let code = exit.code().to_string();
        assert!(page.contains(&code), "{code}");
    }
    assert!(page.contains(program.variables[0]), "{page}");
}

/// Including those that the short help omits, with their values in the synopsis.
pub fn man_pages_explain_every_option<T: Tool>(Case { program, .. }: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    program.bare(&["man", "--out", directory.path().to_str().unwrap()]).exits(0);
    let mut options = 0;
    for page in std::fs::read_dir(&directory).unwrap() {
        let page = std::fs::read_to_string(page.unwrap().path()).unwrap();
        let page = page.replace("\\-", "-").replace("\\fR", "");
        let (head, rest) = page.split_once(".SH DESCRIPTION").unwrap();
        for entry in rest.split(".TP\n").skip(1) {
            let (option, text) = entry.split_once('\n').unwrap();
            assert!(text.starts_with(|first: char| first.is_alphanumeric()), "{option}: {text}");
            options += usize::from(option.contains("--"));
        }
        assert!(head.contains("[GLOBAL OPTIONS]") && !head.contains("[--color"), "{head}");
    }
    assert!(options > 25 * names::<T>().len(), "{options}");
    let page = std::fs::read_to_string(directory.path().join(format!("{}-ping.1", program.name)));
    assert!(page.unwrap().replace('\\', "").contains("[--interval <"));
}

/// `docs` prints the sections of the README.
pub fn generated_sections_list_commands_and_exit_codes<T: Tool>(Case { program, .. }: &Case<T>) {
    let text = program.bare(&["docs"]).exits(0);
    let commands = section(text.out(), "commands").unwrap();
    for name in names::<T>() {
        assert!(commands.contains(&format!("| `{name}`")), "{name}");
    }
    let exits = section(text.out(), "exit-codes").unwrap();
    for (exit, meaning) in EXIT_CODES {
        let own = T::PROGRAM.meanings.iter().filter(|(of, _)| of == exit);
        let meaning = own.fold((*meaning).to_owned(), |all, (_, own)| format!("{all}, {own}"));
        assert!(exits.contains(&format!("| {} | {meaning} |", exit.code())), "{exits}");
    }
}

/// The README is hand-written around its generated sections, which `docs` prints.
pub fn readme_sections_match_the_grammar(program: &Program, path: &str) {
    let Ok(readme) = std::fs::read_to_string(path) else {
        // The crate was removed from the workspace.
        return;
    };
    let generated = program.bare(&["docs"]).exits(0);
    for name in ["commands", "exit-codes"] {
        let now = section(&readme, name);
        let again = format!("{} docs", program.name);
        assert_eq!(now, section(generated.out(), name), "README section {name}: see `{again}`");
    }
}

/// Parses every example at the end of a help, of the command line and of a session. Nothing is run.
pub fn help_examples_parse<T: Interactive>() {
    let (mut typed, mut wrong) = (0, String::new());
    let session = tree::grammar::<T>();
    for grammar in [cli::tree::<T>(), session.clone()] {
        for (command, line) in below(&grammar).into_iter().flat_map(examples) {
            typed += 1;
            let of_shell = line.contains(&format!("{} ", T::PROGRAM.name));
            let errors = match of_shell {
                true => in_a_shell::<T>(&line),
                false => in_a_session(&session, &line).into_iter().collect(),
            };
            errors.iter().for_each(|error| wrong += &format!("{command}: {line}\n{error}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(typed > 80, "{typed}");
}

/// The faults of this tool's commands in a shell line.
fn in_a_shell<T: Tool>(line: &str) -> Vec<String> {
    let commands = lines::commands(line);
    let of_tool: Vec<_> = commands
        .iter()
        .filter(|words| words.first().is_some_and(|w| w == T::PROGRAM.name))
        .collect();
    if of_tool.is_empty() {
        return vec!["there is no command of the tool in it".to_owned()];
    }
    let errors = of_tool.into_iter().filter_map(|words| cli::parse::<T>(words).err());
    errors.map(|error| error.to_string()).collect()
}

/// The faults of a line of a session.
fn in_a_session(grammar: &Command, line: &str) -> Option<String> {
    let statement = match lexer::next_statement(line.as_bytes()) {
        Ok(statement) => statement,
        Err(error) => return Some(error.to_string()),
    };
    let words = statement.words.into_iter().map(|word| String::from_utf8(word.bytes).unwrap());
    grammar.clone().try_get_matches_from(words).err().map(|error| error.to_string())
}

/// A command and all below it.
fn below(command: &Command) -> Vec<&Command> {
    visible(command).flat_map(|command| [vec![command], below(command)].concat()).collect()
}

/// The examples in the help of a command: those after `Example:`, and the indented lines below `Examples:`. Wide blanks
/// separate a line from its description.
fn examples(command: &Command) -> Vec<(String, String)> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (mut lines, mut is_below): (Vec<String>, _) = (Vec::new(), false);
    for line in help.lines() {
        let inline = line.strip_prefix("Example: ").map(|line| vec![line]);
        let inline = inline.or(line.strip_prefix("Examples: ").map(|l| l.split(", ").collect()));
        match inline {
            Some(inline) => lines.extend(inline.into_iter().map(str::to_owned)),
            None if line == "Examples:" => is_below = true,
            None if !is_below || !line.starts_with("  ") => is_below = false,
            // A longer line continues further in.
            None => {
                match lines.last_mut().filter(|l| l.ends_with('\\') || line.starts_with("    ")) {
                    Some(last) => {
                        *last = format!("{} {}", last.trim_end_matches('\\'), line.trim());
                    }
                    None => lines.extend(line.trim().split("   ").next().map(str::to_owned)),
                }
            }
        }
    }
    let name = command.get_name();
    lines.into_iter().map(|line| (name.to_owned(), line)).collect()
}
