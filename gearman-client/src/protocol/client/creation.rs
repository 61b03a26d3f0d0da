//! The submission of a foreground job until a server has created it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use queue_core::Limit;

use super::route::may_repeat;
use crate::{
    Deadline, Error, ErrorKind, Fate, JobStatus, Result,
    protocol::{GetStatusUnique, Submit},
};

/// The submission of a foreground job, which is sent again if it may have been lost on the way.
///
/// A server may still have the lost job queued, but will skip it, because its submitter is gone. A submission with the
/// same unique id joins that job, and is never run (seen on 1.1.20). So the job is polled until it is gone. Until
/// the server notices the loss, the lost submitter counts as waiting.
#[derive(Debug)]
pub(crate) struct Creation {
    /// The submission is made until then.
    pub(crate) limit: Limit,
    /// Whether the submission was sent before, and its answer is missing.
    may_exist: bool,
    /// Whether an earlier submission was answered. Whatever the outcome of this one, that job may have been run.
    was_created: bool,
    /// The question about the lost job that the servers are asked before the submission is sent.
    question: Option<GetStatusUnique>,
    /// Number of answers so far.
    looks: usize,
}

impl Creation {
    /// A submission to be made until `limit`.
    pub(crate) fn new(limit: Limit) -> Self {
        Creation { limit, may_exist: false, was_created: false, question: None, looks: 0 }
    }

    /// Another submission of a job that was lost after its creation.
    pub(crate) fn again<W: AsRef<[u8]>>(limit: Limit, submit: &mut Submit<W>) -> Self {
        let mut creation = Creation { was_created: true, ..Self::new(limit) };
        creation.lost(submit);
        creation
    }

    /// The job of the last submission is lost. The next one must not join it.
    fn lost<W: AsRef<[u8]>>(&mut self, submit: &mut Submit<W>) {
        self.looks = 0;
        if !submit.renew() {
            self.question = submit.unique().map(GetStatusUnique);
        }
    }

    /// The submission has failed. It is sent again, which uses up one of the attempts.
    ///
    /// # Errors
    ///
    /// The failure, if it must not be sent again, with the fate of all submissions.
    pub(crate) fn failed<W: AsRef<[u8]>>(
        &mut self,
        error: Error,
        submit: &mut Submit<W>,
        attempts: &mut u32,
    ) -> Result<()> {
        if error.fate() == Fate::Unknown && may_repeat(&error, true) && *attempts > 0 {
            *attempts -= 1;
            self.may_exist = true;
            self.lost(submit);
            return Ok(());
        }
        let error = if self.may_exist { error.with_fate(Fate::Unknown) } else { error };
        let error = unacknowledged(error).with_unique(submit.unique());
        Err(if self.was_created { error.with_fate(Fate::Unknown) } else { error })
    }

    /// The next question to the servers; `None` once the submission may be sent.
    pub(crate) fn question(&self) -> Option<GetStatusUnique> {
        self.question
    }

    /// The servers' answer. Returns how long to wait before they are asked again, if they are.
    pub(crate) fn answered(
        &mut self,
        status: &Result<JobStatus>,
        now: Instant,
    ) -> Option<Duration> {
        let wait = pause(self.looks);
        self.looks += 1;
        match status {
            Ok(job) if may_be_passed_over(job, self.looks) && !self.limit.has_passed(now) => {
                Some(self.limit.remaining(now).map_or(wait, |left| left.min(wait)))
            }
            _ => {
                self.question = None;
                None
            }
        }
    }
}

/// A created job is lost. Its submission is sent again if it may be repeated, which uses up one of the attempts.
///
/// # Errors
///
/// The loss, if it must not be sent again.
pub(crate) fn repeat(lost: Error, again: &mut Option<(Submit<Bytes>, u32)>) -> Result<()> {
    match again {
        Some((_, attempts)) if *attempts > 0 && may_repeat(&lost, true) => {
            *attempts -= 1;
            Ok(())
        }
        _ => Err(lost),
    }
}

