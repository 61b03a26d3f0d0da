//! Completions, man pages and the README say what the grammar says.

use ctl_core::docs::{section, visible};
use ctl_core::error::EXIT_CODES;
use gearctl::cli::{PROGRAM, command_tree};

use crate::harness::*;

fn names() -> Vec<String> {
    visible(&command_tree()).map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn every_command_is_in_exactly_one_group() {
    let mut grouped: Vec<&str> =
        PROGRAM.groups.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    grouped.sort_unstable();
    let mut all = names();
    all.sort_unstable();
    assert_eq!(grouped, all);
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = bare(&["completions", shell]).exits(0);
        for name in names() {
            assert!(script.out().contains(&name), "{shell} {name}");
        }
    }
    bare(&["completions", "nonsense"]).exits(2);
}

#[test]
fn there_is_a_man_page_for_every_command_with_exit_codes_and_environment() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("man1");
    bare(&["man", "--out", out.to_str().unwrap()]).exits(0);
    for name in names() {
        let page = std::fs::read_to_string(out.join(format!("gearctl-{name}.1"))).unwrap();
        assert!(page.contains(".SH"), "{name}");
    }
    let page = std::fs::read_to_string(out.join("gearctl.1")).unwrap();
    assert_eq!(bare(&["man"]).exits(0).out(), page);
    for row in EXIT_CODES {
        let code = row.exit.code().to_string();
        assert!(page.contains(&code), "{code}");
    }
    assert!(page.contains("GEARCTL_SERVER"), "{page}");
}

#[test]
fn the_generated_sections_list_commands_and_exit_codes() {
    let text = bare(&["docs"]).exits(0);
    let commands = section(text.out(), "commands").unwrap();
    for name in names() {
        assert!(commands.contains(&format!("| `{name}`")), "{name}");
    }
    let exits = section(text.out(), "exit-codes").unwrap();
    for row in EXIT_CODES {
        assert!(exits.contains(&format!("| {} |", row.exit.code())));
    }
}

/// The README is written by hand around its generated sections; `gearctl docs` prints them anew.
#[test]
fn the_readme_has_the_sections_that_the_grammar_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let Ok(readme) = std::fs::read_to_string(path) else {
        // The crate was taken out of the workspace.
        return;
    };
    let generated = bare(&["docs"]).exits(0);
    for name in ["commands", "exit-codes"] {
        let now = section(&readme, name);
        assert_eq!(
            now,
            section(generated.out(), name),
            "README section {name}: see `gearctl docs`"
        );
    }
}
