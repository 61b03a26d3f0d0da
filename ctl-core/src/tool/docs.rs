//! Documentation generated from the grammar: completion scripts, man pages, Markdown tables.

pub mod commands;

use clap::{Arg, Command};
use clap_complete::Shell as Static;

use crate::error::CliError;
use crate::help::visible;
use crate::rules::preset;
use crate::tool::shells;
pub use crate::tool::shells::Shell;

/// A completion script for one shell.
pub fn completions(mut tree: Command, shell: Shell) -> Option<String> {
    let name = tree.get_name().to_owned();
    let fixed = match shell {
        Shell::Elvish => Static::Elvish,
        Shell::PowerShell => Static::PowerShell,
        shell => return shells::script(shell, &name),
    };
    let mut script = Vec::new();
    clap_complete::generate(fixed, &mut tree, name, &mut script);
    Some(String::from_utf8_lossy(&script).into_owned())
}

/// The man pages of the tool and of every subcommand: file name and text.
///
/// # Errors
/// A page cannot be rendered: exit 70.
pub(crate) fn man_pages(tree: Command) -> Result<Vec<(String, String)>, CliError> {
    let mut tree = explained(tree);
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
    let documented = command.clone().name(name.clone()).override_usage(synopsis(command));
    clap_mangen::Man::new(documented).render(&mut page).map_err(|error| {
        CliError::internal(format!("cannot render the man page {name}: {error}"))
    })?;
    pages.push((format!("{name}.1"), String::from_utf8_lossy(&page).into_owned()));
    for child in visible(command) {
        collect_pages(child, Some(&name), pages)?;
    }
    Ok(())
}

/// The grammar with every option explained, including those that the short help omits.
fn explained(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(explained)
}

/// A command's synopsis: its own options with their values, and one word for the common ones.
fn synopsis(command: &Command) -> String {
    let is_left_out = |arg: &Arg| {
        arg.is_positional()
            || arg.is_required_set()
            || arg.is_hide_set()
            || arg.is_global_set()
            || ["help", "version"].contains(&arg.get_id().as_str())
    };
    let own = command.get_arguments().filter(|arg| !is_left_out(arg));
    let options = own.map(|arg| format!("[{arg}] ")).collect::<String>() + "[GLOBAL OPTIONS]";
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage: ").replacen("[OPTIONS]", &options, 1)
}

/// The commands with their aliases and first lines, as a Markdown table.
fn commands_markdown(tree: &Command) -> String {
    let mut table = String::from("| Command | What it does |\n|---|---|\n");
    for command in visible(tree) {
        let mut names = format!("`{}`", command.get_name());
        let is_short =
            |short: &&Command| preset::command(short).as_deref() == Some(command.get_name());
        let short = tree.get_subcommands().filter(is_short).map(Command::get_name);
        for alias in command.get_visible_aliases().chain(short) {
            names.push_str(&format!(", `{alias}`"));
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        table.push_str(&format!("| {names} | {about} |\n"));
    }
    table
}

/// The table of exit codes and their meanings, as Markdown.
fn exit_codes_markdown(codes: &[(u8, String)]) -> String {
    let rows = codes.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    format!("| Code | Meaning |\n|---|---|\n{}", rows.collect::<String>())
}

/// Both generated sections of a README, between their markers.
pub(crate) fn readme_sections(tree: &Command, codes: &[(u8, String)]) -> String {
    let commands = commands_markdown(tree);
    let exits = exit_codes_markdown(codes);
    format!(
        "{}\n{commands}{}\n\n{}\n{exits}{}\n",
        open("commands"),
        close("commands"),
        open("exit-codes"),
        close("exit-codes")
    )
}

/// The text between the markers of a section, such as `<!-- commands -->` and `<!-- /commands -->`.
pub fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&open(name))?;
    let (inner, _) = rest.split_once(&close(name))?;
    Some(inner.trim())
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
            .subcommand(preset::grammar(("rush", "put --pri 0")))
            .subcommand(Command::new("secret").hide(true))
    }

    #[test]
    fn markdown_lists_visible_commands_with_aliases() {
        let codes = vec![(69, "away".to_owned())];
        let text = readme_sections(&tree(), &codes);
        let commands = section(&text, "commands").unwrap();
        assert!(commands.ends_with("| `put`, `add`, `rush` | Put jobs |"), "{commands}");
        assert!(!commands.contains("secret"));
        assert!(section(&text, "exit-codes").unwrap().contains("| 69 | away |"));
        assert_eq!(section(&text, "other"), None);
    }
}
