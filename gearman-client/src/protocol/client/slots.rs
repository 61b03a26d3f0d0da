//! The mailboxes of a connection's callers.

use std::task::{Poll, Waker};

use super::inbox::{Inbox, Letters, Mail};
use crate::{
    JobEvent,
    protocol::{Epoch, Packet},
};

/// The recipient of an answer or an event: a slot, which of its requests, and the connection that the request went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(super) slot: u32,
    pub(super) tag: u32,
    pub(super) epoch: Epoch,
}

impl Ticket {
    fn request(self) -> (u32, Epoch) {
        (self.tag, self.epoch)
    }
}

/// The mailboxes of all callers. An abandoned one is reused once its last mail has arrived.
#[derive(Debug)]
pub(super) struct Slots {
    list: Vec<Slot>,
    free: Vec<u32>,
    max_backlog: usize,
}

#[derive(Debug, Default)]
struct Slot {
    inbox: Inbox<(u32, Epoch)>,
    waker: Option<Waker>,
    /// Requests and jobs whose last mail has not arrived.
    open: u32,
    /// Whether it has a caller, or mail for a former one is still to arrive.
    is_taken: bool,
    /// Whether the caller is gone.
    is_abandoned: bool,
    /// Whether the caller only wants to know how its job ends.
    wants_end_only: bool,
}

impl Slots {
    /// Keeps up to `max_backlog` bytes of events in each, not counting results.
    pub(super) fn new(max_backlog: usize) -> Self {
        Slots { list: Vec::new(), free: Vec::new(), max_backlog }
    }

    pub(super) fn open(&mut self, wants_end_only: bool) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(Slot::default());
            u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.get(index) {
            (slot.is_taken, slot.wants_end_only) = (true, wants_end_only);
        }
        index
    }

    fn get(&mut self, index: u32) -> Option<&mut Slot> {
        self.list.get_mut(index as usize)
    }

    /// A request of the slot goes out.
    pub(super) fn expect(&mut self, index: u32) {
        if let Some(slot) = self.get(index) {
            slot.open += 1;
        }
    }

    /// Delivers the answer to the submission of a foreground job. Like the methods below, returns the waker.
    pub(super) fn created(&mut self, ticket: Ticket, answer: Packet) -> Option<Waker> {
        let slot = self.get(ticket.slot).filter(|slot| !slot.is_abandoned)?;
        slot.inbox.put(ticket.request(), Mail::Answer(answer));
        if slot.wants_end_only { None } else { slot.waker.take() }
    }

    /// Delivers an event that does not end its job.
    pub(super) fn event(&mut self, ticket: Ticket, event: JobEvent) -> Option<Waker> {
        let max = self.max_backlog;
        let slot = self.get(ticket.slot)?;
        if slot.is_abandoned || slot.wants_end_only {
            return None;
        }
        slot.inbox.put_event(ticket.request(), event, max);
        slot.waker.take()
    }

    /// Delivers the last mail of a request.
    pub(super) fn last(&mut self, ticket: Ticket, mail: Mail) -> Option<Waker> {
        let slot = self.get(ticket.slot)?;
        slot.open = slot.open.saturating_sub(1);
        if !slot.is_abandoned {
            slot.inbox.put_last(ticket.request(), mail);
            return slot.waker.take();
        }
        if slot.open == 0 {
            self.release(ticket.slot);
        }
        None
    }

    /// Registers the caller to be woken for mail.
    pub(super) fn wait(&mut self, index: u32, caller: &Waker) {
        match self.get(index).map(|slot| &mut slot.waker) {
            Some(Some(waker)) => waker.clone_from(caller),
            Some(none) => *none = Some(caller.clone()),
            None => {}
        }
    }

    /// The next mail, with the tag of its request and the connection that it came by.
    pub(super) fn poll(&mut self, index: u32, caller: &Waker) -> Poll<(u32, Mail, Epoch)> {
        let Some(slot) = self.get(index) else { return Poll::Pending };
        let Some(((tag, epoch), mail)) = slot.inbox.pop() else {
            self.wait(index, caller);
            return Poll::Pending;
        };
        Poll::Ready((tag, mail, epoch))
    }

    /// Moves all mail of a slot, once there is some.
    pub(super) fn poll_all(
        &mut self,
        index: u32,
        letters: &mut Letters<(u32, Epoch)>,
        caller: &Waker,
    ) -> Poll<()> {
        match self.get(index) {
            Some(slot) if slot.inbox.len() > 0 => {
                slot.inbox.empty_into(letters);
                Poll::Ready(())
            }
            _ => {
                self.wait(index, caller);
                Poll::Pending
            }
        }
    }

    pub(super) fn waiting(&self, index: u32) -> usize {
        self.list.get(index as usize).map_or(0, |slot| slot.inbox.len())
    }

    /// Whether all mail has arrived and was taken.
    pub(super) fn is_over(&self, index: u32) -> bool {
        self.list.get(index as usize).is_none_or(|slot| slot.open == 0 && slot.inbox.len() == 0)
    }

    /// Abandons a slot: mail that still arrives for it is discarded.
    pub(super) fn leave(&mut self, index: u32) {
        let Some(slot) = self.get(index).filter(|slot| slot.is_taken) else { return };
        if slot.open == 0 {
            return self.release(index);
        }
        slot.is_abandoned = true;
        slot.waker = None;
        slot.inbox.clear();
    }

    /// Resets a slot. The memory of its queues serves the next caller.
    fn release(&mut self, index: u32) {
        let Some(slot) = self.get(index) else { return };
        let Slot { inbox, waker, open, is_taken, is_abandoned, wants_end_only } = slot;
        inbox.clear();
        (*waker, *open, *is_taken) = (None, 0, false);
        (*is_abandoned, *wants_end_only) = (false, false);
        self.free.push(index);
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.list.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Magic, PacketType};

    fn answer(text: &str) -> Mail {
        Mail::Answer(Packet::new(Magic::Response, PacketType::EchoRes, &[text]).unwrap())
    }

    #[test]
    fn each_mail_says_by_which_connection_it_came() {
        let mut slots = Slots::new(1 << 20);
        let slot = slots.open(false);
        let (first, second) = (Epoch::next(), Epoch::next());
        for (tag, epoch) in [(0, first), (1, second)] {
            slots.expect(slot);
            slots.last(Ticket { slot, tag, epoch }, answer("x"));
        }
        for expected in [(0, first), (1, second)] {
            let Poll::Ready((tag, _, epoch)) = slots.poll(slot, Waker::noop()) else { panic!() };
            assert_eq!((tag, epoch), expected);
        }
    }

    #[test]
    fn a_slot_that_is_left_twice_has_one_caller_again() {
        let mut slots = Slots::new(1 << 20);
        let slot = slots.open(false);
        slots.leave(slot);
        slots.leave(slot);
        assert_eq!(slots.in_use(), 0);
        assert_ne!(slots.open(false), slots.open(false));
    }
}
