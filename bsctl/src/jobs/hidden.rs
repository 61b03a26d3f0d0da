//! Tubes paused briefly, so that a new job can be buried before a worker sees it.

use std::time::Duration;

use beanstalk_client::protocol::{Bury, Command, Ignore, PauseTube, ReserveJob, StatsTube, Watch};
use beanstalk_client::{JobId, Priority, TubeName};
use ctl_core::error::CliError;
use ctl_core::input::intake::settle;

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
        // A watched tube exists.
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

/// The outcome for a job that was to be buried: whether it was, or another client took it before.
pub type Buried<T> = (T, JobId, Result<bool, CliError>);

/// Buries ready jobs by their ids, which takes two steps: each is reserved, and then buried with its priority. Once the
/// connection fails, no other one is buried.
pub fn bury<T>(link: &mut Link, jobs: Vec<(T, JobId, Priority)>) -> Vec<Buried<T>> {
    let (mut held, mut ended, mut has_failed) = (Vec::new(), Vec::with_capacity(jobs.len()), false);
    let replies = answers(link, jobs.iter().map(|(_, id, _)| ReserveJob(*id)));
    // These reports do not fail.
    let _ = settle(jobs, replies, |(of, id, priority), reply| {
        match reply {
            Ok(Some(job)) => held.push((of, job, priority)),
            Ok(None) => ended.push((of, id, Ok(false))),
            Err(error) => {
                has_failed |= error.ends_everything();
                ended.push((of, id, Err(error)));
            }
        }
        Ok(())
    });
    let replies = match has_failed {
        true => Vec::new(),
        false => answers(link, held.iter().map(|(_, job, priority)| Bury::new(job, *priority))),
    };
    let _ = settle(held, replies, |(of, job, _), reply| {
        ended.push((of, job.id, reply.map(|()| true)));
        Ok(())
    });
    ended
}

/// The reply to each command, or why there is none.
fn answers<C: Command>(
    link: &mut Link,
    commands: impl ExactSizeIterator<Item = C>,
) -> Vec<Result<C::Reply, CliError>> {
    if commands.len() == 0 {
        return Vec::new();
    }
    match link.pipeline(commands) {
        Ok(replies) => replies.collect(),
        Err(error) => vec![Err(error)],
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
