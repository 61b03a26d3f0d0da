//! One result: ordered fields, and the description of the columns it is shown by.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::envelope::ENVELOPE;

/// A value of a [`Record`].
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// Text, number, flag or structure.
    Value(Value),
    /// A job body: any bytes.
    Body(Vec<u8>),
}

impl From<Value> for Field {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// One result as ordered fields; JSON documents show all of them in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    fields: Vec<(Cow<'static, str>, Field)>,
    /// So many bytes of the body are shown.
    shown: Option<usize>,
}

impl Record {
    /// Without fields.
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

    /// Shows so many bytes of the body, which is decoded as a whole.
    #[must_use]
    pub(crate) fn showing(self, bytes: usize) -> Self {
        Self { shown: Some(bytes), ..self }
    }

    /// Leaves what is shown of the body.
    pub(super) fn cut(&mut self) {
        let Some(shown) = self.shown else { return };
        let body = self.fields.iter_mut().find(|(key, _)| key == BODY);
        if let Some((_, Field::Body(body))) = body {
            body.truncate(shown);
        }
    }

    /// Adds what the body was decoded to, before the body.
    pub(super) fn insert_envelope(&mut self, envelope: Value) {
        let body = self.fields.iter().position(|(key, _)| key == BODY);
        let at = body.unwrap_or(self.fields.len());
        self.fields.insert(at, (Cow::Borrowed(ENVELOPE), Field::Value(envelope)));
    }

    /// Adds a field before all others.
    #[must_use]
    pub fn led_by(mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.fields.insert(0, (key.into(), Field::Value(value.into())));
        self
    }

    /// Adds a field in place.
    pub fn push(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        self.fields.push((key.into(), Field::Value(value.into())));
    }

    /// Puts a value under a key of its own where this field is.
    pub(super) fn replace(&mut self, field: &str, key: &'static str, value: Value) {
        if let Some(found) = self.fields.iter_mut().find(|(name, _)| name == field) {
            *found = (Cow::Borrowed(key), Field::Value(value));
        }
    }

    /// The field of this name.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, field)| field)
    }

    /// The body, if this record has one.
    #[must_use]
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

/// What bodies were decoded to.
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
    /// The heading in tables; `--columns` takes it too, in any case.
    pub title: &'static str,
    /// When it is shown.
    pub show: Show,
    /// Which columns a table that is too wide for the terminal leaves out first: those of the highest rank, and of equal
    /// ranks the rightmost. One of rank 0 always stays, as do names and bodies.
    pub rank: u8,
}

impl Column {
    /// Whether the user calls it `name`, by key or by heading.
    pub(super) fn is(&self, name: &str) -> bool {
        self.key == name || self.title.eq_ignore_ascii_case(name)
    }

    /// Shown always.
    #[must_use]
    pub const fn new(key: &'static str, title: &'static str) -> Self {
        Self { key, title, show: Show::Always, rank: 1 }
    }

    /// Shown in wide tables.
    #[must_use]
    pub const fn wide(key: &'static str, title: &'static str) -> Self {
        Self { key, title, show: Show::Wide, rank: 9 }
    }

    /// Shown only when asked for.
    #[must_use]
    pub const fn on_request(key: &'static str, title: &'static str) -> Self {
        Self { key, title, show: Show::OnRequest, rank: 1 }
    }

    /// The same with another rank.
    #[must_use]
    pub const fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

/// How tables show a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A row of a table.
    Row,
    /// A row of a table where the terminal is wide enough for sentences, else a block.
    RowOrBlock,
    /// A block of `key: value` lines, with the body in full below it.
    Block,
}

/// What records of one kind look like.
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
    /// Rows of a table.
    #[must_use]
    pub const fn rows(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::Row }
    }

    /// Rows of a table with sentences in it, which a narrow terminal shows as blocks.
    #[must_use]
    pub const fn sentences(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::RowOrBlock }
    }

    /// Blocks with everything.
    #[must_use]
    pub const fn blocks(name: &'static str, columns: &'static [Column]) -> Self {
        Self { columns, name, layout: Layout::Block }
    }

    /// The key of the column that the user calls `name`, by key or by heading.
    #[must_use]
    pub fn key_of(&self, name: &str) -> Option<&'static str> {
        self.column_of(name).map(|column| column.key)
    }

    /// The same as a column. Where there are bodies, there are envelopes.
    pub(super) fn column_of(&self, name: &str) -> Option<&'static Column> {
        let has_body = self.columns.iter().any(|column| column.key == BODY);
        let envelope = has_body.then_some(&ENVELOPES);
        self.columns.iter().chain(envelope).find(|column| column.is(name))
    }
}
