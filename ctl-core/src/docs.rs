//! Documentation made from the grammar: completion scripts, man pages, Markdown tables.

pub mod commands;

use clap::Command;
use clap_complete::Shell;

use crate::error::{CliError, exit_codes_markdown, exit_codes_text};

/// A completion script for one shell.
#[must_use]
pub fn completions(mut tree: Command, shell: Shell) -> String {
    let name = tree.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut tree, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The man pages of the tool and of every subcommand: file name and text.
///
/// # Errors
/// A page cannot be rendered: exit 70.
pub fn man_pages(mut tree: Command) -> Result<Vec<(String, String)>, CliError> {
    tree.build();
    let mut pages = Vec::new();
    collect_pages(&tree, None, &mut pages)?;
    Ok(pages)
}

fn collect_pages(
    command: &Command,
    parent: Option<&str>,
    pages: &mut Vec<(String, String)>,
) -> Result<(), CliError> {
    let name = match parent {
        Some(parent) => format!("{parent}-{}", command.get_name()),
        None => command.get_name().to_owned(),
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.clone())).render(&mut page).map_err(
        |error| CliError::internal(format!("cannot render the man page {name}: {error}")),
    )?;
    pages.push((format!("{name}.1"), String::from_utf8_lossy(&page).into_owned()));
    for child in visible(command) {
        collect_pages(child, Some(&name), pages)?;
    }
    Ok(())
}

/// The commands with their aliases and first lines, as a Markdown table.
#[must_use]
pub fn commands_markdown(tree: &Command) -> String {
    let mut table = String::from("| Command | What it does |\n|---|---|\n");
    for command in visible(tree) {
        let mut names = format!("`{}`", command.get_name());
        for alias in command.get_visible_aliases() {
            names.push_str(&format!(", `{alias}`"));
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        table.push_str(&format!("| {names} | {about} |\n"));
    }
    table
}

/// Both generated sections of a README, between their markers.
#[must_use]
pub fn readme_sections(tree: &Command) -> String {
    let commands = commands_markdown(tree);
    let exits = exit_codes_markdown();
    format!(
        "{}\n{commands}{}\n\n{}\n{exits}{}\n",
        open("commands"),
        close("commands"),
        open("exit-codes"),
        close("exit-codes")
    )
}

/// What stands between the markers of a section, such as `<!-- commands -->` and `<!-- /commands -->`.
#[must_use]
pub fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&open(name))?;
    let (inner, _) = rest.split_once(&close(name))?;
    Some(inner.trim())
}

/// The commands of a tool in groups, for the top of its help.
#[must_use]
pub fn grouped_help(tree: &Command, groups: &[(&str, &[&str])]) -> String {
    let width = visible(tree).map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (title, names) in groups {
        text.push_str(&format!("{title}:\n"));
        for name in *names {
            let Some(command) = tree.find_subcommand(name) else { continue };
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:<width$}  {about}\n"));
        }
        text.push('\n');
    }
    text
}

/// The exit codes for the end of help texts and man pages.
#[must_use]
pub fn exit_help() -> String {
    format!("Exit codes:\n{}", exit_codes_text())
}

/// The subcommands that documentation shows.
pub fn visible(tree: &Command) -> impl Iterator<Item = &Command> {
    tree.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn open(name: &str) -> String {
    format!("<!-- {name} -->")
}

fn close(name: &str) -> String {
    format!("<!-- /{name} -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Command {
        Command::new("tool")
            .about("A tool")
            .subcommand(Command::new("put").about("Put jobs").visible_alias("add"))
            .subcommand(Command::new("secret").hide(true))
    }

    #[test]
    fn markdown_lists_visible_commands_with_aliases() {
        let text = readme_sections(&tree());
        let commands = section(&text, "commands").unwrap();
        assert!(commands.ends_with("| `put`, `add` | Put jobs |"), "{commands}");
        assert!(!commands.contains("secret"));
        assert!(section(&text, "exit-codes").unwrap().contains("| 69 |"));
        assert_eq!(section(&text, "other"), None);
    }

    #[test]
    fn every_command_has_a_man_page() {
        let names: Vec<String> =
            man_pages(tree()).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["tool.1", "tool-put.1"]);
    }

    #[test]
    fn completions_name_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            assert!(completions(tree(), shell).contains("put"), "{shell}");
        }
    }
}
