//! The pushes of a blocking producer without an outcome, or whose outcome was not taken yet.

use std::{collections::BTreeMap, mem, sync::PoisonError};

use queue_core::{
    lock,
    sync::{Condvar, Mutex, MutexGuard},
};

use crate::{
    Error, MessageId, ProducerReport, Result,
    produce::servers::Awaits,
    protocol::producer::attempts::{PushAttempts, PushCounts},
};

/// A push, as far as it has got.
pub(super) struct Pushing {
    pub(super) attempts: PushAttempts,
    pub(super) awaits: Awaits,
}

/// All pushes, and what became of those that have ended.
pub(super) struct Pushes {
    list: Mutex<List>,
    max: usize,
    /// A push has ended.
    ended: Condvar,
}

#[derive(Default)]
struct List {
    report: ProducerReport,
    last: u64,
    entries: BTreeMap<u64, Entry>,
    /// Number of entries without an outcome.
    unfinished: usize,
    /// Number of threads that wait for the end of a push.
    waiting: usize,
    is_closed: bool,
    has_helper: bool,
}

struct Entry {
    stage: Stage,
    /// Whether a receipt was given out, whose holder learns the outcome here.
    has_receipt: bool,
}

impl Entry {
    fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle(_))
    }
}

enum Stage {
    /// A thread takes its steps.
    Busy,
    /// No thread takes its steps.
    Idle(Box<Pushing>),
    Done(Ended),
}

/// The outcome of a push, and its server.
pub(super) type Ended = (Result<MessageId>, Option<usize>);

/// Takes the steps of a push that are left.
pub(super) trait Completes: Fn(Pushing) -> (Result<MessageId>, PushAttempts) {}

impl<F: Fn(Pushing) -> (Result<MessageId>, PushAttempts)> Completes for F {}

/// A push that a thread carries out. If that panics, the push counts no longer.
pub(super) struct Entered<'a> {
    pushes: &'a Pushes,
    number: u64,
    /// Whether its end was recorded.
    is_over: bool,
}

impl Pushes {
    pub(super) fn new(max: usize) -> Self {
        Pushes { list: Mutex::default(), max, ended: Condvar::new() }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }

    pub(super) fn report(&self) -> ProducerReport {
        self.list().report
    }

    pub(super) fn check_open(&self) -> Result<()> {
        self.list().check_open()
    }

    /// Whether none will follow, and none is in flight.
    pub(super) fn are_over(&self) -> bool {
        let list = self.list();
        list.is_closed && list.unfinished == 0
    }

    pub(super) fn close(&self) {
        self.list().is_closed = true;
    }

