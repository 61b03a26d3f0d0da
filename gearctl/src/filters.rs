//! Jobs as filters see them.

use std::borrow::Cow;

use ctl_core::envelope::{self, ENVELOPE, Formats};
use ctl_core::rules::filter::{Field, Fields, Kind, Value};
use ctl_core::text::escape;
use gearman_client::protocol::Assignment;

use crate::names::{show_function, show_handle};

/// The help of `--filter`.
pub const FILTER: &str = "Keep only items that match, e.g. 'unique==ID' or 'body~=REGEX'; repeated filters must all match";

/// The text of `help filters`.
pub(crate) const FILTERS: &str = "\
Filters: KEY OP VALUE with handle, function, unique, size, body and, for decoded bodies, envelope.class,
envelope.arguments.NAME, ..; == != < <= > >=, and ~= !~ with a regular expression. Sizes as 64k.
A Gearman server shows a job only to the worker that takes it. So jobs that do not match are taken, too, and given back
at the end, as `export` gives back all: each job's retry count grows by one. gearmand with --job-retries may drop it
then; such jobs are submitted again as background jobs, if the function has no workers. Other servers do not queue such
jobs again, so there, only `export` has filters.";

/// A job that a worker has taken, and the formats that its body may have.
pub struct Candidate<'a>(pub &'a Assignment, pub &'a Formats);

impl Fields for Candidate<'_> {
    const NOUN: &'static str = "job";

    const FIELDS: &'static [Field] = &[
        Field::new("handle", Kind::Text),
        Field::new("function", Kind::Text),
        Field::new("unique", Kind::Text),
        Field::new("size", Kind::Size),
        Field::new("body", Kind::Text),
        envelope::FIELD,
    ];

    fn value(&self, field: &str, beneath: &[String]) -> Option<Value<'_>> {
        let shown = |text: String| Value::Text(Cow::Owned(text.into_bytes()));
        Some(match field {
            "handle" => shown(show_handle(&self.0.handle)),
            "function" => shown(show_function(&self.0.function)),
            "unique" => shown(escape::name(&self.0.unique)),
            "size" => Value::size(&self.0.workload),
            "body" => Value::text(&self.0.workload),
            ENVELOPE => return self.1.value(&self.0.workload, beneath),
            _ => return None,
        })
    }
}
