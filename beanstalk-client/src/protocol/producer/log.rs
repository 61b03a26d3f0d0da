//! The commands queued for one server, in order, until they are answered.
//!
//! Frames are encoded once into a contiguous log, and stay there until they are answered: any of them may have to be
//! sent again, on the next connection or to another server.

use std::{collections::VecDeque, time::Instant};

use bytes::{BufMut, Bytes, BytesMut};

use super::queued_put::QueuedPut;
use crate::{
    Fate, TubeName,
    protocol::{Command, Use},
};

/// The frames for one server.
///
/// Offsets count the bytes of the current connection; without a connection, all entries are at offset 0.
///
/// ```text
///   entries   │ answered │ written, waits for its reply │ begun │ not begun        │
///   chunks    ┌──────────┬──────────────────────────────┬───────────┐┌─────────────┐
///   offsets   0                                         ▲ written               queued
///                                                                    └── tail ─────┘
/// ```
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<LogEntry>,
    /// Sealed chunks, ready for writing. Each ends at a frame boundary.
    chunks: VecDeque<LogChunk>,
    /// Frames after the last chunk.
    tail: BytesMut,
    queued: u64,
    written: u64,
    /// The driver has the bytes up to here, and may be writing them.
    handed: u64,
    /// Maximum number of unanswered bytes, if limited: as many as were answered on this connection.
    window: Option<u64>,
    /// The used tube after the last entry; `None` without a connection.
    used: Option<TubeName>,
    /// The used tube before the first entry.
    settled: TubeName,
}

/// One command.
#[derive(Debug)]
pub(super) struct LogEntry {
    start: u64,
    end: u64,
    pub(super) item: LogItem,
}

#[derive(Debug)]
pub(super) enum LogItem {
    /// Switches the puts after it to another tube.
    Use(TubeName),
    Put(QueuedPut),
}

#[derive(Debug)]
struct LogChunk {
    start: u64,
    bytes: Bytes,
}

/// Size of the blocks that frames are encoded into, so that small frames do not allocate.
const BLOCK: usize = 32 * 1024;

/// With less room than this, a new block is started.
const SMALL: usize = 1024;

impl LogChunk {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// A put taken from a log.
#[derive(Debug)]
pub(super) struct UnsentPut {
    pub(super) queued_put: QueuedPut,
    pub(super) frame: Bytes,
    /// Whether the server may have acted on it.
    pub(super) fate: Fate,
}

impl Log {
    /// Starts on a new connection. The log must be empty.
    ///
    /// One that `starts_slowly` may have one command in flight at first, and then as many bytes as were answered. A
    /// lost connection then puts at most about as much in doubt as it has delivered.
    pub(super) fn connect(&mut self, starts_slowly: bool) {
        self.used = Some(TubeName::default());
        self.settled = TubeName::default();
        self.window = starts_slowly.then_some(0);
    }

    /// Appends a put, preceded by a `use` if its tube differs.
    pub(super) fn push(&mut self, queued_put: QueuedPut, encode: impl FnOnce(&mut BytesMut)) {
        if self.used.as_ref().is_some_and(|used| *used != queued_put.tube) {
            self.switch(queued_put.tube.clone());
        }
        self.append(LogItem::Put(queued_put), encode);
    }

    /// Appends a command that changes nothing, for its answer. The log must be empty.
    pub(super) fn probe(&mut self) {
        self.switch(self.settled.clone());
    }

    fn switch(&mut self, tube: TubeName) {
        self.used = Some(tube.clone());
        self.append(LogItem::Use(tube.clone()), |out| Use(tube).encode(out));
    }

    fn append(&mut self, item: LogItem, encode: impl FnOnce(&mut BytesMut)) {
        let before = self.tail.len();
        if self.tail.capacity() - before < SMALL {
            self.tail.reserve(BLOCK);
        }
        encode(&mut self.tail);
        let size = self.tail.len() - before;
        let start = self.queued;
        self.queued += size as u64;
        self.entries.push_back(LogEntry { start, end: self.queued, item });
    }

    /// Appends a put taken from a log.
    pub(super) fn push_again(&mut self, taken: UnsentPut) {
        let UnsentPut { queued_put, frame, .. } = taken;
        self.push(queued_put, |out| out.put_slice(&frame));
    }