    /// Adds a push that its caller carries out.
    pub(super) fn enter(&self) -> Result<Entered<'_>> {
        Ok(self.entered(self.list().enter(false)?))
    }

    fn entered(&self, number: u64) -> Entered<'_> {
        Entered { pushes: self, number, is_over: false }
    }

    /// Adds a push once there is room; meanwhile, completes others.
    pub(super) fn enter_if_room(&self, complete: impl Completes) -> Result<Entered<'_>> {
        let mut list = self.list();
        while list.unfinished >= self.max && !list.is_closed {
            list = self.complete_one(list, u64::MAX, &complete);
        }
        Ok(self.entered(list.enter(true)?))
    }

    fn wake(&self, list: &List) {
        if list.waiting > 0 {
            self.ended.notify_all();
        }
    }

    /// Waits for the outcome of this push.
    pub(super) fn wait(&self, number: u64, complete: impl Completes) -> Ended {
        let mut list = self.list();
        loop {
            let Some(entry) = list.entries.get_mut(&number) else {
                return (Err(Error::invalid("the outcome was taken already")), None);
            };
            match mem::replace(&mut entry.stage, Stage::Busy) {
                Stage::Busy => list = self.sleep(list),
                Stage::Idle(pushing) => {
                    drop(list);
                    let entered = self.entered(number);
                    let (outcome, attempts) = complete(*pushing);
                    entered.leave(&outcome, attempts.counts);
                    return (outcome, attempts.server);
                }
                Stage::Done(ended) => {
                    list.entries.remove(&number);
                    return ended;
                }
            }
        }
    }

    /// The outcome of this push is no longer wanted. Returns whether it has to be finished.
    pub(super) fn abandon(&self, number: u64) -> bool {
        let mut list = self.list();
        let Some(entry) = list.entries.get_mut(&number) else { return false };
        entry.has_receipt = false;
        match entry.stage {
            Stage::Idle(_) => return true,
            Stage::Done(_) => drop(list.entries.remove(&number)),
            Stage::Busy => {}
        }
        false
    }

    /// Waits until every push accepted so far has ended; meanwhile, completes those that no thread carries out.
    pub(super) fn flush(&self, complete: impl Completes) {
        let mut list = self.list();
        let mark = list.last;
        while list.has_unfinished(mark) {
            list = self.complete_one(list, mark, &complete);
        }
    }

    /// Whether a thread has to be started that completes what no thread carries out.
    pub(super) fn wants_helper(&self) -> bool {
        let mut list = self.list();
        !mem::replace(&mut list.has_helper, true)
    }

    /// The thread that was to help could not be started.
    pub(super) fn has_no_helper(&self) {
        self.list().has_helper = false;
    }

    /// Completes pushes until every one has ended or is carried out by a thread.
    pub(super) fn help(&self, complete: impl Completes) {
        let mut list = self.list();
        while list.has_idle() {
            list = self.complete_one(list, u64::MAX, &complete);
        }
        list.has_helper = false;
    }

    /// Completes the first push up to this one that no thread carries out; without any, waits for one to end.
    fn complete_one<'a>(
        &'a self,
        mut list: MutexGuard<'a, List>,
        mark: u64,
        complete: &impl Completes,
    ) -> MutexGuard<'a, List> {
        let Some((number, pushing)) = list.take_idle(mark) else { return self.sleep(list) };
        drop(list);
        let mut entered = self.entered(number);
        let (outcome, attempts) = complete(*pushing);
        entered.is_over = true;
        let mut list = self.list();
        list.count(&outcome, attempts.counts);
        match list.entries.get_mut(&number) {
            Some(entry) if entry.has_receipt => {
                entry.stage = Stage::Done((outcome, attempts.server));
            }
            _ => drop(list.entries.remove(&number)),
        }
        self.wake(&list);
        list
    }

    fn sleep<'a>(&'a self, mut list: MutexGuard<'a, List>) -> MutexGuard<'a, List> {
        list.waiting += 1;
        let mut list = self.ended.wait(list).unwrap_or_else(PoisonError::into_inner);
        list.waiting -= 1;
        list
    }
}

impl Entered<'_> {
    /// Its thread carries it out no longer.
    pub(super) fn put(mut self, pushing: Pushing) -> u64 {
        self.is_over = true;
        let mut list = self.pushes.list();
        let idle = Entry { stage: Stage::Idle(Box::new(pushing)), has_receipt: true };
        list.entries.insert(self.number, idle);
        self.pushes.wake(&list);
        self.number
    }

    /// It has ended.
    pub(super) fn leave(mut self, outcome: &Result<MessageId>, counts: PushCounts) {
        self.is_over = true;
        let mut list = self.pushes.list();
        list.entries.remove(&self.number);
        list.count(outcome, counts);
        self.pushes.wake(&list);
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut list = self.pushes.list();
            list.entries.remove(&self.number);
            list.unfinished -= 1;
            self.pushes.wake(&list);
        }
    }
}

impl List {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed()) } else { Ok(()) }
    }

    fn enter(&mut self, has_receipt: bool) -> Result<u64> {
        self.check_open()?;
        self.last += 1;
        self.unfinished += 1;
        self.entries.insert(self.last, Entry { stage: Stage::Busy, has_receipt });
        Ok(self.last)
    }

    fn count(&mut self, outcome: &Result<MessageId>, counts: PushCounts) {
        self.unfinished -= 1;
        self.report.count(outcome, counts);
    }

    fn has_unfinished(&self, mark: u64) -> bool {
        self.entries.range(..=mark).any(|(_, entry)| !matches!(entry.stage, Stage::Done(_)))
    }

    fn has_idle(&self) -> bool {
        self.entries.values().any(Entry::is_idle)
    }

    /// The first push up to this one that no thread carries out.
    fn take_idle(&mut self, mark: u64) -> Option<(u64, Box<Pushing>)> {
        let mut entries = self.entries.range_mut(..=mark);
        let (number, entry) = entries.find(|(_, entry)| entry.is_idle())?;
        match mem::replace(&mut entry.stage, Stage::Busy) {
            Stage::Idle(pushing) => Some((*number, pushing)),
            _ => None,
        }
    }
}
