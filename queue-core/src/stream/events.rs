//! Events as a stream.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_core::Stream;

use crate::{Observer, lock, sync::Mutex};

/// Events of type `E`, in order, as a [`Stream`].
///
/// It never delays those that it reports on: when its reader falls behind, the oldest event is dropped for each new
/// one, and [`missed`](Self::missed) counts them. It ends when no source of events is left: the options that it
/// was made from are dropped, and so is everything that was made of them.
///
/// # Cancel safety
///
/// A dropped wait loses nothing. Once the stream itself is dropped, events are no longer kept.
pub struct EventStream<E>(Arc<Mutex<EventQueue<E>>>);

struct EventQueue<E> {
    events: VecDeque<E>,
    capacity: usize,
    missed: u64,
    /// Events may still be reported.
    is_open: bool,
    /// They may still be read.
    is_read: bool,
    reader: Option<Waker>,
}

impl<E: Clone + Send + 'static> EventStream<E> {
    /// A stream that keeps up to `capacity` events, and at least one, and the observer that fills it.
    #[doc(hidden)]
    #[must_use]
    pub fn new(capacity: usize) -> (Observer<E>, Self) {
        let queue = Arc::new(Mutex::new(EventQueue {
            events: VecDeque::new(),
            capacity: capacity.max(1),
            missed: 0,
            is_open: true,
            is_read: true,
            reader: None,
        }));
        let source = Source(queue.clone());
        (Observer::new(move |event| source.push(event)), EventStream(queue))
    }
}

impl<E> EventStream<E> {
    /// The number of events that were dropped because the reader had fallen behind.
    #[must_use]
    pub fn missed(&self) -> u64 {
        lock(&self.0).missed
    }
}

/// The end that events come from.
struct Source<E>(Arc<Mutex<EventQueue<E>>>);

impl<E: Clone> Source<E> {
    fn push(&self, event: &E) {
        if !lock(&self.0).is_read {
            return;
        }
        // What is not this module's runs outside of the lock.
        let event = event.clone();
        let (oldest, reader) = {
            let mut queue = lock(&self.0);
            if !queue.is_read {
                return;
            }
            let is_full = queue.events.len() >= queue.capacity;
            let oldest = if is_full { queue.events.pop_front() } else { None };
            queue.missed += u64::from(is_full);
            queue.events.push_back(event);
            (oldest, queue.reader.take())
        };
        drop(oldest);
        reader.into_iter().for_each(Waker::wake);
    }
}

impl<E> Drop for Source<E> {
    fn drop(&mut self) {
        let reader = {
            let mut queue = lock(&self.0);
            queue.is_open = false;
            queue.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl<E> Drop for EventStream<E> {
    fn drop(&mut self) {
        let unread = {
            let mut queue = lock(&self.0);
            queue.is_read = false;
            (std::mem::take(&mut queue.events), queue.reader.take())
        };
        drop(unread);
    }
}

impl<E> Stream for EventStream<E> {
    type Item = E;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E>> {
        // Wakers are cloned and dropped outside of the lock: they may be any code.
        let waker = cx.waker().clone();
        let mut queue = lock(&self.0);
        if let Some(event) = queue.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if !queue.is_open {
            return Poll::Ready(None);
        }
        let known = queue.reader.replace(waker);
        drop(queue);
        drop(known);
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let queue = lock(&self.0);
        let there = queue.events.len();
        (there, (!queue.is_open).then_some(there))
    }
}

impl<E> fmt::Debug for EventStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("missed", &self.missed()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::Woken;

    fn poll<E>(stream: &mut EventStream<E>) -> Poll<Option<E>> {
        Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_stream_ends_after_the_last_event() {
        let (observer, mut events) = EventStream::new(0);
        let (other, woken) = (observer.clone(), Arc::new(Woken::default()));
        drop(observer);
        let waker = Waker::from(woken.clone());
        let waits = Pin::new(&mut events).poll_next(&mut Context::from_waker(&waker));
        assert_eq!((waits, woken.count()), (Poll::Pending, 0));
        other.notify(&1);
        assert_eq!(woken.count(), 1);
        drop(other);
        assert_eq!(events.size_hint(), (1, Some(1)));
        assert_eq!(
            [poll(&mut events), poll(&mut events)],
            [Poll::Ready(Some(1)), Poll::Ready(None)]
        );
        let (observer, mut events) = EventStream::<()>::new(1);
        assert!(Pin::new(&mut events).poll_next(&mut Context::from_waker(&waker)).is_pending());
        drop(observer);
        assert_eq!((woken.count(), poll(&mut events)), (2, Poll::Ready(None)));
    }

    #[test]
    fn nothing_is_kept_for_a_stream_that_was_dropped() {
        let event = Arc::new(());
        let (observer, events) = EventStream::new(8);
        observer.notify(&event);
        assert_eq!(Arc::strong_count(&event), 2);
        drop(events);
        observer.notify(&event);
        assert_eq!(Arc::strong_count(&event), 1);
    }
}
