//! Results that are kept instead of shown.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// What was written, in memory; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    bound: Option<Bound>,
}

/// So many bytes, and what is said of more.
#[derive(Debug, Clone, Copy)]
struct Bound {
    most: usize,
    why: &'static str,
}

impl Memory {
    /// For `most` bytes; writing more fails with `why`.
    pub(crate) fn bounded(most: usize, why: &'static str) -> Self {
        Self { bytes: Arc::default(), bound: Some(Bound { most, why }) }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All of it as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        match self.bound {
            Some(Bound { most, why }) if all.len().saturating_add(bytes.len()) > most => {
                Err(io::Error::other(why))
            }
            _ => {
                all.extend_from_slice(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
