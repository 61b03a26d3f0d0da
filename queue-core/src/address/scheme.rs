//! The syntax of server addresses.

use std::{borrow::Cow, fmt, path::Path};

use crate::{Error, decimal, excerpt};

/// The address scheme and default port of a kind of server.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// The name of the server, for messages.
    pub server: &'static str,
    /// The scheme of plain TCP, before `://`; `tcp` means the same.
    pub plain: &'static str,
    /// The scheme of TLS; `tls` means the same.
    pub tls: &'static str,
    /// The default port of plain TCP.
    pub port: u16,
    /// The default port of TLS.
    pub tls_port: u16,
    /// Another scheme of plain TCP that is in use.
    pub also: Option<&'static str>,
    /// Further pairs of schemes, for plain TCP and TLS, if an address also selects the transport.
    pub others: &'static [(&'static str, &'static str)],
}

/// Where a server listens, for pattern matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint<'a> {
    /// Plain TCP. The host is a name or an IP address without brackets.
    Tcp {
        /// Name or IP address.
        host: &'a str,
        /// Port number.
        port: u16,
    },
    /// TLS over TCP.
    Tls {
        /// Name or IP address; also the name the certificate must carry.
        host: &'a str,
        /// Port number.
        port: u16,
    },
    /// A unix socket.
    Unix(&'a Path),
}

impl Scheme {
    /// The host of an address that names none.
    pub const DEFAULT_HOST: &'static str = "127.0.0.1";

    /// Parses `host`, `host:port`, `:port`, `[::1]:port`, each with or without a scheme, or `unix:/path`. Also returns
    /// the index of the pair of schemes: 0 for [`plain`](Self::plain) and [`tls`](Self::tls), and without a scheme;
    /// those of [`others`](Self::others) follow.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, which shows the text unless it may contain a password.
    pub(crate) fn parse<'t>(&self, text: &'t str) -> Result<(Endpoint<'t>, usize), Error> {
        self.read(text).map_err(|why| self.not_valid(text, &why))
    }

    /// Rejects an endpoint whose text form [`parse`](Self::parse) would not accept.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub(crate) fn check(&self, endpoint: Endpoint<'_>) -> Result<(), Error> {
        let checked = match endpoint {
            Endpoint::Unix(path) => check_path(path),
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port } => {
                check_host(host).and_then(|()| check_port(u64::from(port)).map(drop))
            }
        };
        checked.map_err(|why| {
            let mut text = String::new();
            // Writing to memory does not fail.
            let _ = self.write(endpoint, 0, &mut text);
            self.not_valid(&text, &why)
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        [(self.plain, self.tls)].into_iter().chain(self.others.iter().copied())
    }

    /// The index of a pair, and whether this is its TLS scheme.
    fn find(&self, scheme: &str) -> Option<(usize, bool)> {
        match scheme {
            "tcp" => Some((0, false)),
            "tls" => Some((0, true)),
            also if self.also == Some(also) => Some((0, false)),
            _ => self.pairs().enumerate().find_map(|(number, (plain, tls))| {
                (scheme == plain || scheme == tls).then_some((number, scheme == tls))
            }),
        }
    }

    fn read<'t>(&self, text: &'t str) -> Result<(Endpoint<'t>, usize), String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            check_path(path)?;
            return Ok((Endpoint::Unix(path), 0));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or((self.plain, text));
        let Some((pair, is_tls)) = self.find(scheme) else {
            let own = self.pairs().flat_map(|(plain, tls)| [plain, tls]);
            let names = own.chain(["tcp", "tls"]).collect::<Vec<_>>().join(", ");
            return Err(format!("the scheme is not {names} or unix"));
        };
        if rest.contains('?') {
            return Err("an address has no parameters: leave out everything from the '?'".into());
        }
        let (host, port) = self.host_and_port(rest.strip_suffix('/').unwrap_or(rest))?;
        let endpoint = if is_tls {
            Endpoint::Tls { host, port: port.unwrap_or(self.tls_port) }
        } else {
            Endpoint::Tcp { host, port: port.unwrap_or(self.port) }
        };
        Ok((endpoint, pair))
    }

    fn host_and_port<'t>(&self, text: &'t str) -> Result<(&'t str, Option<u16>), String> {
        let (host, port) = match (text.strip_prefix('['), text.split_once(':')) {
            (Some(inner), _) => bracketed(inner)?,
            (None, Some((_, port))) if port.contains(':') => {
                let port = self.port;
                return Err(format!("an IPv6 address needs brackets, such as [::1]:{port}"));
            }
            (None, Some((host, port))) => (host, Some(port)),
            (None, None) if text.is_empty() => return Err("it is empty".into()),
            (None, None) => (text, None),
        };
        let port =
            port.map(|port| check_port(decimal(port.as_bytes()).unwrap_or(0))).transpose()?;
        let host = if host.is_empty() { Self::DEFAULT_HOST } else { host };
        check_host(host)?;
        Ok((host, port))
    }

    fn not_valid(&self, text: &str, why: &str) -> Error {
        let Scheme { server, plain, tls, port, .. } = self;
        let forms = format!(
            "host, host:port, [::1]:{port}, {plain}://host:port, {tls}://host:port or unix:/path"
        );
        // The server has no passwords, but one written here must not end up in a log.
        Error::invalid(if text.contains('@') {
            format!(
                "server address is not valid: {server} has no user names or passwords (the value is not shown because \
                 it may hold one; write {forms})"
            )
        } else {
            let text = excerpt(text.as_bytes());
            format!("server address {text} is not valid: {why} (write {forms})")
        })
    }

    /// The scheme of the same server with this pair as its own.
    pub(crate) fn pair(&self, number: usize) -> Scheme {
        let (plain, tls) = self.pairs().nth(number).unwrap_or((self.plain, self.tls));
        Scheme { plain, tls, ..*self }
    }

    /// Formats an address so that [`parse`](Self::parse) accepts it. The path of a Unix socket does not name a pair.
    ///
    /// # Errors
    ///
    /// The errors of the formatter.
    pub(crate) fn write(
        &self,
        endpoint: Endpoint<'_>,
        pair: usize,
        f: &mut impl fmt::Write,
    ) -> fmt::Result {
        let Scheme { plain, tls, .. } = self.pair(pair);
        let (host, port) = match endpoint {
            // Two leading slashes after `unix:` are parsed as those of a URL.
            Endpoint::Unix(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                return write!(f, "unix://{}", path.display());
            }
            Endpoint::Unix(path) => return write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { host, port } => {
                // Without its scheme, a host of this name is parsed as a Unix socket.
                if pair > 0 || host == "unix" {
                    write!(f, "{plain}://")?;
                }
                (host, port)
            }
            Endpoint::Tls { host, port } => {
                write!(f, "{tls}://")?;
                (host, port)
            }
        };
        match host.split_once('%') {
            _ if !host.contains(':') => write!(f, "{host}:{port}"),
            // Without the separator of URLs, this zone would be read as one.
            Some((host, zone)) if zone.starts_with("25") && zone != "25" => {
                write!(f, "[{host}%25{zone}]:{port}")
            }
            _ => write!(f, "[{host}]:{port}"),
        }
    }
}

