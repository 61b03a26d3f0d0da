//! Server addresses.

use std::{fmt, str::FromStr};

use queue_core::Endpoint;
use queue_core::{Transports, excerpt};

use crate::{Error, protocol::Encoding};

/// The address of a server, and the transport to use.
///
/// | text | transport |
/// |---|---|
/// | `host`, `host:port`, `:port`, `[::1]:port` | WebSocket, binary; the port is 6230 and the host 127.0.0.1 unless given |
/// | `adf://host:port`, `tcp://host:port` | the same |
/// | `adf+json://host:port` | WebSocket, JSON |
/// | `http://host:port` | HTTP, binary |
/// | `http+json://host:port` | HTTP, JSON |
/// | `adfs://`, `adfs+json://`, `https://`, `https+json://`, `tls://` | the same over TLS, which the server leaves to a proxy |
/// | `unix:/path`, `unix:///path` | a unix socket of such a proxy: WebSocket, binary |
///
/// [`with_transport`](queue_core::Address::with_transport) changes the transport of any of them.
///
/// An IPv6 address may have a zone, such as `[fe80::1%eth0]:6230`, or `[fe80::1%25eth0]` as in URLs.
///
/// Its methods: [`tcp`](queue_core::Address::tcp), [`tls`](queue_core::Address::tls),
/// [`unix`](queue_core::Address::unix), [`over_tls`](queue_core::Address::over_tls),
/// [`is_tls`](queue_core::Address::is_tls) and [`endpoint`](queue_core::Address::endpoint).
pub type Address = queue_core::Address<AdfQueue>;

/// Adf.QueueServer as the server kind of an [`Address`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdfQueue;

impl Transports for AdfQueue {
    type Transport = Transport;
    const ALL: &'static [Transport] = &Transport::ALL;
}

/// The value of the `Host` header.
pub(crate) fn host(address: &Address) -> String {
    match address.endpoint() {
        Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } if host.contains(':') => {
            // The zone of an IPv6 address means something on this machine only.
            format!("[{}]:{port}", host.split('%').next().unwrap_or(host))
        }
        Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => format!("{host}:{port}"),
        // A unix socket.
        _ => "localhost".into(),
    }
}

/// The transport between client and server. All of them use the same port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// WebSocket with binary frames: any body of up to 65,535 bytes. Pulled messages go back when the connection ends.
    #[default]
    WsBin,
    /// WebSocket with JSON: text of any length. For queues that are never deleted: a JSON pull from a missing queue
    /// ends the server's process. The client counts the queue first, but another one may delete it between the count
    /// and the pull.
    WsJson,
    /// HTTP with binary answers: any body from 1 byte to 10 MiB. Messages are never given back automatically.
    HttpBin,
    /// HTTP with JSON answers: pulled bodies must be text. For queues that are never deleted, as
    /// [`WsJson`](Self::WsJson).
    HttpJson,
}

impl Transport {
    /// All transports.
    pub const ALL: [Transport; 4] =
        [Transport::WsBin, Transport::WsJson, Transport::HttpBin, Transport::HttpJson];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Transport::WsBin => "ws-bin",
            Transport::WsJson => "ws-json",
            Transport::HttpBin => "http-bin",
            Transport::HttpJson => "http-json",
        }
    }

    /// Whether it is HTTP, where pulled messages are not bound to a connection.
    #[must_use]
    pub const fn is_http(self) -> bool {
        matches!(self, Transport::HttpBin | Transport::HttpJson)
    }

    /// The encoding of requests and answers.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Transport::WsBin | Transport::HttpBin => Encoding::Binary,
            Transport::WsJson | Transport::HttpJson => Encoding::Json,
        }
    }
}

#[cfg(feature = "serde")]
queue_core::serde_as_text!(Transport);

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Transport {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Transport::name).join(", ");
            let text = excerpt(text.as_bytes());
            Error::invalid(format!("transport {text} is not known: write one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_host_and_transport() {
        for (text, shown, transport) in [
            ("example", "example:6230", Transport::WsBin),
            (":9", "127.0.0.1:9", Transport::WsBin),
            ("tcp://h", "h:6230", Transport::WsBin),
            ("adf://h/", "h:6230", Transport::WsBin),
            ("adf+json://h", "adf+json://h:6230", Transport::WsJson),
            ("http://[::1]:80", "http://[::1]:80", Transport::HttpBin),
            ("http+json://h", "http+json://h:6230", Transport::HttpJson),
            ("tls://h", "adfs://h:6230", Transport::WsBin),
            ("adfs+json://h", "adfs+json://h:6230", Transport::WsJson),
            ("https://h:443", "https://h:443", Transport::HttpBin),
            ("https+json://h", "https+json://h:6230", Transport::HttpJson),
            ("unix:///run/q.sock", "unix:/run/q.sock", Transport::WsBin),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((&*address.to_string(), address.transport()), (shown, transport), "{text}");
            assert_eq!(shown.parse::<Address>().unwrap(), address, "{text}");
        }
        assert_eq!(Address::default(), ":6230".parse().unwrap());
        assert!("https+json://h".parse::<Address>().unwrap().is_tls());
        assert!(!"http+json://h".parse::<Address>().unwrap().is_tls());
    }

    #[test]
    fn transports_round_trip() {
        for transport in Transport::ALL {
            assert_eq!(transport.to_string().parse::<Transport>().unwrap(), transport);
            let address = Address::default().with_transport(transport);
            assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }
        assert_eq!(
            "ws".parse::<Transport>().unwrap_err().to_string(),
            "transport \"ws\" is not known: write one of ws-bin, ws-json, http-bin, http-json"
        );
    }
}
