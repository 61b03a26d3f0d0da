//! The statistics of many tubes, even if the server cannot report on some: before 1.11, beanstalkd reads lines of up to
//! 208 bytes, in which the longest names do not fit after `stats-tube`.

use beanstalk_client::protocol::{AnyCommand, PeekReady, Response, StatsJob, StatsTube, Use};
use beanstalk_client::{JobId, TubeName, TubeStats};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use serde::Serialize;
use serde_json::Value;

use crate::error::{BAD_FORMAT, UNKNOWN_COMMAND, cli_error};
use crate::link::Link;
use crate::seen::Seen;

/// A server's answer about a tube.
pub enum Answer {
    /// Its statistics, without the tool's own connections.
    Stats(Box<TubeStats>),
    /// It does not exist, or no longer does.
    Gone,
    /// The server cannot report on it, for this reason.
    Unaskable(CliError),
}

impl Answer {
    /// The statistics, if it has them.
    pub fn stats(&self) -> Option<&TubeStats> {
        match self {
            Self::Stats(stats) => Some(stats),
            Self::Gone | Self::Unaskable(_) => None,
        }
    }
}

/// The longest name that every beanstalkd can report on.
const ASKABLE: usize = 195;

/// Asks about each tube, in order.
///
/// # Errors
/// The failure of the connection; the refusal of a query that every server understands.
pub fn ask(link: &mut Link, tubes: &[TubeName]) -> Result<Vec<Answer>, CliError> {
    let mut answers = Vec::with_capacity(tubes.len());
    let own = link.own()?;
    // Names of at least this length are not queried: each refusal costs a connection.
    let mut refused = usize::MAX;
    while let Some(tube) = tubes.get(answers.len()) {
        if tube.as_str().len() >= refused {
            answers.push(Answer::Unaskable(too_long(tube)));
            continue;
        }
        let rest = tubes.iter().skip(answers.len());
        let askable: Vec<TubeName> =
            rest.take_while(|tube| tube.as_str().len() < refused).cloned().collect();
        for (tube, reply) in
            askable.iter().zip(link.pipeline(askable.iter().cloned().map(StatsTube))?)
        {
            match reply {
                Ok(Some(stats)) => {
                    answers.push(Answer::Stats(Box::new(own.left_out_of_tube(stats))));
                }
                Ok(None) => answers.push(Answer::Gone),
                Err(error) => {
                    let error = unaskable(tube, error)?;
                    answers.push(Answer::Unaskable(error));
                    refused = tube.as_str().len();
                    break;
                }
            }
        }
    }
    Ok(answers)
}

/// The age of the job of each tube that would be reserved next, in seconds; 0 without one. They are queried together,
/// in two pipelines. Afterwards the connection uses the default tube: a tube in use continues to exist, and a mere
/// query must not keep it alive.
///
/// # Errors
/// The failure of the connection; a tube that cannot be used.
pub fn oldest_ages(link: &mut Link, tubes: &[TubeName]) -> Result<Vec<u64>, CliError> {
    if tubes.is_empty() {
        return Ok(Vec::new());
    }
    let look = |tube: &TubeName| [AnyCommand::new(&Use(tube.clone())), AnyCommand::new(&PeekReady)];
    let back = AnyCommand::new(&Use(TubeName::default()));
    let commands = tubes.iter().flat_map(look).chain([back]);
    let mut heads: Vec<Option<JobId>> = Vec::with_capacity(tubes.len());
    let mut refused = Ok(());
    for reply in link.pipeline(commands)? {
        match reply? {
            Response::Using(_) => {}
            head @ (Response::Found(_) | Response::BodyDamaged { .. } | Response::NotFound) => {
                heads.push(Seen::of(&PeekReady, head)?.map(|seen| seen.job().id()));
            }
            // Otherwise the head of another tube would count for this one.
            refusal => refused = Err(cli_error(refusal.refuse())),
        }
    }
    refused?;
    let known: Vec<StatsJob> = heads.iter().flatten().copied().map(StatsJob).collect();
    let mut stats = link.pipeline(known)?;
    let age = |head: &Option<JobId>| {
        let stats = head.and_then(|_| stats.next()).transpose()?.flatten();
        Ok(stats.map_or(0, |stats| u64::try_from(stats.age).unwrap_or(0)))
    };
    heads.iter().map(age).collect()
}

/// The meaning of a refused query about a tube: the name is too long for this server.
///
/// # Errors
/// Any other failure.
pub fn unaskable(tube: &TubeName, error: CliError) -> Result<CliError, CliError> {
    if tube.as_str().len() <= ASKABLE || ![BAD_FORMAT, UNKNOWN_COMMAND].contains(&error.code) {
        return Err(error);
    }
    Ok(too_long(tube))
}

fn too_long(tube: &TubeName) -> CliError {
    let length = tube.as_str().len();
    let message = format!(
        "this server cannot report on tube {tube}: its name has {length} bytes, and before beanstalkd 1.11 at \
         most {ASKABLE} have room in a question"
    );
    CliError::new(Exit::BadData, BAD_FORMAT, message)
}

/// Statistics as a record: the server's keys in its order.
///
/// # Errors
/// They are not a map, which is a defect.
pub fn record<T: Serialize>(stats: &T) -> Result<Record, CliError> {
    match serde_json::to_value(stats) {
        Ok(Value::Object(map)) => Ok(map.into()),
        Ok(_) => Err(CliError::internal("statistics are not a map")),
        Err(error) => Err(CliError::internal(format!("statistics cannot be shown: {error}"))),
    }
}
