//! What one lane has asked of a limit that others share.

use queue_core::{Claim, Claims, JobLimit};

/// The claims of a lane, if there is a limit: one for each pull that is under way, and for each message that no handler has
/// begun with. They are given back with the lane.
#[derive(Debug)]
pub(super) struct Claimed {
    claims: Option<(JobLimit, Claims)>,
    count: u64,
}

impl Claimed {
    pub(super) fn new(limit: Option<JobLimit>) -> Self {
        let claims = limit.map(|limit| (limit.clone(), Claims::new(limit)));
        Claimed { claims, count: 0 }
    }

    /// Whether there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.claims.is_some()
    }

    /// Whether all that may be run was begun with.
    pub(super) fn is_reached(&self) -> bool {
        self.claims.as_ref().is_some_and(|(limit, _)| limit.is_reached())
    }

    /// Whether one message more may be pulled.
    pub(super) fn ask(&mut self) -> Claim {
        let claim = self.claims.as_ref().map_or(Claim::Granted, |(_, claims)| claims.ask());
        self.count += u64::from(claim == Claim::Granted);
        claim
    }

    /// A pull brought no message that a handler begins with.
    pub(super) fn give_back(&mut self) {
        self.count = self.count.saturating_sub(1);
        if let Some((_, claims)) = &self.claims {
            claims.give_back(1);
        }
    }

    /// A handler begins with a message; whether it may.
    pub(super) fn take(&mut self) -> bool {
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
