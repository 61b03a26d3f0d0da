//! `--filter` selects jobs or messages.
//!
//! A filter is `KEY OP VALUE`, where the key is a field: `pri<100`, `age>1h`, `state==buried`, `body~=timeout`. Each tool defines
//! the [`Fields`] of its jobs; the language is the same in all tools. Several filters must all match.

pub(crate) mod complete;
mod test;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use clap::{Arg, Args};

use crate::error::CliError;
use crate::text::escape;

use super::comparison::{Comparison, invalid};

use self::test::Test;

/// The value name of a filter, which completion looks for.
pub(crate) const VALUE: &str = "FILTER";

/// The flag of commands that select by filter.
#[derive(Debug, Clone, Default, Args)]
pub struct FilterArgs {
    /// Keep only items that match, e.g. 'pri<100', 'age>1h' or 'body~=REGEX'; repeated filters must all match
    #[arg(long = "filter", value_name = VALUE)]
    pub filters: Vec<String>,
}

/// Sets the help text, which lists the available fields.
pub fn described(help: &'static str) -> impl Fn(Arg) -> Arg {
    move |arg| if arg.get_id() == "filters" { arg.help(help) } else { arg }
}

impl FilterArgs {
    /// Parses the filters.
    ///
    /// # Errors
    /// A filter is invalid, or names a field that `F` does not have: exit 2.
    pub fn read<F: Fields>(&self) -> Result<Filters, CliError> {
        let all = self.filters.iter().map(|text| Filter::parse::<F>(text));
        Ok(Filters { all: all.collect::<Result<_, _>>()? })
    }
}

/// The fields that filters can use.
pub trait Fields {
    /// The name of a comparison of them.
    const WHAT: &'static str = "filter";

    /// The noun for one item, such as `job`.
    const NOUN: &'static str;

    /// All fields.
    const FIELDS: &'static [Field];

    /// The value of a field; `None` if this item has none. `beneath` is the rest of a dotted name under an open field.
    fn value(&self, field: &str, beneath: &[String]) -> Option<Value<'_>>;
}

/// A field for filters.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    name: &'static str,
    kind: Kind,
    is_of_body: bool,
    is_open: bool,
    known: &'static [&'static str],
}

impl Field {
    /// A field known without the body.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_of_body: false, is_open: false, known: &[] }
    }

    /// Marks a field that requires the body.
    #[must_use]
    pub const fn of_body(self) -> Self {
        Self { is_of_body: true, ..self }
    }

    /// Allows dotted names under it, which are fields of the same kind: `envelope.class` of `envelope`.
    #[must_use]
    pub const fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// Dotted names under it for completion; one that ends with a dot has further names under it.
    #[must_use]
    pub const fn known(self, known: &'static [&'static str]) -> Self {
        Self { known, ..self }
    }

    /// The field's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The type of a field's values, which determines how they compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Whole,
    /// A duration, in the syntax of [`units::duration`](crate::text::units::duration).
    Time,
    /// A number of bytes, in the syntax of [`units::size`](crate::text::units::size).
    Size,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A number or a text; compared as numbers if both are.
    Free,
}

impl Kind {
    /// The operators that compare it.
    const fn operators(self) -> &'static [&'static str] {
        match self {
            Self::Whole | Self::Time | Self::Size => &["==", "!=", "<", "<=", ">", ">="],
            Self::Text | Self::Word(_) => &["==", "!=", "~=", "!~"],
            Self::Free => &["==", "!=", "<", "<=", ">", ">=", "~=", "!~"],
        }
    }
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// For [`Kind::Whole`] and [`Kind::Size`].
    Whole(u64),
    /// For [`Kind::Time`].
    Time(Duration),
    /// For all other kinds.
    Text(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    /// Creates a text value, of any bytes.
    #[must_use]
    pub fn text(bytes: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::Text(Cow::Borrowed(bytes.as_ref()))
    }

    /// Creates a duration of whole seconds.
    #[must_use]
    pub fn seconds(seconds: u64) -> Self {
        Self::Time(Duration::from_secs(seconds))
    }

    /// Creates a size: the number of `bytes`.
    #[must_use]
    pub fn size(bytes: &[u8]) -> Self {
        Self::Whole(bytes.len() as u64)
    }
}

/// A single filter.
#[derive(Debug, Clone)]
pub struct Filter {
    /// The filter as given.
    text: String,
    field: Field,
    beneath: Vec<String>,
    test: Test,
}

