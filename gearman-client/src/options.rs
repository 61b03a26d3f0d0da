//! What a caller chooses about one server: where it is, and how long to wait for what.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use crate::Error;
#[cfg(feature = "__rustls")]
use crate::tls::TlsOptions;

/// Where a server listens.
///
/// | text | meaning |
/// |---|---|
/// | `host`, `host:port`, `:port`, `[::1]:port` | TCP; the port is 4730 and the host 127.0.0.1 unless given |
/// | `gearman://host:port`, `tcp://host:port` | the same |
/// | `gearmans://host:port`, `tls://host:port` | TLS; the port is 4730 unless given |
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
    /// The port gearmand listens on unless told otherwise.
    pub const DEFAULT_PORT: u16 = 4730;
}

impl Default for Address {
    /// `127.0.0.1:4730`.
    fn default() -> Self {
        Address::Tcp { host: "127.0.0.1".into(), port: Self::DEFAULT_PORT }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(bad_address(text, "the path of the unix socket is missing"));
            }
            return Ok(Address::Unix(path.into()));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("gearman", text));
        let tls = match scheme {
            "gearman" | "tcp" => false,
            "gearmans" | "tls" => true,
            _ => {
                return Err(bad_address(
                    text,
                    "the scheme is not gearman, gearmans, tcp, tls or unix",
                ));
            }
        };
        let (host, port) =
            host_and_port(text, rest.strip_suffix('/').unwrap_or(rest), Self::DEFAULT_PORT)?;
        Ok(if tls { Address::Tls { host, port } } else { Address::Tcp { host, port } })
    }
}

fn host_and_port(text: &str, rest: &str, default: u16) -> Result<(String, u16), Error> {
    let (host, port) = if let Some(inner) = rest.strip_prefix('[') {
        let (host, after) =
            inner.split_once(']').ok_or_else(|| bad_address(text, "the ']' is missing"))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(bad_address(text, "there is no IPv6 address between the brackets"));
        }
        let port = match after.strip_prefix(':') {
            None if after.is_empty() => None,
            Some(port) => Some(port),
            None => return Err(bad_address(text, "only a port may follow the ']'")),
        };
        (host, port)
    } else {
        match rest.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(bad_address(
                    text,
                    "an IPv6 address needs brackets, such as [::1]:4730",
                ));
            }
            Some((host, port)) => (host, Some(port)),
            None if rest.is_empty() => return Err(bad_address(text, "it is empty")),
            None => (rest, None),
        }
    };
    let port = match port {
        None => default,
        Some(port) => crate::text::decimal(port.as_bytes())
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0)
            .ok_or_else(|| bad_address(text, "the port is not a number from 1 to 65535"))?,
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    if let Some(bad) = host.chars().find(|c| !(c.is_alphanumeric() || "-._:%".contains(*c))) {
        return Err(bad_address(text, &format!("{bad:?} cannot be part of a host name")));
    }
    Ok((host.to_owned(), port))
}

fn bad_address(text: &str, why: &str) -> Error {
    const FORMS: &str =
        "host, host:port, [::1]:4730, gearman://host:port, gearmans://host:port or unix:/path";
    // gearmand knows no passwords, but who writes one here must not find it in a log.
    if text.contains('@') {
        return Error::invalid(format!(
            "server address is not valid: gearmand has no user names or passwords (the value is not shown because \
             it may hold one; write {FORMS})"
        ));
    }
    Error::invalid(format!(
        "server address {} is not valid: {why} (write {FORMS})",
        crate::error::excerpt(text.as_bytes())
    ))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut with = |scheme: &str, host: &str, port: u16| {
            if host.contains(':') {
                write!(f, "{scheme}[{host}]:{port}")
            } else {
                write!(f, "{scheme}{host}:{port}")
            }
        };
        match self {
            Address::Tcp { host, port } => with("", host, *port),
            Address::Tls { host, port } => with("gearmans://", host, *port),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How to connect, and how long to wait for what.
///
/// Made from an [`Address`] or from its text; setters consume and return it:
///
/// ```
/// use std::time::Duration;
/// use gearman_client::ConnectOptions;
///
/// let options: ConnectOptions = "localhost:4730".parse()?;
/// let options = options.connect_timeout(Duration::from_secs(1)).reply_timeout(Duration::from_secs(2));
/// # Ok::<(), gearman_client::Error>(())
/// ```
///
/// | deadline | default | covers |
/// |---|---|---|
/// | connect | 5 s | name resolution, TCP over all addresses, TLS handshake, the options of the connection |
/// | write | 10 s | handing a request to the operating system |
/// | reply | 10 s | from the oldest request written, or the last reply, to the next reply |
/// | total | none | the whole call, with reconnects and retries |
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) address: Address,
    pub(crate) connect_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) max_packet_size: usize,
    pub(crate) max_backlog: usize,
    pub(crate) exceptions: bool,
    pub(crate) retry: RetryPolicy,
    pub(crate) require_tls: bool,
    #[cfg(feature = "__rustls")]
    pub(crate) tls: TlsOptions,
}

impl ConnectOptions {
    /// Options for this server, everything else at its default.
    #[must_use]
    pub fn new(address: Address) -> Self {
        ConnectOptions {
            address,
            connect_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(10),
            total_timeout: None,
            max_packet_size: 64 << 20,
            max_backlog: 64 << 20,
            exceptions: true,
            retry: RetryPolicy::default(),
            require_tls: false,
            #[cfg(feature = "__rustls")]
            tls: TlsOptions::default(),
        }
    }

