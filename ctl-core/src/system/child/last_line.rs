//! The last line of a command's output, for explaining its failure.

use crate::text::escape;

/// Maximum bytes to keep of a line.
const KEPT: usize = 512;

/// Keeps the last line that is not empty.
#[derive(Debug, Default)]
pub struct LastLine {
    /// The last complete line.
    line: Vec<u8>,
    /// The beginning of the next line, up to [`KEPT`] bytes.
    next: Vec<u8>,
}

impl LastLine {
    /// Takes the next output.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = KEPT.saturating_sub(self.next.len()).min(text.len());
            self.next.extend_from_slice(text.get(..room).unwrap_or_default());
            if ends {
                let line = std::mem::take(&mut self.next);
                if !line.trim_ascii().is_empty() {
                    self.line = line;
                }
            }
        }
    }

    /// Whether the last line is incomplete.
    pub fn is_open(&self) -> bool {
        !self.next.is_empty()
    }

    /// The line, escaped; `None` without any output.
    pub fn text(&self) -> Option<String> {
        let last = [&self.next, &self.line].into_iter().find(|line| !line.trim_ascii().is_empty());
        last.map(|line| escape::bytes_line(line.trim_ascii()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_line_however_it_arrives() {
        for (pieces, text) in [
            (&[][..], None),
            (&["\n \n"], None),
            (&["one\ntwo\n"], Some("two")),
            (&["one\ntw", "o"], Some("two")),
            (&["one\n", "\r\n", "\n"], Some("one")),
            (&["\x1b[31mred\r\n"], Some("\\x1b[31mred")),
        ] {
            let mut last = LastLine::default();
            pieces.iter().for_each(|piece| last.take(piece.as_bytes()));
            assert_eq!(last.text().as_deref(), text, "{pieces:?}");
        }
    }

    #[test]
    fn an_endless_line_uses_no_memory() {
        let mut last = LastLine::default();
        for _ in 0..1000 {
            last.take(&[b'x'; 4096]);
        }
        assert_eq!((last.next.len(), last.next.capacity() < 4 * KEPT), (KEPT, true));
        assert!(last.is_open());
    }
}
