//! The MD5 hash of RFC 1321, used to distribute names over a ring as other clients do, not to keep secrets.

pub(crate) fn md5(text: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    // Padding: a one bit, zeros, and the length of the text in bits.
    let zeros = 63 - (text.len() + 8) % 64;
    let bits = (text.len() as u64).wrapping_mul(8);
    let tail = std::iter::once(0x80).chain(std::iter::repeat_n(0, zeros)).chain(bits.to_le_bytes());
    let mut block = [0; 64];
    for (at, byte) in text.iter().copied().chain(tail).enumerate() {
        if let Some(place) = block.get_mut(at % 64) {
            *place = byte;
        }
        if at % 64 == 63 {
            state = digest(state, &block);
        }
    }
    let mut hash = [0; 16];
    let bytes = state.into_iter().flat_map(u32::to_le_bytes);
    hash.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    hash
}

/// The rotation of each step of a round; the four repeat.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Processes one block of 64 bytes.
fn digest(state: [u32; 4], block: &[u8; 64]) -> [u32; 4] {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    }
    let [mut a, mut b, mut c, mut d] = state;
    for (round, rotations) in ROTATIONS.iter().enumerate() {
        for (step, rotation) in rotations.iter().cycle().take(16).enumerate() {
            let (mixed, word) = match round {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let word = words.get(word % 16).copied().unwrap_or_default();
            let sum =
                a.wrapping_add(mixed).wrapping_add(word).wrapping_add(constant(16 * round + step));
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(*rotation)));
        }
    }
    let [one, two, three, four] = state;
    [one.wrapping_add(a), two.wrapping_add(b), three.wrapping_add(c), four.wrapping_add(d)]
}

/// The integer part of 2³² times the sine of the step's number, counted from 1.
fn constant(step: usize) -> u32 {
    (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        md5(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The test suite of RFC 1321.
    #[test]
    fn the_hashes_are_those_of_the_rfc() {
        let digits = "1234567890".repeat(8);
        for (text, hash) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (&digits, "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hex(text), hash, "{text}");
        }
    }
}