    /// The bytes to write next.
    pub(super) fn unwritten(&mut self) -> Bytes {
        if self.chunks.back().is_none_or(|last| last.end() <= self.written) {
            self.seal();
        }
        let at = self.chunks.partition_point(|chunk| chunk.end() <= self.written);
        let Some(chunk) = self.chunks.get(at) else { return Bytes::new() };
        let end = chunk.end().min(self.may_write_to()).max(self.written);
        let offset = |at: u64| size(at.saturating_sub(chunk.start));
        let bytes = chunk.bytes.slice(offset(self.written)..offset(end));
        self.handed = end;
        bytes
    }

    /// The end of what may be written before more answers arrive: of the commands within the window, or of the first
    /// command.
    fn may_write_to(&self) -> u64 {
        let (Some(window), Some(oldest)) = (self.window, self.entries.front()) else {
            return self.queued;
        };
        let limit = oldest.start.saturating_add(window);
        let within = self.entries.partition_point(|entry| entry.end <= limit);
        let last = within.checked_sub(1).and_then(|last| self.entries.get(last));
        last.unwrap_or(oldest).end
    }

    /// Notes the total number of bytes that the transport has taken, and that no write is in progress.
    pub(super) fn note_written(&mut self, total: u64) {
        self.written = self.queued.min(total);
        self.handed = self.written;
        self.release();
    }

    /// Takes the oldest command, for its reply; `None` when no reply can have arrived.
    pub(super) fn take_oldest(&mut self) -> Option<LogEntry> {
        // Some refusals arrive as soon as the server has read the command line.
        if self.entries.front()?.start >= self.written {
            return None;
        }
        let oldest = self.entries.pop_front()?;
        if let Some(window) = &mut self.window {
            *window = window.saturating_add(oldest.end - oldest.start);
        }
        Some(oldest)
    }

    /// The frame of a command, until the log is [released](Self::release).
    pub(super) fn frame(&self, entry: &LogEntry) -> Bytes {
        let at = self.chunks.partition_point(|chunk| chunk.end() <= entry.start);
        self.chunks.get(at).map_or_else(Bytes::new, |chunk| {
            let offset = |at: u64| size(at - chunk.start);
            chunk.bytes.slice(offset(entry.start)..offset(entry.end))
        })
    }

    /// The server now uses this tube.
    pub(super) fn settle(&mut self, tube: TubeName) {
        self.settled = tube;
    }

    /// Drops chunks that are written and answered.
    pub(super) fn release(&mut self) {
        let needed_from = self.entries.front().map_or(self.written, |entry| entry.start);
        let done = needed_from.min(self.written);
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= done) {
            self.chunks.pop_front();
        }
    }

    /// Takes all puts, oldest first, because the connection is gone.
    pub(super) fn take_all(&mut self) -> Vec<UnsentPut> {
        self.seal();
        let entries = std::mem::take(&mut self.entries);
        let taken = entries.into_iter().filter_map(|entry| self.take_off(entry)).collect();
        *self = Log { tail: std::mem::take(&mut self.tail), ..Log::default() };
        taken
    }

