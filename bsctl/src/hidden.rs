//! Tubes that give out no job for a moment, so that a new job can be buried before a worker sees it.

use std::time::Duration;

use beanstalk_client::TubeName;
use beanstalk_client::protocol::{Ignore, PauseTube, StatsTube, Watch};
use ctl_core::error::CliError;

use crate::error::cli_error;
use crate::link::Link;

/// How long a tube stays paused when this process does not come to end the pause.
const PAUSE: Duration = Duration::from_secs(60);

/// Tubes that were paused, with what was left of a pause before.
pub struct Hidden(Vec<(TubeName, Duration)>);

impl Hidden {
    /// Pauses the tubes; those that do not exist begin to.
    ///
    /// # Errors
    /// The failure of the connection. Tubes that were paused go on by themselves after a minute.
    pub fn pause(link: &mut Link, tubes: Vec<TubeName>) -> Result<Self, CliError> {
        // A tube exists while somebody watches it.
        let watched: Result<Vec<_>, _> = link.pipeline(tubes.iter().cloned().map(Watch))?.collect();
        watched?;
        let mut hidden = Vec::with_capacity(tubes.len());
        let stats: Vec<_> = link.pipeline(tubes.iter().cloned().map(StatsTube))?.collect();
        for (tube, stats) in tubes.into_iter().zip(stats) {
            let left = stats?.map_or(0, |stats| stats.pause_time_left);
            hidden.push((tube, Duration::from_secs(u64::try_from(left).unwrap_or(0))));
        }
        // A longer pause than this one stays as it is.
        let short = hidden.iter().filter(|(_, left)| *left < PAUSE).map(|(tube, _)| (tube, PAUSE));
        set(link, short)?;
        Ok(Self(hidden))
    }

    /// Ends the pauses, or lets them go on that were there before.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn end(self, link: &mut Link) -> Result<(), CliError> {
        let short = self.0.iter().filter(|(_, left)| *left < PAUSE);
        set(link, short.map(|(tube, left)| (tube, *left)))?;
        let ignored: Result<Vec<_>, _> =
            link.pipeline(self.0.iter().map(|(tube, _)| Ignore(tube.clone())))?.collect();
        ignored.map(|_| ())
    }
}

fn set<'a>(
    link: &mut Link,
    pauses: impl Iterator<Item = (&'a TubeName, Duration)>,
) -> Result<(), CliError> {
    let commands: Result<Vec<_>, _> =
        pauses.map(|(tube, time)| PauseTube::new(tube.clone(), time)).collect();
    let replies: Result<Vec<()>, _> = link.pipeline(commands.map_err(cli_error)?)?.collect();
    replies.map(|_| ())
}
