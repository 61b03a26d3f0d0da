//! The inboxes of a connection's callers.

use std::task::{Poll, Waker};

use super::inbox::{Inbox, InboxItem, UnreadItems};
use crate::{Epoch, JobEvent, protocol::Packet};

/// The recipient of an answer or an event: a slot, which of its requests, and the connection that the request went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotTicket {
    pub(super) slot: u32,
    pub(super) tag: u32,
    pub(super) epoch: Epoch,
}

impl SlotTicket {
    fn request(self) -> (u32, Epoch) {
        (self.tag, self.epoch)
    }
}

/// The inboxes of all callers. An abandoned one is reused once its last item has arrived.
#[derive(Debug)]
pub(crate) struct CallerSlots {
    list: Vec<CallerSlot>,
    free: Vec<u32>,
    max_backlog: usize,
}

#[derive(Debug, Default)]
struct CallerSlot {
    inbox: Inbox<(u32, Epoch)>,
    waker: Option<Waker>,
    /// Requests and jobs whose last item has not arrived.
    open: u32,
    /// Whether it has a caller, or something for a former one is still to arrive.
    is_taken: bool,
    /// Whether the caller is gone.
    is_abandoned: bool,
    /// Whether the caller only wants to know how its job ends.
    wants_end_only: bool,
}

impl CallerSlots {
    /// Keeps up to `max_backlog` bytes of events in each, not counting results.
    pub(super) fn new(max_backlog: usize) -> Self {
        CallerSlots { list: Vec::new(), free: Vec::new(), max_backlog }
    }