/// The error of a submission whose job has not got its handle: a job that no server has acknowledged did not end late.
fn unacknowledged(error: Error) -> Error {
    match (error.kind(), error.fate()) {
        (ErrorKind::Timeout(Deadline::Job), Fate::NotSent) => error.with_detail("it was not sent"),
        (ErrorKind::Timeout(Deadline::Job), _) => {
            error.with_detail("the server has not acknowledged it (is this a Gearman server?)")
        }
        _ => error,
    }
}

/// How often to poll a job that has a waiting submitter, which may be the lost submission whose loss the server has
/// not noticed. It notices a cut connection within milliseconds, and these looks take more than 100.
const LOOKS: usize = 5;

/// Whether the server may skip a job that it knows, because no client waits for it, or is about to. `looks` is the
/// number of looks so far.
fn may_be_passed_over(status: &JobStatus, looks: usize) -> bool {
    status.is_known && !status.is_running && (status.waiting == Some(0) || looks < LOOKS)
}

/// The delay after this many earlier polls of such a job, which stays until a worker takes it.
fn pause(looks: usize) -> Duration {
    let doublings = u32::try_from(looks).unwrap_or(u32::MAX).min(7);
    Duration::from_millis(10 << doublings).min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn lost(fate: Fate) -> Error {
        Error::new(ErrorKind::ConnectionLost, fate, "gone")
    }

    fn job(is_known: bool, is_running: bool, waiting: Option<u64>) -> JobStatus {
        let progress = crate::Progress::new("".into(), "".into());
        JobStatus { is_known, is_running, progress, waiting }
    }

    /// A submission with an id of the caller's choice, or with a random one.
    fn submission(chosen: Option<&str>) -> Submit<Bytes> {
        let unique = match chosen {
            Some(id) => crate::Unique::Id(id.parse().unwrap()),
            None => crate::Unique::Random,
        };
        let options = crate::SubmitOptions::default().unique(unique);
        Submit::foreground("f".parse().unwrap(), Bytes::new(), options).unwrap()
    }

    #[test]
    fn a_submission_that_may_be_lost_is_sent_again_as_another_job() {
        let mut submit = submission(None);
        let first = submit.unique();
        let (mut creation, mut attempts) = (Creation::new(Limit::never()), 2);
        for left in [1, 0] {
            creation.failed(lost(Fate::Unknown), &mut submit, &mut attempts).unwrap();
            assert_eq!((attempts, creation.question().is_some()), (left, false));
        }
        assert_ne!(submit.unique(), first);
        let error = creation.failed(lost(Fate::NotSent), &mut submit, &mut attempts).unwrap_err();
        assert_eq!(error.fate(), Fate::Unknown, "an earlier one may have been sent");
    }

    #[test]
    fn only_possibly_sent_submissions_use_an_attempt() {
        let refused = Error::refused(ErrorKind::QueueFull, "QUEUE_ERROR", "full");
        let garbled = Error::protocol("what").with_fate(Fate::Unknown);
        for error in [lost(Fate::NotSent), refused, garbled] {
            let (kind, fate) = (error.kind(), error.fate());
            let (mut creation, mut attempts) = (Creation::new(Limit::never()), 2);
            let failed = creation.failed(error, &mut submission(Some("u")), &mut attempts);
            let error = failed.unwrap_err();
            assert_eq!((error.kind(), error.fate(), attempts), (kind, fate, 2));
            assert_eq!(error.unique().map(ToString::to_string).as_deref(), Some("u"));
        }
        let (mut creation, mut attempts) = (Creation::new(Limit::never()), 0);
        let failed = creation.failed(lost(Fate::Unknown), &mut submission(None), &mut attempts);
        assert_eq!(failed.unwrap_err().fate(), Fate::Unknown);
    }

    #[test]
    fn a_job_with_a_chosen_id_is_sent_again_once_its_lost_run_is_gone() {
        let now = queue_core::now();
        let mut submit = submission(Some("u"));
        let (mut creation, mut attempts) = (Creation::new(Limit::never()), 2);
        creation.failed(lost(Fate::Unknown), &mut submit, &mut attempts).unwrap();
        for left in [Some(10), Some(20), Some(40), Some(80), Some(160)] {
            assert!(creation.question().is_some());
            let wait = creation.answered(&Ok(job(true, false, Some(0))), now);
            assert_eq!(wait, left.map(Duration::from_millis));
        }
        assert_eq!(creation.answered(&Ok(job(false, false, None)), now), None);
        assert!(creation.question().is_none());
        // The next loss starts anew.
        creation.failed(lost(Fate::Unknown), &mut submit, &mut attempts).unwrap();
        let wait = creation.answered(&Ok(job(true, false, Some(0))), now);
        assert_eq!(wait, Some(Duration::from_millis(10)));
        assert_eq!(creation.answered(&Err(lost(Fate::NotSent)), now), None, "nobody knows");
        assert!(creation.question().is_none());
        assert_eq!(submit.unique().unwrap().as_bytes(), b"u");
    }

    #[test]
    fn a_lost_run_is_polled_until_the_limit() {
        let now = queue_core::now();
        let limit = Limit::after(Deadline::Job, Some(SECOND / 200), now);
        let mut creation = Creation::again(limit, &mut submission(Some("u")));
        let queued = Ok(job(true, false, Some(0)));
        assert_eq!(creation.answered(&queued, now), Some(SECOND / 200));
        assert_eq!(creation.answered(&queued, now + SECOND / 200), None);
        assert!(creation.question().is_none());
    }

    #[test]
    fn the_fate_of_a_job_that_was_created_before_is_unknown() {
        let mut submit = submission(None);
        let mut creation = Creation::again(Limit::never(), &mut submit);
        assert!(creation.question().is_none());
        let error = creation.failed(lost(Fate::NotSent), &mut submit, &mut 0).unwrap_err();
        assert_eq!(error.fate(), Fate::Unknown);
    }

    #[test]
    fn a_job_that_no_server_has_acknowledged_did_not_end_late() {
        for (fate, detail) in [(Fate::NotSent, "it was not sent"), (Fate::Unknown, "acknowledged")]
        {
            let late = Error::timed_out(Deadline::Job).with_fate(fate);
            let mut creation = Creation::new(Limit::never());
            let error = creation.failed(late, &mut submission(None), &mut 1).unwrap_err();
            assert!(error.to_string().contains(detail), "{error}");
        }
    }

    #[test]
    fn a_created_job_that_is_lost_is_repeated_if_it_may_be() {
        assert!(repeat(lost(Fate::Unknown), &mut None).is_err(), "the caller does not want that");
        let mut again = Some((submission(None), 1));
        let refused = Error::refused(ErrorKind::QueueFull, "QUEUE_ERROR", "full");
        assert_eq!(repeat(refused, &mut again).unwrap_err().kind(), ErrorKind::QueueFull);
        assert!(repeat(lost(Fate::Unknown), &mut again).is_ok());
        assert!(repeat(lost(Fate::Unknown), &mut again).is_err());
    }

    #[test]
    fn a_queued_job_without_a_client_may_be_skipped() {
        for (status, first, later) in [
            (job(false, false, Some(0)), false, false),
            (job(true, true, Some(0)), false, false),
            (job(true, false, Some(0)), true, true),
            // It may be the lost submission that waits.
            (job(true, false, Some(1)), true, false),
            (job(true, false, None), true, false),
        ] {
            assert_eq!(may_be_passed_over(&status, 0), first, "{status:?}");
            assert_eq!(may_be_passed_over(&status, LOOKS - 1), first, "{status:?}");
            assert_eq!(may_be_passed_over(&status, LOOKS), later, "{status:?}");
        }
        let pauses: Vec<u128> = (0..9).map(|looks| pause(looks).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(pauses.iter().take(LOOKS).sum::<u128>() > 100, "the server has noticed by then");
    }
}
