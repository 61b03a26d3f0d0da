//! What a caller chooses: where to connect, how long to wait, how a job is put.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

#[cfg(feature = "__rustls")]
use crate::tls::TlsOptions;
use crate::{Error, Priority, Seconds};

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
}

impl Default for Address {
    /// `127.0.0.1:11300`.
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
        let (scheme, rest) = text.split_once("://").unwrap_or(("beanstalk", text));
        let tls = match scheme {
            "beanstalk" | "tcp" => false,
            "beanstalks" | "tls" => true,
            _ => {
                return Err(bad_address(
                    text,
                    "the scheme is not beanstalk, beanstalks, tcp, tls or unix",
                ));
            }
        };
        let default_port = if tls { Self::DEFAULT_TLS_PORT } else { Self::DEFAULT_PORT };
        let (host, port) =
            host_and_port(text, rest.strip_suffix('/').unwrap_or(rest), default_port)?;
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
                    "an IPv6 address needs brackets, such as [::1]:11300",
                ));
            }
            Some((host, port)) => (host, Some(port)),
            None if rest.is_empty() => return Err(bad_address(text, "it is empty")),
            None => (rest, None),
        }
    };
    let port = match port {
        None => default,
        Some(port) => crate::types::decimal(port)
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
        "host, host:port, [::1]:11300, beanstalk://host:port, beanstalks://host:port or unix:/path";
    // beanstalkd knows no passwords, but who writes one here must not find it in a log.
    if text.contains('@') {
        return Error::invalid(format!(
            "server address is not valid: beanstalkd has no user names or passwords (the value is not shown because \
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
            Address::Tls { host, port } => with("beanstalks://", host, *port),
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
/// use beanstalk_client::ConnectOptions;
///
/// let options: ConnectOptions = "localhost:11300".parse()?;
/// let options = options.connect_timeout(Duration::from_secs(1)).reply_timeout(Duration::from_secs(2));
/// # Ok::<(), beanstalk_client::Error>(())
/// ```
///
/// | deadline | default | covers |
/// |---|---|---|
/// | connect | 5 s | name resolution, TCP over all addresses, TLS handshake |
/// | write | 10 s | handing one command to the operating system |
/// | reply | 10 s | from the command written to its whole reply; a timed reserve adds its timeout and the grace |
/// | total | none | the whole call, with reconnects and retries |
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    pub(crate) address: Address,
    pub(crate) connect_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) reserve_grace: Duration,
    pub(crate) max_body_size: usize,
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
            reserve_grace: Duration::from_secs(5),
            max_body_size: 64 << 20,
            retry: RetryPolicy::default(),
            require_tls: false,
            #[cfg(feature = "__rustls")]
            tls: TlsOptions::default(),
        }
    }

    /// Bounds resolving, connecting and the TLS handshake together.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Bounds handing one command to the operating system.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Bounds the wait for a whole reply once its command is written.
    #[must_use]
    pub fn reply_timeout(mut self, timeout: Duration) -> Self {
        self.reply_timeout = timeout;
        self
    }

    /// Bounds each call as a whole, reconnects and retries included. `None`: only the other deadlines hold. Of a
    /// pipeline it bounds the connecting; its replies have the reply deadline each.
    #[must_use]
    pub fn total_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.total_timeout = timeout;
        self
    }

    /// How much longer than the server's own timeout a timed reserve is waited for. It has to be longer than the
    /// slowest round trip, or a job that is already on its way is given up; at least a second is used.
    #[must_use]
    pub fn reserve_grace(mut self, grace: Duration) -> Self {
        self.reserve_grace = grace.max(Duration::from_secs(1));
        self
    }

    /// The largest body, or stats text, that is received, in bytes; 64 MiB unless set. A larger body is skipped and
    /// reported as [`BodyTooLarge`](crate::ErrorKind::BodyTooLarge).
    #[must_use]
    pub fn max_body_size(mut self, bytes: usize) -> Self {
        self.max_body_size = bytes;
        self
    }

    /// How often a command that certainly did not reach the server is tried again.
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

    /// Certificates and names for `beanstalks://` addresses.
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
                    "refusing a plain-text connection to {host} because require_tls is set (write beanstalks://{host})"
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

