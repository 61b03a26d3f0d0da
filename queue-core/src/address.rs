//! Server addresses.

pub(crate) mod chooser;
pub(crate) mod opening;
pub(crate) mod scheme;
pub(crate) mod servers;

use std::{convert::Infallible, fmt, hash::Hash, marker::PhantomData, path::PathBuf, str::FromStr};

use crate::{Endpoint, Error, Scheme, Span, with_bare_zone};

/// A kind of server: the syntax of its addresses, and how its client handles the outcome of connecting.
pub trait System: Copy + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// The syntax of its addresses.
    const SCHEME: Scheme;

    /// The client's error type.
    type Error: From<Error> + From<Infallible> + Send + 'static;

    /// Rejects addresses that the protocol cannot use.
    ///
    /// # Errors
    ///
    /// `InvalidInput`.
    fn check(address: &Address<Self>) -> Result<(), Self::Error> {
        let _ = address;
        Ok(())
    }

    /// The span of an attempt to connect.
    fn connecting(address: &Address<Self>) -> Span {
        let _ = address;
        Span::none()
    }

    /// Records the outcome of the attempt, within that span.
    fn connected(address: &Address<Self>, span: &Span, outcome: Result<(), &Self::Error>) {
        let _ = (address, span, outcome);
    }
}

/// A system with several transports, selected by the scheme of the address.
pub trait Transports: System {
    /// The transport.
    type Transport: Copy + Default + Eq + 'static;

    /// All transports, in the order of the pairs of schemes; the default is the first.
    const ALL: &'static [Self::Transport];
}

/// The address of a server of this system. It is well-formed, and its `Display` form parses back to the same address.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address<S: System> {
    place: Location,
    /// The index of its pair of schemes.
    pair: usize,
    system: PhantomData<S>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Location {
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

impl<S: System> Address<S> {
    /// The default port of plain TCP.
    pub const DEFAULT_PORT: u16 = S::SCHEME.port;
    /// The default port of TLS.
    pub const DEFAULT_TLS_PORT: u16 = S::SCHEME.tls_port;

    /// Plain TCP. The host is a name or an IP address without brackets.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid host, and for port 0.
    pub fn tcp(host: impl Into<String>, port: u16) -> Result<Self, S::Error> {
        Self::new(Location::Tcp(host.into(), port))
    }

    /// TLS over TCP. The certificate must carry the host name. Needs the feature `tls`, and never falls back to plain
    /// text.
    ///
    /// # Errors
    ///
    /// As [`tcp`](Self::tcp).
    pub fn tls(host: impl Into<String>, port: u16) -> Result<Self, S::Error> {
        Self::new(Location::Tls(host.into(), port))
    }

    /// A unix socket, on Unix.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an empty path.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self, S::Error> {
        Self::new(Location::Unix(path.into()))
    }

    fn new(place: Location) -> Result<Self, S::Error> {
        S::SCHEME.check(place.endpoint())?;
        Ok(Address { place, pair: 0, system: PhantomData })
    }

    /// The same host and port over TLS. A Unix socket address is unchanged.
    #[must_use]
    pub fn over_tls(mut self) -> Self {
        if let Location::Tcp(host, port) = self.place {
            self.place = Location::Tls(host, port);
        }
        self
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.place, Location::Tls(..))
    }

    /// Where the server listens.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint<'_> {
        self.place.endpoint()
    }

    /// The scheme that this address is written with.
    pub(crate) fn scheme(&self) -> Scheme {
        S::SCHEME.pair(self.pair)
    }
}

impl<S: Transports> Address<S> {
    /// The same server over another transport.
    #[must_use]
    pub fn with_transport(mut self, transport: S::Transport) -> Self {
        self.pair = S::ALL.iter().position(|known| *known == transport).unwrap_or(0);
        self
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> S::Transport {
        S::ALL.get(self.pair).copied().unwrap_or_default()
    }
}

impl Location {
    fn endpoint(&self) -> Endpoint<'_> {
        match self {
            Location::Tcp(host, port) => Endpoint::Tcp { host, port: *port },
            Location::Tls(host, port) => Endpoint::Tls { host, port: *port },
            Location::Unix(path) => Endpoint::Unix(path),
        }
    }
}

impl<S: System> Default for Address<S> {
    /// The default port on 127.0.0.1.
    fn default() -> Self {
        let place = Location::Tcp(Scheme::DEFAULT_HOST.into(), Self::DEFAULT_PORT);
        Address { place, pair: 0, system: PhantomData }
    }
}

impl<S: System> FromStr for Address<S> {
    type Err = S::Error;

    fn from_str(text: &str) -> Result<Self, S::Error> {
        let (endpoint, pair) = S::SCHEME.parse(text)?;
        let place = match endpoint {
            Endpoint::Tcp { host, port } => Location::Tcp(with_bare_zone(host).into(), port),
            Endpoint::Tls { host, port } => Location::Tls(with_bare_zone(host).into(), port),
            Endpoint::Unix(path) => Location::Unix(path.into()),
        };
        Ok(Address { place, pair, system: PhantomData })
    }
}

crate::try_from_text!(Address<S>, S::Error; S: System);

impl<S: System> fmt::Display for Address<S> {
    /// Formats as text that parses back to this address, except that the path of a Unix socket does not name a
    /// transport.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        S::SCHEME.write(self.endpoint(), self.pair, f)
    }
}