    /// Bounds resolving, connecting, the TLS handshake and the options together.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Bounds handing a request to the operating system.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Bounds the wait for a whole reply once its request is written.
    #[must_use]
    pub fn reply_timeout(mut self, timeout: Duration) -> Self {
        self.reply_timeout = timeout;
        self
    }

    /// Bounds each call as a whole, reconnects and retries included. `None`: only the other deadlines hold.
    #[must_use]
    pub fn total_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.total_timeout = timeout;
        self
    }

    /// The largest packet, or text reply, that is received, in bytes; 64 MiB unless set. A larger one ends the
    /// connection with [`PacketTooLarge`](crate::ErrorKind::PacketTooLarge).
    #[must_use]
    pub fn max_packet_size(mut self, bytes: usize) -> Self {
        self.max_packet_size = bytes;
        self
    }

    /// How many bytes of data and warnings of one job may wait until its submitter reads them; 64 MiB unless set. A job
    /// that passes it gives [`Backlog`](crate::ErrorKind::Backlog).
    #[must_use]
    pub fn max_backlog(mut self, bytes: usize) -> Self {
        self.max_backlog = bytes;
        self
    }

    /// Whether to ask for exceptions on connecting; yes unless set. Without, a worker's exception comes as a plain
    /// failure. Only for servers that leave the question unanswered, such as Python's `gear`.
    #[must_use]
    pub fn exceptions(mut self, negotiate: bool) -> Self {
        self.exceptions = negotiate;
        self
    }

    /// How often a request that certainly did not reach a server is tried again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Refuses plain text to another machine: such an address is an error then.
    #[must_use]
    pub fn require_tls(mut self, require: bool) -> Self {
        self.require_tls = require;
        self
    }

    /// Certificates and names for `gearmans://` addresses.
    #[cfg(feature = "__rustls")]
    #[must_use]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Refuses what `require_tls` forbids.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.address {
            Address::Tcp { host, .. } if self.require_tls && !is_loopback(host) => {
                Err(Error::invalid(format!(
                    "refusing a plain-text connection to {host} because require_tls is set (write gearmans://{host})"
                )))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(any(feature = "tokio", feature = "blocking"))]
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl From<Address> for ConnectOptions {
    fn from(address: Address) -> Self {
        ConnectOptions::new(address)
    }
}

impl From<&ConnectOptions> for ConnectOptions {
    fn from(options: &ConnectOptions) -> Self {
        options.clone()
    }
}

impl FromStr for ConnectOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().map(ConnectOptions::new)
    }
}

impl TryFrom<&str> for ConnectOptions {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<String> for ConnectOptions {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl TryFrom<&String> for ConnectOptions {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self, Error> {
        text.parse()
    }
}

/// How often, and after what delays, a client connects again and repeats a request.
///
/// Only a request that certainly did not reach a server ([`Fate::NotSent`](crate::Fate::NotSent)) is repeated, unless a
/// submission is declared [idempotent](crate::SubmitOptions::idempotent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(crate) attempts: u32,
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
}

impl RetryPolicy {
    /// Up to `attempts` further rounds over the servers for one call; 0 never tries again.
    #[must_use]
    pub const fn new(attempts: u32) -> Self {
        RetryPolicy { attempts, base: Duration::from_millis(100), cap: Duration::from_secs(10) }
    }

    /// Never reconnects and never repeats.
    #[must_use]
    pub const fn never() -> Self {
        Self::new(0)
    }

    /// Delays before the second and later attempts: a random share of `base`, doubled each time, at most `cap`.
    #[must_use]
    pub const fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.base = base;
        self.cap = cap;
        self
    }
}

impl Default for RetryPolicy {
    /// Three attempts, 100 ms doubling up to 10 s.
    fn default() -> Self {
        Self::new(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_form() {
        for (text, shown) in [
            ("example", "example:4730"),
            ("example:1", "example:1"),
            (":4731", "127.0.0.1:4731"),
            ("[::1]", "[::1]:4730"),
            ("[::1]:5", "[::1]:5"),
            ("tcp://h:5", "h:5"),
            ("gearman://h", "h:4730"),
            ("gearman://h/", "h:4730"),
            ("gearmans://h", "gearmans://h:4730"),
            ("tls://[::1]:9", "gearmans://[::1]:9"),
            ("unix:/run/b.sock", "unix:/run/b.sock"),
            ("unix:///run/b.sock", "unix:/run/b.sock"),
            ("unix:relative.sock", "unix:relative.sock"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown, "{text}");
            assert_eq!(shown.parse::<Address>().unwrap(), address, "{text}");
        }
    }

    #[test]
    fn wrong_addresses_name_the_value_and_the_rule() {
        for text in [
            "", "h:", "h:x", "h:0", "h:65536", "::1", "[::1", "[::1]x", "[x]:1", "http://h",
            "unix:", "a b", "h/x",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{text}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_never_shown() {
        let error = "gearman://user:sentinel@host:x".parse::<Address>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sentinel"), "{error}");
    }

    #[cfg(any(feature = "tokio", feature = "blocking"))]
    #[test]
    fn require_tls_allows_plain_text_to_this_machine_only() {
        let check = |text: &str| text.parse::<ConnectOptions>().unwrap().require_tls(true).check();
        assert!(check("127.0.0.1").is_ok() && check("[::1]").is_ok() && check("localhost").is_ok());
        assert!(check("gearmans://10.0.0.5").is_ok() && check("unix:/s").is_ok());
        assert_eq!(
            check("10.0.0.5").unwrap_err().to_string(),
            "refusing a plain-text connection to 10.0.0.5 because require_tls is set (write gearmans://10.0.0.5)"
        );
    }
}
