//! One role's claims on a shared limit.

use std::task::{Context, Waker};

use crate::{Claim, Claims, JobLimit, LimitWatch};

/// The claims of a role, if there is a limit: one for each request in flight, and for each job that has not started.
/// They are returned when the role is dropped.
#[derive(Debug)]
pub struct Claimed {
    claims: Option<(JobLimit, Claims)>,
    count: u64,
    /// Waits for the start of the last permitted job.
    watch: Option<LimitWatch>,
}

impl Claimed {
    /// No claims yet; without a limit any number is granted.
    #[must_use]
    pub fn new(limit: Option<JobLimit>) -> Self {
        let claims = limit.map(|limit| (limit.clone(), Claims::new(limit)));
        Claimed { claims, count: 0, watch: None }
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.claims.is_some()
    }

    /// Whether the last permitted job has started.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.claims.as_ref().is_some_and(|(limit, _)| limit.is_reached())
    }

    /// Claims one more job.
    #[must_use]
    pub fn ask(&mut self) -> Claim {
        let claim = self.claims.as_ref().map_or(Claim::Granted, |(_, claims)| claims.ask());
        self.count += u64::from(claim == Claim::Granted);
        claim
    }

    /// A request brought no job. Returns whether others wait for the returned claim: they get it only if this role does
    /// not ask again at once.
    pub fn give_back(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        self.claims.as_ref().is_some_and(|(_, claims)| claims.give_back(1))
    }

    /// Registers a waker for the start of the last permitted job, instead of the one registered before.
    pub fn wake_when_reached(&mut self, waker: &Waker) {
        let Some((limit, _)) = &self.claims else { return };
        let watch = self.watch.get_or_insert_with(|| LimitWatch::new(limit.clone()));
        // The woken task, and every caller of this, checks it.
        let _ = watch.poll(&Context::from_waker(waker));
    }

    /// A job starts; returns whether it may. [`append_woken_to`](Self::append_woken_to) has the wakers of those that
    /// waited for the last one.
    #[must_use]
    pub fn take(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        self.claims.as_mut().is_none_or(|(_, claims)| claims.take(true))
    }

    /// Moves the wakers of those that waited for the last job to the end of `others`, to be woken outside of any lock.
    pub fn append_woken_to(&mut self, others: &mut Vec<Waker>) {
        if let Some((_, claims)) = &mut self.claims {
            claims.append_woken_to(others);
        }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some((_, claims)) = &self.claims {
            claims.give_back(self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::proof::Idle;

    /// A limit may outlive any number of workers.
    #[test]
    fn a_limit_keeps_nothing_of_roles_that_have_ended() {
        let (limit, [one, other]) = (JobLimit::new(1), [Arc::new(Idle), Arc::new(Idle)]);
        let mut claimed = Claimed::new(Some(limit.clone()));
        for task in [&one, &other] {
            let waker = Waker::from(task.clone());
            claimed.wake_when_reached(&waker);
            claimed.wake_when_reached(&waker);
        }
        assert_eq!(Arc::strong_count(&one), 1, "it was replaced");
        drop(claimed);
        assert_eq!(Arc::strong_count(&other), 1);
    }
}