/// How often, and after what delays, a client connects again and repeats a command.
///
/// Only a command that certainly did not reach the server ([`Fate::NotSent`](crate::Fate::NotSent)) is repeated, and
/// never one that acts on a job: on a new connection its id may name another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub(crate) attempts: u32,
    pub(crate) base: Duration,
    pub(crate) cap: Duration,
}

impl RetryPolicy {
    /// Up to `attempts` further connection attempts for one call; 0 never reconnects by itself.
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

/// How a job is put: priority 1024, no delay and 60 s to run unless set.
///
/// ```
/// use std::time::Duration;
/// use beanstalk_client::PutOptions;
///
/// let urgent = PutOptions::default().priority(0).ttr(Duration::from_secs(300));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOptions {
    priority: Priority,
    delay: Duration,
    ttr: Duration,
}

impl PutOptions {
    /// How urgent the job is; 0 comes first.
    #[must_use]
    pub fn priority(mut self, priority: impl Into<Priority>) -> Self {
        self.priority = priority.into();
        self
    }

    /// How long the job stays delayed, in whole seconds (rounded up), at most `u32::MAX`.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// How long a consumer may hold the job before others get it, in whole seconds (rounded up), at most `u32::MAX`.
    /// The server turns 0 into 1, and the last second is a safety margin.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.ttr = ttr;
        self
    }

    pub(crate) fn checked(self) -> Result<(Priority, Seconds, Seconds), Error> {
        let delay = Seconds::round_up("delay", self.delay, u32::MAX)?;
        let ttr = Seconds::round_up("ttr", self.ttr, u32::MAX)?;
        Ok((self.priority, delay, ttr))
    }
}

impl Default for PutOptions {
    fn default() -> Self {
        PutOptions {
            priority: Priority::default(),
            delay: Duration::ZERO,
            ttr: Duration::from_secs(60),
        }
    }
}

/// How a reserved job is given back.
///
/// There is no default priority: `release` overwrites the job's, so the caller has to say which. `stats_job` tells the
/// present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseOptions {
    priority: Priority,
    delay: Duration,
}

impl ReleaseOptions {
    /// Ready at once, with this priority.
    #[must_use]
    pub fn new(priority: impl Into<Priority>) -> Self {
        ReleaseOptions { priority: priority.into(), delay: Duration::ZERO }
    }

    /// How long the job stays delayed, in whole seconds (rounded up), at most `u32::MAX`.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub(crate) fn checked(self) -> Result<(Priority, Seconds), Error> {
        Ok((self.priority, Seconds::round_up("delay", self.delay, u32::MAX)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_form() {
        for (text, shown) in [
            ("example", "example:11300"),
            ("example:1", "example:1"),
            (":11301", "127.0.0.1:11301"),
            ("[::1]", "[::1]:11300"),
            ("[::1]:5", "[::1]:5"),
            ("tcp://h:5", "h:5"),
            ("beanstalk://h", "h:11300"),
            ("beanstalk://h/", "h:11300"),
            ("beanstalks://h", "beanstalks://h:11400"),
            ("tls://[::1]:9", "beanstalks://[::1]:9"),
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
        let error = "beanstalk://user:sentinel@host:x".parse::<Address>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sentinel"), "{error}");
    }

    #[cfg(any(feature = "tokio", feature = "blocking"))]
    #[test]
    fn require_tls_allows_plain_text_to_this_machine_only() {
        let check = |text: &str| text.parse::<ConnectOptions>().unwrap().require_tls(true).check();
        assert!(check("127.0.0.1").is_ok() && check("[::1]").is_ok() && check("localhost").is_ok());
        assert!(check("beanstalks://10.0.0.5").is_ok() && check("unix:/s").is_ok());
        assert_eq!(
            check("10.0.0.5").unwrap_err().to_string(),
            "refusing a plain-text connection to 10.0.0.5 because require_tls is set (write beanstalks://10.0.0.5)"
        );
    }
}
