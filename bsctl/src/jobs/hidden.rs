//! Tubes paused briefly, so that a new job can be buried before a worker sees it.

use std::time::Duration;

use beanstalk_client::TubeName;
use beanstalk_client::protocol::{Ignore, PauseTube, StatsTube, Watch};
use ctl_core::error::CliError;

use crate::error::cli_error;
use crate::link::Link;

/// How long a tube stays paused if this process does not end the pause.
const PAUSE: Duration = Duration::from_secs(60);

/// Tubes that were paused.
pub struct Hidden {
    /// Each with what remained of an earlier pause.
    tubes: Vec<(TubeName, Duration)>,
    /// Those that are watched only to keep them in existence.
    kept: Vec<TubeName>,
}

impl Hidden {
    /// Pauses the tubes, creating those that do not exist.
    ///
    /// # Errors
    /// The failure of the connection. Tubes that were paused resume by themselves after a minute.
    pub fn pause(link: &mut Link, tubes: Vec<TubeName>) -> Result<Self, CliError> {
        // A tube exists while somebody watches it.
        let before = link.client()?.watched_tubes().to_vec();
        let kept: Vec<_> = tubes.iter().filter(|tube| !before.contains(tube)).cloned().collect();
        let watched: Result<Vec<_>, _> = link.pipeline(kept.iter().cloned().map(Watch))?.collect();
        watched?;
        let mut hidden = Vec::with_capacity(tubes.len());
        let stats: Vec<_> = link.pipeline(tubes.iter().cloned().map(StatsTube))?.collect();
        for (tube, stats) in tubes.into_iter().zip(stats) {
            let left = stats?.map_or(0, |stats| stats.pause_time_left);
            hidden.push((tube, Duration::from_secs(u64::try_from(left).unwrap_or(0))));
        }
        // A pause longer than this one stays as it is.
        let short = hidden.iter().filter(|(_, left)| *left < PAUSE).map(|(tube, _)| (tube, PAUSE));
        set(link, short)?;
        Ok(Self { tubes: hidden, kept })
    }

    /// Ends the pauses, and restores those that were in effect before.
    ///
    /// # Errors
    /// The failure of the connection.
    pub fn end(self, link: &mut Link) -> Result<(), CliError> {
        let short = self.tubes.iter().filter(|(_, left)| *left < PAUSE);
        set(link, short.map(|(tube, left)| (tube, *left)))?;
        let ignored: Result<Vec<_>, _> =
            link.pipeline(self.kept.into_iter().map(Ignore))?.collect();
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
