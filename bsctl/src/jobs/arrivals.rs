//! Finding new jobs. The protocol does not announce them: the server's count of puts shows that there are some, and
//! existing jobs show which ids it has reached.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

/// Number of ids queried together.
const CHUNK: u64 = 100;
/// How far to query above the ids that the counts account for: a put that the server refuses may take an id without
/// being counted.
const AHEAD: u64 = 100;
/// How far to query again below the newest job: a job's id is older than its arrival if its body took long.
const BEHIND: u64 = 100;
/// Number of ids above a job among which to search for the next newer one.
const GAP: u64 = 1000;

/// The queries to a server. Others may put and delete jobs between two of them.
pub trait Questions {
    /// A job that exists.
    type Job;
    /// The reason why there is no answer.
    type Error;

    /// The server's own id, which changes with a restart, and its count of puts.
    fn count(&mut self) -> Result<(String, u64), Self::Error>;

    /// The id of the first job in every list of every tube.
    fn heads(&mut self) -> Result<Vec<u64>, Self::Error>;

    /// The jobs among these ids, ascending.
    fn existing(&mut self, ids: Range<u64>) -> Result<Vec<(u64, Self::Job)>, Self::Error>;
}

/// The jobs that arrive from now on.
#[derive(Debug)]
pub struct Arrivals {
    server: String,
    /// The count of puts at the last poll.
    looked: u64,
    /// The server had assigned all ids below this one when its count of puts was the second figure. Every counted put
    /// takes an id, so both grow together.
    reached: (u64, u64),
    /// Older ids are those of jobs that existed before.
    first: u64,
    /// Ids below this one are known to be assigned, and were queried.
    next: u64,
    /// The jobs among the ids that are queried again.
    found: BTreeSet<u64>,
}

impl Arrivals {
    /// Starts after the newest job.
    ///
    /// # Errors
    /// Those of the queries.
    pub fn after_newest<Q: Questions>(questions: &mut Q) -> Result<Self, Q::Error> {
        let (server, looked) = questions.count()?;
        // Refused puts, or a restart with its log, leave its ids ahead of its count.
        let known = questions.heads()?.into_iter().fold(looked, u64::max);
        let newest = climb(questions, known)?;
        // Read after the newest job was seen, so the count cannot be too low for it.
        let reached = (newest.saturating_add(1), questions.count()?.1);
        let first = reached.0;
        Ok(Self { server, looked, reached, first, next: first, found: BTreeSet::new() })
    }

    /// The server's own id.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Passes the jobs that have arrived since the last poll to `show`, each once, in groups with the server's own id,
    /// until that breaks. After a restart, there is at least one group, perhaps without jobs.
    ///
    /// # Errors
    /// Those of the queries, and those of `show`.
    pub fn look<Q: Questions>(
        &mut self,
        questions: &mut Q,
        mut show: impl FnMut(&mut Q, &str, Vec<Q::Job>) -> Result<ControlFlow<()>, Q::Error>,
    ) -> Result<(), Q::Error> {
        let (server, puts) = questions.count()?;
        if server != self.server || puts < self.looked {
            *self = Self::after_newest(questions)?;
            // What it has counted was put since its start.
            self.first = self.reached.0.saturating_sub(self.reached.1).max(1);
            self.next = self.first;
            self.looked = 0;
        } else if puts == self.looked {
            return Ok(());
        } else {
            self.note_reached(self.reached.0, puts);
        }
        let mut from = self.lowest();
        let to = self.reached.0.max(self.next).saturating_add(AHEAD);
        while from < to {
            let until = to.min(from.saturating_add(CHUNK));
            let mut jobs = questions.existing(from..until)?;
            jobs.retain(|(id, _)| !self.found.contains(id));
            let (ids, jobs): (Vec<u64>, Vec<Q::Job>) = jobs.into_iter().unzip();
            let newest = ids.last().map_or(0, |id| id.saturating_add(1));
            if show(questions, &self.server, jobs)?.is_break() {
                return Ok(());
            }
            self.next = self.next.max(until.min(self.reached.0)).max(newest);
            self.found.extend(ids);
            self.found = self.found.split_off(&self.lowest());
            from = until;
        }
        if self.next > self.reached.0 {
            // There are more ids than puts.
            let (server, puts) = questions.count()?;
            if server == self.server {
                self.note_reached(self.next, puts);
            }
        }
        // Only now: if a query has failed, the next poll asks again.
        self.looked = puts;
        Ok(())
    }

    /// At this count of puts, all ids below this one are assigned, and perhaps more.
    fn note_reached(&mut self, id: u64, puts: u64) {
        let counted = puts.saturating_sub(self.reached.1);
        self.reached = (self.reached.0.saturating_add(counted).max(id), puts);
    }

    /// The lowest id to query: a job may have arrived after newer ones.
    fn lowest(&self) -> u64 {
        self.next.saturating_sub(BEHIND).max(self.first)
    }
}

/// The newest job, from an older one upwards.
fn climb<Q: Questions>(questions: &mut Q, mut newest: u64) -> Result<u64, Q::Error> {
    loop {
        let above = newest.saturating_add(1);
        match questions.existing(above..above.saturating_add(GAP))?.last() {
            Some((id, _)) => newest = *id,
            None => return Ok(newest),
        }
    }
}

#[cfg(test)]
mod tests;
