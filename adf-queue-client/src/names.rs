//! Names and ids of the protocol. Each is validated when it is built.

use std::{collections::hash_map::RandomState, fmt, hash::BuildHasher, str::FromStr, sync::Arc};

use arrayvec::ArrayString;
use queue_core::{decimal, excerpt};

use crate::{Error, Result};

/// The name of a queue: any text of 1 to 65,535 bytes, compared byte by byte. `/order/new` is a convention, not a rule.
///
/// Binary frames only carry ASCII names: the server would read any other byte as `?`, and act on another queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// The maximum length of a name in bytes.
    pub const MAX: usize = u16::MAX as usize;

    /// Validates a name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an empty one, or over [`MAX`](Self::MAX) bytes.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX {
            return Err(Error::invalid(format!(
                "queue name {} is not valid: a name has 1 to {} bytes, this one has {}",
                excerpt(name.as_bytes()),
                Self::MAX,
                name.len()
            )));
        }
        Ok(QueueName(name))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id of a request, by which its answer is found: 1 to 32 visible ASCII characters.
///
/// A delete or a return names the pull that delivered the message. A pull's id must therefore differ from those of all
/// other pulls with unsettled messages: on its connection, or over HTTP on the whole server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(ArrayString<{ RequestId::MAX }>);

impl RequestId {
    /// The maximum length of an id in bytes.
    pub const MAX: usize = 32;

    /// Validates an id.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an id that the server would not answer, or would not return unchanged.
    pub fn new(id: impl AsRef<str>) -> Result<Self> {
        let id = id.as_ref();
        Self::checked(id).ok_or_else(|| {
            Error::invalid(format!(
                "request id {} is not valid: an id has 1 to {} visible ASCII characters",
                excerpt(id.as_bytes()),
                Self::MAX
            ))
        })
    }

    /// The id, if it is valid.
    pub(crate) fn checked(id: &str) -> Option<Self> {
        let is_valid = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then_some(())?;
        ArrayString::from(id).ok().map(RequestId)
    }

    /// A number as an id.
    pub(crate) fn of(number: u64) -> Self {
        Self::written(itoa::Buffer::new().format(number))
    }

    /// An id of at most 32 characters.
    fn written(id: &str) -> Self {
        RequestId(ArrayString::from(id).unwrap_or_default())
    }

    /// An id that no other request has, on any machine: 32 random hexadecimal digits, as of a UUID.
    #[must_use]
    pub fn unique() -> Self {
        let chance = RandomState::new();
        Self::of_chance(chance.hash_one(0), chance.hash_one(1))
    }

    /// A version 4 UUID.
    pub(crate) fn of_chance(high: u64, low: u64) -> Self {
        let high = high & !(0xf << 12) | 4 << 12;
        let low = low & !(3 << 62) | 2 << 62;
        Self::written(&format!("{high:016x}{low:016x}"))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text {
    ($($name:ident)+) => {$(
        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                $name::new(text)
            }
        }

        queue_core::try_from_text!($name, Error);

        impl From<&$name> for $name {
            fn from(name: &$name) -> Self {
                name.clone()
            }
        }

        #[cfg(feature = "serde")]
        queue_core::serde_as_text!($name);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.0)
            }
        }
    )+};
}

text!(QueueName RequestId);

/// The number of a message in its queue: 1 for the first that was pushed since the queue was created.
///
/// A message keeps its number when it is returned, even to another queue, so it does not identify a message across
/// queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MessageId(u64);

impl MessageId {
    /// The id as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for MessageId {
    fn from(id: u64) -> Self {
        MessageId(id)
    }
}

impl FromStr for MessageId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        decimal(text.as_bytes()).map(MessageId).ok_or_else(|| {
            Error::invalid(format!(
                "message id {} is not valid: an id is a whole number from 0 to {}",
                excerpt(text.as_bytes()),
                u64::MAX
            ))
        })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_names_say_the_value_and_the_rule() {
        for bad in ["", "a b", "a\x1b[2J", "é", &"x".repeat(33)] {
            let error = RequestId::new(bad).unwrap_err().to_string();
            assert!(error.contains(&excerpt(bad.as_bytes())), "{error}");
            assert!(error.ends_with("is not valid: an id has 1 to 32 visible ASCII characters"));
        }
        RequestId::new("~!x".repeat(10)).unwrap();
        assert_eq!(
            QueueName::new("").unwrap_err().to_string(),
            "queue name \"\" is not valid: a name has 1 to 65535 bytes, this one has 0"
        );
        QueueName::new("q".repeat(QueueName::MAX)).unwrap();
        QueueName::new("q".repeat(QueueName::MAX + 1)).unwrap_err();
        QueueName::new("队 with a space").unwrap();
    }

    #[cfg(feature = "serde")]
    #[test]
    fn names_and_ids_are_text_and_numbers_to_others() {
        let (queue, id) = (QueueName::new("/q").unwrap(), RequestId::new("7").unwrap());
        let shown = serde_json::to_string(&(queue, id, MessageId::from(7))).unwrap();
        assert_eq!(shown, r#"["/q","7",7]"#);
    }
    #[test]
    fn unique_ids_are_valid_and_unlike_each_other() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| RequestId::unique()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert_eq!(RequestId::new(id.as_str()).unwrap(), id);
            assert_eq!(id.as_str().len(), RequestId::MAX);
            assert_eq!(id.as_str().as_bytes()[12], b'4');
            assert!(b"89ab".contains(&id.as_str().as_bytes()[16]), "{id}");
        }
    }
}
