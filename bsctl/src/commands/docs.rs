//! `completions`, `man` and the generated sections of the README.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use ctl_core::docs;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Format, Record};

use crate::cli::{command_tree, documented_tree};
use crate::tool::Tool;

/// The end of `completions --help`.
pub const COMPLETIONS_HELP: &str = "\
Examples:
  bsctl completions bash > ~/.local/share/bash-completion/completions/bsctl
  bsctl completions zsh > ~/.zfunc/_bsctl
  bsctl completions fish > ~/.config/fish/completions/bsctl.fish";

/// The end of `man --help`.
pub const MAN_HELP: &str = "\
Without --out the page of bsctl itself goes to stdout; with it, one file per command is written.

Examples:
  bsctl man | man -l -
  bsctl man --out ~/.local/share/man/man1";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManArgs {
    /// Whether files are written.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.out.is_some()
    }
}

/// Arguments of `docs`.
#[derive(Debug, Args)]
pub struct DocsArgs {}

/// Runs `completions`.
///
/// # Errors
/// Failures of writing.
pub fn completions(tool: &mut Tool, args: CompletionsArgs) -> Result<Exit, CliError> {
    let script = docs::completions(command_tree(), args.shell);
    document(tool, Record::new().with("shell", args.shell.to_string()), "script", &script)
}

/// Runs `man`.
///
/// # Errors
/// Failures of writing.
pub fn man(tool: &mut Tool, args: ManArgs) -> Result<Exit, CliError> {
    let pages = docs::man_pages(documented_tree())?;
    let Some(directory) = args.out else {
        let page = pages.into_iter().next().map(|(_, page)| page).unwrap_or_default();
        return document(tool, Record::new().with("name", "bsctl.1"), "page", &page);
    };
    std::fs::create_dir_all(&directory)
        .map_err(|error| CliError::writing(&directory.to_string_lossy(), &error))?;
    let mut names = Vec::new();
    for (name, page) in pages {
        let path = directory.join(&name);
        std::fs::write(&path, page)
            .map_err(|error| CliError::writing(&path.to_string_lossy(), &error))?;
        names.push(name);
    }
    let count = ctl_core::units::count(names.len() as u64, "page");
    let place = directory.to_string_lossy().into_owned();
    let record = Record::new()
        .with("pages", names.len())
        .with("directory", place.as_str())
        .with("names", names);
    tool.out.done_with(&record, &["pages", "directory"], &format!("wrote {count} to {place}"))?;
    Ok(Exit::Done)
}

/// Runs `docs`: the sections of the README that are made from the grammar.
///
/// # Errors
/// Failures of writing.
pub fn readme(tool: &mut Tool, _: DocsArgs) -> Result<Exit, CliError> {
    let sections = docs::readme_sections(&command_tree());
    document(tool, Record::new(), "markdown", &sections)
}

/// A text that is itself the result; structured formats wrap it.
fn document(
    tool: &mut Tool,
    record: Record,
    key: &'static str,
    text: &str,
) -> Result<Exit, CliError> {
    match tool.out.style.format {
        Format::Json | Format::Ndjson | Format::Yaml => {
            tool.out.done(&record.with(key, text), "")?;
        }
        _ => tool.out.text(text)?,
    }
    Ok(Exit::Done)
}
