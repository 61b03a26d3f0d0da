//! Names of functions, submissions and workers. They are validated when built, so no byte of one can smuggle an
//! argument into a packet or a line into an admin command.

pub(crate) mod keys;
pub(crate) mod short;
#[cfg(feature = "serde")]
pub(crate) mod text;

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use crate::{Error, names::short::ShortId, random::random_bits};

/// The name of a function: 1 to 8190 bytes, any but NUL, and not necessarily text. Case-sensitive; cloning is cheap.
///
/// It is made of text or of bytes, as everything is that takes a `TryInto<FunctionName>`. Serde writes a byte that is not
/// UTF-8 as `\xHH`, and reads that back. A name that is not
/// [plain](Self::is_plain) breaks the lines of the admin protocol: its commands refuse it, and its listings may be
/// ambiguous.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName(Arc<[u8]>);

impl FunctionName {
    /// The maximum length of a name, in bytes: gearmand's receive buffer takes no more. libgearman takes 512.
    pub const MAX_LEN: usize = 8190;

    /// A name as a server sends it, which may be empty.
    pub(crate) fn received(name: impl AsRef<[u8]>) -> Result<Self, Error> {
        let name = name.as_ref();
        if name.len() > Self::MAX_LEN {
            let why = format!("it has {} bytes (1 to {})", name.len(), Self::MAX_LEN);
            return Err(invalid("function name", &why));
        }
        refuse_nul("function name", name)?;
        Ok(FunctionName(name.into()))
    }

    /// The name as sent on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text, if it is valid UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether the name is visible ASCII without spaces, so that it can be used in an admin command.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(u8::is_ascii_graphic)
    }
}

impl Borrow<[u8]> for FunctionName {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Merges submissions of one function into one job: 1 to 63 bytes without NUL, not `-`.
///
/// The server joins submissions with the same function and id while the first is queued or running: it drops the later
/// workloads, and gives all submitters the handle of the first. gearmand silently truncates ids of 64 bytes and shifts
/// the workload by a byte, so they are refused here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueId(ShortId);

impl UniqueId {
    /// The maximum length of an id, in bytes.
    pub const MAX_LEN: usize = ShortId::MAX_LEN;

    /// A random id, in the form of a version 4 UUID. It is unique but predictable; not a secret. Every submission has
    /// one unless it sets its own id; reproducible simulations use [`from_random_bits`](Self::from_random_bits).
    #[must_use]
    pub fn random() -> Self {
        Self::from_random_bits(random_bits())
    }

    /// The same from the caller's 128 random bits, six of which are replaced by the version and the variant.
    #[must_use]
    pub fn from_random_bits(bits: u128) -> Self {
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        // Version and variant as in RFC 9562, section 5.4.
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        let [first, second, third, fourth] =
            [high >> 32, high, low >> 32, low].map(|part| hex_digits(part as u32));
        let mut text = [b'-'; 36];
        // With lengths known at compile time, these compile to word moves.
        let mut put = |at: usize, digits: &[u8]| {
            if let Some(to) = text.get_mut(at..at + digits.len()) {
                to.copy_from_slice(digits);
            }
        };
        put(0, &first);
        let (one, other) = second.split_at(4);
        put(9, one);
        put(14, other);
        let (one, other) = third.split_at(4);
        put(19, one);
        put(24, other);
        put(28, &fourth);
        UniqueId(ShortId::cut(&text))
    }

