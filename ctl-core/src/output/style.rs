//! How results look: the format of `-o`, and what goes with it.

use clap::ValueEnum;

use super::body::Encoding;
use crate::envelope::{Decode, Formats};
use crate::text::color::Role;

/// The value of `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A table for people: the default on a terminal.
    Table,
    /// A table with more columns.
    Wide,
    /// TAB-separated, one record per line, no heading: the default in pipes.
    #[default]
    Plain,
    /// One JSON document.
    Json,
    /// One JSON object per line, as results arrive.
    Ndjson,
    /// The same structure as JSON.
    Yaml,
    /// Comma-separated values under a heading of JSON's keys.
    Csv,
    /// Bare names or ids, one per line.
    #[value(alias = "id")]
    Name,
    /// Bodies only, byte for byte.
    Raw,
}

impl Format {
    /// Whether results are tables, which may change.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// Whether errors are a JSON object at the end of stderr.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson)
    }

    /// Whether results are written as structured documents.
    pub fn is_structured(self) -> bool {
        matches!(self, Self::Json | Self::Ndjson | Self::Yaml)
    }

    /// Whether a result is a record with all its fields, for programs.
    pub fn has_records(self) -> bool {
        self.is_structured() || self == Self::Csv
    }
}

/// How results look.
#[derive(Debug, Clone, Default)]
pub struct Style {
    /// The format.
    pub format: Format,
    /// How to decode and write bodies; if unset, detected on a terminal, and not decoded elsewhere.
    pub decode: Option<Decode>,
    /// The formats of bodies.
    pub formats: Formats,
    /// The columns to show, by key or title; the shape's own if unset.
    pub columns: Option<Vec<String>>,
    /// The column to sort lists by.
    pub sort_by: Option<String>,
    /// Whether CSV has no header row.
    pub headless: bool,
    /// Whether stdout gets colours.
    pub color: bool,
    /// Whether stdout is a terminal.
    pub terminal: bool,
    /// Whether raw bodies end with NUL.
    pub null: bool,
    /// Whether tables have a line per value instead of a row per result.
    pub upright: bool,
    /// The tool's own coloured words in tables, in addition to the common ones.
    pub colors: &'static [(&'static str, Role)],
}

impl Style {
    /// Whether only bodies are printed, or what is in them, or they are a column, so that a command that would leave them out has to read
    /// them.
    pub fn needs_bodies(&self) -> bool {
        let has_column = |columns: &Vec<String>| {
            columns.iter().any(|column| column.eq_ignore_ascii_case(super::BODY))
        };
        self.format == Format::Raw
            || self.decode.as_ref().is_some_and(|decode| *decode != Decode::None)
            || self.columns.as_ref().is_some_and(has_column)
    }

    /// Whether decoded bodies were asked for.
    pub(crate) fn decodes(&self) -> bool {
        self.decode.is_some() && *self.decoding() != Decode::None
    }

    /// How the bytes of bodies are written in text formats.
    pub fn encoding(&self) -> Encoding {
        match &self.decode {
            Some(Decode::Utf8) => Encoding::Utf8,
            Some(Decode::Base64) => Encoding::Base64,
            Some(Decode::Hex) => Encoding::Hex,
            _ => Encoding::Auto,
        }
    }

    /// How to decode bodies.
    pub(crate) fn decoding(&self) -> &Decode {
        let usual = if self.terminal { &Decode::Auto } else { &Decode::None };
        match self.encoding() {
            Encoding::Auto => self.decode.as_ref().unwrap_or(usual),
            _ => &Decode::None,
        }
    }

    /// The same style for a reader that is not a terminal.
    #[must_use]
    pub(crate) fn in_a_pipe(&self) -> Self {
        let format = match self.format {
            Format::Table | Format::Wide => Format::Plain,
            other => other,
        };
        Self { format, terminal: false, color: false, ..self.clone() }
    }

    /// Shows bare names or ids instead of a table: both people and scripts want the name of what a command has created,
    /// even on a terminal.
    pub fn prefer_names(&mut self) {
        if self.format == Format::Table && self.columns.is_none() {
            self.format = Format::Name;
        }
    }
}
