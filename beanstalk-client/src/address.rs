//! Where a server listens.

use std::{fmt, path::PathBuf, str::FromStr};

#[cfg(any(feature = "tokio", feature = "blocking"))]
use queue_core::Span;
use queue_core::{Endpoint, Scheme, ServerAddress};

use crate::Error;
#[cfg(any(feature = "tokio", feature = "blocking"))]
use crate::trace;

/// How the addresses of beanstalkd are written.
pub(crate) const SCHEME: Scheme = Scheme {
    server: "beanstalkd",
    plain: "beanstalk",
    tls: "beanstalks",
    port: Address::DEFAULT_PORT,
    tls_port: Address::DEFAULT_TLS_PORT,
    others: &[],
};

/// Where a server listens.
///
/// | text | meaning |
/// |---|---|
/// | `host`, `host:port`, `:port`, `[::1]:port` | TCP; the port is 11300 and the host 127.0.0.1 unless given |
/// | `beanstalk://host:port`, `tcp://host:port` | the same |
/// | `beanstalks://host:port`, `tls://host:port` | TLS; the port is 11400 unless given |
/// | `unix:/path`, `unix:///path` | a unix socket |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// Plain TCP. The host is a name or an IP address without brackets.
    Tcp {
        /// Name or IP address.
        host: String,
        /// Port number.
        port: u16,
    },
    /// TLS over TCP. Needs the feature `tls`; never falls back to plain text.
    Tls {
        /// Name or IP address; also the name the certificate must carry.
        host: String,
        /// Port number.
        port: u16,
    },
    /// A unix socket, on Unix.
    Unix(PathBuf),
}

impl Address {
    /// The port beanstalkd listens on unless told otherwise.
    pub const DEFAULT_PORT: u16 = 11300;
    /// The port that TLS proxies in front of beanstalkd use by convention.
    pub const DEFAULT_TLS_PORT: u16 = 11400;

    /// Where the server listens.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint<'_> {
        match self {
            Address::Tcp { host, port } => Endpoint::Tcp { host, port: *port },
            Address::Tls { host, port } => Endpoint::Tls { host, port: *port },
            Address::Unix(path) => Endpoint::Unix(path),
        }
    }
}

impl ServerAddress for Address {
    type Error = Error;

    fn endpoint(&self) -> Endpoint<'_> {
        self.endpoint()
    }

    fn scheme(&self) -> Scheme {
        SCHEME
    }

    #[cfg(any(feature = "tokio", feature = "blocking"))]
    fn connecting(&self) -> Span {
        trace::connecting(self)
    }

    #[cfg(any(feature = "tokio", feature = "blocking"))]
    fn connected(&self, outcome: Result<(), &Error>) {
        trace::connected(self, outcome);
    }
}

impl Default for Address {
    /// `127.0.0.1:11300`.
    fn default() -> Self {
        Address::Tcp { host: Scheme::DEFAULT_HOST.into(), port: Self::DEFAULT_PORT }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match SCHEME.parse(text)? {
            Endpoint::Tcp { host, port } => Address::Tcp { host: host.into(), port },
            Endpoint::Tls { host, port } => Address::Tls { host: host.into(), port },
            Endpoint::Unix(path) => Address::Unix(path.into()),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SCHEME.write(self.endpoint(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_ports_and_schemes_of_beanstalkd() {
        for (text, shown) in [
            ("example", "example:11300"),
            (":9", "127.0.0.1:9"),
            ("tcp://h", "h:11300"),
            ("beanstalk://h/", "h:11300"),
            ("beanstalks://h", "beanstalks://h:11400"),
            ("tls://[::1]:9", "beanstalks://[::1]:9"),
            ("unix:///run/q.sock", "unix:/run/q.sock"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<Address>().unwrap(), address, "{text}");
        }
        assert_eq!(Address::default(), ":11300".parse().unwrap());
    }

    #[test]
    fn a_wrong_address_is_invalid_input_and_never_shows_a_password() {
        let error = "h:x".parse::<Address>().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        assert_eq!(
            error.to_string(),
            "server address \"h:x\" is not valid: the port is not a number from 1 to 65535 (write host, host:port, \
             [::1]:11300, beanstalk://host:port, beanstalks://host:port or unix:/path)"
        );
        let error = "beanstalk://user:sentinel@host:x".parse::<Address>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sentinel"), "{error}");
    }
}
