//! Handlers that need no command, for checks and experiments.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use ctl_core::text::units;
use gearman_client::blocking::{GrabbedJob, Worker};

use super::{Ended, Outcome, Shift};

/// A built-in handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// The result is the workload.
    Echo,
    /// The result is the workload backwards, byte by byte.
    Reverse,
    /// The result is the workload with ASCII letters in upper case.
    Upper,
    /// The result is the number of lines, words and bytes.
    Wc,
    /// Like echo, after a delay.
    Sleep(Duration),
    /// The job fails.
    Fail,
    /// The job fails with its workload as the exception.
    Exception,
    /// Like echo, after this many progress reports.
    Progress(u64),
}

/// The names of the handlers, and their arguments.
pub const NAMES: &[&str] =
    &["echo", "reverse", "upper", "wc", "sleep=", "fail", "exception", "progress="];

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => f.write_str("echo"),
            Self::Reverse => f.write_str("reverse"),
            Self::Upper => f.write_str("upper"),
            Self::Wc => f.write_str("wc"),
            Self::Sleep(time) => write!(f, "sleep={}", units::show_duration(*time)),
            Self::Fail => f.write_str("fail"),
            Self::Exception => f.write_str("exception"),
            Self::Progress(steps) => write!(f, "progress={steps}"),
        }
    }
}

impl FromStr for Builtin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || {
            format!(
                "`{text}` is not a built-in handler (echo, reverse, upper, wc, sleep=DUR, fail, exception, progress=N)"
            )
        };
        match text.split_once('=') {
            Some(("sleep", time)) => units::duration(time).map(Self::Sleep),
            Some(("progress", steps)) => steps
                .parse()
                .ok()
                .filter(|steps| (1..=1_000_000).contains(steps))
                .map(Self::Progress)
                .ok_or_else(rule),
            Some(_) => Err(rule()),
            None => match text {
                "echo" => Ok(Self::Echo),
                "reverse" => Ok(Self::Reverse),
                "upper" => Ok(Self::Upper),
                "wc" => Ok(Self::Wc),
                "fail" => Ok(Self::Fail),
                "exception" => Ok(Self::Exception),
                _ => Err(rule()),
            },
        }
    }
}

impl Builtin {
    pub(super) fn run(self, shift: &Shift, worker: &mut Worker, job: &GrabbedJob) -> Outcome {
        let workload = job.workload.to_vec();
        let ended = match self {
            Self::Echo => Ended::Complete(workload),
            Self::Reverse => Ended::Complete(workload.into_iter().rev().collect()),
            Self::Upper => Ended::Complete(workload.to_ascii_uppercase()),
            Self::Wc => Ended::Complete(count(&workload).into_bytes()),
            Self::Fail => Ended::Fail,
            Self::Exception => Ended::Exception(workload),
            Self::Sleep(time) => {
                let start = Instant::now();
                while start.elapsed() < time {
                    if shift.is_killed() {
                        return Ended::Stopped.into();
                    }
                    let left = time.saturating_sub(start.elapsed());
                    thread::sleep(left.min(Duration::from_millis(20)));
                }
                Ended::Complete(workload)
            }
            Self::Progress(steps) => {
                for step in 1..=steps {
                    if shift.is_killed() {
                        return Ended::Stopped.into();
                    }
                    shift.tell(worker.status(job, step, steps));
                }
                Ended::Complete(workload)
            }
        };
        ended.into()
    }
}

/// Counts like wc(1).
fn count(bytes: &[u8]) -> String {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let words = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
    format!("{lines} {words} {}\n", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_their_values() {
        assert_eq!("sleep=2s".parse(), Ok(Builtin::Sleep(Duration::from_secs(2))));
        assert_eq!("progress=3".parse(), Ok(Builtin::Progress(3)));
        assert_eq!("wc".parse(), Ok(Builtin::Wc));
        for bad in ["", "sleep", "sleep=x", "progress=0", "progress=-1", "echo=1", "rot13"] {
            assert!(bad.parse::<Builtin>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_shown_as_they_are_typed() {
        for name in NAMES {
            let typed = match *name {
                "sleep=" => "sleep=2s".to_owned(),
                "progress=" => "progress=3".to_owned(),
                name => name.to_owned(),
            };
            assert_eq!(typed.parse::<Builtin>().unwrap().to_string(), typed);
        }
    }

    #[test]
    fn lines_words_and_bytes() {
        assert_eq!(count(b"a b\n c\n"), "2 3 7\n");
        assert_eq!(count(b""), "0 0 0\n");
    }
}
