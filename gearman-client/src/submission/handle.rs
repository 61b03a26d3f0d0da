//! Job handles: the server's name for a job, the server, and the connection on which the handle was received.

use std::{fmt, str::FromStr, sync::Arc};

#[cfg(feature = "serde")]
use crate::names::text;
use crate::{Address, Epoch, Error, error::excerpt, names::short::ShortId};

/// A job's name on a server, such as `H:host:17`.
///
/// A server counts handles from 1 again when it restarts, so a handle identifies a job only together with its server,
/// and only while that server runs. As text it is `server//handle`, or the handle alone when the server is unknown:
///
/// ```
/// use gearman_client::JobHandle;
///
/// let handle: JobHandle = "localhost:4730//H:host:17".parse()?;
/// assert_eq!(handle.name(), b"H:host:17");
/// assert_eq!(handle.server().expect("it is given").to_string(), "localhost:4730");
/// # Ok::<(), gearman_client::Error>(())
/// ```
#[derive(Clone)]
pub struct JobHandle {
    name: ShortId,
    server: Option<Arc<Address>>,
    epoch: Option<Epoch>,
}

impl JobHandle {
    /// The maximum length of a handle, in bytes: gearmand does not answer a request about a longer one.
    pub const MAX_LEN: usize = ShortId::MAX_LEN;

    /// The handle as sent on the wire.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// The server that issued the handle, if known.
    #[must_use]
    pub fn server(&self) -> Option<&Address> {
        self.server.as_deref()
    }

    /// The connection on which this process received the handle; `None` for one parsed from text.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// The same handle on this server.
    #[must_use]
    pub fn on_server(mut self, server: Address) -> Self {
        self.server = Some(Arc::new(server));
        self
    }

    /// The position of its server among these; `None` when the handle does not name its server. Servers count their
    /// jobs alike, so the same name on another server is another job.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when its server is not among them.
    pub(crate) fn position_in<'a>(
        &self,
        servers: impl Iterator<Item = &'a Address> + Clone,
    ) -> Result<Option<usize>, Error> {
        let Some(own) = self.server() else { return Ok(None) };
        if let Some(position) = servers.clone().position(|server| server == own) {
            return Ok(Some(position));
        }
        let servers: Vec<_> = servers.map(ToString::to_string).collect();
        Err(Error::invalid(format!(
            "job handle {self} names the server {own}, and this client has only {}: ask a client of {own}",
            servers.join(", ")
        )))
    }

    /// Whether the server was restarted between this handle and an earlier one, judging by their numbers, which start
    /// again. A restarted server has forgotten its jobs, except background jobs in a persistent queue.
    ///
    /// `false` also means unknown: the handles are from different servers or from one connection, or have no numbers.
    /// Both must belong to separate jobs: a job merged with another by its unique id has the other's handle.
    #[must_use]
    pub fn shows_restart_since(&self, earlier: &JobHandle) -> bool {
        let is_later = matches!((earlier.epoch, self.epoch), (Some(then), Some(now)) if now > then);
        let counts = (earlier.counted(), self.counted());
        let (Some((before, then)), Some((name, now))) = counts else { return false };
        is_later && self.server == earlier.server && name == before && now <= then
    }

    /// The text before the last colon, and the number after it.
    fn counted(&self) -> Option<(&[u8], u64)> {
        let name = self.name();
        let colon = name.iter().rposition(|byte| *byte == b':')?;
        Some((name.get(..colon)?, crate::text::decimal(name.get(colon + 1..)?)?))
    }

    /// Parses `HANDLE` or `SERVER//HANDLE`; `bytes_of` turns the text of the handle into its bytes.
    #[doc(hidden)]
    pub fn read(text: &str, bytes_of: impl FnOnce(&str) -> Vec<u8>) -> Result<Self, Error> {
        // An address may contain slashes; a gearmand handle does not.
        match text.rsplit_once("//") {
            Some((server, name)) if !server.is_empty() && !server.ends_with(':') => {
                Ok(JobHandle::try_from(&bytes_of(name)[..])?.on_server(server.parse()?))
            }
            _ => bytes_of(text)[..].try_into(),
        }
    }

    /// A handle that no job has.
    pub(crate) fn unknown() -> Self {
        JobHandle { name: ShortId::cut(b"H:nobody:0"), server: None, epoch: None }
    }

    pub(crate) fn short(&self) -> ShortId {
        self.name
    }

    /// A handle sent by the server of this connection.
    pub(crate) fn received(name: ShortId, origin: &Origin) -> Self {
        JobHandle { name, server: Some(origin.server.clone()), epoch: Some(origin.epoch) }
    }
}

