//! A hash for short names and numbers that are looked up for each job.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Builds hashers with random keys, so that colliding names cannot be chosen. They cost a fraction of the standard
/// library's general-purpose hashers.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    start: u64,
    factor: u64,
}

impl Default for Keys {
    fn default() -> Self {
        let random = RandomState::new();
        Keys { start: random.hash_one(1), factor: random.hash_one(2) | 1 }
    }
}

impl BuildHasher for Keys {
    type Hasher = FoldedHash;

    fn build_hasher(&self) -> FoldedHash {
        FoldedHash { state: self.start, factor: self.factor }
    }
}

/// Multiplies each word of a name by a secret number, and folds both halves of the product.
pub(crate) struct FoldedHash {
    state: u64,
    factor: u64,
}

impl FoldedHash {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for FoldedHash {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        // Up to 7 bytes are left; their number goes into the eighth.
        let last =
            rest.iter().rev().fold(rest.len() as u64, |last, byte| last << 8 | u64::from(*byte));
        self.mix(last);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        // The lowest bits of a product depend on few bits of its factors.
        self.state ^ (self.state >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_hash_differently() {
        let keys = Keys::default();
        let names = (0..20_000).map(|n| format!("H:host:{n}"));
        let lengths = (0..200).map(|n| "\0".repeat(n));
        let hashes: HashSet<u64> =
            names.chain(lengths).map(|name| keys.hash_one(name.as_bytes())).collect();
        assert_eq!(hashes.len(), 20_200);
        // A map with 128 buckets distinguishes them by seven bits, wherever those are.
        for shift in [0, 57] {
            let places: HashSet<u64> = hashes.iter().map(|hash| hash >> shift & 127).collect();
            assert_eq!(places.len(), 128, "{shift}");
        }
    }

    #[test]
    fn every_map_hashes_differently() {
        assert_ne!(Keys::default().hash_one(b"name"), Keys::default().hash_one(b"name"));
    }
}