    pub(crate) fn open(&mut self, wants_end_only: bool) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(CallerSlot::default());
            u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.get(index) {
            (slot.is_taken, slot.wants_end_only) = (true, wants_end_only);
        }
        index
    }

    fn get(&mut self, index: u32) -> Option<&mut CallerSlot> {
        self.list.get_mut(index as usize)
    }

    /// A request of the slot goes out.
    pub(super) fn expect(&mut self, index: u32) {
        if let Some(slot) = self.get(index) {
            slot.open += 1;
        }
    }

    /// Delivers the answer to the submission of a foreground job. Like the methods below, returns the waker.
    pub(super) fn created(&mut self, ticket: SlotTicket, answer: Packet) -> Option<Waker> {
        let slot = self.get(ticket.slot).filter(|slot| !slot.is_abandoned)?;
        slot.inbox.put(ticket.request(), InboxItem::Answer(answer));
        if slot.wants_end_only { None } else { slot.waker.take() }
    }

    /// Delivers an event that does not end its job.
    pub(super) fn event(&mut self, ticket: SlotTicket, event: JobEvent) -> Option<Waker> {
        let max = self.max_backlog;
        let slot = self.get(ticket.slot)?;
        if slot.is_abandoned || slot.wants_end_only {
            return None;
        }
        slot.inbox.put_event(ticket.request(), event, max);
        slot.waker.take()
    }

    /// Delivers the last item of a request.
    pub(super) fn last(&mut self, ticket: SlotTicket, item: InboxItem) -> Option<Waker> {
        let slot = self.get(ticket.slot)?;
        slot.open = slot.open.saturating_sub(1);
        if !slot.is_abandoned {
            slot.inbox.put_last(ticket.request(), item);
            return slot.waker.take();
        }
        if slot.open == 0 {
            self.release(ticket.slot);
        }
        None
    }

    /// Registers the caller to be woken for items.
    pub(crate) fn wait(&mut self, index: u32, caller: &Waker) {
        match self.get(index).map(|slot| &mut slot.waker) {
            Some(Some(waker)) => waker.clone_from(caller),
            Some(none) => *none = Some(caller.clone()),
            None => {}
        }
    }

    /// The next item, with the tag of its request and the connection that it came by.
    pub(crate) fn poll(&mut self, index: u32, caller: &Waker) -> Poll<(u32, InboxItem, Epoch)> {
        let Some(slot) = self.get(index) else { return Poll::Pending };
        let Some(((tag, epoch), item)) = slot.inbox.pop() else {
            self.wait(index, caller);
            return Poll::Pending;
        };
        Poll::Ready((tag, item, epoch))
    }

    /// Moves all items of a slot, once there are some.
    pub(crate) fn poll_all(
        &mut self,
        index: u32,
        unread: &mut UnreadItems<(u32, Epoch)>,
        caller: &Waker,
    ) -> Poll<()> {
        match self.get(index) {
            Some(slot) if slot.inbox.len() > 0 => {
                slot.inbox.empty_into(unread);
                Poll::Ready(())
            }
            _ => {
                self.wait(index, caller);
                Poll::Pending
            }
        }
    }

    pub(crate) fn waiting(&self, index: u32) -> usize {
        self.list.get(index as usize).map_or(0, |slot| slot.inbox.len())
    }

    /// Whether all items have arrived and were taken.
    pub(crate) fn is_over(&self, index: u32) -> bool {
        self.list.get(index as usize).is_none_or(|slot| slot.open == 0 && slot.inbox.len() == 0)
    }

    /// Abandons a slot: what still arrives for it is discarded.
    pub(crate) fn leave(&mut self, index: u32) {
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
        let CallerSlot { inbox, waker, open, is_taken, is_abandoned, wants_end_only } = slot;
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
    use std::sync::Arc;

    use queue_core::proof::Idle;

    use super::*;
    use crate::protocol::{Magic, PacketType};

    fn packet(text: &str) -> Packet {
        Packet::new(Magic::Response, PacketType::EchoRes, &[text]).unwrap()
    }

    fn answer(text: &str) -> InboxItem {
        InboxItem::Answer(packet(text))
    }

    fn data() -> JobEvent {
        JobEvent::Data("d".into())
    }

    fn result() -> InboxItem {
        InboxItem::Event(JobEvent::Complete("r".into()))
    }

    /// A slot for a job, and the ticket of its submission.
    fn submitted(wants_end_only: bool) -> (CallerSlots, u32, SlotTicket) {
        let mut slots = CallerSlots::new(1 << 20);
        let slot = slots.open(wants_end_only);
        slots.expect(slot);
        (slots, slot, SlotTicket { slot, tag: 7, epoch: Epoch::next() })
    }

    #[test]
    fn a_caller_wakes_for_each_event_of_its_job() {
        let (mut slots, slot, ticket) = submitted(false);
        let [first, caller] = [(); 2].map(|()| Waker::from(Arc::new(Idle)));
        for step in 0..3 {
            assert!(!slots.is_over(slot));
            // It may have moved to another task.
            assert!(
                slots.poll(slot, &first).is_pending() && slots.poll(slot, &caller).is_pending()
            );
            let woken = match step {
                0 => slots.created(ticket, packet("created")),
                1 => slots.event(ticket, data()),
                _ => slots.last(ticket, result()),
            };
            assert!(woken.is_some_and(|woken| woken.will_wake(&caller)), "{step}");
            assert_eq!((slots.waiting(slot), slots.is_over(slot)), (1, false), "it was not read");
            let Poll::Ready((7, item, _)) = slots.poll(slot, &caller) else { panic!("{step}") };
            match step {
                0 => assert!(matches!(item, InboxItem::Answer(_))),
                1 => assert!(matches!(item, InboxItem::Event(JobEvent::Data(_)))),
                _ => assert!(matches!(item, InboxItem::Event(JobEvent::Complete(_)))),
            }
            assert_eq!(slots.waiting(slot), 0);
        }
        assert!(slots.is_over(slot));
    }

    #[test]
    fn a_caller_awaiting_the_end_wakes_for_that_alone() {
        let (mut slots, slot, ticket) = submitted(true);
        let (caller, mut unread) = (Waker::from(Arc::new(Idle)), UnreadItems::new());
        assert!(slots.poll_all(slot, &mut unread, &caller).is_pending());
        assert!(slots.created(ticket, packet("created")).is_none());
        assert!(slots.event(ticket, data()).is_none());
        assert!(slots.last(ticket, result()).is_some_and(|woken| woken.will_wake(&caller)));
        assert!(slots.poll_all(slot, &mut unread, &caller).is_ready());
        assert!(matches!(unread[0].1, InboxItem::Answer(_)), "it has the handle");
        assert!(matches!(unread[1].1, InboxItem::Event(JobEvent::Complete(_))));
        assert_eq!((unread.len(), slots.waiting(slot)), (2, 0));
        assert!(slots.poll_all(slot, &mut UnreadItems::new(), &caller).is_pending());
    }

    #[test]
    fn nothing_is_kept_of_a_caller_that_has_gone() {
        let (mut slots, slot, ticket) = submitted(false);
        let caller = Arc::new(Idle);
        slots.expect(slot);
        slots.event(ticket, data());
        slots.wait(slot, &Waker::from(caller.clone()));
        slots.leave(slot);
        assert_eq!((slots.waiting(slot), Arc::strong_count(&caller)), (0, 1));
        assert!(slots.created(ticket, packet("created")).is_none());
        assert!(slots.event(ticket, data()).is_none());
        assert_eq!((slots.waiting(slot), slots.in_use()), (0, 1));
        for left in [1, 0] {
            assert!(slots.last(ticket, result()).is_none());
            assert_eq!(slots.in_use(), left, "it is used again after its last answer");
        }
    }

    #[test]
    fn each_event_knows_its_connection() {
        let mut slots = CallerSlots::new(1 << 20);
        let slot = slots.open(false);
        let (first, second) = (Epoch::next(), Epoch::next());
        for (tag, epoch) in [(0, first), (1, second)] {
            slots.expect(slot);
            slots.last(SlotTicket { slot, tag, epoch }, answer("x"));
        }
        for expected in [(0, first), (1, second)] {
            let Poll::Ready((tag, _, epoch)) = slots.poll(slot, Waker::noop()) else { panic!() };
            assert_eq!((tag, epoch), expected);
        }
    }

    #[test]
    fn a_slot_with_several_requests_is_over_with_the_last_of_them() {
        let mut slots = CallerSlots::new(1 << 20);
        let slot = slots.open(false);
        let epoch = Epoch::next();
        (0..2).for_each(|_| slots.expect(slot));
        for (tag, is_over) in [(0, false), (1, true)] {
            slots.last(SlotTicket { slot, tag, epoch }, answer("x"));
            let mut unread = UnreadItems::new();
            assert!(slots.poll_all(slot, &mut unread, Waker::noop()).is_ready());
            assert_eq!((unread.len(), slots.is_over(slot)), (1, is_over));
        }
    }

    #[test]
    fn a_slot_that_is_left_twice_has_one_caller_again() {
        let mut slots = CallerSlots::new(1 << 20);
        let slot = slots.open(false);
        slots.leave(slot);
        slots.leave(slot);
        assert_eq!(slots.in_use(), 0);
        assert_ne!(slots.open(false), slots.open(false));
    }
}
