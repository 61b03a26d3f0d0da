//! stdout of a session: knows whether the last line was ended, how long writing took, and which job ids
//! were shown.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use beanstalk_client::JobId;

/// How much of a command's output is looked at for job ids.
const LOOK_AT: usize = 16 * 1024;
/// How many ids are remembered.
const MAX_IDS: usize = 100;

/// What is known about what was written.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    /// The last line has no end yet.
    open_line: bool,
    spent: Duration,
    head: Vec<u8>,
}

impl Written {
    /// Whether the cursor stands behind some text. Asking ends the line.
    pub(super) fn take_open_line(&self) -> bool {
        std::mem::take(&mut self.lock().open_line)
    }

    /// How long writing took since the last call.
    pub(super) fn take_spent(&self) -> Duration {
        std::mem::take(&mut self.lock().spent)
    }

    /// The numbers that lines began with since the last call.
    pub(super) fn take_ids(&self) -> Vec<JobId> {
        ids_in(&std::mem::take(&mut self.lock().head))
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to stdout.
pub(super) struct Sink {
    stdout: BufWriter<Stdout>,
    written: Written,
}

impl Sink {
    /// Writes to the process's stdout and keeps account in `written`.
    pub(super) fn new(written: Written) -> Self {
        Self { stdout: BufWriter::with_capacity(64 * 1024, io::stdout()), written }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let started = Instant::now();
        let result = self.stdout.write(bytes);
        let mut facts = self.written.lock();
        facts.spent += started.elapsed();
        if let Some(last) = bytes.last() {
            facts.open_line = *last != b'\n';
        }
        let room = LOOK_AT.saturating_sub(facts.head.len());
        facts.head.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default());
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        let started = Instant::now();
        let result = self.stdout.flush();
        self.written.lock().spent += started.elapsed();
        result
    }
}

/// The first number of each line that begins with one (after `id`, or a table's border), newest last.
fn ids_in(text: &[u8]) -> Vec<JobId> {
    let mut ids: Vec<JobId> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(|c: char| c.is_whitespace() || "|│┆\":,".contains(c));
        let first = words.find(|word| !word.is_empty() && !word.eq_ignore_ascii_case("id"));
        if let Some(id) = first.and_then(|word| word.parse().ok())
            && ids.len() < MAX_IDS
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_every_format() {
        let ids =
            |text: &str| ids_in(text.as_bytes()).iter().map(|id| id.get()).collect::<Vec<_>>();
        assert_eq!(ids("7\n8\n7\n"), [7, 8]);
        assert_eq!(ids("12\tmail\tready\n"), [12]);
        assert_eq!(ids(" ID  TUBE\n 12  mail\n"), [12]);
        assert_eq!(ids("| 12 | mail |\n"), [12]);
        assert_eq!(ids("id  42\ntube  7x\n"), [42]);
        assert_eq!(ids("  \"id\": 42,\n"), [42]);
        assert_eq!(ids("mail 3\n"), [0; 0]);
    }
}
