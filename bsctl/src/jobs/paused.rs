//! Paused tubes: to a reserve they look empty.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use beanstalk_client::{TubeName, TubeStats};
use ctl_core::context::fleet::name_at;
use ctl_core::error::CliError;
use ctl_core::text::units;

use crate::link::Link;
use crate::tube_stats::{self, Answer};

/// A tube that is paused.
#[derive(Debug)]
pub struct Paused {
    tube: TubeName,
    /// The server, if there are several.
    server: Option<String>,
    left: Duration,
    ready: u64,
}

impl Paused {
    /// The pause of a tube, if there is one.
    pub fn of(stats: &TubeStats) -> Option<Self> {
        let left = u64::try_from(stats.pause_time_left).ok().filter(|left| *left > 0)?;
        let (tube, ready) = (stats.name.clone(), stats.current_jobs_ready);
        Some(Self { tube, server: None, left: Duration::from_secs(left), ready })
    }

    /// The same on this server, if there are several.
    pub fn at(self, server: Option<&str>) -> Self {
        Self { server: server.map(ToOwned::to_owned), ..self }
    }
}

/// For example `mail is paused for 59m 58s (3 ready jobs)`.
impl Display for Paused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (left, ready) =
            (units::show_duration(self.left), units::count(self.ready, "ready job"));
        let name = name_at(self.tube.as_str(), self.server.as_deref());
        write!(f, "{name} is paused for {left} ({ready})")
    }
}

/// Those of these tubes that are paused.
///
/// # Errors
/// The failure of the connection.
pub fn among(link: &mut Link, tubes: &[TubeName]) -> Result<Vec<Paused>, CliError> {
    Ok(of(&tube_stats::ask(link, tubes)?))
}

/// The pauses in these answers.
pub fn of(answers: &[Answer]) -> Vec<Paused> {
    answers.iter().filter_map(Answer::stats).filter_map(Paused::of).collect()
}

/// Number of tubes that a sentence names.
const SHOWN: usize = 5;

/// Names the paused tubes, if there are any.
pub fn told(paused: &[Paused]) -> Option<String> {
    (!paused.is_empty()).then(|| format!("tube {}", units::first_of(paused, SHOWN)))
}

/// The command that ends the pause of the first of them.
pub fn remedy(paused: &[Paused]) -> Option<String> {
    paused.first().map(|first| format!("bsctl resume {}, to end the pause", first.tube))
}

/// Adds to an error about missing jobs which of these tubes are paused.
pub fn explain(mut error: CliError, paused: &[Paused]) -> CliError {
    let (Some(told), Some(remedy)) = (told(paused), remedy(paused)) else { return error };
    error.message = format!("{}; {told}", error.message);
    error.hint(remedy)
}
