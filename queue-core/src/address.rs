//! How servers' addresses are written.

use std::{fmt, path::Path};

use crate::{Error, decimal, excerpt};

/// How one kind of server is named, and where it listens unless told otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// The server, for messages.
    pub server: &'static str,
    /// The scheme of plain TCP, before `://`; `tcp` means the same.
    pub plain: &'static str,
    /// The scheme of TLS; `tls` means the same.
    pub tls: &'static str,
    /// The default port of plain TCP.
    pub port: u16,
    /// The default port of TLS.
    pub tls_port: u16,
    /// Further pairs of schemes, of plain TCP and of TLS, where an address also says how to speak to the server.
    pub others: &'static [(&'static str, &'static str)],
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Reads `host`, `host:port`, `:port`, `[::1]:port`, each with or without a scheme, or `unix:/path`.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, which shows the text unless it may hold a password.
    pub fn parse<'t>(&self, text: &'t str) -> Result<Endpoint<'t>, Error> {
        self.parse_pair(text).map(|(endpoint, _)| endpoint)
    }

    /// The same, and the number of the pair of schemes that it names: 0 for [`plain`](Self::plain) and
    /// [`tls`](Self::tls), and without a scheme; those of [`others`](Self::others) follow.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn parse_pair<'t>(&self, text: &'t str) -> Result<(Endpoint<'t>, usize), Error> {
        self.read(text).map_err(|why| self.not_valid(text, &why))
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        [(self.plain, self.tls)].into_iter().chain(self.others.iter().copied())
    }

    /// All schemes, those that every server has included.
    fn names(&self) -> String {
        let own = self.pairs().flat_map(|(plain, tls)| [plain, tls]);
        own.chain(["tcp", "tls"]).collect::<Vec<_>>().join(", ")
    }

    /// The number of a pair, and whether this is the one of TLS.
    fn find(&self, scheme: &str) -> Option<(usize, bool)> {
        match scheme {
            "tcp" => Some((0, false)),
            "tls" => Some((0, true)),
            _ => self.pairs().enumerate().find_map(|(number, (plain, tls))| {
                (scheme == plain || scheme == tls).then_some((number, scheme == tls))
            }),
        }
    }

    fn read<'t>(&self, text: &'t str) -> Result<(Endpoint<'t>, usize), String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err("the path of the unix socket is missing".into());
            }
            return Ok((Endpoint::Unix(Path::new(path)), 0));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or((self.plain, text));
        let Some((pair, is_tls)) = self.find(scheme) else {
            return Err(format!("the scheme is not {} or unix", self.names()));
        };
        let (host, port) = self.host_and_port(rest.strip_suffix('/').unwrap_or(rest))?;
        let endpoint = if is_tls {
            Endpoint::Tls { host, port: port.unwrap_or(self.tls_port) }
        } else {
            Endpoint::Tcp { host, port: port.unwrap_or(self.port) }
        };
        Ok((endpoint, pair))
    }

    fn host_and_port<'t>(&self, text: &'t str) -> Result<(&'t str, Option<u16>), String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(inner) => bracketed(inner)?,
            None => match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err(format!(
                        "an IPv6 address needs brackets, such as [::1]:{}",
                        self.port
                    ));
                }
                Some((host, port)) => (host, Some(port)),
                None if text.is_empty() => return Err("it is empty".into()),
                None => (text, None),
            },
        };
        let port = match port {
            None => None,
            Some(port) => Some(
                decimal(port.as_bytes())
                    .and_then(|port| u16::try_from(port).ok())
                    .filter(|port| *port != 0)
                    .ok_or("the port is not a number from 1 to 65535")?,
            ),
        };
        let host = if host.is_empty() { Self::DEFAULT_HOST } else { host };
        if let Some(bad) = host.chars().find(|c| !(c.is_alphanumeric() || "-._:%".contains(*c))) {
            return Err(format!("{bad:?} cannot be part of a host name"));
        }
        Ok((host, port))
    }

    fn not_valid(&self, text: &str, why: &str) -> Error {
        let Scheme { server, plain, tls, port, .. } = self;
        let forms = format!(
            "host, host:port, [::1]:{port}, {plain}://host:port, {tls}://host:port or unix:/path"
        );
        // The server knows no passwords, but who writes one here must not find it in a log.
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

    /// The same server, whose own schemes are those of this pair.
    #[must_use]
    pub fn pair(&self, number: usize) -> Scheme {
        let (plain, tls) = self.pairs().nth(number).unwrap_or((self.plain, self.tls));
        Scheme { plain, tls, ..*self }
    }

    /// Writes an address so that [`parse`](Self::parse) reads it again.
    ///
    /// # Errors
    ///
    /// As the formatter says.
    pub fn write(&self, endpoint: Endpoint<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_pair(endpoint, 0, f)
    }

    /// Writes an address so that [`parse_pair`](Self::parse_pair) reads it again. The path of a unix socket tells no pair.
    ///
    /// # Errors
    ///
    /// As the formatter says.
    pub fn write_pair(
        &self,
        endpoint: Endpoint<'_>,
        pair: usize,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let Scheme { plain, tls, .. } = self.pair(pair);
        let (host, port) = match endpoint {
            // Two leading slashes after `unix:` are read as those of a URL.
            Endpoint::Unix(path) if path.as_os_str().as_encoded_bytes().starts_with(b"//") => {
                return write!(f, "unix://{}", path.display());
            }
            Endpoint::Unix(path) => return write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { host, port } => {
                // Without its scheme, a host of this name is read as a unix socket.
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
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }

    /// The same as text for a message.
    #[must_use]
    pub fn show<'a>(&self, endpoint: Endpoint<'a>) -> impl fmt::Display + use<'a> {
        Shown(*self, endpoint, 0)
    }
}

