//! Which server a request goes to, and whether it may go to another after a failure.

use std::time::Duration;

use crate::{Deadline, Error, ErrorKind, Fate, Result, deadline::Limit};

/// The attempts of one call: rounds over the servers, in the order of their preference, until one answers.
#[derive(Debug)]
pub(crate) struct Attempts {
    order: Vec<usize>,
    position: usize,
    /// Further rounds that are allowed.
    rounds: u32,
    idempotent: bool,
    /// To be tried once more before any other.
    again: Option<usize>,
    has_repeated: bool,
    last: Option<Error>,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Try this server.
    Try(usize),
    /// Wait: no server may be tried yet.
    Wait(Duration),
    /// There is no further attempt.
    GiveUp(Error),
}

impl Attempts {
    pub(crate) fn new(order: Vec<usize>, rounds: u32, idempotent: bool) -> Self {
        Attempts {
            order,
            position: 0,
            rounds,
            idempotent,
            again: None,
            has_repeated: false,
            last: None,
        }
    }

    /// The next step. `quarantine` says how long a server is not to be tried yet.
    pub(crate) fn step(
        &mut self,
        quarantine: impl Fn(usize) -> Option<Duration>,
        total: Limit,
    ) -> Step {
        if self.last.is_some() && total.has_passed() {
            return self.give_up();
        }
        if let Some(index) = self.again.take() {
            return Step::Try(index);
        }
        // Who may never wait tries a server even so.
        let only_chance = self.rounds == 0
            && self.last.is_none()
            && self.order.iter().all(|index| quarantine(*index).is_some());
        while let Some(&index) = self.order.get(self.position) {
            self.position += 1;
            if only_chance || quarantine(index).is_none() {
                self.has_repeated = false;
                return Step::Try(index);
            }
        }
        if self.rounds == 0 {
            return self.give_up();
        }
        self.rounds -= 1;
        self.position = 0;
        let waits = self.order.iter().map(|index| quarantine(*index).unwrap_or_default());
        let wait = waits.min().unwrap_or_default().max(LEAST_WAIT);
        Step::Wait(total.remaining().map_or(wait, |left| left.min(wait)))
    }

    fn give_up(&mut self) -> Step {
        Step::GiveUp(self.last.take().unwrap_or_else(no_server))
    }

    /// Notes that a server failed.
    ///
    /// # Errors
    ///
    /// The failure itself, when there may be no other attempt after it.
    pub(crate) fn failed(&mut self, index: usize, error: Error) -> Result<()> {
        if !may_repeat(&error, self.idempotent) {
            return Err(error);
        }
        // The same unique id on the same server names the same job, so that is asked first.
        if error.fate() == Fate::Unknown && !self.has_repeated {
            self.has_repeated = true;
            self.again = Some(index);
        }
        self.last = Some(error);
        Ok(())
    }
}

/// Whether a failed request may be sent once more, to this server or another.
pub(crate) fn may_repeat(error: &Error, idempotent: bool) -> bool {
    let of_connection = matches!(
        error.kind(),
        ErrorKind::Connect
            | ErrorKind::ConnectionLost
            | ErrorKind::Timeout(Deadline::Connect | Deadline::Write | Deadline::Reply)
    );
    match error.fate() {
        Fate::NotSent => of_connection,
        Fate::Unknown => of_connection && idempotent,
        Fate::Refused => false,
    }
}

/// The least wait between two rounds over the servers, so that a round that fails at once does not spin.
pub(crate) const LEAST_WAIT: Duration = Duration::from_millis(1);

/// The error when no server was even tried.
pub(crate) fn no_server() -> Error {
    Error::new(ErrorKind::ConnectionLost, Fate::NotSent, "no server could be reached")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(fate: Fate) -> Error {
        Error::new(ErrorKind::ConnectionLost, fate, "gone")
    }

    fn tried(attempts: &mut Attempts) -> Option<usize> {
        match attempts.step(|_| None, Limit::never()) {
            Step::Try(index) => Some(index),
            _ => None,
        }
    }

    #[test]
    fn what_was_not_sent_goes_to_every_server_in_every_round() {
        let mut attempts = Attempts::new(vec![1, 0], 1, false);
        for expected in [Some(1), Some(0), None, Some(1), Some(0), None] {
            let index = tried(&mut attempts);
            assert_eq!(index, expected);
            if let Some(index) = index {
                attempts.failed(index, lost(Fate::NotSent)).unwrap();
            }
        }
    }

    #[test]
    fn what_may_have_run_is_repeated_only_on_request_and_on_the_same_server_first() {
        let mut attempts = Attempts::new(vec![0, 1], 0, false);
        assert!(attempts.failed(0, lost(Fate::Unknown)).is_err());
        let mut attempts = Attempts::new(vec![0, 1], 0, true);
        for expected in [0, 0, 1, 1] {
            assert_eq!(tried(&mut attempts), Some(expected));
            attempts.failed(expected, lost(Fate::Unknown)).unwrap();
        }
        assert!(matches!(attempts.step(|_| None, Limit::never()), Step::GiveUp(_)));
        let refused = Error::refused(ErrorKind::QueueFull, "QUEUE_ERROR", "full");
        assert!(Attempts::new(vec![0], 5, true).failed(0, refused).is_err());
    }

    #[test]
    fn a_quarantined_server_is_passed_over_and_then_waited_for() {
        let wait = Duration::from_secs(3);
        let mut attempts = Attempts::new(vec![0, 1], 1, false);
        let first_away = |index| (index == 0).then_some(wait);
        assert!(matches!(attempts.step(first_away, Limit::never()), Step::Try(1)));
        let mut attempts = Attempts::new(vec![0, 1], 1, false);
        let all_away = |_| Some(wait);
        assert!(matches!(attempts.step(all_away, Limit::never()), Step::Wait(w) if w == wait));
        let mut never = Attempts::new(vec![0], 0, false);
        assert!(matches!(never.step(all_away, Limit::never()), Step::Try(0)));
    }
}