    /// An id derived from the payload, so that equal submissions are merged. It is the 128-bit FNV-1a hash in
    /// hexadecimal, which does not resist deliberate collisions.
    #[must_use]
    pub fn of_payload(payload: impl AsRef<[u8]>) -> Self {
        // Offset basis and prime of the 128-bit variant.
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        for byte in payload.as_ref() {
            hash =
                (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
        let mut text = [0_u8; 32];
        let parts = [hash >> 96, hash >> 64, hash >> 32, hash].map(|part| hex_digits(part as u32));
        for (to, from) in text.chunks_exact_mut(8).zip(parts) {
            to.copy_from_slice(&from);
        }
        UniqueId(ShortId::cut(&text))
    }

    /// The id as sent on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn short(self) -> ShortId {
        self.0
    }

    /// An id that was already validated.
    pub(crate) fn known(short: ShortId) -> Self {
        UniqueId(short)
    }
}

/// The eight hexadecimal digits of a number, computed in parallel in the bytes of a word.
fn hex_digits(number: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut digits = u64::from(number);
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & (0xf * EACH);
    let unread = ((digits + 6 * EACH) >> 4) & EACH;
    let gap = u64::from(b'a' - b'0' - 10);
    (digits + u64::from(b'0') * EACH + unread * gap).to_be_bytes()
}

/// A worker's name in the `workers` listing: 1 to 127 bytes without spaces and control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(Arc<[u8]>);

impl ClientId {
    /// The maximum length of an id that gearmand keeps, in bytes.
    pub const MAX_LEN: usize = 127;

    /// The id as sent on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn check(id: &[u8]) -> Result<(), Error> {
        refuse_nul("client id", id)?;
        let broken = match id {
            [] => Some("it is empty".to_owned()),
            _ if id.len() > Self::MAX_LEN => Some(format!("it has {} bytes", id.len())),
            _ => invisible(id),
        };
        broken.map_or(Ok(()), |why| {
            let rule = "1 to 127 visible ASCII characters without spaces";
            Err(invalid("client id", &format!("{why} ({rule})")))
        })
    }
}

/// Describes the first byte that is not visible ASCII.
fn invisible(name: &[u8]) -> Option<String> {
    let (at, byte) = name.iter().enumerate().find(|(_, byte)| !byte.is_ascii_graphic())?;
    Some(format!("byte 0x{byte:02x} ({}) at position {at}", byte.escape_ascii()))
}

fn refuse_nul(what: &str, value: &[u8]) -> Result<(), Error> {
    match value.iter().position(|byte| *byte == 0) {
        Some(at) => {
            let why =
                format!("NUL at position {at} (NUL separates arguments in the Gearman protocol)");
            Err(invalid(what, &why))
        }
        None => Ok(()),
    }
}

fn invalid(what: &str, why: &str) -> Error {
    Error::invalid(format!("{what} is not valid: {why}"))
}

impl TryFrom<&[u8]> for FunctionName {
    type Error = Error;

    fn try_from(name: &[u8]) -> Result<Self, Error> {
        if name.is_empty() {
            let why = format!("it is empty (1 to {} bytes)", Self::MAX_LEN);
            return Err(invalid("function name", &why));
        }
        Self::received(name)
    }
}

impl<const N: usize> TryFrom<&[u8; N]> for FunctionName {
    type Error = Error;

    fn try_from(name: &[u8; N]) -> Result<Self, Error> {
        name[..].try_into()
    }
}

impl TryFrom<Vec<u8>> for FunctionName {
    type Error = Error;

    fn try_from(name: Vec<u8>) -> Result<Self, Error> {
        name[..].try_into()
    }
}

impl TryFrom<&[u8]> for ClientId {
    type Error = Error;

    fn try_from(id: &[u8]) -> Result<Self, Error> {
        Self::check(id)?;
        Ok(ClientId(id.into()))
    }
}

impl TryFrom<&[u8]> for UniqueId {
    type Error = Error;

