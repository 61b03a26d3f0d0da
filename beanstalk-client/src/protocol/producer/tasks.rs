//! Lanes with drivers of their own, which sleep while there is nothing to do.

use std::task::Waker;

use super::{Outbox, lane::Phase};
use crate::{Error, ErrorKind, Fate};

impl Outbox {
    /// A lane has a driver.
    pub(crate) fn claim(&mut self, server: usize) {
        if let Some(lane) = self.lanes.get_mut(server) {
            lane.is_driven = true;
        }
    }

    /// The driver waits; it is woken when there is something to do.
    pub(crate) fn sleep(&mut self, server: usize, waker: &Waker) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        match &mut lane.driver {
            Some(driver) => driver.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// The driver of a lane is gone before its time: its runtime has ended, or it panicked.
    pub(crate) fn orphaned(&mut self, server: usize) {
        let why = "the producer's driver is gone: its runtime has ended";
        let error = Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why);
        let Some(lane) = self.lanes.get_mut(server) else { return };
        for taken in lane.log.take_all() {
            let told = error.share().with_fate(taken.fate).with_command("put");
            self.settle(taken.parcel, Err(told));
        }
        self.end(server);
        if self.lanes.iter().all(|lane| lane.phase == Phase::Closed) {
            self.close();
        }
    }
}
