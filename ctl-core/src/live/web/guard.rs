//! Access control: browsers that address this host, the page itself for changes, and clients with the token.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, ORIGIN};

use crate::error::CliError;
use crate::system::files;
use crate::system::listen::http;
use crate::text::encoding::from_base64;
use crate::text::escape;

/// The checks of every request.
#[derive(Debug)]
pub(super) struct Guard {
    port: u16,
    names: Vec<String>,
    token: Token,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The page's own files, which are the same everywhere.
    File,
    /// To read.
    Read,
    /// To run a command.
    Run,
}

impl Guard {
    pub(super) fn new(address: SocketAddr, names: &[String], token: Token) -> Self {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { port: address.port(), names, token }
    }

    /// Whether this request may be answered, or else the status that says why not. No browser sends the token by itself,
    /// so the sender is the page or knows it.
    pub(super) fn check(&self, headers: &HeaderMap, purpose: Purpose) -> Result<(), StatusCode> {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        // One for another host, whose name was bound to this address afterwards, or for several.
        let host = http::host(headers).filter(|host| self.is_here(host));
        let host = host.ok_or(StatusCode::MISDIRECTED_REQUEST)?;
        // A proxy may provide HTTPS.
        let is_own = |origin: &str| {
            origin.split_once("://").is_some_and(|(scheme, from)| {
                from.eq_ignore_ascii_case(host) && ["http", "https"].contains(&scheme)
            })
        };
        // Another page, or an unknown one, has sent it.
        if !text(&ORIGIN).map_or(purpose != Purpose::Run, is_own) {
            return Err(StatusCode::FORBIDDEN);
        }
        let given = text(&AUTHORIZATION).and_then(credentials).unwrap_or_default();
        if purpose == Purpose::File || self.token.is(given.as_bytes()) {
            return Ok(());
        }
        Err(StatusCode::UNAUTHORIZED)
    }

    /// Whether a client that uses this host name meant this server: addresses need no lookup, but other names may be
    /// anybody's.
    fn is_here(&self, host: &str) -> bool {
        let (name, port) = http::name_and_port(host);
        let port = port.unwrap_or(80);
        self.names.contains(&name) || port == self.port && http::is_sure(&name)
    }
}

