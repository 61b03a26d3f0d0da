//! Short byte strings that need no allocation.

use std::hash::{Hash, Hasher};

/// Up to 63 bytes: a job handle or a unique id.
#[derive(Clone, Copy)]
pub(crate) struct ShortId {
    len: u8,
    bytes: [u8; ShortId::MAX_LEN],
}

impl ShortId {
    pub(crate) const MAX_LEN: usize = 63;
    pub(crate) const EMPTY: ShortId = ShortId { len: 0, bytes: [0; ShortId::MAX_LEN] };

    /// `None` when there are too many bytes.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX_LEN).then(|| Self::cut(bytes))
    }

    /// The first 63 bytes.
    pub(crate) fn cut(from: &[u8]) -> Self {
        let len = from.len().min(Self::MAX_LEN);
        let mut short = Self { len: len as u8, ..Self::EMPTY };
        if let (Some(to), Some(from)) = (short.bytes.get_mut(..len), from.get(..len)) {
            to.copy_from_slice(from);
        }
        short
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl PartialEq for ShortId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ShortId {}

impl PartialOrd for ShortId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShortId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for ShortId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl std::fmt::Debug for ShortId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}