fn check_path(path: &Path) -> Result<(), String> {
    match path.as_os_str().is_empty() {
        true => Err("the path of the unix socket is missing".into()),
        false => Ok(()),
    }
}

fn check_port(port: u64) -> Result<u16, String> {
    let port = u16::try_from(port).ok().filter(|port| *port != 0);
    port.ok_or_else(|| "the port is not a number from 1 to 65535".into())
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    if let Some(bad) = host.chars().find(|c| !(c.is_alphanumeric() || "-._:%".contains(*c))) {
        return Err(format!("{bad:?} cannot be part of a host name"));
    }
    match host.contains(':') {
        true => check_ipv6(host),
        false => Ok(()),
    }
}

/// Accepts an IPv6 address with or without a zone, such as `fe80::1%eth0`.
fn check_ipv6(host: &str) -> Result<(), String> {
    let is_address = without_zone(host).parse::<std::net::Ipv6Addr>().is_ok();
    match is_address && !host.ends_with('%') {
        true => Ok(()),
        false => Err("there is no IPv6 address between the brackets".into()),
    }
}

/// A host whose zone, if any, follows `%`; text may have `%25` there, as URLs do (RFC 6874). `%25` at the end is the
/// zone 25.
#[must_use]
pub fn with_bare_zone(host: &str) -> Cow<'_, str> {
    match host.split_once("%25") {
        Some((address, zone)) if address.contains(':') && !zone.is_empty() => {
            format!("{address}%{zone}").into()
        }
        _ => host.into(),
    }
}

/// A host without its zone, which means something on this machine only.
pub(crate) fn without_zone(host: &str) -> &str {
    host.split_once('%').map_or(host, |(host, _)| host)
}

/// Parses the rest after a `[`.
fn bracketed(inner: &str) -> Result<(&str, Option<&str>), String> {
    let (host, after) = inner.split_once(']').ok_or("the ']' is missing")?;
    check_ipv6(host)?;
    match after.strip_prefix(':') {
        None if after.is_empty() => Ok((host, None)),
        Some(port) => Ok((host, Some(port))),
        None => Err("only a port may follow the ']'".into()),
    }
}

impl Endpoint<'_> {
    /// Whether others on the network may read the traffic: plain text to another machine.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        match self {
            Endpoint::Tcp { host, .. } => {
                *host != "localhost"
                    && !without_zone(host)
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|ip| ip.is_loopback())
            }
            Endpoint::Tls { .. } | Endpoint::Unix(_) => false,
        }
    }
}
