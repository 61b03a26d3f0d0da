//! Asking for jobs, and ceasing to.

use std::time::{Duration, Instant};

use queue_core::{Claim, Haste};

use super::{Action, Ending, ExpectedReply, HeldPhase, JobKey, JobVerdict, WorkerSlot};
use crate::{Error, protocol::ReserveWithTimeout};

/// How long to wait for jobs that other slots have asked for under a limit.
pub(super) const SHARED: Duration = Duration::from_millis(10);

/// How long a reserve waits for jobs while it keeps its share of a limit from other servers.
const TURN: Duration = Duration::from_secs(1);

impl WorkerSlot {
    /// Asks for jobs while there is room for them.
    pub(super) fn ask(&mut self, now: Instant) -> Result<(), Error> {
        let is_idle = self.held.active() == 0 && self.expected.is_empty();
        if is_idle && self.claimed.is_reached() {
            return self.run_out(now);
        }
        let is_paused = self.deadline_soon.holds(now);
        if self.shares.is_some_and(|until| until > now) {
            return Ok(());
        }
        self.shares = None;
        if self.refusals.holds(now) {
            return Ok(());
        }
        // The limit covers the jobs that this connection holds.
        let (active, ghosts) = (self.held.active(), self.held.lost());
        if active + ghosts > 0 && is_paused {
            return Ok(());
        }
        self.deadline_soon.ended();
        let mut free = self.settings.places.saturating_sub(active + ghosts + self.reserves);
        if active == 0 && self.reserves == 0 {
            if self.settings.until_empty.is_some() && self.is_dry && ghosts > 0 {
                // Nothing was ready, and no reserve waits. Asks once more when the handlers of the lost jobs have
                // ended.
                return Ok(());
            }
            let wait = self.patience();
            self.is_dry = false;
            let claim = if free > 0 { self.reserve(wait, now)? } else { Claim::Granted };
            match claim {
                Claim::Granted => {}
                Claim::Later => {
                    // The other slots may get none.
                    self.shares = Some(queue_core::after(now, SHARED));
                    return Ok(());
                }
                Claim::Never if self.expected.is_empty() => return self.run_out(now),
                Claim::Never => return Ok(()),
            }
            free = free.saturating_sub(1);
        }
        // After a waiting reserve these are answered at once, like those sent while jobs are held.
        while !self.is_dry && free > 0 && self.reserves < self.window {
            if self.reserve(Duration::ZERO, now)? != Claim::Granted {
                break;
            }
            free -= 1;
        }
        Ok(())
    }

    /// There is no further job within the limit.
    fn run_out(&mut self, now: Instant) -> Result<(), Error> {
        self.ending = Ending::Stopping;
        self.wind_down(now)
    }

    /// How long the next reserve waits. One that waits keeps its share of a limit from servers with jobs: it looks
    /// first, and waits for a short time.
    fn patience(&self) -> Duration {
        match (self.settings.shares_limit, self.is_dry) {
            (false, _) => self.settings.wait,
            (true, false) => Duration::ZERO,
            (true, true) => self.settings.wait.min(TURN),
        }
    }

    /// Sends a reserve, unless the limit is reached.
    fn reserve(&mut self, wait: Duration, now: Instant) -> Result<Claim, Error> {
        let claim = self.claimed.ask();
        if claim != Claim::Granted {
            return Ok(claim);
        }
        let command = ReserveWithTimeout::new(wait)?;
        let observation = self.asking.reserves(&command, self.only_tube());
        self.queue_observed(&command, ExpectedReply::Reserve, observation, now);
        self.reserves += 1;
        Ok(Claim::Granted)
    }

    /// Takes no further job. Running ones may finish within the grace, which counts from the first call; a waiting
    /// reserve is ended.
    pub fn stop(&mut self, now: Instant) {
        if self.stop.is_none() {
            self.stop = Some(queue_core::after(now, self.settings.grace));
            self.cease();
            self.actions.push_back(Action::HandBack);
        }
    }

    /// Takes no further job, and abandons running ones.
    pub fn stop_now(&mut self, now: Instant) {
        self.stop(now);
        self.stop = Some(now);
    }

    /// Stops as its worker was told to, if it was.
    pub(crate) fn stop_as_told(&mut self, told: Option<Haste>, now: Instant) {
        match told {
            Some(Haste::AtOnce) => self.stop_now(now),
            Some(Haste::Gently) => self.stop(now),
            None => {}
        }
    }

    pub(super) fn heed_stop(&mut self, now: Instant) {
        let Some(end) = self.stop else { return };
        // A connection made since the stop has to end, too.
        self.cease();
        if end <= now {
            self.abandon();
        }
    }

    /// Requests no further job on this connection.
    pub(super) fn cease(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Stopping;
        }
    }

    /// Ends what can be ended, once no further job is wanted.
    pub(super) fn wind_down(&mut self, now: Instant) -> Result<(), Error> {
        let unstarted: Vec<JobKey> = self
            .held
            .iter()
            .filter(|held| held.phase() == HeldPhase::Checking)
            .map(|held| held.key)
            .collect();
        for key in unstarted {
            self.conclude(key, JobVerdict::GiveBack, now)?;
        }
        if self.held.active() + self.held.finishing() > 0 {
            return Ok(());
        }
        if self.expected.is_empty() {
            self.close();
        } else {
            // The server now answers a waiting reserve, and a job that it had already assigned goes back with the
            // connection.
            self.ending = Ending::HalfClosed(now);
        }
        Ok(())
    }
}