impl Filter {
    /// Parses `KEY OP VALUE`. The operators are `==` (or `=`), `!=`, `<`, `<=`, `>`, `>=`, and for texts `~=` and
    /// `!~` with a regular expression. A text in double quotes has the escapes of JSON; in a field name a backslash
    /// makes the next character literal, as in `envelope.a\.b`. Blanks around name and value are ignored.
    ///
    /// # Errors
    /// The filter is invalid, or names a field that `F` does not have: exit 2.
    pub fn parse<F: Fields>(text: &str) -> Result<Self, CliError> {
        Self::read(text, (F::WHAT, F::NOUN), F::FIELDS)
    }

    /// Parses a comparison of these fields, with what it and one item are called.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub(crate) fn read(
        text: &str,
        (what, noun): (&str, &str),
        fields: &[Field],
    ) -> Result<Self, CliError> {
        let wrong = |why: &str| CliError::usage(invalid(what, text, why));
        let hint = || {
            let names = names(fields);
            format!("the fields of a {noun} are {names}; the operators are == != < <= > >= ~= !~")
        };
        let parsed =
            Comparison::parse(what, text).map_err(|why| CliError::usage(why).hint(hint()))?;
        let (field, beneath) = named(fields, &parsed.key).ok_or_else(|| {
            let name = parsed.key.join(".");
            wrong(&format!("a {noun} has no `{}`", escape::line(&name))).hint(hint())
        })?;
        let test = Test::new(field, parsed.operator, &parsed.value)
            .map_err(|why| why.hint.into_iter().fold(wrong(&why.what), CliError::hint))?;
        Ok(Self { text: text.to_owned(), field: *field, beneath: beneath.to_vec(), test })
    }

    /// Whether the item matches.
    pub fn fits(&self, item: &impl Fields) -> bool {
        self.holds(item.value(self.field.name, &self.beneath))
    }

    /// Whether it holds for this value of its field.
    pub(crate) fn holds(&self, value: Option<Value<'_>>) -> bool {
        self.test.holds(value)
    }

    /// The name of its field.
    pub fn field(&self) -> &'static str {
        self.field.name
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", escape::line(&self.text))
    }
}

/// Several filters, all of which must match; an empty set matches everything.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    all: Vec<Filter>,
}

impl Filters {
    /// Whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The part of a sentence that says which items are meant: " matching FILTERS", or nothing without filters.
    pub fn matching(&self) -> String {
        if self.is_empty() { String::new() } else { format!(" matching {self}") }
    }

    /// Adds a filter.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn add<F: Fields>(&mut self, text: &str) -> Result<(), CliError> {
        self.all.push(Filter::parse::<F>(text)?);
        Ok(())
    }

    /// Whether any filter requires the body.
    pub fn need_body(&self) -> bool {
        self.all.iter().any(|filter| filter.field.is_of_body)
    }

    /// The lowest and the highest value that a field of whole numbers may have, as far as the filters bound it.
    pub fn bounds(&self, field: &str) -> (Option<u64>, Option<u64>) {
        let own = self.all.iter().filter(|filter| filter.field.name == field);
        own.fold((None, None), |(lowest, highest), filter| {
            let (from, to) = filter.test.bounds();
            let stricter = highest.into_iter().chain(to).min();
            (lowest.max(from), stricter)
        })
    }

    /// Whether the item matches. A missing field matches only `!=` and `!~`.
    pub fn fit(&self, job: &impl Fields) -> bool {
        self.all.iter().all(|filter| filter.fits(job))
    }

    /// Whether the item matches as far as this is known without its body.
    pub fn may_fit(&self, job: &impl Fields) -> bool {
        self.all.iter().filter(|filter| !filter.field.is_of_body).all(|filter| filter.fits(job))
    }
}

/// `'pri<100' and 'age>1h'`.
impl fmt::Display for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, filter) in self.all.iter().enumerate() {
            let and = if place == 0 { "" } else { " and " };
            write!(f, "{and}{filter}")?;
        }
        Ok(())
    }
}

/// The field names, for help texts and hints.
fn names(fields: &[Field]) -> String {
    let shown = |field: &Field| match field.is_open {
        true => format!("{}.NAME", field.name),
        false => field.name.to_owned(),
    };
    fields.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The field with this name, and the rest of the name under it.
fn named<'f, 'n>(fields: &'f [Field], name: &'n [String]) -> Option<(&'f Field, &'n [String])> {
    let full = name.join(".");
    if let Some(field) = fields.iter().find(|field| field.name == full && !field.is_open) {
        return Some((field, &[]));
    }
    let (first, beneath) = name.split_first().filter(|(_, beneath)| !beneath.is_empty())?;
    fields.iter().find(|field| field.is_open && field.name == first).map(|field| (field, beneath))
}

#[cfg(test)]
mod tests;
