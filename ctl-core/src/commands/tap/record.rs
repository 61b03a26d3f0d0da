//! Writes the traffic as a transcript, in a thread beside the relay: a slow disk loses events, which is reported, but
//! delays no connection.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use fixtures::transcript::{Event, Pattern, Transcript};

use super::decoder::Side;

/// Maximum number of bytes waiting for the disk.
const ROOM: usize = 64 << 20;
/// A unit with more bytes than this is recorded in pieces.
const PIECE: usize = 64 << 10;
/// Memory for an event besides its bytes.
const OVERHEAD: usize = 128;

/// Sends to the file's thread; dropped once everything is recorded.
#[derive(Debug)]
pub(super) struct Recorder {
    queue: Mutex<Option<Sender<Event>>>,
    waiting: Arc<AtomicUsize>,
    lost: AtomicU64,
    /// Why nothing more can be written.
    broken: Arc<OnceLock<String>>,
    thread: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

impl Recorder {
    /// Starts a transcript with these remarks.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn begin(mut file: File, remarks: Vec<String>) -> io::Result<Self> {
        write!(file, "{}", transcript(remarks, None))?;
        let (queue, events) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let broken = Arc::new(OnceLock::new());
        let (left, failure) = (Arc::clone(&waiting), Arc::clone(&broken));
        let write = move || {
            write_all(file, &events, &left).inspect_err(|error| {
                let _ = failure.set(error.to_string());
            })
        };
        let thread = thread::Builder::new().name("record".to_owned()).spawn(write)?;
        let (queue, thread) = (Mutex::new(Some(queue)), Mutex::new(Some(thread)));
        Ok(Self { queue, waiting, lost: AtomicU64::new(0), broken, thread })
    }

    /// Why nothing more can be written, if that is so.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    fn add(&self, event: Event) {
        let size = size(&event);
        if self.waiting.load(Ordering::Relaxed).saturating_add(size) > ROOM {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.waiting.fetch_add(size, Ordering::Relaxed);
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.as_ref().is_none_or(|queue| queue.send(event).is_err()) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the file, and returns how many events are missing from it.
    ///
    /// # Errors
    /// It could not be written.
    pub(super) fn finish(&self) -> io::Result<u64> {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.join().map_err(|_| {
                io::Error::other("the recording thread failed because of a defect in the tool")
            })??;
        }
        Ok(self.lost.load(Ordering::Relaxed))
    }
}

fn write_all(file: File, events: &Receiver<Event>, waiting: &AtomicUsize) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    let mut next = events.recv().ok();
    while let Some(event) = next {
        waiting.fetch_sub(size(&event), Ordering::Relaxed);
        write!(file, "{}", transcript(Vec::new(), Some(event)))?;
        next = match events.try_recv() {
            Ok(event) => Some(event),
            Err(_) => {
                file.flush()?;
                events.recv().ok()
            }
        };
    }
    file.flush()
}

fn transcript(remarks: Vec<String>, event: Option<Event>) -> Transcript {
    let (name, arguments) = (String::new(), Vec::new());
    Transcript { name, remarks, max_job_size: None, arguments, events: event.into_iter().collect() }
}

fn size(event: &Event) -> usize {
    let bytes = match event {
        Event::Send { bytes, .. } => bytes.len(),
        Event::Receive { pattern, .. } => pattern.recorded().len(),
        _ => 0,
    };
    bytes + OVERHEAD
}

/// Traffic of one connection that is not yet recorded, because units stay together.
#[derive(Debug, Default)]
pub(super) struct Tape {
    client: Vec<u8>,
    server: Vec<u8>,
}

impl Tape {
    /// Records bytes that have passed; units end at these positions.
    pub(super) fn passed(
        &mut self,
        to: &Recorder,
        connection: usize,
        side: Side,
        bytes: &[u8],
        ends: &[usize],
    ) {
        // The other side had seen none of this when it began its current unit.
        let other = if side == Side::Client { Side::Server } else { Side::Client };
        self.flush(to, connection, other);
        let mut from = 0;
        for end in ends.iter().copied().chain([bytes.len()]) {
            let part = bytes.get(from..end).unwrap_or_default();
            let is_whole = end < bytes.len() || ends.last() == Some(&end);
            for piece in part.chunks(PIECE) {
                self.of(side).extend_from_slice(piece);
                if self.of(side).len() >= PIECE {
                    self.flush(to, connection, side);
                }
            }
            if is_whole {
                self.flush(to, connection, side);
            }
            from = end.max(from);
        }
    }

    /// This side has ended: with the end of its stream, or abruptly.
    pub(super) fn ended(&mut self, to: &Recorder, connection: usize, side: Side, is_orderly: bool) {
        self.flush(to, connection, Side::Client);
        self.flush(to, connection, Side::Server);
        to.add(match side {
            Side::Client if is_orderly => Event::HalfClose { connection },
            Side::Client => Event::Close { connection },
            Side::Server => Event::End { connection },
        });
    }

    fn of(&mut self, side: Side) -> &mut Vec<u8> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    fn flush(&mut self, to: &Recorder, connection: usize, side: Side) {
        let bytes = std::mem::take(self.of(side));
        if bytes.is_empty() {
            return;
        }
        let event = |bytes: &[u8]| match side {
            Side::Client => Event::Send { connection, bytes: bytes.to_vec() },
            Side::Server => {
                Event::Receive { connection, pattern: Pattern::exactly(bytes.to_vec()) }
            }
        };
        // A packet or a frame takes one line; text takes a line for each of its own lines.
        let whole = event(&bytes);
        if transcript(Vec::new(), Some(whole.clone())).to_string().contains(" {") {
            return to.add(whole);
        }
        bytes.split_inclusive(|byte| *byte == b'\n').for_each(|line| to.add(event(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_record_that_cannot_be_written_is_known_at_once() {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let recorder = Recorder::begin(file, Vec::new()).unwrap();
        assert_eq!(recorder.broken(), None);
        // As a disk that is full from now on.
        drop(reader);
        recorder.add(Event::Send { connection: 1, bytes: b"stats\r\n".to_vec() });
        while recorder.broken().is_none() {
            thread::yield_now();
        }
        recorder.finish().unwrap_err();
    }
}
