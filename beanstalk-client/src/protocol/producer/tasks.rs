//! Lanes with their own drivers, which sleep while there is nothing to do.

use std::task::Waker;

use super::Outbox;

impl Outbox {
    /// Registers the driver of a lane.
    pub(crate) fn claim(&mut self, server: usize) {
        if let Some(lane) = self.lanes.get_mut(server) {
            lane.is_driven = true;
        }
    }

    /// Registers the waker of a driver that waits for something to do.
    pub(crate) fn sleep(&mut self, server: usize, waker: &Waker) {
        let Some(lane) = self.lanes.get_mut(server) else { return };
        match &mut lane.driver {
            Some(driver) => driver.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}
