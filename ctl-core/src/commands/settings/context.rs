//! `context`: named sets of settings.

use clap::{Args, Subcommand};
use toml_edit::{DocumentMut, TableLike, Value};

use super::edit::edit;
use super::{ROWS, context_table, file, in_force, meant, place, row, set, set_value};
use crate::config::CONTEXT;
use crate::config::file::{CONTEXTS, Config, Fields, PREVIOUS, SELECTED, check_name};
use crate::config::keys::{self, ADDRESS, Key, OUTPUT, PROTECTED};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::output::{Column, Record, Shape};
use crate::program::Program;
use crate::system::env::Source;
use crate::text::escape;

/// The end of `context --help`, with the tool's words.
pub(crate) const HELP: &str = "\
A context is a table in the configuration file: servers, how to reach them, and defaults for them.
Each setting comes from its flag, else from the context named by --context, else from the environment, else from
the context that {prefix}_CONTEXT names or that is selected, else from [defaults] in the file. `{name} context show`
shows which. In a protected context, every command that takes, changes or removes anything asks for the context's
name; --confirm=NAME answers that, --yes does not.

The file is the one named by --config or {prefix}_CONFIG, else $XDG_CONFIG_HOME/{name}/config.toml, else
~/.config/{name}/config.toml. It is TOML: [defaults], a table [contexts.NAME] for each context, context = \"NAME\"
for the selected one, and [envelopes.NAME] for formats of bodies. A file that others can write is refused. Contexts and
defaults take these settings:
{keys}

Examples:
  {name} context add prod {short} {address} protected=true prompt-color=red
  {name} context edit prod timeout=2s {queue}=NAME
  {name} context edit
  {name} context select prod
  {name} context show
  {name} context select -
  {name} --context prod ping";

/// Arguments of `context`.
#[derive(Debug, Args)]
pub struct ContextArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a context from these values and the flags on this line
    #[command(alias = "create", alias = "save")]
    Add {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,

        /// Settings, e.g. server=10.0.0.1 protected=true
        #[arg(value_name = "KEY=VALUE", value_parser = pair)]
        fields: Vec<(String, String)>,

        /// Select it, too
        #[arg(long)]
        select: bool,
    },
    /// List the contexts
    #[command(visible_alias = "list")]
    Ls,
    /// Show the effective settings and where each came from, or those of a context
    Show {
        /// The context
        #[arg(value_name = CONTEXT)]
        name: Option<String>,
    },
    /// Change a context from these values and the flags on this line; with neither, edit the file with $VISUAL or
    /// $EDITOR
    Edit {
        /// The context [default: the whole file]
        #[arg(value_name = CONTEXT)]
        name: Option<String>,

        /// New settings; KEY= removes one
        #[arg(value_name = "KEY=VALUE", value_parser = pair)]
        fields: Vec<(String, String)>,
    },
    /// Remove contexts
    #[command(visible_alias = "remove")]
    Rm {
        /// The contexts
        #[arg(value_name = CONTEXT, required = true)]
        names: Vec<String>,
    },
    /// Select the context to use from now on
    #[command(visible_alias = "use")]
    Select {
        /// The context; - is the previous one
        #[arg(value_name = CONTEXT)]
        name: String,
    },
    /// Stop using a context
    Unselect,
}

impl ContextArgs {
    /// Whether it leaves files unchanged.
    pub(crate) fn reads_only(&self) -> bool {
        matches!(self.action, Action::Ls | Action::Show { .. })
    }
}

