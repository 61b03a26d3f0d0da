//! One result: ordered fields, and the description of its columns.

use crate::envelope::ENVELOPE;
use std::borrow::Cow;

use serde_json::{Map, Value};

/// A value of a [`Record`].
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// Text, number, flag or structure.
    Value(Value),
    /// A job body: any bytes.
    Body(Vec<u8>),
}

/// One result as ordered fields; JSON documents show all of them in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    fields: Vec<(Cow<'static, str>, Field)>,
    /// How many bytes of the body to show.
    shown: Option<usize>,
}

impl Record {
    /// Creates a record without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.push(key, value);
        self
    }

    /// Adds a job body under the key `body`.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.fields.push((Cow::Borrowed(BODY), Field::Body(body.into())));
        self
    }

    /// Limits the shown part of the body; decoding uses all of it.
    #[must_use]
    pub(crate) fn showing(self, bytes: usize) -> Self {
        Self { shown: Some(bytes), ..self }
    }

    /// Cuts the body to the shown part.
    pub(super) fn cut(&mut self) {
        let Some(shown) = self.shown else { return };
        let body = self.fields.iter_mut().find(|(key, _)| key == BODY);
        if let Some((_, Field::Body(body))) = body {
            body.truncate(shown);
        }
    }

    /// Inserts the decoded content before the body.
    pub(super) fn insert_envelope(&mut self, envelope: Value) {
        let body = self.fields.iter().position(|(key, _)| key == BODY);
        let at = body.unwrap_or(self.fields.len());
        self.fields.insert(at, (Cow::Borrowed(ENVELOPE), Field::Value(envelope)));
    }

    /// Adds a field in front.
    #[must_use]
    pub fn led_by(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.fields.insert(0, (key.into(), Field::Value(value.into())));
        self
    }

    /// The shape of one server's results, with a server column in front if there are several.
    #[must_use]
    pub fn of_server(self, server: Option<&str>) -> Self {
        if let Some(server) = server { self.led_by(SERVER.key, server) } else { self }
    }

    /// Adds a field in place.
    pub fn push(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        self.fields.push((key.into(), Field::Value(value.into())));
    }

    /// The field of this name.
    pub fn get(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, field)| field)
    }

    /// The body, if this record has one.
    pub fn body(&self) -> Option<&[u8]> {
        match self.get(BODY) {
            Some(Field::Body(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(key, field)| (key.as_ref(), field))
    }

    /// Keeps only the named fields, in the order of the names.
    pub fn select(&mut self, names: &[String]) {
        let mut picked = Vec::with_capacity(names.len());
        for name in names {
            if let Some(at) = self.fields.iter().position(|(key, _)| key == name) {
                picked.push(self.fields.swap_remove(at));
            }
        }
        self.fields = picked;
    }
}

impl From<Map<String, Value>> for Record {
    fn from(map: Map<String, Value>) -> Self {
        let own = |(key, value)| (Cow::Owned(key), Field::Value(value));
        Self { fields: map.into_iter().map(own).collect(), shown: None }
    }
}

/// The fields that are values.
impl From<Record> for Map<String, Value> {
    fn from(record: Record) -> Self {
        let values = record.fields.into_iter().filter_map(|(key, field)| match field {
            Field::Value(value) => Some((key.into_owned(), value)),
            Field::Body(_) => None,
        });
        values.collect()
    }
}

/// The key of a job's body in a [`Record`].
pub const BODY: &str = "body";

/// The server, if there are several.
pub(super) const SERVER: Column = Column::new("server", "SERVER").ranked(0);

/// The column of decoded bodies.
static ENVELOPES: Column = Column::on_request(ENVELOPE, "ENVELOPE");

/// When a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// In tables and plain lines.
    Always,
    /// In wide tables.
    Wide,
    /// Only when `--columns` names it.
    OnRequest,
}

/// A column of tables and plain lines.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The field it shows, by the name that JSON uses.
    pub key: &'static str,
    /// The header in tables; also accepted by `--columns`, in any case.
    pub title: &'static str,
    /// When it is shown.
    pub show: Show,
    /// Which columns a table drops first if the terminal is too narrow: those of the highest rank, and among equal
    /// ranks the rightmost. Rank 0 always stays, as do names and bodies.
    pub rank: u8,
    /// Whether its values are names that [`escape::name`](crate::text::escape::name) has escaped already.
    pub is_escaped: bool,
}

impl Column {
    /// Whether `name` is its key or title.
    pub(super) fn is(&self, name: &str) -> bool {
        self.key == name || self.title.eq_ignore_ascii_case(name)
    }

    /// A column that is always shown.
    #[must_use]
    pub const fn new(key: &'static str, title: &'static str) -> Self {
        Self { key, title, show: Show::Always, rank: 1, is_escaped: false }
    }

    /// A column for wide tables.
    #[must_use]
    pub const fn wide(key: &'static str, title: &'static str) -> Self {
        Self { show: Show::Wide, ..Self::new(key, title).ranked(9) }
    }

    /// A column shown only on request.
    #[must_use]
    pub const fn on_request(key: &'static str, title: &'static str) -> Self {
        Self { show: Show::OnRequest, ..Self::new(key, title) }
    }

    /// The same column, with names that are escaped already.
    #[must_use]
    pub const fn escaped(self) -> Self {
        Self { is_escaped: true, ..self }
    }

    /// The same column with another rank.
    #[must_use]
    pub(crate) const fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// How tables show a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A row of a table.
    Row,
    /// A row if the terminal is wide enough for sentences, else a block.
    RowOrBlock,
    /// A block of `key: value` lines, with the body in full below it.
    Block,
    /// The same with the usual columns only, except in wide tables.
    Brief,
}

impl Layout {
    /// Whether each record is a block.
    pub(super) fn is_block(self) -> bool {
        matches!(self, Self::Block | Self::Brief)
    }
}

/// The shape of one kind of record.
#[derive(Debug)]
pub struct Shape {
    /// The columns, in order.
    pub columns: &'static [Column],
    /// The field that `-o name` and `-o id` print.
    pub name: &'static str,
    /// How tables show it.
    pub layout: Layout,
}

impl Shape {
    /// Records shown as rows.
    #[must_use]
    pub const fn rows(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::Row }
    }

    /// Records with sentences, shown as blocks on a narrow terminal.
    #[must_use]
    pub(crate) const fn sentences(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::RowOrBlock }
    }

    /// Records shown as blocks with everything.
    #[must_use]
    pub const fn blocks(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::Block }
    }

    /// Records shown as blocks with the usual columns, because there are many of them.
    #[must_use]
    pub const fn brief(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::Brief }
    }

    /// The key of the column with this key or title.
    pub fn key_of(&self, name: &str) -> Option<&'static str> {
        self.column_of(name).map(|column| column.key)
    }

    /// The column with this key or title. Results with bodies have envelopes.
    pub(super) fn column_of(&self, name: &str) -> Option<&'static Column> {
        let has_body = self.columns.iter().any(|column| column.key == BODY);
        let envelope = has_body.then_some(&ENVELOPES);
        self.columns.iter().chain(envelope).find(|column| column.is(name))
    }
}
