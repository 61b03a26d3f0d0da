//! Snapshots for pipes and programs: rows in plain lines and tables, one document each in JSON and YAML.

use serde_json::{Map, Value, json};

use super::TopArgs;
use super::board::{Figure, Known, Row, Server, Source, Unit};
use super::selection::Selection;
use crate::context::{Context, Tool, repeat::separate};
use crate::error::{CliError, Exit};
use crate::output::{Format, Output, Record};
use crate::system::signals::Interrupts;
use crate::text::units;

/// Writes one snapshot after each poll. With several polls, documents become a list, or with NDJSON one line each.
pub(super) fn all<T: Tool>(
    context: &mut Context<T>,
    args: &TopArgs,
    interrupts: &Interrupts,
    (known, selection): (&mut Known, Selection<'_>),
    mut look: impl FnMut(&mut Known) -> Exit,
) -> Result<Exit, CliError> {
    let format = context.out.style.format;
    let is_document = format.is_structured() && format != Format::Ndjson;
    let looks = args.looks(context.out.style.terminal);
    let most = looks.or(is_document.then_some(1));
    let mut documents = Vec::new();
    let mut looks = 0;
    let exit = loop {
        let exit = look(known);
        looks += 1;
        if is_document {
            documents.push(selected(&context.out, known, selection)?);
        } else if format == Format::Ndjson {
            let document = selected(&context.out, known, selection)?;
            context.out.document(&document)?;
        } else {
            if looks > 1 {
                separate(&mut context.out)?;
            }
            rows(&mut context.out, known, selection)?;
        }
        context.out.flush()?;
        if most.is_some_and(|most| looks >= most) || interrupts.sleep(args.every()).is_err() {
            break interrupts.requested().unwrap_or(exit);
        }
    };
    match documents.as_slice() {
        [] => {}
        [only] if args.count.is_none_or(|count| count == 1) => context.out.document(only)?,
        all => context.out.document(&all)?,
    }
    context.out.flush()?;
    Ok(exit)
}

fn rows(out: &mut Output, known: &Known, selection: Selection<'_>) -> Result<(), CliError> {
    let mut list = out.list(known.board.shape)?;
    if known.servers.len() == 1 {
        list = list.without(Figure::server().column.key);
    }
    list.all(selection.rows(known).iter().map(|row| record(known, row)))
}

fn record(known: &Known, row: &Row<'_>) -> Record {
    let board = known.board;
    let mut record = Record::new();
    for (at, figure) in board.figures.iter().enumerate() {
        record.push(
            figure.column.key,
            match figure.source {
                Source::Server => row.server.into(),
                Source::Name => row.name.into(),
                Source::Problem => (board.problem)(row).into(),
                _ => number(figure, row.at(at)),
            },
        );
    }
    record
}

fn number(figure: &Figure, value: Option<f64>) -> Value {
    match (value, figure.unit) {
        (None, _) => Value::Null,
        // More than three decimals would exceed the precision of a sample.
        (Some(value), Unit::PerSecond) => json!((value * 1e3).round() / 1e3),
        (Some(value), Unit::Flag) => json!(value != 0.0),
        (Some(value), _) => json!(value as i64),
    }
}

/// `{"ts": .., "servers": [..], "queues": [..]}`, with all queues.
pub(crate) fn document(out: &Output, known: &Known) -> Result<Value, CliError> {
    selected(out, known, Selection::default())
}

fn selected(out: &Output, known: &Known, selection: Selection<'_>) -> Result<Value, CliError> {
    let board = known.board;
    let now = units::now_in_milliseconds();
    let servers: Vec<_> =
        known.servers.iter().map(|server| of_server(board.server, server)).collect();
    // A list, to which --columns and --sort-by apply as usual.
    let rows =
        out.values(board.shape, selection.rows(known).iter().map(|row| record(known, row)))?;
    Ok(json!({ "ts": now, "servers": servers, "queues": rows }))
}

fn of_server(figures: &[Figure], server: &Server) -> Map<String, Value> {
    let mut record = Record::new().with("server", server.address.as_str());
    record.push("up", server.down.is_none());
    if let Some((_, why)) = &server.down {
        return record.with("error", why.as_str()).into();
    }
    record.push("version", server.version.as_deref());
    record.push("id", server.id.as_deref());
    for (figure, value) in figures.iter().zip(&server.values) {
        record.push(figure.column.key, number(figure, *value));
    }
    record.with("left_out", server.left_out).with("started_again", server.is_new()).into()
}
