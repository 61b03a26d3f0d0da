//! Items for callers that was not read yet.

use std::collections::VecDeque;

use crate::{Error, ErrorKind, Fate, JobEvent, protocol::Packet};

/// Something for a caller.
#[derive(Debug)]
pub(crate) enum InboxItem {
    Answer(Packet),
    Event(JobEvent),
    Lost(Error),
}

/// Items in order, each with the number of its request.
pub(crate) type UnreadItems<T> = VecDeque<(T, InboxItem)>;

/// The items of a caller. Events of jobs are kept up to the backlog limit.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    item: UnreadItems<T>,
    /// Bytes of events.
    backlog: usize,
    /// Requests with more events than the backlog allows.
    choked: Vec<T>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Inbox { item: VecDeque::new(), backlog: 0, choked: Vec::new() }
    }
}

impl<T: Copy + PartialEq> Inbox<T> {
    pub(crate) fn put(&mut self, to: T, item: InboxItem) {
        self.item.push_back((to, item));
    }

    /// Adds the last item of a request.
    pub(crate) fn put_last(&mut self, to: T, item: InboxItem) {
        self.choked.retain(|choked| *choked != to);
        self.backlog += weight(&item);
        self.put(to, item);
    }

    /// Adds an event that does not end its job, if at most `max` bytes of events wait then.
    pub(crate) fn put_event(&mut self, to: T, event: JobEvent, max: usize) {
        if self.choked.contains(&to) {
            return;
        }
        // Of queued progress reports, only the latest matters.
        if self.item.len() >= MANY
            && let (Some((of, InboxItem::Event(JobEvent::Status(old)))), JobEvent::Status(new)) =
                (self.item.back_mut(), &event)
            && *of == to
        {
            old.clone_from(new);
            return;
        }
        if self.backlog + event.weight() > max {
            self.choked.push(to);
            let message = format!(
                "the unread events of the job exceed the limit of {max} bytes (read faster, or raise \
                 max_backlog)"
            );
            let error = Error::new(ErrorKind::Backlog, Fate::Unknown, message);
            self.put(to, InboxItem::Lost(error));
            return;
        }
        self.backlog += event.weight();
        self.put(to, InboxItem::Event(event));
    }

    /// The oldest item, and its request.
    pub(crate) fn pop(&mut self) -> Option<(T, InboxItem)> {
        let (to, item) = self.item.pop_front()?;
        self.backlog = self.backlog.saturating_sub(weight(&item));
        Some((to, item))
    }

    /// Moves everything into `unread`, which must be empty, by swapping the two and their memory.
    pub(crate) fn empty_into(&mut self, unread: &mut UnreadItems<T>) {
        std::mem::swap(&mut self.item, unread);
        self.backlog = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.item.len()
    }

    /// Clears it, but keeps its memory.
    pub(crate) fn clear(&mut self) {
        let Inbox { item, backlog, choked } = self;
        item.clear();
        choked.clear();
        *backlog = 0;
    }
}

/// Above this backlog, a progress report replaces the one before it.
const MANY: usize = 32;

fn weight(item: &InboxItem) -> usize {
    match item {
        InboxItem::Event(event) => event.weight(),
        InboxItem::Answer(_) | InboxItem::Lost(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Progress;

    fn data(bytes: usize) -> JobEvent {
        JobEvent::Data(vec![0; bytes].into())
    }

    #[test]
    fn a_backlog_is_bounded_for_each_request_until_its_end() {
        let mut inbox = Inbox::default();
        let room = 2 * data(100).weight();
        for _ in 0..10 {
            inbox.put_event(1, data(100), room);
        }
        inbox.put_last(1, InboxItem::Event(JobEvent::Complete("r".into())));
        let kinds: Vec<_> = std::iter::from_fn(|| inbox.pop())
            .map(|(_, item)| match item {
                InboxItem::Event(event) => event.is_last(),
                InboxItem::Lost(error) => {
                    assert_eq!(error.kind(), ErrorKind::Backlog);
                    false
                }
                InboxItem::Answer(_) => panic!("nobody answered"),
            })
            .collect();
        assert_eq!(kinds, [false, false, false, true]);
        // The room is free again, also for the same request.
        inbox.put_event(1, data(100), room);
        assert!(matches!(inbox.pop(), Some((1, InboxItem::Event(JobEvent::Data(_))))));
    }

    /// The next caller may use the same numbers.
    #[test]
    fn moved_or_cleared_events_make_room() {
        let (mut inbox, room) = (Inbox::default(), 2 * data(100).weight());
        let choke = |inbox: &mut Inbox<u32>| {
            (0..3).for_each(|_| inbox.put_event(1, data(100), room));
            assert_eq!(inbox.len(), 3, "the last one is the error");
        };
        choke(&mut inbox);
        let mut unread = UnreadItems::new();
        inbox.empty_into(&mut unread);
        assert_eq!((unread.len(), inbox.len()), (3, 0));
        inbox.put_event(1, data(100), room);
        assert_eq!(inbox.len(), 0, "its caller knows that the rest is lost");
        inbox.put_last(1, InboxItem::Event(JobEvent::Fail));
        inbox.put_event(1, data(100), room);
        let last = inbox.item.back();
        assert!(
            matches!(last, Some((1, InboxItem::Event(JobEvent::Data(_))))),
            "it is another job"
        );
        inbox.clear();
        assert_eq!(inbox.len(), 0);
        choke(&mut inbox);
        inbox.clear();
        choke(&mut inbox);
    }

    #[test]
    fn the_ends_of_other_jobs_make_no_room_for_more_than_themselves() {
        let (mut inbox, ends) = (Inbox::default(), 100);
        let room = 2 * data(100).weight() + ends * JobEvent::Fail.weight();
        for job in 0..ends {
            inbox.put_last(job, InboxItem::Event(JobEvent::Fail));
        }
        (0..2).for_each(|_| inbox.put_event(ends, data(100), room));
        assert!((0..ends).all(|_| inbox.pop().is_some()));
        let more = room / data(100).weight();
        (0..more).for_each(|_| inbox.put_event(ends, data(100), room));
        let errors = std::iter::from_fn(|| inbox.pop())
            .filter(|(_, item)| matches!(item, InboxItem::Lost(_)))
            .count();
        assert_eq!(errors, 1);
    }

    #[test]
    fn keeps_only_the_latest_progress() {
        let mut inbox = Inbox::default();
        for n in 1..=1000 {
            let progress = Progress::new(n.to_string().into(), "1000".into());
            inbox.put_event(1, JobEvent::Status(progress), 1 << 20);
        }
        assert_eq!(inbox.len(), MANY);
        let last = std::iter::from_fn(|| inbox.pop()).last();
        let Some((1, InboxItem::Event(JobEvent::Status(progress)))) = last else {
            panic!("{last:?}")
        };
        assert_eq!(progress.numerator(), Some(1000));
    }
}