struct Shown<'a>(Scheme, Endpoint<'a>, usize);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_pair(self.1, self.2, f)
    }
}

/// What follows a `[`.
fn bracketed(inner: &str) -> Result<(&str, Option<&str>), String> {
    let (host, after) = inner.split_once(']').ok_or("the ']' is missing")?;
    if host.parse::<std::net::Ipv6Addr>().is_err() {
        return Err("there is no IPv6 address between the brackets".into());
    }
    match after.strip_prefix(':') {
        None if after.is_empty() => Ok((host, None)),
        Some(port) => Ok((host, Some(port))),
        None => Err("only a port may follow the ']'".into()),
    }
}

impl Endpoint<'_> {
    /// Whether what goes there may be read by others on the way: plain text to another machine.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        match self {
            Endpoint::Tcp { host, .. } => {
                *host != "localhost"
                    && !host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
            Endpoint::Tls { .. } | Endpoint::Unix(_) => false,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The addresses of a server that there is not.
    pub(crate) const SCHEME: Scheme = Scheme {
        server: "queued",
        plain: "queue",
        tls: "queues",
        port: 7,
        tls_port: 8,
        others: &[("http", "https"), ("text", "texts")],
    };

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
            ("queues://h", "queues://h:8"),
            ("tls://[::1]:9", "queues://[::1]:9"),
            ("unix:/run/q.sock", "unix:/run/q.sock"),
            ("unix:///run/q.sock", "unix:/run/q.sock"),
            ("unix:relative.sock", "unix:relative.sock"),
            ("unix:////two/slashes", "unix:////two/slashes"),
            ("queue://unix:5", "queue://unix:5"),
        ] {
            let endpoint = SCHEME.parse(text).unwrap();
            assert_eq!(SCHEME.show(endpoint).to_string(), shown, "{text}");
            assert_eq!(SCHEME.parse(shown).unwrap(), endpoint, "{text}");
        }
    }

    #[test]
    fn a_scheme_of_another_pair_is_read_and_written() {
        for (text, shown, pair) in [
            ("h", "h:7", 0),
            ("tls://h", "queues://h:8", 0),
            ("http://h/", "http://h:7", 1),
            ("https://[::1]:5", "https://[::1]:5", 1),
            ("texts://h", "texts://h:8", 2),
            ("text://unix:1", "text://unix:1", 2),
        ] {
            let (endpoint, found) = SCHEME.parse_pair(text).unwrap();
            let written = Shown(SCHEME, endpoint, found).to_string();
            assert_eq!((&*written, found), (shown, pair), "{text}");
            assert_eq!(SCHEME.parse_pair(shown).unwrap(), (endpoint, pair), "{text}");
        }
        let error = SCHEME.parse("ftp://h").unwrap_err().to_string();
        let names = "not queue, queues, http, https, text, texts, tcp, tls or unix (";
        assert!(error.contains(names), "{error}");
        assert_eq!(SCHEME.pair(2).tls, "texts");
    }

    #[test]
    fn wrong_addresses_name_the_value_and_the_rule() {
        for text in [
            "", "h:", "h:x", "h:0", "h:65536", "::1", "[::1", "[::1]x", "[x]:1", "ftp://h",
            "unix:", "a b", "h/x",
        ] {
            let error = SCHEME.parse(text).unwrap_err();
            assert_eq!(*error.kind(), crate::ErrorKind::InvalidInput, "{text}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_never_shown() {
        let error = SCHEME.parse("queue://user:sentinel@host:x").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("sentinel"), "{error}");
    }

    #[test]
    fn only_plain_text_to_another_machine_is_exposed() {
        for safe in ["127.0.0.1", "[::1]", "localhost", "queues://10.0.0.5", "unix:/s"] {
            assert!(!SCHEME.parse(safe).unwrap().is_exposed(), "{safe}");
        }
        for exposed in ["10.0.0.5", "example.com", "localhost.example.com"] {
            assert!(SCHEME.parse(exposed).unwrap().is_exposed(), "{exposed}");
        }
    }
}
