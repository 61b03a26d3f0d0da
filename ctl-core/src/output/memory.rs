//! Results that are kept in memory instead of shown.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use queue_core::lock;

/// The written bytes, in memory; shared by clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    bound: Option<(usize, &'static str)>,
}

impl Memory {
    /// Bounded to `most` bytes; writing more fails with `why`.
    pub(crate) fn bounded(most: usize, why: &'static str) -> Self {
        Self { bytes: Arc::default(), bound: Some((most, why)) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        lock(&self.bytes).clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = lock(&self.bytes);
        match self.bound {
            Some((most, why)) if all.len().saturating_add(bytes.len()) > most => {
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
