//! Selecting jobs by filters: the flags, and the fields that a filter can name.

use beanstalk_client::JobStats;
use clap::Args;
use ctl_core::envelope;
use ctl_core::envelope::ENVELOPE;
use ctl_core::error::CliError;
use ctl_core::rules::filter::{Field, Fields, FilterArgs, Filters, Kind, Value};

/// What `help filters` says.
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
}

impl Fields for Candidate<'_> {
    const NOUN: &'static str = "job";

    const FIELDS: &'static [Field] = &[
        Field::new("id", Kind::Whole),
        Field::new("tube", Kind::Text),
        Field::new("state", Kind::Word(&["ready", "reserved", "delayed", "buried"])),
        Field::new("pri", Kind::Whole),
        Field::new("age", Kind::Time),
        Field::new("delay", Kind::Time),
        Field::new("ttr", Kind::Time),
        Field::new("left", Kind::Time),
        Field::new("reserves", Kind::Whole),
        Field::new("timeouts", Kind::Whole),
        Field::new("releases", Kind::Whole),
        Field::new("buries", Kind::Whole),
        Field::new("kicks", Kind::Whole),
        Field::new("size", Kind::Size).of_body(),
        Field::new("body", Kind::Text).of_body(),
        envelope::FIELD,
    ];

    fn value(&self, field: &str, beneath: &[String]) -> Option<Value<'_>> {
        let stats = self.stats;
        let seconds = |seconds: i64| Value::seconds(u64::try_from(seconds).unwrap_or(0));
        Some(match field {
            "id" => Value::Whole(stats.id.get()),
            "tube" => Value::text(stats.tube.as_str()),
            "state" => Value::text(stats.state.as_str()),
            "pri" => Value::Whole(stats.pri.get().into()),
            "age" => seconds(stats.age),
            "delay" => seconds(stats.delay),
            "ttr" => seconds(stats.ttr),
            "left" => seconds(stats.time_left),
            "reserves" => Value::Whole(stats.reserves),
            "timeouts" => Value::Whole(stats.timeouts),
            "releases" => Value::Whole(stats.releases),
            "buries" => Value::Whole(stats.buries),
            "kicks" => Value::Whole(stats.kicks),
            "size" => Value::size(self.body?),
            "body" => Value::text(self.body?),
            ENVELOPE => return envelope::value(self.body?, beneath),
            _ => return None,
        })
    }
}
