//! The decision about a job by the end of its command.

use std::str::FromStr;
use std::time::Duration;

use beanstalk_client::{JobStats, Outcome, Retries};
use ctl_core::commands::work::Ended;
use ctl_core::text::units;

/// "Try again later" in sysexits.h.
const TEMPFAIL: i32 = 75;

/// The rules of `work`.
#[derive(Debug, Clone)]
pub struct Fates {
    /// Exit codes that bury.
    pub bury_codes: Vec<i32>,
    /// The delays of releases, and their maximum number.
    pub retries: Retries,
    /// The number of timeouts after which a job is buried.
    pub most_timeouts: u64,
}

impl Fates {
    /// Whether this buries the job, which this worker has deferred so often.
    pub fn is_final(&self, mut outcome: Outcome, deferrals: u64, stats: &JobStats) -> bool {
        if outcome.is_retry() {
            outcome = self.retries.failed_after(stats.releases.saturating_sub(deferrals), stats);
        }
        matches!(outcome, Outcome::Bury { .. })
    }

    /// The job's outcome.
    pub fn outcome(&self, ended: Ended, stats: &JobStats) -> Outcome {
        match ended {
            Ended::Code(0) => Outcome::Delete,
            Ended::Code(TEMPFAIL) => Outcome::defer(self.retries.delay(stats.releases)),
            Ended::Code(code) if self.bury_codes.contains(&code) => Outcome::bury(),
            Ended::Unfit => Outcome::bury(),
            Ended::GivenUp => Outcome::release(),
            // It would be the next of its timeouts.
            Ended::Expired if stats.timeouts + 1 >= self.most_timeouts => Outcome::bury(),
            Ended::Code(_) | Ended::Signal(_) | Ended::Overtime | Ended::Expired => Outcome::Retry,
        }
    }
}

/// The value of `--backoff`: `1s..1h,x2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub base: Duration,
    /// The longest one.
    pub cap: Duration,
    /// The factor from each delay to the next.
    pub factor: u32,
}

impl FromStr for Backoff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = |what: &str| {
            format!(
                "`{text}` is not a backoff: {what} (write the first delay, the longest and the factor: 1s..1h,x2)"
            )
        };
        let (range, factor) = text.split_once(',').unwrap_or((text, "x2"));
        let (base, cap) = range.split_once("..").unwrap_or((range, "1h"));
        let factor = factor
            .trim()
            .strip_prefix('x')
            .and_then(|factor| factor.parse().ok())
            .filter(|factor| (1..=1000).contains(factor))
            .ok_or_else(|| rule("the factor must be x1 to x1000"))?;
        let base = units::duration(base).map_err(|error| rule(&error))?;
        let cap = units::duration(cap).map_err(|error| rule(&error))?;
        // The longest delay that a release can carry.
        if cap > Duration::from_secs(u64::from(u32::MAX)) {
            return Err(rule("the longest delay is over 4294967295 s"));
        }
        if base > cap {
            return Err(rule("the first delay is longer than the longest"));
        }
        Ok(Self { base, cap, factor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(releases: u64) -> JobStats {
        let text = format!(
            "---\nid: 1\ntube: t\nstate: reserved\npri: 1\nage: 0\ndelay: 0\nttr: 60\ntime-left: 59\nfile: 0\n\
             reserves: 1\ntimeouts: 0\nreleases: {releases}\nburies: 0\nkicks: 0\n"
        );
        let response = beanstalk_client::protocol::Response::Ok(text.into_bytes().into());
        let command = beanstalk_client::protocol::StatsJob(1.into());
        beanstalk_client::protocol::Command::decode(&command, response).unwrap().unwrap()
    }

    #[test]
    fn the_fate_table() {
        let retries = Retries::default().backoff(Duration::from_secs(3), 2, Duration::from_secs(9));
        let mut fates = Fates { bury_codes: vec![64, 65], retries, most_timeouts: 2 };
        let after = |seconds| Outcome::defer(Duration::from_secs(seconds));
        for (ended, releases, outcome) in [
            (Ended::Code(0), 0, Outcome::Delete),
            (Ended::Code(75), 0, after(3)),
            (Ended::Code(75), 1, after(6)),
            (Ended::Code(75), 1000, after(9)),
            (Ended::Code(64), 0, Outcome::bury()),
            (Ended::Code(65), 0, Outcome::bury()),
            (Ended::Code(1), 0, Outcome::Retry),
            (Ended::Signal(9), 0, Outcome::Retry),
            (Ended::Overtime, 0, Outcome::Retry),
            (Ended::Expired, 0, Outcome::Retry),
            (Ended::GivenUp, 5, Outcome::release()),
            (Ended::Unfit, 0, Outcome::bury()),
        ] {
            assert_eq!(fates.outcome(ended, &stats(releases)), outcome, "{ended:?} {releases}");
        }
        fates.most_timeouts = 1;
        assert_eq!(fates.outcome(Ended::Expired, &stats(0)), Outcome::bury());
    }

    #[test]
    fn parses_backoffs_with_defaults() {
        let seconds = Duration::from_secs;
        for (text, base, cap, factor) in [
            ("1s..1h,x2", 1, 3600, 2),
            ("5..10m", 5, 600, 2),
            ("30", 30, 3600, 2),
            ("0..0,x1", 0, 0, 1),
        ] {
            let expected = Backoff { base: seconds(base), cap: seconds(cap), factor };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for bad in ["", "x", "1s..x", "2h..1h", "1s,2", "1s,x0", "1s..5000000000s"] {
            let error = bad.parse::<Backoff>().unwrap_err();
            assert!(error.contains(bad) && error.contains("1s..1h,x2"), "{error}");
        }
    }
}
