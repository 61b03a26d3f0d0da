//! One role's claims on a shared limit.

use std::task::Waker;

use crate::{Claim, Claims, JobLimit};

/// The claims of a role, if there is a limit: one for each request in flight, and for each job that has not started.
/// They are returned when the role is dropped.
#[derive(Debug)]
pub struct Claimed {
    claims: Option<(JobLimit, Claims)>,
    count: u64,
}

impl Claimed {
    /// No claims yet; without a limit any number is granted.
    #[must_use]
    pub fn new(limit: Option<JobLimit>) -> Self {
        let claims = limit.map(|limit| (limit.clone(), Claims::new(limit)));
        Claimed { claims, count: 0 }
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.claims.is_some()
    }

    /// Whether all that may be begun with was.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.claims.as_ref().is_some_and(|(limit, _)| limit.is_reached())
    }

    /// Whether one job more may be asked for.
    #[must_use]
    pub fn ask(&mut self) -> Claim {
        let claim = self.claims.as_ref().map_or(Claim::Granted, |(_, claims)| claims.ask());
        self.count += u64::from(claim == Claim::Granted);
        claim
    }

    /// A question brought no job that is begun with. Whether others wait for what it gave back: they get it only if this one
    /// does not ask again at once.
    pub fn give_back(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        self.claims.as_ref().is_some_and(|(_, claims)| claims.give_back(1))
    }

    /// Has the waker woken when all that may be begun with was.
    pub fn wake_when_reached(&self, waker: &Waker) {
        if let Some((limit, _)) = &self.claims {
            // Whoever is woken, and whoever calls this, looks at it.
            let _ = limit.poll_reached(&std::task::Context::from_waker(waker));
        }
    }

    /// A job is begun with; whether it may be.
    #[must_use]
    pub fn take(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        self.claims.as_ref().is_none_or(|(_, claims)| claims.take(true))
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some((_, claims)) = &self.claims {
            claims.give_back(self.count);
        }
    }
}
