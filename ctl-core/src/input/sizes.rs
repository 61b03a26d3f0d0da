//! Sizes of generated bodies.

use std::str::FromStr;

pub use queue_core::Random;

use crate::text::units;

/// A range of sizes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub smallest: u64,
    /// The largest.
    pub largest: u64,
}

/// `1k`, or `1k..64k`.
impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (smallest, largest) = text.split_once("..").unwrap_or((text, text));
        let sizes = Self { smallest: units::size(smallest)?, largest: units::size(largest)? };
        if sizes.smallest > sizes.largest {
            return Err(format!("the range `{text}` ends before it starts"));
        }
        Ok(sizes)
    }
}

impl Sizes {
    /// Draws a random size.
    pub fn draw(self, random: &mut Random) -> u64 {
        let range = (self.largest - self.smallest).saturating_add(1);
        self.smallest + random.next_u64() % range
    }
}
