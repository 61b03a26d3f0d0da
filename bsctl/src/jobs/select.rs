//! Selecting jobs by filters: the flags, and the fields that a filter can name.

use beanstalk_client::JobStats;
use clap::Args;
use ctl_core::envelope::{ENVELOPE, Formats};
use ctl_core::error::CliError;
use ctl_core::output::BODY;
use ctl_core::rules::filter::{Field, Fields, FilterArgs, Filters, Value};

use super::fields;

/// The text of `help filters`.
pub(crate) const FILTERS: &str = "\
Filters: KEY OP VALUE with id, tube, state, pri, age, delay, ttr, left, reserves, timeouts, releases, buries, kicks, size, body and, for decoded bodies, envelope.class, envelope.attempts, envelope.arguments.NAME, ..;
== != < <= > >=, and ~= !~ with a regular expression. Durations as 90s or 1h30m, sizes as 64k.";

/// The flags that select jobs.
#[derive(Debug, Clone, Default, Args)]
pub struct SelectArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

impl SelectArgs {
    /// The filters.
    ///
    /// # Errors
    /// A filter is not valid: exit 2.
    pub fn read(&self) -> Result<Filters, CliError> {
        self.filter.read::<Candidate<'_>>()
    }
}

/// A job as filters see it.
pub struct Candidate<'a> {
    /// The server's statistics for it.
    pub stats: &'a JobStats,
    /// Its body, if known.
    pub body: Option<&'a [u8]>,
    /// The formats of bodies.
    pub formats: &'a Formats,
}

impl Fields for Candidate<'_> {
    const NOUN: &'static str = "job";

    const FIELDS: &'static [Field] = &fields::filters();

    fn value(&self, field: &str, beneath: &[String]) -> Option<Value<'_>> {
        Some(match field {
            "left" => Value::seconds(u64::try_from(self.stats.time_left).unwrap_or(0)),
            "size" => Value::size(self.body?),
            BODY => Value::text(self.body?),
            ENVELOPE => return self.formats.value(self.body?, beneath),
            key => {
                let field = fields::ALL.iter().find(|field| field.key() == key)?;
                return field.compared(self.stats);
            }
        })
    }
}