impl<S: System> fmt::Debug for Address<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.to_string()).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A fictitious kind of server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub(crate) struct Queued;

    impl System for Queued {
        const SCHEME: Scheme = Scheme {
            server: "queued",
            plain: "queue",
            tls: "queues",
            port: 7,
            tls_port: 8,
            also: Some("queued"),
            others: &[("http", "https"), ("text", "texts")],
        };
        type Error = Error;
    }

    impl Transports for Queued {
        type Transport = u8;
        const ALL: &'static [u8] = &[0, 1, 2];
    }

    type Address = super::Address<Queued>;

    fn read(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_in_every_form() {
        for (text, shown) in [
            ("example", "example:7"),
            ("example:1", "example:1"),
            (":9", "127.0.0.1:9"),
            ("[::1]", "[::1]:7"),
            ("[::1]:5", "[::1]:5"),
            ("tcp://h:5", "h:5"),
            ("queue://h", "h:7"),
            ("queue://h/", "h:7"),
            ("queued://h", "h:7"),
            ("queues://h", "queues://h:8"),
            ("[fe80::1%eth0]:5", "[fe80::1%eth0]:5"),
            ("queues://[fe80::1%25eth0]", "queues://[fe80::1%eth0]:8"),
            ("[fe80::1%25]:5", "[fe80::1%25]:5"),
            ("[fe80::1%25251]:5", "[fe80::1%25251]:5"),
            ("unix:/run/%25eth0::", "unix:/run/%25eth0::"),
            ("tls://[::1]:9", "queues://[::1]:9"),
            ("unix:/run/q.sock", "unix:/run/q.sock"),
            ("unix:///run/q.sock", "unix:/run/q.sock"),
            ("unix:relative.sock", "unix:relative.sock"),
            ("unix:////two/slashes", "unix:////two/slashes"),
            ("queue://unix:5", "queue://unix:5"),
        ] {
            let address = read(text);
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(read(shown), address, "{text}");
        }
        assert_eq!(Address::default(), read(":7"));
        assert_eq!(format!("{:?}", read("h")), "Address(\"h:7\")");
    }

    #[test]
    fn custom_schemes_round_trip() {
        for (text, shown, transport) in [
            ("h", "h:7", 0),
            ("tls://h", "queues://h:8", 0),
            ("http://h/", "http://h:7", 1),
            ("https://[::1]:5", "https://[::1]:5", 1),
            ("texts://h", "texts://h:8", 2),
            ("text://unix:1", "text://unix:1", 2),
        ] {
            let address = read(text);
            assert_eq!((&*address.to_string(), address.transport()), (shown, transport), "{text}");
            assert_eq!(read(shown), address, "{text}");
        }
        let error = "ftp://h".parse::<Address>().unwrap_err().to_string();
        let names = "not queue, queues, http, https, text, texts, tcp, tls or unix (";
        assert!(error.contains(names), "{error}");
        assert_eq!(read("h").with_transport(2).scheme().tls, "texts");
    }

    #[test]
    fn built_addresses_round_trip() {
        for (built, text) in [
            (Address::tcp("h", 5), "h:5"),
            (Address::tcp("::1", 5), "[::1]:5"),
            (Address::tcp("fe80::1%eth0", 5), "[fe80::1%25eth0]:5"),
            (Address::tcp("fe80::1%251", 5), "[fe80::1%25251]:5"),
            (Address::tls("h", 5), "queues://h:5"),
            (Address::unix("/run/q.sock"), "unix:/run/q.sock"),
        ] {
            assert_eq!(built.unwrap(), read(text));
        }
        assert_eq!(read("h:5").over_tls(), read("queues://h:5"));
        assert_eq!(read("text://h:5").over_tls(), read("texts://h:5"));
        assert_eq!(read("unix:/s").over_tls(), read("unix:/s"));
        assert!(read("https://h").is_tls() && !read("http://h").is_tls());
        for wrong in [
            Address::tcp("", 5),
            Address::tcp("h", 0),
            Address::tcp("a b", 5),
            Address::tls("h:5", 5),
            Address::tls("[::1]", 5),
            Address::unix(""),
        ] {
            let error = wrong.unwrap_err();
            assert_eq!(*error.kind(), crate::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("(write host, host:port, "), "{error}");
        }
    }

    #[test]
    fn wrong_addresses_name_the_value_and_the_rule() {
        for text in [
            "",
            "h:",
            "h:x",
            "h:0",
            "h:65536",
            "::1",
            "[::1",
            "[::1]x",
            "[x]:1",
            "[::1%]:1",
            "[::1%25%]:1",
            "[%eth0]:1",
            "ftp://h",
            "queue://h?a=b",
            "unix:",
            "a b",
            "h/x",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(*error.kind(), crate::ErrorKind::InvalidInput, "{text}");
            assert!(error.to_string().contains(text), "{error}");
        }
        let bare = "::1".parse::<Address>().unwrap_err().to_string();
        assert!(bare.contains("an IPv6 address needs brackets, such as [::1]:7"), "{bare}");
    }

    #[test]
    fn a_password_in_an_address_is_never_shown() {
        let error = "queue://user:sentinel@host:x".parse::<Address>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sentinel"), "{error}");
    }

    #[test]
    fn only_plain_text_to_another_machine_is_exposed() {
        for safe in ["127.0.0.1", "[::1]", "[::1%lo]", "localhost", "queues://10.0.0.5", "unix:/s"]
        {
            assert!(!read(safe).endpoint().is_exposed(), "{safe}");
        }
        for exposed in ["10.0.0.5", "[fe80::1%eth0]", "example.com", "localhost.example.com"] {
            assert!(read(exposed).endpoint().is_exposed(), "{exposed}");
        }
    }
}
