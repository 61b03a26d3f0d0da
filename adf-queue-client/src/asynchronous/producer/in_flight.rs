//! The pushes of an async producer that have no outcome yet.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use queue_core::{Wakers, lock, sync::Mutex};

use crate::{Error, Result};

/// The numbers of all pushes in flight, in the order in which they began.
pub(super) struct InFlight {
    list: Mutex<List>,
    max: usize,
}

#[derive(Default)]
struct List {
    last: u64,
    numbers: BTreeSet<u64>,
    /// Tasks that wait for the end of a push.
    waiting: Wakers,
    is_closed: bool,
}

/// A push in flight, until this is dropped.
pub(super) struct Entered {
    pushes: Arc<InFlight>,
    number: u64,
}

impl InFlight {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(InFlight { list: Mutex::default(), max })
    }

    pub(super) fn check_open(&self) -> Result<()> {
        lock(&self.list).check_open()
    }

    /// Adds a push.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Entered> {
        let number = lock(&self.list).enter()?;
        Ok(Entered { pushes: self.clone(), number })
    }

    /// Adds a push once there is room.
    pub(super) async fn enter_if_room(self: &Arc<Self>) -> Result<Entered> {
        let has_room = |list: &mut List| list.numbers.len() < self.max || list.is_closed;
        let entered = self.until(|list| has_room(list).then(|| list.enter())).await;
        Ok(Entered { pushes: self.clone(), number: entered? })
    }

    /// Whether no push will follow, and none is in flight.
    pub(super) fn is_over(&self) -> bool {
        let list = lock(&self.list);
        list.is_closed && list.numbers.is_empty()
    }

    pub(super) fn close(&self) {
        lock(&self.list).is_closed = true;
    }

    /// Waits until every push that has begun so far has ended.
    pub(super) async fn passed(&self) {
        let mark = lock(&self.list).last;
        let is_after = |first: &u64| *first > mark;
        self.until(|list| list.numbers.first().is_none_or(is_after).then_some(())).await;
    }

    async fn until<T>(&self, mut step: impl FnMut(&mut List) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut list = lock(&self.list);
            match step(&mut list) {
                Some(done) => Poll::Ready(done),
                None => {
                    list.waiting.add(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl List {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed()) } else { Ok(()) }
    }

    fn enter(&mut self) -> Result<u64> {
        self.check_open()?;
        self.last += 1;
        self.numbers.insert(self.last);
        Ok(self.last)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut list = lock(&self.pushes.list);
        list.numbers.remove(&self.number);
        let waiting = list.waiting.take();
        drop(list);
        waiting.into_iter().for_each(Waker::wake);
    }
}
