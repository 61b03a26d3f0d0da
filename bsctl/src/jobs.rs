//! Job records: what `jobs`, `peek`, `reserve` and `export` write, and what `import` and `put --ndjson` read.

pub mod arrivals;
pub mod binlog;
mod fields;
pub mod hidden;
pub mod leaving;
pub mod mover;
pub mod paused;
pub mod scan;
pub mod select;
pub mod state;
pub mod sweep;
pub mod taker;

use std::time::Duration;

use beanstalk_client::protocol::{ListTubes, StatsJob};
use beanstalk_client::{JobId, JobState, JobStats, TubeName};
use ctl_core::error::CliError;
use ctl_core::output::records::{self, Body};
use ctl_core::output::{Record, Shape};
use ctl_core::text::spelling::{closest, did_you_mean};
use serde::Deserialize;

use self::fields::COUNT;
use crate::link::Link;
use crate::names;
use crate::producer::{Defaults, NewJob};

/// What has become of reserved jobs whose connection is lost. A server that stopped keeps them only in its binlog, if
/// it has one.
pub const WENT_BACK: &str = "went back to ready, unless the server stopped";

/// Jobs without their bodies, as rows.
pub static JOBS: Shape = Shape::rows("id", &fields::columns::<{ COUNT }>(COUNT));

/// Jobs with their bodies, as rows.
pub static JOBS_WITH_BODY: Shape = Shape::rows("id", &fields::columns::<{ COUNT + 1 }>(COUNT));

/// Jobs that were taken or peeked at, with their whole body.
pub static BODIES: Shape = Shape::blocks("id", &fields::columns::<{ COUNT + 1 }>(2));

/// Jobs that pass by.
pub static PASSING: Shape = Shape::brief("id", &fields::columns::<{ COUNT + 1 }>(2));

/// The version of the record that [`record`] writes.
const VERSION: u64 = 1;

/// A job's record without its body.
pub fn record(stats: &JobStats) -> Record {
    let head = Record::new().with("v", VERSION);
    fields::ALL.iter().fold(head, |record, field| record.with(field.key(), field.value(stats)))
}

/// A job's record with its body; without statistics if the job disappeared before they could be read.
pub fn record_with_body(id: JobId, stats: Option<&JobStats>, body: &[u8]) -> Record {
    let record = match stats {
        Some(stats) => record(stats),
        None => Record::new().with("v", VERSION).with("id", id.get()),
    };
    record.with_body(body)
}

/// A job as a record describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The tube it was in.
    pub tube: Option<TubeName>,
    /// The state it was in, in the server's words.
    pub state: Option<String>,
    /// Its priority.
    pub pri: Option<u32>,
    /// Its delay in seconds.
    pub delay: Option<u32>,
    /// Its time to run in seconds.
    pub ttr: Option<u32>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Described {
    /// As a job to put, with these defaults for what the record omits.
    pub fn to_put(self, defaults: &Defaults, label: String) -> NewJob {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Defaults {
            tube: self.tube.unwrap_or_else(|| defaults.tube.clone()),
            pri: self.pri.unwrap_or(defaults.pri),
            delay: self.delay.map_or(defaults.delay, seconds),
            ttr: self.ttr.map_or(defaults.ttr, seconds),
        }
        .job(self.body, label)
    }
}

#[derive(Deserialize)]
struct Wire {
    v: Option<u64>,
    tube: Option<String>,
    state: Option<String>,
    pri: Option<u32>,
    delay: Option<u32>,
    ttr: Option<u32>,
    #[serde(flatten)]
    body: Body,
}

/// Reads one line of NDJSON.
///
/// # Errors
/// The problem of the record: exit 65.
pub fn parse(line: &[u8]) -> Result<Described, CliError> {
    let wire: Wire = records::parse(line, ("job", VERSION), |wire: &Wire| wire.v)?;
    let body = wire.body.bytes("job")?;
    let tube = wire.tube.as_deref().map(names::tube).transpose()?;
    let (state, pri, delay, ttr) = (wire.state, wire.pri, wire.delay, wire.ttr);
    Ok(Described { tube, state, pri, delay, ttr, body })
}

/// Why an action on a job was answered with NOT_FOUND: queries the job's state.
pub fn explain_not_found(link: &mut Link, id: JobId) -> CliError {
    let why = match link.call(StatsJob(id)) {
        Ok(Some(JobStats { state: JobState::Reserved, .. })) => {
            let only = "only that one can act on it until its time to run expires";
            format!("job {id} is reserved by another connection, and {only}")
        }
        Ok(Some(JobStats { state, tube, .. })) => {
            format!("job {id} is {state} in tube {tube}, which does not allow this")
        }
        Ok(None) => return no_job(id),
        Err(_) => format!("job {id} does not exist, or is reserved by another connection"),
    };
    CliError::not_found(why).hint(format!("bsctl job {id}"))
}

/// The error for a job that does not exist.
pub fn no_job(id: JobId) -> CliError {
    CliError::not_found(format!("job {id} does not exist"))
        .hint("bsctl jobs, to list the jobs of this server")
}

/// The error for a tube that does not exist.
pub fn no_tube(tube: &TubeName) -> CliError {
    CliError::not_found(format!(
        "tube {tube} does not exist: a tube exists while it has jobs or a client uses or watches it"
    ))
    .hint("bsctl tubes, to list the tubes of this server")
}

/// The same, with the name that was probably meant.
pub fn no_tube_at(link: &mut Link, tube: &TubeName) -> CliError {
    match near(link, tube) {
        Some(meant) => no_tube(tube).hint(did_you_mean(&meant)),
        None => no_tube(tube),
    }
}

/// The tube of the server whose name is probably meant by one that it does not know. Asks the server; whether it
/// answers is no reason for another error.
pub fn near(link: &mut Link, tube: &TubeName) -> Option<String> {
    let tubes = link.call(ListTubes).ok()?;
    let others = tubes.iter().map(TubeName::as_str).filter(|other| *other != tube.as_str());
    closest(tube.as_str(), others).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_records_name_the_problem() {
        for (line, why) in [
            (&br#"{"#[..], "not a job record"),
            (br#"[]"#, "not a job record"),
            (br#"{"v":2,"body":""}"#, "version 2"),
            (br#"{"tube":"x"}"#, "without `body`"),
            (br#"{"body":"x","body_hex":"00"}"#, "more than one body"),
            (br#"{"body_base64":"*"}"#, "not base64"),
            (br#"{"body":"x","tube":"a b"}"#, "tube name"),
            (br#"{"body":"x","pri":-1}"#, "not a job record"),
            (br#"{"body":"x","ttr":4294967296}"#, "not a job record"),
            (br#"{"body":{"parsed":1}}"#, "not a job record"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit.code(), 65);
            assert!(error.message.contains(why), "{error}");
        }
    }
}