/// `KEY=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE, e.g. protected=true")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs `context`.
///
/// # Errors
/// The file is invalid, or the context does not exist (2); the file cannot be written (74); an invalid value (2).
pub fn run<T: Tool>(context: &mut Context<T>, args: &ContextArgs) -> Result<Exit, CliError> {
    let program = &T::PROGRAM;
    match &args.action {
        Action::Ls => ls(context),
        Action::Show { name } => show(context, name.as_deref()),
        Action::Edit { name: None, .. } => match given(context).first() {
            Some((key, _)) => {
                let flag = key.flag(program);
                let why = format!("{flag} is for a context: which one is to be changed?");
                Err(CliError::usage(why).hint(format!("{} context edit NAME {flag}", program.name)))
            }
            None => edit(context),
        },
        Action::Edit { name: Some(name), fields }
            if fields.is_empty() && given(context).is_empty() =>
        {
            let (place, config) = file(context)?;
            require(&config, name, program)
                .map_err(|error| error.remark(format!("in {}", place.shown())))?;
            edit(context)
        }
        Action::Add { name, fields, select } => {
            check_name(name)?;
            let fields = values(context, fields)?;
            let what = format!("context {name}");
            let exit = change(context, name, ("add", "added"), &what, |document, config| {
                if config.contexts.contains_key(name) {
                    return Err(CliError::usage(format!("there is already a context {name}"))
                        .hint(format!("{} context edit {name} KEY=VALUE", program.name)));
                }
                fill(context_table(document, name)?, &fields, program);
                if *select { self::select(document, config, name) } else { Ok(()) }
            })?;
            if fields.is_empty() {
                let edit = format!("{} context edit {name} KEY=VALUE", program.name);
                context.messages.note(format!("context {name} has no settings yet: {edit}"));
            }
            Ok(exit)
        }
        Action::Edit { name: Some(name), fields } => {
            let fields = values(context, fields)?;
            let what = format!("context {name}");
            change(context, name, ("change", "changed"), &what, |document, config| {
                require(config, name, program)?;
                fill(context_table(document, name)?, &fields, program);
                Ok(())
            })
        }
        Action::Rm { names } => {
            let all = names.join(", ");
            let what = format!("context {all}");
            change(context, &all, ("remove", "removed"), &what, |document, config| {
                for name in names {
                    require(config, name, program)?;
                    remove(document, name);
                }
                Ok(())
            })
        }
        Action::Select { name } => {
            let previous = if name == "-" { Some(previous(context)?) } else { None };
            let name = previous.as_ref().unwrap_or(name);
            let what = format!("context {name}");
            change(context, name, ("use", "now using"), &what, |document, config| {
                require(config, name, program)?;
                select(document, config, name)
            })?;
            say_what_overrides(context, name);
            Ok(Exit::Done)
        }
        Action::Unselect => {
            change(context, "", ("use", "now using"), "no context", |document, config| {
                if let Some(now) = &config.selected {
                    document.remove(SELECTED);
                    set_value(document.as_table_mut(), PREVIOUS, Value::from(now.as_str()));
                }
                Ok(())
            })
        }
    }
}

fn require<'c>(config: &'c Config, name: &str, program: &Program) -> Result<&'c Fields, CliError> {
    config.contexts.get(name).ok_or_else(|| {
        let error = CliError::config(format!("there is no context `{}`", escape::line(name)));
        error.hint(format!("{} context ls", program.name))
    })
}

/// The flags of the line that can be stored; -o applies to the line itself.
fn given<T: Tool>(context: &Context<T>) -> Vec<(Key, String)> {
    context.settings().given().iter().filter(|(key, _)| *key != OUTPUT).cloned().collect()
}

/// The new values of a context, checked; an empty text removes one.
fn values<T: Tool>(
    context: &Context<T>,
    fields: &[(String, String)],
) -> Result<Vec<(Key, String)>, CliError> {
    let program = &T::PROGRAM;
    let mut values = given(context);
    for (name, text) in fields {
        values.push((keys::named(program, name)?, text.clone()));
    }
    let checked = |(key, text): (Key, String)| match text.is_empty() {
        true => Ok((key, text)),
        false => meant(key, &text, program).map(|text| (key, text)),
    };
    values.into_iter().map(checked).collect()
}

fn fill(table: &mut dyn TableLike, fields: &[(Key, String)], program: &Program) {
    for (key, text) in fields {
        if text.is_empty() {
            table.remove(key.shown(program));
        } else {
            set(table, *key, program, text);
        }
    }
}

fn select(document: &mut DocumentMut, config: &Config, name: &str) -> Result<(), CliError> {
    let now = config.selected.as_deref().filter(|now| *now != name);
    if let Some(now) = now {
        set_value(document.as_table_mut(), PREVIOUS, Value::from(now));
    }
    set_value(document.as_table_mut(), SELECTED, Value::from(name));
    Ok(())
}

