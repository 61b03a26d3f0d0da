//! Completions, man pages and the README say what the grammar says.

use super::Case;
use super::program::Program;
use crate::tool::Tool;
use crate::tool::cli;
use crate::tool::docs::{section, visible};

fn names<T: Tool>() -> Vec<String> {
    visible(&cli::tree::<T>()).map(|command| command.get_name().to_owned()).collect()
}

/// For every shell.
pub fn completions_know_every_command<T: Tool>(Case { program, .. }: &Case<T>) {
    for shell in ["elvish", "powershell"] {
        let script = program.bare(&["completions", shell]).exits(0);
        for name in names::<T>() {
            assert!(script.out().contains(&name), "{shell} {name}");
        }
    }
    program.bare(&["completions", "nonsense"]).exits(2);
}

/// The page of the tool itself has exit codes and environment.
pub fn there_is_a_man_page_for_every_command_with_exit_codes_and_environment<T: Tool>(
    Case { program, .. }: &Case<T>,
) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("man1");
    program.bare(&["man", "--out", out.to_str().unwrap()]).exits(0);
    for name in names::<T>() {
        let page = std::fs::read_to_string(out.join(format!("{}-{name}.1", program.name))).unwrap();
        assert!(page.contains(".SH"), "{name}");
    }
    let page = std::fs::read_to_string(out.join(format!("{}.1", program.name))).unwrap();
    assert_eq!(program.bare(&["man"]).exits(0).out(), page);
    for (row, _) in T::PROGRAM.exit_codes() {
        let code = row.exit.code().to_string();
        assert!(page.contains(&code), "{code}");
    }
    assert!(page.contains(program.variables[0]), "{page}");
}

/// Also those that the short help leaves out, with their values in the synopsis.
pub fn every_option_is_explained_on_every_man_page<T: Tool>(Case { program, .. }: &Case<T>) {
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
    assert!(options > 30 * names::<T>().len(), "{options}");
    let page = std::fs::read_to_string(directory.path().join(format!("{}-ping.1", program.name)));
    assert!(page.unwrap().replace('\\', "").contains("[--interval <"));
}

/// `docs` prints what the README has.
pub fn the_generated_sections_list_commands_and_exit_codes<T: Tool>(
    Case { program, .. }: &Case<T>,
) {
    let text = program.bare(&["docs"]).exits(0);
    let commands = section(text.out(), "commands").unwrap();
    for name in names::<T>() {
        assert!(commands.contains(&format!("| `{name}`")), "{name}");
    }
    let exits = section(text.out(), "exit-codes").unwrap();
    for (row, meaning) in T::PROGRAM.exit_codes() {
        assert!(exits.contains(&format!("| {} | {meaning} |", row.exit.code())));
    }
}

/// The README is written by hand around its generated sections; `docs` prints them anew.
pub fn the_readme_has_the_sections_that_the_grammar_gives(program: &Program, path: &str) {
    let Ok(readme) = std::fs::read_to_string(path) else {
        // The crate was taken out of the workspace.
        return;
    };
    let generated = program.bare(&["docs"]).exits(0);
    for name in ["commands", "exit-codes"] {
        let now = section(&readme, name);
        let again = format!("{} docs", program.name);
        assert_eq!(now, section(generated.out(), name), "README section {name}: see `{again}`");
    }
}