/// The connection that something came from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Origin {
    /// The server.
    pub server: Arc<Address>,
    /// The connection.
    pub epoch: Epoch,
}

impl TryFrom<&[u8]> for JobHandle {
    type Error = Error;

    /// Parses a bare handle of any bytes but NUL and line ends.
    fn try_from(name: &[u8]) -> Result<Self, Error> {
        let bad = name.iter().position(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        let why = match (name, bad) {
            ([], _) => "it is empty".to_owned(),
            (_, Some(at)) => format!("NUL or a line end at position {at}"),
            _ => match ShortId::new(name) {
                Some(name) => return Ok(JobHandle { name, server: None, epoch: None }),
                None => format!("it has {} bytes", name.len()),
            },
        };
        let shown = excerpt(name);
        Err(Error::invalid(format!("job handle {shown} is not valid: {why} (1 to 63 bytes)")))
    }
}

impl FromStr for JobHandle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::read(text, |name| name.as_bytes().into())
    }
}

queue_core::try_from_text!(JobHandle, Error);

impl From<&JobHandle> for JobHandle {
    fn from(handle: &JobHandle) -> Self {
        handle.clone()
    }
}

/// Compares the name and the server; the connection does not matter.
impl PartialEq for JobHandle {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.server) == (other.name, &other.server)
    }
}

impl Eq for JobHandle {}

impl std::hash::Hash for JobHandle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.server.hash(state);
    }
}

/// Formats as `server//handle`, or the handle alone. Replaces bytes that are not UTF-8.
impl fmt::Display for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = String::from_utf8_lossy(self.name());
        match &self.server {
            Some(server) => f.pad(&format!("{server}//{name}")),
            None => f.pad(&name),
        }
    }
}

impl fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobHandle({self})")
    }
}

/// As formatted, but a byte that is not UTF-8 is `\xHH`.
#[cfg(feature = "serde")]
impl serde::Serialize for JobHandle {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = text::written(self.name());
        match &self.server {
            Some(server) => serializer.collect_str(&format_args!("{server}//{name}")),
            None => serializer.serialize_str(&name),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for JobHandle {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let handle = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        Self::read(&handle, queue_core::unname).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_keep_their_server_as_text() {
        for (text, name, server) in [
            ("H:vm:1", "H:vm:1", None),
            ("h:4730//H:vm:1", "H:vm:1", Some("h:4730")),
            ("gearmans://h:4730//H:vm:1", "H:vm:1", Some("gearmans://h:4730")),
            ("unix:/run/g.sock//H:vm:1", "H:vm:1", Some("unix:/run/g.sock")),
            ("[::1]:4730//H:vm:1", "H:vm:1", Some("[::1]:4730")),
            ("one-field", "one-field", None),
        ] {
            let handle: JobHandle = text.parse().unwrap();
            assert_eq!(handle.name(), name.as_bytes(), "{text}");
            assert_eq!(handle.server().map(ToString::to_string).as_deref(), server, "{text}");
            assert_eq!(handle.to_string(), text);
            assert_eq!(handle.epoch(), None);
        }
    }

    #[test]
    fn a_handle_that_the_server_would_not_answer_is_refused() {
        assert!("h".repeat(63).parse::<JobHandle>().is_ok());
        for bad in ["", &"h".repeat(64), "a\0b", "a\nshutdown"] {
            let error = bad.parse::<JobHandle>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{bad:?}");
        }
    }
}
