//! stdout of a session: records whether the last line was ended, and how its lines started.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex};

use queue_core::lock;

/// How much of a command's output is searched for names and ids.
const LOOK_AT: usize = 16 * 1024;

/// The facts about the written output; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    /// The last line has no end yet.
    open_line: bool,
    head: Vec<u8>,
    /// Whether another program or a live screen writes to the terminal.
    is_occupied: bool,
}

impl Written {
    /// Whether the cursor is after some text. Calling this ends the line.
    pub(super) fn take_open_line(&self) -> bool {
        std::mem::take(&mut lock(&self.0).open_line)
    }

    /// The first words of the lines since the last call; `id`, `handle` and borders of tables are skipped.
    pub(super) fn take_firsts(&self) -> Vec<String> {
        firsts(&std::mem::take(&mut lock(&self.0).head))
    }

    /// Sets whether another program or a live screen writes to the terminal.
    pub(super) fn occupy(&self, is_occupied: bool) {
        lock(&self.0).is_occupied = is_occupied;
    }

    /// Whether another program or a live screen writes to the terminal.
    pub(super) fn is_occupied(&self) -> bool {
        lock(&self.0).is_occupied
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
        let result = self.stdout.write(bytes);
        let mut facts = lock(&self.written.0);
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
    fn finds_ids_in_every_format() {
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
    fn reports_an_unterminated_line_once() {
        let written = Written::default();
        let mut sink = Sink::new(written.clone());
        sink.write_all(b"").unwrap();
        assert!(!written.take_open_line());
        lock(&written.0).open_line = true;
        assert!(written.take_open_line() && !written.take_open_line());
    }
}
