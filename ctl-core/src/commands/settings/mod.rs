//! Commands for settings: contexts, and their configuration file.

pub mod context;
pub mod doctor;
mod edit;

use toml_edit::{DocumentMut, Item, Table};

use crate::config::file::{CONTEXTS, Config, Place};
use crate::config::keys::{self, Key};
use crate::config::{Chosen, Settings};
use crate::context::{Context, Tool};
use crate::error::CliError;
use crate::output::{Column, Record, Shape};
use crate::program::Program;
use crate::system::env::Source;

/// One row per setting.
static ROWS: Shape = Shape::rows(
    "setting",
    &[
        Column::new("setting", "SETTING"),
        Column::new("value", "VALUE"),
        Column::new("source", "SOURCE"),
        Column::new("overrides", "OVERRIDES"),
    ],
);

/// The file and its content.
fn file<T: Tool>(context: &Context<T>) -> Result<(Place, Config), CliError> {
    let place = place(context)?;
    let config = place.read(&T::PROGRAM)?;
    Ok((place, config))
}

/// The place of the file, which may not exist.
fn place<T: Tool>(context: &Context<T>) -> Result<Place, CliError> {
    context.settings().place().cloned().ok_or_else(|| {
        CliError::config("there is no home directory for a configuration file")
            .hint("--config FILE, or HOME or XDG_CONFIG_HOME")
    })
}

/// The effective settings and their sources.
pub(crate) fn in_force(settings: &Settings, program: &Program) -> Result<Vec<Record>, CliError> {
    let chosen = settings.chosen();
    let context =
        chosen.map(|Chosen { name, source }| row("context", name, &source.to_string(), None));
    let mut rows: Vec<Record> = context.into_iter().collect();
    for key in keys::all(program) {
        if let Some(setting) = settings.text(key)? {
            let source = setting.source.to_string();
            rows.push(row(key.shown(program), &setting.value, &source, setting.over.as_ref()));
        } else if key == keys::ADDRESS {
            let default = Source::Default.to_string();
            rows.push(row(key.name, program.servers.default, &default, None));
        }
    }
    Ok(rows)
}

fn row(setting: &'static str, value: &str, source: &str, over: Option<&Source>) -> Record {
    let row = Record::new().with("setting", setting).with("value", value).with("source", source);
    match over {
        Some(over) => row.with("overrides", over.to_string()),
        None => row,
    }
}

/// The table of a context, created if necessary.
fn context_table<'d>(
    document: &'d mut DocumentMut,
    name: &str,
) -> Result<&'d mut dyn toml_edit::TableLike, CliError> {
    let all = document.entry(CONTEXTS).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let all = all.as_table_like_mut().ok_or_else(not_read)?;
    let one = all.entry(name).or_insert_with(table);
    one.as_table_like_mut().ok_or_else(not_read)
}

/// A table preceded by an empty line.
fn table() -> Item {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    Item::Table(table)
}

/// The file was parsed before, so its structure cannot be wrong now.
fn not_read() -> CliError {
    CliError::internal("the configuration file has changed since it was read")
}

/// Sets a key; keeps the comment after the value.
fn set(table: &mut dyn toml_edit::TableLike, key: Key, program: &Program, text: &str) {
    set_value(table, key.shown(program), key.written(text));
}

fn set_value(table: &mut dyn toml_edit::TableLike, name: &str, mut value: toml_edit::Value) {
    if let Some(old) = table.get(name).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    // Keeps the comment before the key.
    match table.get_mut(name) {
        Some(item) => *item = Item::Value(value),
        None => drop(table.insert(name, Item::Value(value))),
    }
}

/// A command-line value as stored in the file: relative file names are made absolute, since they are not relative to
/// the configuration file.
fn meant(key: Key, text: &str, program: &Program) -> Result<String, CliError> {
    key.check(text, program).map_err(|why| {
        CliError::usage(format!("{}: {why}", key.shown(program))).hint(format!(
            "{} must be {}",
            key.shown(program),
            key.form(program)
        ))
    })?;
    if !key.is_file() || text.starts_with("~/") {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text).map_err(|error| CliError::reading(text, &error))?;
    path.into_os_string().into_string().map_err(|_| CliError::usage("a file name is not UTF-8"))
}
