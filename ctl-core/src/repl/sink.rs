//! stdout of a session: records whether the last line was ended, and how its lines started.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much of a command's output is searched for names and ids.
const LOOK_AT: usize = 16 * 1024;

/// What is known about the written output; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    /// The last line has no end yet.
    open_line: bool,
    head: Vec<u8>,
    /// Output held back until its height is known.
    held: Option<Held>,
    /// Whether the pager has the screen.
    paging: bool,
}

#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    /// When the first of them arrived.
    since: Option<Instant>,
}

/// Maximum number of bytes held back, and for how long: slow output is shown as it arrives.
const MAX_HELD: (usize, Duration) = (64 << 20, Duration::from_millis(500));

impl Written {
    /// Whether the cursor is after some text. Calling this ends the line.
    pub(super) fn take_open_line(&self) -> bool {
        std::mem::take(&mut self.lock().open_line)
    }

    /// The first words of the lines since the last call; `id`, `handle` and borders of tables are skipped.
    pub(super) fn take_firsts(&self) -> Vec<String> {
        firsts(&std::mem::take(&mut self.lock().head))
    }

    /// Holds back what is written from now on.
    pub(super) fn hold(&self) {
        self.lock().held = Some(Held::default());
    }

    /// Returns what was held back, and stops holding back.
    pub(super) fn release(&self) -> Vec<u8> {
        self.lock().held.take().map(|held| held.bytes).unwrap_or_default()
    }

    /// Sets whether the pager has the screen.
    pub(super) fn page(&self, paging: bool) {
        self.lock().paging = paging;
    }

    /// Whether the pager has the screen.
    pub(super) fn is_paging(&self) -> bool {
        self.lock().paging
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer to stdout.
pub(super) struct Sink {
    stdout: BufWriter<Stdout>,
    written: Written,
}

impl Sink {
    /// Writes to the process's stdout and keeps records in `written`.
    pub(super) fn new(written: Written) -> Self {
        Self { stdout: BufWriter::with_capacity(64 * 1024, io::stdout()), written }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let overdue = self.written.lock().keep(bytes, Instant::now());
        let result = match overdue {
            None => Ok(bytes.len()),
            Some(held) => self.stdout.write_all(&held).and_then(|()| self.stdout.write(bytes)),
        };
        let mut facts = self.written.lock();
        if let Some(last) = bytes.last() {
            facts.open_line = *last != b'\n';
        }
        let room = LOOK_AT.saturating_sub(facts.head.len());
        facts.head.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default());
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

impl Facts {
    /// Holds back these bytes, or returns those held back so far if it is time to write.
    fn keep(&mut self, bytes: &[u8], now: Instant) -> Option<Vec<u8>> {
        let held = match &mut self.held {
            None => return Some(Vec::new()),
            Some(held) => held,
        };
        let since = *held.since.get_or_insert(now);
        if held.bytes.len() + bytes.len() <= MAX_HELD.0 && now - since < MAX_HELD.1 {
            held.bytes.extend_from_slice(bytes);
            return None;
        }
        self.held.take().map(|held| held.bytes)
    }
}

/// Words that precede an id in some formats.
const LABELS: &[&str] = &["id", "handle"];

fn firsts(text: &[u8]) -> Vec<String> {
    let mut firsts = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(|c: char| c.is_whitespace() || "|│┆\",".contains(c));
        let word = words.find(|word| {
            let bare = word.trim_end_matches(':');
            !bare.is_empty() && !LABELS.iter().any(|label| bare.eq_ignore_ascii_case(label))
        });
        firsts.extend(word.map(str::to_owned));
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_every_format() {
        let first = |text: &str| firsts(text.as_bytes());
        assert_eq!(first("7\n8\n7\n"), ["7", "8", "7"]);
        assert_eq!(first("12\tmail\tready\n"), ["12"]);
        assert_eq!(first(" ID  TUBE\n 12  mail\n"), ["TUBE", "12"]);
        assert_eq!(first("| 12 | mail |\n"), ["12"]);
        assert_eq!(first("id  42\ntube  7x\n"), ["42", "tube"]);
        assert_eq!(first("  \"id\": 42,\n"), ["42"]);
        assert_eq!(first("{\n  \"handle\": \"H:x:1\",\n"), ["{", "H:x:1"]);
        assert_eq!(first("H:x:1\tresize\n"), ["H:x:1"]);
    }

    #[test]
    fn what_is_written_quickly_is_kept_back_and_what_comes_late_is_not() {
        let (start, mut facts) = (Instant::now(), Facts::default());
        assert_eq!(facts.keep(b"a", start), Some(Vec::new()));
        facts.held = Some(Held::default());
        assert_eq!(facts.keep(b"a", start), None);
        assert_eq!(facts.keep(b"b", start + MAX_HELD.1 / 2), None);
        assert_eq!(facts.keep(b"c", start + MAX_HELD.1), Some(b"ab".to_vec()));
        assert_eq!(facts.keep(b"d", start + MAX_HELD.1), Some(Vec::new()));
    }

    #[test]
    fn an_open_line_is_told_once() {
        let written = Written::default();
        let mut sink = Sink::new(written.clone());
        sink.write_all(b"").unwrap();
        assert!(!written.take_open_line());
        written.lock().open_line = true;
        assert!(written.take_open_line() && !written.take_open_line());
    }
}