fn remove(document: &mut DocumentMut, name: &str) {
    if let Some(all) = document.get_mut(CONTEXTS).and_then(|all| all.as_table_like_mut()) {
        all.remove(name);
    }
    for key in [SELECTED, PREVIOUS] {
        if document.get(key).and_then(|item| item.as_str()) == Some(name) {
            document.remove(key);
        }
    }
}

/// Changes the file, and reports the change in these words: what would be done, what was done, and to what.
fn change<T: Tool>(
    context: &mut Context<T>,
    name: &str,
    (would, done): (&str, &str),
    what: &str,
    change: impl FnOnce(&mut DocumentMut, &Config) -> Result<(), CliError>,
) -> Result<Exit, CliError> {
    let (place, dry_run) = (place(context)?, context.globals.dry_run);
    place.change(&T::PROGRAM, dry_run, change)?;
    let record = Record::new().with("context", name);
    if dry_run {
        let sentence = format!("would {would} {what}");
        return context.out.done_with(&record.with("dry_run", true), &["context"], &sentence);
    }
    context.out.done_with(&record, &["context"], &format!("{done} {what}"))
}

fn previous<T: Tool>(context: &Context<T>) -> Result<String, CliError> {
    let (_, config) = file(context)?;
    config.previous.ok_or_else(|| {
        CliError::not_found("there is no previous context")
            .hint(format!("{} context ls", T::PROGRAM.name))
    })
}

/// Warns about environment variables that override the selected context.
fn say_what_overrides<T: Tool>(context: &Context<T>, name: &str) {
    let (program, settings) = (&T::PROGRAM, context.settings());
    let chooser = format!("{}_CONTEXT", program.prefix);
    let messages = &context.messages;
    if let Some(other) = settings.environment.var(&chooser).filter(|other| other != name) {
        messages.warn(format!("environment {chooser} overrides it: using context {other}"));
    }
    let mut variables = ADDRESS.variables(program).into_iter();
    if let Some(variable) = variables.find(|name| settings.environment.var(name).is_some()) {
        messages.warn(format!("environment {variable} overrides its address"));
    }
}

static CONTEXTS_SHAPE: Shape = Shape::rows(
    "name",
    &[
        Column::new("name", "NAME"),
        Column::new("in_force", "IN FORCE"),
        Column::new("server", "SERVER"),
        Column::new("protected", "PROTECTED"),
    ],
);

fn ls<T: Tool>(context: &mut Context<T>) -> Result<Exit, CliError> {
    let (_, config) = file(context)?;
    let program = &T::PROGRAM;
    let chosen = context.settings().chosen().cloned();
    let selected = config.selected.as_deref();
    let mut list = context.out.list(&CONTEXTS_SHAPE)?;
    for (name, fields) in &config.contexts {
        let is_chosen = chosen.as_ref().is_some_and(|chosen| chosen.name == *name);
        let mut record = Record::new()
            .with("name", name.as_str())
            .with("in_force", is_chosen)
            .with("selected", selected == Some(name.as_str()))
            .with("protected", fields.get(PROTECTED.name).is_some_and(|text| text == "true"));
        for key in keys::KEYS.iter().copied().filter(|key| *key != PROTECTED) {
            if let Some(text) = fields.get(key.name) {
                record.push(key.shown(program), text.as_str());
            }
        }
        list.push(record)?;
    }
    list.finish()?;
    if let Some(chosen) = chosen.filter(|chosen| chosen.source != Source::File) {
        context.messages.note(format!("using context {}: {}", chosen.name, chosen.source));
    }
    context.link.dialer().say_override();
    Ok(Exit::Done)
}

fn show<T: Tool>(context: &mut Context<T>, name: Option<&str>) -> Result<Exit, CliError> {
    let program = &T::PROGRAM;
    let Some(name) = name else {
        context.settings().check()?;
        let rows = in_force(context.settings(), program)?;
        context.out.list(&ROWS)?.all(rows)?;
        context.link.dialer().say_override();
        return Ok(Exit::Done);
    };
    let (_, config) = file(context)?;
    let fields = require(&config, name, program)?;
    let source = Source::Context(name.to_owned()).to_string();
    let row = |key: &Key| Some(row(key.shown(program), fields.get(key.name)?, &source, None));
    context.out.list(&ROWS)?.all(keys::KEYS.iter().filter_map(row))?;
    Ok(Exit::Done)
}