    /// Takes the overdue puts that are entirely unwritten; the others stay in order.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<UnsentPut> {
        let begun = self.entries.partition_point(|entry| entry.start < self.handed);
        let is_due = |entry: &LogEntry| matches!(&entry.item, LogItem::Put(put) if put.is_due(now));
        let Some(first) = self.entries.range(begun..).position(is_due) else { return Vec::new() };
        let rest = self.cut(begun + first).into_iter();
        let (due, others) = rest.partition(|put| put.queued_put.is_due(now));
        let others: Vec<UnsentPut> = others;
        others.into_iter().for_each(|put| self.push_again(put));
        due
    }

    /// Truncates the log before an entry that is entirely unwritten.
    fn cut(&mut self, at: usize) -> Vec<UnsentPut> {
        self.seal();
        let entries = self.entries.split_off(at.min(self.entries.len()));
        let Some(end) = entries.front().map(|entry| entry.start) else { return Vec::new() };
        let taken = entries.into_iter().filter_map(|entry| self.take_off(entry)).collect();
        self.chunks.retain_mut(|chunk| {
            chunk.bytes.truncate(size(end.saturating_sub(chunk.start)));
            !chunk.bytes.is_empty()
        });
        self.queued = end;
        if self.used.is_some() {
            let last = self.entries.iter().rev().find_map(|entry| match &entry.item {
                LogItem::Use(tube) => Some(tube),
                LogItem::Put(_) => None,
            });
            self.used = Some(last.unwrap_or(&self.settled).clone());
        }
        taken
    }

    fn take_off(&self, entry: LogEntry) -> Option<UnsentPut> {
        let fate = if entry.end <= self.written { Fate::Unknown } else { Fate::NotSent };
        let frame = self.frame(&entry);
        match entry.item {
            LogItem::Use(_) => None,
            LogItem::Put(queued_put) => Some(UnsentPut { queued_put, frame, fate }),
        }
    }

    /// Turns the tail into a chunk.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let start = self.queued - self.tail.len() as u64;
            self.chunks.push_back(LogChunk { start, bytes: self.tail.split().freeze() });
        }
    }

    /// The puts that are, or may be, partly written, oldest first.
    pub(super) fn begun(&mut self) -> impl Iterator<Item = &mut QueuedPut> {
        let handed = self.handed;
        self.entries.iter_mut().take_while(move |entry| entry.start < handed).filter_map(|entry| {
            match &mut entry.item {
                LogItem::Put(queued_put) => Some(queued_put),
                LogItem::Use(_) => None,
            }
        })
    }

    /// All puts, oldest first.
    pub(super) fn queued_puts(&self) -> impl Iterator<Item = &QueuedPut> {
        self.entries.iter().filter_map(|entry| match &entry.item {
            LogItem::Put(queued_put) => Some(queued_put),
            LogItem::Use(_) => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether nothing in the log was written.
    pub(super) fn is_quiet(&self) -> bool {
        self.entries.front().is_none_or(|entry| entry.start >= self.written)
    }

    /// Whether something is to be written, now or later.
    pub(super) fn has_queued(&self) -> bool {
        self.written < self.queued
    }

    /// Whether something may be written now.
    pub(super) fn has_unwritten(&self) -> bool {
        self.written < self.may_write_to()
    }

    /// Whether the server owes a reply.
    pub(super) fn awaits_reply(&self) -> bool {
        self.entries.front().is_some_and(|entry| entry.end <= self.written)
    }
}

/// Lengths within a log fit into memory.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::queued_put::PutCaller, *};
    use crate::Delivery;

    fn put(log: &mut Log, body: &[u8]) {
        put_by(log, body, None);
    }

    fn put_by(log: &mut Log, body: &[u8], deadline: Option<Instant>) {
        let queued_put = QueuedPut {
            owner: Some(PutCaller { slot: 0, generation: 0 }),
            tube: TubeName::default(),
            body: body.len(),
            weight: body.len(),
            deadline,
            timeout: std::time::Duration::ZERO,
            delivery: Delivery::AtMostOnce,
            retries: true,
            key: None,
            may_exist: false,
        };
        log.push(queued_put, |out| out.put_slice(body));
    }

    #[test]
    fn answered_puts_are_not_kept() {
        let mut log = Log::default();
        log.connect(false);
        let mut written = 0;
        for _ in 0..10 {
            put(&mut log, b"first");
            put(&mut log, b"second");
            for expected in [&b"firstsecond"[..], b""] {
                let bytes = log.unwritten();
                assert_eq!(bytes, expected);
                written += bytes.len() as u64;
                log.note_written(written);
            }
            let first = log.take_oldest().unwrap();
            assert_eq!(log.frame(&first), "first");
            log.release();
            assert_eq!(log.chunks.len(), 1, "the other one may have to be sent again");
            assert!(log.take_oldest().is_some() && log.take_oldest().is_none());
            log.release();
            assert!(log.chunks.is_empty() && log.is_empty());
        }
    }

    /// The driver may be writing them, outside of the lock.
    #[test]
    fn overdue_puts_that_the_driver_has_stay_where_they_are() {
        let (mut log, now) = (Log::default(), Instant::now());
        log.connect(false);
        put_by(&mut log, b"first", Some(now));
        assert_eq!(log.unwritten(), "first");
        put_by(&mut log, b"second", Some(now));
        let due = |log: &mut Log| -> Vec<Bytes> {
            log.take_due(now).into_iter().map(|taken| taken.frame).collect()
        };
        assert_eq!(due(&mut log), ["second"]);
        assert_eq!(log.begun().count(), 1);
        // It has written nothing of it, so there is nothing to wait for.
        log.note_written(0);
        assert_eq!((log.begun().count(), due(&mut log)), (0, vec!["first".into()]));
    }

    /// A caller waits for the answer to the probe.
    #[test]
    fn a_probe_outlasts_the_puts_that_are_overdue() {
        let (mut log, now) = (Log::default(), Instant::now());
        log.connect(false);
        log.probe();
        put_by(&mut log, b"first", Some(now));
        put_by(&mut log, b"second", None);
        assert_eq!(log.take_due(now).len(), 1);
        assert_eq!(log.unwritten(), "use default\r\n");
        log.note_written(13);
        assert_eq!(log.unwritten(), "second");
    }
}
