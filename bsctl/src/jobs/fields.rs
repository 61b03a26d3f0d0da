//! The fields of a job in one table: documents have them in this order, tables derive their columns from it, and filters
//! their names and kinds.

use std::borrow::Cow;

use beanstalk_client::JobStats;
use ctl_core::envelope;
use ctl_core::output::{BODY, Column};
use ctl_core::rules::filter::{self, Kind};
use serde_json::Value;

/// A field of a job.
pub(super) struct Field {
    column: Column,
    kind: Kind,
    get: fn(&JobStats) -> Value,
}

impl Field {
    const fn new(column: Column, kind: Kind, get: fn(&JobStats) -> Value) -> Self {
        Self { column, kind, get }
    }

    /// Its name in documents and filters.
    pub(super) fn key(&self) -> &'static str {
        self.column.key
    }

    /// Its value in documents.
    pub(super) fn value(&self, stats: &JobStats) -> Value {
        (self.get)(stats)
    }

    /// Its value in filters.
    pub(super) fn compared(&self, stats: &JobStats) -> Option<filter::Value<'static>> {
        Some(match (self.value(stats), self.kind) {
            (Value::String(text), _) => filter::Value::Text(Cow::Owned(text.into_bytes())),
            (seconds, Kind::Time) => filter::Value::seconds(seconds.as_u64().unwrap_or(0)),
            (number, _) => filter::Value::Whole(number.as_u64()?),
        })
    }
}

const STATES: Kind = Kind::Word(&["ready", "reserved", "delayed", "buried"]);

/// Number of fields except the body.
pub(super) const COUNT: usize = 12;

/// All fields except the body.
pub(super) const ALL: [Field; COUNT] = [
    Field::new(Column::new("id", "ID"), Kind::Whole, |job| job.id.get().into()),
    Field::new(Column::new("tube", "TUBE"), Kind::Text, |job| job.tube.as_str().into()),
    Field::new(Column::new("state", "STATE"), STATES, |job| job.state.as_str().into()),
    Field::new(Column::new("pri", "PRI"), Kind::Whole, |job| job.pri.get().into()),
    Field::new(Column::wide("delay", "DELAY"), Kind::Time, |job| job.delay.into()),
    Field::new(Column::wide("ttr", "TTR"), Kind::Time, |job| job.ttr.into()),
    Field::new(Column::new("age", "AGE"), Kind::Time, |job| job.age.into()),
    Field::new(Column::new("reserves", "RESERVES"), Kind::Whole, |job| job.reserves.into()),
    Field::new(Column::wide("timeouts", "TIMEOUTS"), Kind::Whole, |job| job.timeouts.into()),
    Field::new(Column::wide("releases", "RELEASES"), Kind::Whole, |job| job.releases.into()),
    Field::new(Column::wide("buries", "BURIES"), Kind::Whole, |job| job.buries.into()),
    Field::new(Column::wide("kicks", "KICKS"), Kind::Whole, |job| job.kicks.into()),
];

/// The first `usual` fields as columns, the others on request, and the body if `N` has a place for it.
// The index is within bounds; constants have no iterators.
#[allow(clippy::indexing_slicing)]
pub(super) const fn columns<const N: usize>(usual: usize) -> [Column; N] {
    let mut columns = [Column::new(BODY, "BODY"); N];
    let mut at = 0;
    while at < COUNT {
        let column = ALL[at].column;
        columns[at] =
            if at < usual { column } else { Column::on_request(column.key, column.title) };
        at += 1;
    }
    columns
}

/// The fields of filters: those of a job, how long a reservation lasts, and the body.
// The index is within bounds; constants have no iterators.
#[allow(clippy::indexing_slicing)]
pub(super) const fn filters() -> [filter::Field; COUNT + 4] {
    let mut filters = [envelope::FIELD; COUNT + 4];
    let mut at = 0;
    while at < COUNT {
        filters[at] = filter::Field::new(ALL[at].column.key, ALL[at].kind);
        at += 1;
    }
    filters[at] = filter::Field::new("left", Kind::Time);
    filters[at + 1] = filter::Field::new("size", Kind::Size).of_body();
    filters[at + 2] = filter::Field::new(BODY, Kind::Text).of_body();
    filters
}
