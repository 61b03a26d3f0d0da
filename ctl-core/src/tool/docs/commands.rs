//! The common commands `completions` and `docs`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Shell;
use crate::error::{CliError, Exit};
use crate::help;
use crate::output::messages::Messages;
use crate::output::{Output, Record};
use crate::program::Program;
use crate::system::env::word_of;
use crate::text::units;

/// The end of `completions --help`, with the tool's words.
pub(crate) const HELP: &str = "\
Examples:
  {name} completions bash > ~/.local/share/bash-completion/completions/{name}
  {name} completions zsh > ~/.zfunc/_{name}
  {name} completions fish > ~/.config/fish/completions/{name}.fish
  {name} completions nushell | save ($nu.user-autoload-dirs.0)/{name}.nu
  {name} man | man -l -
  {name} man --out ~/.local/share/man/man1";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell, or man for the man pages
    #[arg(value_name = "SHELL")]
    shell: Shell,

    /// Write all man pages to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl CompletionsArgs {
    /// Whether it leaves files unchanged.
    pub(crate) fn reads_only(&self) -> bool {
        self.out.is_none()
    }
}

/// Arguments of `docs`.
#[derive(Debug, Args)]
pub struct DocsArgs {}

/// Runs `completions`.
///
/// # Errors
/// `--out` without man pages (2); write failures.
pub fn completions(
    out: &mut Output,
    messages: &Messages,
    program: &Program,
    args: &CompletionsArgs,
) -> Result<Exit, CliError> {
    let Some(script) = super::completions((program.tree)(), args.shell) else {
        return man(out, messages, program, args.out.as_deref());
    };
    if let Some(out) = &args.out {
        return Err(CliError::usage("--out is the directory of man pages").hint(format!(
            "{} completions man --out {}",
            program.name,
            out.display()
        )));
    }
    document(out, Record::new().with("shell", word_of(&args.shell)), "script", &script)
}

/// Prints the main man page, or writes all pages to a directory.
fn man(
    out: &mut Output,
    messages: &Messages,
    program: &Program,
    directory: Option<&Path>,
) -> Result<Exit, CliError> {
    let pages = super::man_pages(help::documented(program))?;
    let Some(directory) = directory else {
        let page = pages.into_iter().next().map(|(_, page)| page).unwrap_or_default();
        if out.style.terminal {
            let name = program.name;
            messages.note(format!(
                "this is the source of the page: {name} man | man -l - shows it, {name} man --out DIR writes all pages"
            ));
        }
        return document(
            out,
            Record::new().with("name", format!("{}.1", program.name)),
            "page",
            &page,
        );
    };
    fs::create_dir_all(directory)
        .map_err(|error| CliError::writing(&directory.to_string_lossy(), &error))?;
    let mut names = Vec::new();
    for (name, page) in pages {
        let path = directory.join(&name);
        fs::write(&path, page)
            .map_err(|error| CliError::writing(&path.to_string_lossy(), &error))?;
        names.push(name);
    }
    let count = units::count(names.len() as u64, "page");
    let place = directory.to_string_lossy().into_owned();
    let record = Record::new()
        .with("pages", names.len())
        .with("directory", place.as_str())
        .with("names", names);
    out.done_with(&record, &["pages", "directory"], &format!("wrote {count} to {place}"))
}

/// Runs `docs`: the README sections generated from the grammar.
///
/// # Errors
/// Write failures.
pub fn readme(out: &mut Output, program: &Program) -> Result<Exit, CliError> {
    let sections = super::readme_sections(&(program.tree)(), &program.exit_codes());
    document(out, Record::new(), "markdown", &sections)
}

/// A text that is itself the result; structured formats wrap it.
fn document(
    out: &mut Output,
    record: Record,
    key: &'static str,
    text: &str,
) -> Result<Exit, CliError> {
    match out.style.format {
        format if format.is_structured() => {
            out.done(&record.with(key, text), "")?;
        }
        _ => out.text(text)?,
    }
    Ok(Exit::Done)
}
