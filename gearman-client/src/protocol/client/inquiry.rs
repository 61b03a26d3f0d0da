//! A question about a job to several servers.

use std::time::Instant;

use queue_core::Limit;

use super::route::{Question, ServerOrder, may_repeat, no_server};
use crate::{Deadline, Error, ErrorKind, JobStatus, Result};

/// A question to each server until one knows the job, and then to those that are away, which may come back. One that is
/// away for long costs no time while another knows the answer.
#[derive(Debug)]
pub(crate) struct Inquiry {
    order: std::vec::IntoIter<usize>,
    away: Vec<usize>,
    is_first_round: bool,
    /// Number of extra rounds for a server that is waited for.
    rounds: u32,
    limit: Limit,
    /// The most informative answer so far.
    best: Result<JobStatus>,
}

impl Inquiry {
    pub(crate) fn new(order: &ServerOrder, rounds: u32, limit: Limit) -> Self {
        let servers: Vec<usize> = order.iter().collect();
        let is_first_round = servers.len() > 1;
        let (order, best) = (servers.into_iter(), Err(no_server()));
        Inquiry { order, away: Vec::new(), is_first_round, rounds, limit, best }
    }

    /// The next question; `None` once a server knows the job, or none is left. Each server gets an equal share of the
    /// remaining time, so that a silent one leaves some for the others. `is_away` tells which servers must not be tried
    /// yet.
    pub(crate) fn next(
        &mut self,
        is_away: impl Fn(usize) -> bool,
        now: Instant,
    ) -> Option<Question> {
        if self.best.as_ref().is_ok_and(|status| status.is_known) {
            return None;
        }
        loop {
            match self.order.next() {
                Some(server) if self.is_first_round && is_away(server) => self.away.push(server),
                Some(server) => {
                    let has_others = self.is_first_round;
                    let rounds = if has_others { 0 } else { self.rounds };
                    let limit = self.limit.share(self.order.len() + self.away.len() + 1, now);
                    return Some(Question { server, rounds, limit, has_others });
                }
                None if self.away.is_empty() => return None,
                None => {
                    self.is_first_round = false;
                    self.order = std::mem::take(&mut self.away).into_iter();
                }
            }
        }
    }

    /// The answer to a question. A server that gave none is waited for if it is away or slow to connect, and not if it
    /// has taken all the time of an answer.
    pub(crate) fn answered(&mut self, question: Question, status: Result<JobStatus>) {
        if let Err(error) = &status
            && self.is_first_round
            && self.is_waited_for(error)
        {
            self.away.push(question.server);
        }
        // An answer is more informative than an error.
        if self.best.is_err() || status.is_ok() {
            self.best = status;
        }
    }

    fn is_waited_for(&self, error: &Error) -> bool {
        let is_silent = error.kind() == ErrorKind::Timeout(Deadline::Reply);
        error.kind() == ErrorKind::Timeout(Deadline::Connect)
            || (self.rounds > 0 && may_repeat(error, true) && !is_silent)
    }

