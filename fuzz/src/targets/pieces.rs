//! The same bytes in pieces of other sizes. The sizes follow from the bytes, so that a finding repeats itself.

/// Inputs up to this size are also fed byte by byte.
const SHORT: usize = 2048;

/// How the bytes of an input reach a decoder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// All at once, as far as there is room.
    Whole,
    /// Byte by byte.
    Bytes,
    /// In pieces of sizes that follow from this seed.
    Seeded(u64),
}

/// The other ways to cut an input; [`Cut::Whole`] is what they are compared with.
pub(super) fn cuts(data: &[u8]) -> impl Iterator<Item = Cut> {
    let bytes = (data.len() <= SHORT).then_some(Cut::Bytes);
    bytes.into_iter().chain([Cut::Seeded(hash(data))])
}

impl Cut {
    /// The pieces of an input.
    pub(super) fn pieces(self, data: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = data;
        let mut random = if let Cut::Seeded(seed) = self { seed } else { 0 };
        std::iter::from_fn(move || {
            let size = match self {
                Cut::Whole => rest.len(),
                Cut::Bytes => 1,
                Cut::Seeded(_) => {
                    random = next(random);
                    // Mostly small pieces, now and then a large one.
                    1 + (random >> 33) as usize % (1 << ((random >> 8) % 12))
                }
            };
            let (piece, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// Copies a piece into a decoder that is always asked for room, in as many steps as it takes.
///
/// `read` is called after each step; its first error ends the copying.
pub(super) fn copy<D, E>(
    decoder: &mut D,
    piece: &[u8],
    space: impl Fn(&mut D) -> &mut [u8],
    received: impl Fn(&mut D, usize),
    mut read: impl FnMut(&mut D) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = piece;
    while !rest.is_empty() {
        let room = space(decoder);
        assert!(!room.is_empty(), "there is always room for the next read");
        assert!(room.len() <= MAX_ROOM, "room of {} bytes was made for a read", room.len());
        let count = rest.len().min(room.len());
        let (now, later) = rest.split_at(count);
        room[..count].copy_from_slice(now);
        received(decoder, count);
        rest = later;
        read(decoder)?;
    }
    Ok(())
}

/// How far a buffer may grow ahead of the bytes that have come.
const MAX_ROOM: usize = 128 * 1024;

fn hash(data: &[u8]) -> u64 {
    // FNV-1a.
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The next of a sequence of numbers (SplitMix64).
fn next(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
