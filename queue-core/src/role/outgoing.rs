//! Buffers of outgoing bytes.

use bytes::{Buf, BytesMut};

/// Maximum size of a buffer that is kept once all of it was written.
pub(crate) const KEPT: usize = 256 << 10;

/// Empties a buffer for reuse. Its memory is kept, unless a large message made it large.
pub fn emptied(buffer: &mut BytesMut) {
    buffer.clear();
    if buffer.capacity() > KEPT {
        *buffer = BytesMut::new();
    }
}

/// Removes the first `n` bytes, or all if there are fewer: they were written.
pub fn written(buffer: &mut BytesMut, n: usize) {
    if n < buffer.len() {
        return buffer.advance(n);
    }
    buffer.clear();
    // After piecemeal writes, the capacity counts only the last piece until the rest is reclaimed.
    if buffer.try_reclaim(KEPT + 1) {
        *buffer = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_small_buffers_only() {
        let mut buffer: BytesMut = vec![7; 1000][..].into();
        written(&mut buffer, 999);
        assert_eq!(buffer.len(), 1);
        written(&mut buffer, 2);
        assert!(buffer.is_empty() && buffer.capacity() > 0);
        for pieces in [vec![2 * KEPT], vec![2 * KEPT - 1, 1], vec![KEPT, KEPT]] {
            let mut large: BytesMut = vec![7; 2 * KEPT][..].into();
            pieces.iter().for_each(|piece| written(&mut large, *piece));
            assert_eq!((large.len(), large.capacity()), (0, 0), "{pieces:?}");
        }
        let mut large: BytesMut = vec![7; 2 * KEPT][..].into();
        emptied(&mut large);
        assert_eq!((large.len(), large.capacity()), (0, 0));
    }
}
