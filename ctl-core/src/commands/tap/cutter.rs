//! Cuts what one side of a connection sends into units, in memory that does not grow with a length that a peer
//! announced.

use super::decoder::{Decoder, Look, Side};

/// Number of bytes of a unit that are kept for its decoder.
pub(super) const KEPT: usize = 16 << 10;
/// If its length is still unknown after this many bytes, it is not a unit.
const LONGEST_HEAD: usize = 64 << 10;

/// One side of a connection.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    /// The beginning of the unit, or all bytes whose unit is not yet known.
    kept: Vec<u8>,
    unit: Option<Unit>,
    /// Nothing more is decoded.
    is_lost: bool,
}

#[derive(Debug, Clone, Copy)]
struct Unit {
    /// None for one that ends with the stream.
    len: Option<u64>,
    seen: u64,
}

/// A part of the passing bytes.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// A unit: its beginning, and its length.
    Unit { kept: &'a [u8], len: u64 },
    /// Not this protocol: why, and the beginning.
    Stranger { why: &'static str, kept: &'a [u8] },
}

impl Cutter {
    /// Takes bytes that have passed.
    pub(super) fn feed<D: Decoder>(
        &mut self,
        decoder: &mut D,
        side: Side,
        bytes: &[u8],
        mut found: impl FnMut(&mut D, Found<'_>),
    ) {
        if self.is_lost {
            return;
        }
        let joined;
        let mut data = bytes;
        if self.unit.is_none() && !self.kept.is_empty() {
            let mut before = std::mem::take(&mut self.kept);
            before.extend_from_slice(bytes);
            joined = before;
            data = &joined;
        }
        while !data.is_empty() {
            let Some(unit) = &mut self.unit else {
                let len = match decoder.look(side, data) {
                    // Every unit takes at least one byte, so this ends.
                    Look::Unit(len) => Ok(Some(len.max(1))),
                    Look::ToTheEnd => Ok(None),
                    Look::More if data.len() <= LONGEST_HEAD => {
                        self.kept = data.to_vec();
                        return;
                    }
                    Look::More => Err("no end of it was found"),
                    Look::Stranger(why) => Err(why),
                };
                match len {
                    Ok(len) => self.unit = Some(Unit { len, seen: 0 }),
                    Err(why) => {
                        self.is_lost = true;
                        return found(decoder, Found::Stranger { why, kept: data });
                    }
                }
                continue;
            };
            let missing = unit.len.map_or(u64::MAX, |len| len - unit.seen);
            let here = usize::try_from(missing).unwrap_or(usize::MAX).min(data.len());
            let (of_unit, behind) = data.split_at(here);
            let room = KEPT.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(of_unit.get(..room).unwrap_or(of_unit));
            unit.seen = unit.seen.saturating_add(here as u64);
            data = behind;
            if let Some(len) = unit.len.filter(|len| *len == unit.seen) {
                self.unit = None;
                found(decoder, Found::Unit { kept: &self.kept, len });
                self.kept.clear();
            }
        }
    }

    /// The stream has ended, which completes a unit that ends with it.
    pub(super) fn end<D: Decoder>(
        &mut self,
        decoder: &mut D,
        mut found: impl FnMut(&mut D, Found<'_>),
    ) {
        if let Some(Unit { len: None, seen }) = self.unit.take() {
            found(decoder, Found::Unit { kept: &self.kept, len: seen });
        }
        *self = Self { is_lost: true, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tap::decoder::Said;
    use proptest::prelude::*;

    /// Each unit begins with a digit, the number of bytes that follow; `e` is a unit up to the end.
    struct Digits;

    impl Decoder for Digits {
        fn look(&mut self, _: Side, data: &[u8]) -> Look {
            match data {
                [digit @ b'1'..=b'9', ..] => Look::Unit(1 + u64::from(digit - b'0') * 10_000),
                [digit @ b'0'..=b'0', ..] => Look::Unit(u64::from(digit - b'0')),
                [b'm', _, ..] => Look::Unit(2),
                [b'm'] => Look::More,
                [b'e', ..] => Look::ToTheEnd,
                _ => Look::Stranger("no digit"),
            }
        }

        fn read(&mut self, _: Side, _: &[u8], _: u64) -> Option<Said> {
            None
        }
    }

    fn cut(bytes: &[u8], pieces: &[usize]) -> Vec<(u64, usize)> {
        let mut cutter = Cutter::default();
        let mut all = Vec::new();
        let mut note = |_: &mut Digits, found: Found<'_>| match found {
            Found::Unit { kept, len } => all.push((len, kept.len())),
            Found::Stranger { .. } => all.push((0, 0)),
        };
        let (mut rest, mut sizes) = (bytes, pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            cutter.feed(&mut Digits, Side::Client, piece, &mut note);
            rest = behind;
        }
        cutter.end(&mut Digits, &mut note);
        assert!(cutter.kept.capacity() <= 2 * LONGEST_HEAD);
        all
    }

    #[test]
    fn finds_units_and_keeps_only_their_starts() {
        let bytes = [&b"0mx1"[..], &[b'.'; 10_000], b"3", &[b'.'; 30_000], b"e", &[b'.'; 20_000]];
        let expected = [(1, 1), (2, 2), (10_001, 10_001), (30_001, KEPT), (20_001, KEPT)].to_vec();
        for pieces in [&[1][..], &[7, 1000], &[100_000]] {
            assert_eq!(cut(&bytes.concat(), pieces), expected, "{pieces:?}");
        }
        assert_eq!(cut(b"0x00", &[1]), [(1, 1), (0, 0)]);
    }

    proptest! {
        #[test]
        fn reads_do_not_depend_on_segment_boundaries(
            bytes in proptest::collection::vec(prop_oneof![Just(b'0'), Just(b'm'), Just(b'1'), any::<u8>()], 0..200),
            pieces in proptest::collection::vec(1_usize..50, 1..10),
        ) {
            prop_assert_eq!(cut(&bytes, &pieces), cut(&bytes, &[usize::MAX]));
        }
    }
}