    /// The facts about the job.
    pub(crate) fn outcome(self) -> Result<JobStatus> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::LazyLock, time::Duration};

    use super::*;
    use crate::{
        Fate, Progress,
        protocol::client::route::{RouteAttempts, RouteStep},
    };
    use queue_core::SLOW;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    const SECOND: Duration = Duration::from_secs(1);

    fn lost(fate: Fate) -> Error {
        Error::new(ErrorKind::ConnectionLost, fate, "gone")
    }

    fn inquiry(order: &[usize], rounds: u32) -> Inquiry {
        let limit = Limit::after(Deadline::Total, Some(60 * SECOND), *START);
        Inquiry::new(&order.iter().copied().collect(), rounds, limit)
    }

    /// The next server, its rounds, and the number of servers that share the remaining minute.
    fn asked(inquiry: &mut Inquiry, away: &[usize]) -> Option<(usize, u32, u64)> {
        let question = inquiry.next(|server| away.contains(&server), *START)?;
        let share = question.limit.remaining(*START).unwrap();
        Some((question.server, question.rounds, 60 / share.as_secs()))
    }

    fn tried(question: Question) -> RouteAttempts {
        let mut attempts = RouteAttempts::question(question, 10 * SECOND, *START);
        let step = attempts.step(|_| None, |_| false, Limit::never(), *START);
        assert!(matches!(step, RouteStep::Try(server) if server == question.server), "{step:?}");
        attempts
    }

    fn status(is_known: bool) -> Result<JobStatus> {
        let progress = Progress::new("".into(), "".into());
        Ok(JobStatus { is_known, is_running: false, progress, waiting: None })
    }

    #[test]
    fn the_first_server_that_knows_the_job_is_the_last_asked() {
        let mut about = inquiry(&[0, 1, 2], 1);
        for (is_known, outcome) in [(false, Some(1)), (true, None)] {
            let question = about.next(|_| false, *START).unwrap();
            about.answered(question, status(is_known));
            let next = about.order.as_slice().first().copied().filter(|_| !is_known);
            assert_eq!(next, outcome);
        }
        assert!(about.next(|_| false, *START).is_none());
        assert!(about.outcome().unwrap().is_known);
    }

    #[test]
    fn an_answer_is_more_informative_than_an_error() {
        let mut about = inquiry(&[0, 1, 2], 0);
        for answer in [Err(lost(Fate::NotSent)), status(false), Err(Error::protocol("what"))] {
            let question = about.next(|_| false, *START).unwrap();
            about.answered(question, answer);
        }
        assert!(about.next(|_| false, *START).is_none());
        assert!(!about.outcome().unwrap().is_known);
        let mut about = inquiry(&[0], 0);
        let question = about.next(|_| false, *START).unwrap();
        about.answered(question, Err(Error::protocol("what")));
        assert_eq!(about.outcome().unwrap_err().kind(), ErrorKind::Protocol);
    }

    #[test]
    fn questions_are_always_repeatable() {
        let mut about = inquiry(&[0, 1], 1);
        for server in [0, 1] {
            let question = about.next(|_| false, *START).unwrap();
            assert_eq!(question.server, server);
            tried(question).failed(server, lost(Fate::Unknown), *START).unwrap();
            about.answered(question, Err(lost(Fate::Unknown)));
        }
        assert_eq!(asked(&mut about, &[]), Some((0, 1, 2)));
        assert_eq!(asked(&mut about, &[]), Some((1, 1, 1)));
    }

    #[test]
    fn a_server_that_takes_long_to_connect_is_asked_after_the_others() {
        let late = || Err(Error::timed_out(Deadline::Connect));
        let mut about = inquiry(&[0, 1], 0);
        let question = about.next(|_| false, *START).unwrap();
        let time = tried(question).time(Limit::never(), *START);
        assert_eq!(time.connecting.at, Some(*START + SLOW));
        about.answered(question, late());
        assert_eq!(asked(&mut about, &[0]).map(|(server, ..)| server), Some(1));
        let question = about.next(|_| true, *START).unwrap();
        assert_eq!(question.server, 0);
        assert_eq!(tried(question).time(Limit::never(), *START).connecting.at, None);
        about.answered(question, late());
        assert_eq!(asked(&mut about, &[]), None);
    }

    #[test]
    fn a_server_that_is_away_is_asked_last_and_a_silent_one_once() {
        let mut about = inquiry(&[0, 1, 2, 3], 3);
        let silent = Error::timed_out(Deadline::Reply).with_fate(Fate::Unknown);
        for (server, shares, error) in
            [(1, 4, lost(Fate::NotSent)), (2, 4, silent), (3, 3, Error::protocol("what"))]
        {
            let question = about.next(|server| server == 0, *START).unwrap();
            let share = question.limit.remaining(*START).unwrap();
            assert_eq!(
                (question.server, question.rounds, share),
                (server, 0, 60 * SECOND / shares)
            );
            about.answered(question, Err(error));
        }
        assert_eq!(asked(&mut about, &[0]), Some((0, 3, 2)));
        assert_eq!(asked(&mut about, &[0]), Some((1, 3, 1)));
        assert_eq!(asked(&mut about, &[0]), None);
    }

    #[test]
    fn the_only_server_is_waited_for_and_one_that_failed_only_if_it_may_be() {
        let mut about = inquiry(&[7], 3);
        assert_eq!(asked(&mut about, &[7]), Some((7, 3, 1)));
        assert_eq!(asked(&mut about, &[7]), None);
        let mut about = inquiry(&[7], 3);
        assert_eq!(asked(&mut about, &[]), Some((7, 3, 1)), "nobody else can be asked");
        let mut about = inquiry(&[0, 1], 0);
        for _ in 0..2 {
            let question = about.next(|_| false, *START).unwrap();
            about.answered(question, Err(lost(Fate::NotSent)));
        }
        assert_eq!(asked(&mut about, &[]), None);
    }
}