    fn try_from(id: &[u8]) -> Result<Self, Error> {
        refuse_nul("unique id", id)?;
        let why = match id {
            [] => "it is empty (1 to 63 bytes)".to_owned(),
            // `Unique::ByPayload` asks for it by name.
            b"-" => "'-' has its own meaning: the server compares workloads".to_owned(),
            _ if id.len() > Self::MAX_LEN => format!("it has {} bytes (1 to 63)", id.len()),
            _ => return Ok(UniqueId(ShortId::cut(id))),
        };
        Err(invalid("unique id", &why))
    }
}

/// The common methods of the three names.
macro_rules! name {
    ($name:ident) => {
        queue_core::try_from_text!($name, Error);

        impl From<&$name> for $name {
            fn from(name: &$name) -> Self {
                name.clone()
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                text.as_bytes().try_into()
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                self.as_bytes()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_bytes() == other.as_bytes()
            }
        }

        /// Replaces bytes that are not UTF-8.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&String::from_utf8_lossy(self.as_bytes()))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.as_bytes().escape_ascii())
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                text::serialize(self.as_bytes(), serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::deserialize(deserializer)?[..].try_into().map_err(serde::de::Error::custom)
            }
        }
    };
}

name!(FunctionName);
name!(UniqueId);
name!(ClientId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_function_name_is_checked_at_every_position() {
        for byte in 0..=u8::MAX {
            for at in 0..3 {
                let mut name = *b"abc";
                name[at] = byte;
                let plain = (0x21..=0x7e).contains(&byte);
                let function = FunctionName::try_from(&name);
                assert_eq!(function.is_ok(), byte != 0, "{byte:#x} at {at}");
                let is_plain = function.is_ok_and(|function| function.is_plain());
                assert_eq!(is_plain, plain, "{byte:#x} at {at}");
                assert_eq!(ClientId::try_from(&name[..]).is_ok(), plain, "{byte:#x} at {at}");
                assert_eq!(UniqueId::try_from(&name[..]).is_ok(), byte != 0, "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn lengths_are_bounded() {
        for (length, ok) in [(0, false), (1, true), (8190, true), (8191, false)] {
            assert_eq!(FunctionName::try_from("f".repeat(length)).is_ok(), ok, "{length}");
        }
        assert!(!FunctionName::received("").unwrap().is_plain());
        for (length, ok) in [(0, false), (1, true), (63, true), (64, false)] {
            assert_eq!(UniqueId::try_from("u".repeat(length)).is_ok(), ok, "{length}");
        }
        for (length, ok) in [(0, false), (1, true), (127, true), (128, false)] {
            assert_eq!(ClientId::try_from("c".repeat(length)).is_ok(), ok, "{length}");
        }
    }

    #[test]
    fn a_nul_cannot_smuggle_an_argument() {
        let error = FunctionName::try_from("fn\0smuggled").unwrap_err();
        assert_eq!(
            error.to_string(),
            "function name is not valid: NUL at position 2 (NUL separates arguments in the Gearman protocol)"
        );
        assert_eq!(
            (error.kind(), error.fate()),
            (crate::ErrorKind::InvalidInput, crate::Fate::NotSent)
        );
    }

    #[test]
    fn by_payload_is_never_an_accident() {
        assert!(UniqueId::try_from("-").unwrap_err().to_string().contains("compares workloads"));
        assert!(UniqueId::try_from("--").is_ok());
    }

    #[test]
    fn random_ids_are_uuids_and_differ() {
        let ids: std::collections::HashSet<_> = (0..10_000).map(|_| UniqueId::random()).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids.iter().take(100) {
            let text = id.to_string();
            assert_eq!(text.len(), 36);
            assert_eq!(text.as_bytes()[14], b'4', "{text}");
            assert!(b"89ab".contains(&text.as_bytes()[19]), "{text}");
        }
        let drawn = UniqueId::from_random_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(drawn.to_string(), "01234567-89ab-4def-8123-456789abcdef");
    }

    #[test]
    fn equal_payloads_have_equal_ids() {
        // The published test value of the 128-bit FNV-1a hash of "foobar".
        assert_eq!(UniqueId::of_payload("foobar"), "343e1662793c64bf6f0d3597ba446f18");
        assert_ne!(UniqueId::of_payload("a"), UniqueId::of_payload("b"));
    }
}