/// A bearer token, or the password of any user.
fn credentials(authorization: &str) -> Option<String> {
    let (scheme, value) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(from_base64(value.trim()).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// The token that clients must know: a given one, or a random one.
#[derive(Debug)]
pub(super) struct Token {
    text: String,
    is_random: bool,
}

impl Token {
    /// # Errors
    /// The file cannot be read, or the token is too short: exit 2. No randomness is available: exit 70.
    pub(super) fn new(file: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = file else { return Ok(Self { text: secret()?, is_random: true }) };
        let text = first_line(path)?;
        if text.len() < SHORTEST {
            return Err(CliError::usage(format!(
                "the token is too short: it needs at least {SHORTEST} bytes"
            )));
        }
        Ok(Self { text, is_random: false })
    }

    /// The part of the link behind the page's address. Only the page's script sees it, and a given token is not shown.
    pub(super) fn fragment(&self) -> String {
        if self.is_random { format!("#token={}", self.text) } else { String::new() }
    }

    /// Compares in constant time.
    fn is(&self, given: &[u8]) -> bool {
        let differs = given.iter().zip(self.text.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == self.text.len() && differs == 0
    }
}

fn first_line(path: &Path) -> Result<String, CliError> {
    let name = escape::line(&path.to_string_lossy()).into_owned();
    let failed = |error: io::Error| CliError::reading(&name, &error);
    let mut line = Vec::new();
    let file = File::open(path).map_err(failed)?;
    // Write access to the token grants access to the page.
    if let Some(why) = files::distrust(&file.metadata().map_err(failed)?) {
        return Err(CliError::usage(format!("the token file {name} {why}"))
            .hint("a file of your own that only you can write"));
    }
    BufReader::new(file).take(LONGEST).read_until(b'\n', &mut line).map_err(failed)?;
    if line.len() as u64 == LONGEST {
        return Err(CliError::usage(format!("the first line of {name} is too long for a token")));
    }
    let text = String::from_utf8(line)
        .map_err(|_| CliError::usage(format!("the token in {name} is not UTF-8")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Shorter tokens can be guessed.
const SHORTEST: usize = 16;
/// No token is longer.
const LONGEST: u64 = 4096;

/// A random secret.
fn secret() -> Result<String, CliError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| CliError::internal(format!("no random numbers available: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HOST, HeaderValue};

    const TOKEN: &str = "0123456789abcdef";
    const BEARER: &str = "Bearer 0123456789abcdef";
    const HERE: &str = "127.0.0.1:8030";

    fn guard(port: u16) -> Guard {
        let token = Token { text: TOKEN.to_owned(), is_random: false };
        Guard::new(([127, 0, 0, 1], port).into(), &["Queue.example".to_owned()], token)
    }

    fn headers(all: &[(&HeaderName, &str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn rejects_unknown_host_names() {
        let guard = guard(8030);
        let asked = |host: &str| guard.check(&headers(&[(&HOST, host)]), Purpose::File);
        for host in [
            HERE,
            "localhost:8030",
            "LOCALHOST:8030",
            "[::1]:8030",
            "queue.example",
            "queue.EXAMPLE:443",
        ] {
            assert_eq!(asked(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example:8030",
            "evil.example",
            "127.0.0.1:1",
            "localhost",
            "127.0.0.1.evil.example:8030",
            "",
        ] {
            assert_eq!(asked(host), Err(StatusCode::MISDIRECTED_REQUEST), "{host}");
        }
        for all in [&[][..], &[(&HOST, HERE), (&HOST, HERE)]] {
            assert_eq!(
                guard.check(&headers(all), Purpose::File),
                Err(StatusCode::MISDIRECTED_REQUEST),
                "{all:?}"
            );
        }
    }

    #[test]
    fn rejects_cross_origin_commands() {
        let guard = guard(8030);
        let asked = |origin: Option<&str>, token: Option<&str>, purpose| {
            let mut all = vec![(&HOST, HERE)];
            all.extend(origin.map(|origin| (&ORIGIN, origin)));
            all.extend(token.map(|token| (&AUTHORIZATION, token)));
            guard.check(&headers(&all), purpose)
        };
        let own = Some("http://127.0.0.1:8030");
        assert_eq!(asked(own, Some(BEARER), Purpose::Run), Ok(()));
        // A proxy may add HTTPS.
        assert_eq!(asked(Some("https://127.0.0.1:8030"), Some(BEARER), Purpose::Run), Ok(()));
        assert_eq!(asked(None, Some(BEARER), Purpose::Run), Err(StatusCode::FORBIDDEN));
        assert_eq!(asked(None, Some(BEARER), Purpose::Read), Ok(()));
        for origin in [
            "null",
            "http://evil.example",
            "http://127.0.0.1:1",
            "file://127.0.0.1:8030",
            "ftp://127.0.0.1:8030",
            "127.0.0.1:8030",
        ] {
            for purpose in [Purpose::File, Purpose::Read, Purpose::Run] {
                let refused = asked(Some(origin), Some(BEARER), purpose);
                assert_eq!(refused, Err(StatusCode::FORBIDDEN), "{origin} {purpose:?}");
            }
        }
    }

    #[test]
    fn only_static_files_need_no_token() {
        let basic =
            |text: &str| format!("basic {}", crate::text::encoding::base64(text.as_bytes()));
        let guard = guard(8030);
        let asked = |authorization: &str, purpose| {
            let origin = "https://127.0.0.1:8030";
            let all = [(&HOST, HERE), (&ORIGIN, origin), (&AUTHORIZATION, authorization)];
            guard.check(&headers(&all), purpose)
        };
        for purpose in [Purpose::Read, Purpose::Run] {
            for right in [BEARER, "bearer 0123456789abcdef", &*basic("ann:0123456789abcdef")] {
                assert_eq!(asked(right, purpose), Ok(()), "{right}");
            }
            for wrong in [
                &*basic("ann:0123456789abcdeF"),
                &*basic("0123456789abcdef"),
                &*basic(""),
                "Bearer x",
                "Bearer",
                "Digest 0123456789abcdef",
                "",
            ] {
                assert_eq!(asked(wrong, purpose), Err(StatusCode::UNAUTHORIZED), "{wrong}");
            }
        }
        assert_eq!(asked("", Purpose::File), Ok(()));
    }

    #[test]
    fn generates_a_random_token_by_default() {
        let (one, other) = (Token::new(None).unwrap(), Token::new(None).unwrap());
        assert!(one.is_random && one.text.len() == 32 && one.text != other.text);
        assert_eq!(one.fragment(), format!("#token={}", one.text));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, format!("{TOKEN}\r\nmore")).unwrap();
        let of_file = || Token::new(Some(&path));
        let given = of_file().unwrap();
        assert!(given.is(TOKEN.as_bytes()) && given.fragment().is_empty());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
            mode(0o666).unwrap();
            assert!(of_file().unwrap_err().message.contains(files::WRITABLE));
            mode(0o600).unwrap();
        }
        std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
        assert!(of_file().unwrap_err().message.contains("too long"));
    }
}
