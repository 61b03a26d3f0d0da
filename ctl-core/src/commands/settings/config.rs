//! `config`: the configuration file.

use clap::{Args, Subcommand};
use toml_edit::Value;

use super::{context_table, in_force, meant, place, print, set, set_value};
use crate::config::file::{self, CONTEXTS, DEFAULTS, SELECTED};
use crate::config::keys::{self, Key};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::output::Record;
use crate::program::Program;
use crate::repl::contexts::KEY;
use crate::repl::outside;

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the effective settings and where each came from
    Show,
    /// Print the path of the file
    Path,
    /// Set a value in the file
    Set {
        /// A setting, e.g. timeout, defaults.timeout, contexts.NAME.timeout or context
        #[arg(value_name = KEY)]
        key: String,

        /// Its value; separate several addresses with commas
        #[arg(value_name = "VALUE")]
        value: String,
    },
    /// Remove a value from the file
    Unset {
        /// A setting, as for `set`
        #[arg(value_name = KEY)]
        key: String,
    },
    /// Edit the file with $VISUAL or $EDITOR; invalid changes are rejected
    Edit,
}

impl ConfigArgs {
    /// Whether it works with an invalid file.
    #[must_use]
    pub(crate) fn works_without(&self) -> bool {
        !matches!(self.action, Action::Show)
    }

    /// Whether it leaves files unchanged.
    #[must_use]
    pub(crate) fn reads_only(&self) -> bool {
        matches!(self.action, Action::Show | Action::Path)
    }
}

/// The target of a dotted key.
enum Goal<'k> {
    Selected,
    Default(Key),
    OfContext(&'k str, Key),
}

impl<'k> Goal<'k> {
    fn of(text: &'k str, program: &Program) -> Result<Self, CliError> {
        if text == SELECTED {
            return Ok(Self::Selected);
        }
        let of_context = text.strip_prefix(CONTEXTS).and_then(|rest| rest.strip_prefix('.'));
        if let Some((name, key)) = of_context.and_then(|rest| rest.rsplit_once('.')) {
            file::check_name(name)?;
            return Ok(Self::OfContext(name, keys::named(program, key)?));
        }
        let of_defaults = text.strip_prefix(DEFAULTS).and_then(|rest| rest.strip_prefix('.'));
        Ok(Self::Default(keys::named(program, of_defaults.unwrap_or(text))?))
    }
}

/// Runs `config`.
///
/// # Errors
/// The file is invalid (78) or cannot be written (74); an unknown setting or an invalid value: exit 2.
pub fn run<T: Tool>(context: &mut Context<T>, args: &ConfigArgs) -> Result<Exit, CliError> {
    match &args.action {
        Action::Show => {
            let rows = in_force(context.settings(), &T::PROGRAM)?;
            print(&mut context.out, rows).map(|()| Exit::Done)
        }
        Action::Path => {
            let path = place(context)?.path.to_string_lossy().into_owned();
            context.out.done(&Record::new().with("path", path.as_str()), &path)
        }
        Action::Set { key, value } => change(context, key, Some(value)),
        Action::Unset { key } => change(context, key, None),
        Action::Edit => edit(context),
    }
}

fn change<T: Tool>(
    context: &mut Context<T>,
    name: &str,
    text: Option<&str>,
) -> Result<Exit, CliError> {
    let program = &T::PROGRAM;
    let goal = Goal::of(name, program)?;
    let text = match (&goal, text) {
        (Goal::Default(key) | Goal::OfContext(_, key), Some(text)) => {
            Some(meant(*key, text, program)?)
        }
        (Goal::Selected, text) => text.map(str::to_owned),
        (_, None) => None,
    };
    let place = place(context)?;
    let unset = || CliError::not_found(format!("{name} is not set in {}", place.shown()));
    let dry_run = context.globals.dry_run;
    let changing = |document: &mut toml_edit::DocumentMut, config: &file::Config| {
        let (table, key): (&mut dyn toml_edit::TableLike, &str) = match &goal {
            Goal::Selected => {
                if let Some(name) = &text
                    && !config.contexts.contains_key(name)
                {
                    return Err(CliError::config(format!("there is no context {name}")));
                }
                (document.as_table_mut(), SELECTED)
            }
            Goal::Default(key) => {
                let defaults = document.entry(DEFAULTS).or_insert_with(super::table);
                (defaults.as_table_like_mut().ok_or_else(super::not_read)?, key.shown(program))
            }
            Goal::OfContext(name, key) => {
                if !config.contexts.contains_key(*name) {
                    return Err(CliError::config(format!("there is no context {name}"))
                        .hint(format!("{} context add {name}", program.name)));
                }
                (context_table(document, name)?, key.shown(program))
            }
        };
        match (&text, &goal) {
            (None, _) => table.remove(key).map(drop).ok_or_else(unset)?,
            (Some(text), Goal::Selected) => set_value(table, key, Value::from(text.as_str())),
            (Some(text), Goal::Default(key) | Goal::OfContext(_, key)) => {
                set(table, *key, program, text);
            }
        }
        Ok(())
    };
    place.change(program, dry_run, changing)?;
    let file = place.shown();
    let done = Record::new().with("key", name).with("file", file.as_str());
    let (done, past) = match (&text, dry_run) {
        (Some(text), false) => (done.with("value", text.as_str()), format!("set {name} to {text}")),
        (Some(text), true) => (
            done.with("value", text.as_str()).with("dry_run", true),
            format!("would set {name} to {text}"),
        ),
        (None, false) => (done, format!("removed {name}")),
        (None, true) => (done.with("dry_run", true), format!("would remove {name}")),
    };
    context.out.done_with(&done, &["key"], &format!("{past} in {file}"))
}

/// Opens the whole file in the editor.
///
/// # Errors
/// As [`run`]; an invalid result is kept for another attempt.
pub(super) fn edit<T: Tool>(context: &mut Context<T>) -> Result<Exit, CliError> {
    let program = &T::PROGRAM;
    context.refuse_dry_run("config edit", "config show")?;
    let place = place(context)?;
    let environment = context.settings().environment.clone();
    let is_changed = place.edit(program, &template(program), |text| {
        outside::edit(text, |name| environment.var(name))
    })?;
    let file = place.shown();
    let done = Record::new().with("file", file.as_str()).with("changed", is_changed);
    let sentence =
        if is_changed { format!("wrote {file}") } else { format!("{file} is unchanged") };
    context.out.done_with(&done, &["file"], &sentence)
}

/// The comment at the top of a new file.
fn template(program: &Program) -> String {
    let Program { name, servers, .. } = program;
    let mut text = format!(
        "# Settings of {name}, in TOML. Flags come first, then the environment, the context, and the defaults.\n\
         #\n# context = \"prod\"        # used if none is given\n#\n\
         # [defaults]\n# timeout = \"5s\"\n#\n\
         # [contexts.prod]\n# address = \"{}\"\n# protected = true\n#\n# Settings of contexts and defaults:\n",
        servers.default
    );
    for key in keys::of(program) {
        text.push_str(&format!("#   {:<16} {}\n", key.shown(program), key.form(program)));
    }
    text
}
