//! Handlers that need no command, for checks and experiments.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use ctl_core::commands::work::{CommandEnd, Shift};
use ctl_core::text::units;
use gearman_client::blocking::GrabbedJob;

use super::Ended;

/// A built-in handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// The result is the workload, after this time.
    Echo(Duration),
    /// The job fails.
    Fail,
}

impl FromStr for Builtin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some(("sleep", time)) => units::duration(time).map(Self::Echo),
            None if text == "echo" => Ok(Self::Echo(Duration::ZERO)),
            None if text == "fail" => Ok(Self::Fail),
            _ => Err(format!("`{text}` is not a built-in handler (echo, sleep=DUR, fail)")),
        }
    }
}

impl Builtin {
    pub(super) fn run(self, shift: &Shift, job: &GrabbedJob) -> (Ended, CommandEnd) {
        let ended = |ended, otherwise| {
            (ended, CommandEnd { otherwise: Some(otherwise), ..CommandEnd::default() })
        };
        let Self::Echo(time) = self else { return ended(Ended::Fail, "the handler ended") };
        let start = Instant::now();
        while start.elapsed() < time {
            if shift.is_killed() {
                return ended(Ended::Stopped, "stopped");
            }
            let left = time.saturating_sub(start.elapsed());
            thread::sleep(left.min(Duration::from_millis(20)));
        }
        (
            Ended::Complete(job.workload.to_vec()),
            CommandEnd { exit: Some(0), ..CommandEnd::default() },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_builtin_names_with_values() {
        assert_eq!("sleep=2s".parse(), Ok(Builtin::Echo(Duration::from_secs(2))));
        assert_eq!("fail".parse(), Ok(Builtin::Fail));
        for bad in ["", "sleep", "sleep=x", "echo=1", "rot13"] {
            assert!(bad.parse::<Builtin>().is_err(), "{bad}");
        }
    }
}
