//! Access control: browsers that address this host, the page itself for changes, and clients with the token.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};

use crate::error::CliError;
use crate::output::from_base64;
use crate::output::messages::Messages;

/// The header with the page's token.
pub(super) static PAGE: HeaderName = HeaderName::from_static("x-page-token");

/// The checks of every request.
#[derive(Debug)]
pub(super) struct Guard {
    port: u16,
    /// Whether the page is served over HTTPS.
    is_https: bool,
    names: Vec<String>,
    /// The token that clients must know.
    token: Option<String>,
    /// The token that only the page knows.
    page: String,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request is for another host, whose name was bound to this address afterwards.
    Host,
    /// Another page, or an unknown one, sent it.
    Origin,
    /// It does not have the token.
    Token,
}

impl Guard {
    /// # Errors
    /// No randomness is available: exit 70.
    pub(super) fn new(
        (address, is_https): (SocketAddr, bool),
        names: &[String],
        token: Option<String>,
    ) -> Result<Self, CliError> {
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Self { port: address.port(), is_https, names, token, page: secret()? })
    }

    /// The token by which the page identifies itself.
    pub(super) fn page_token(&self) -> &str {
        &self.page
    }

    /// Whether this request may be answered.
    pub(super) fn check(&self, headers: &HeaderMap, changes: bool) -> Result<(), Refusal> {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(&HOST).ok_or(Refusal::Host)?;
        if !self.is_here(host) {
            return Err(Refusal::Host);
        }
        // Without HTTPS here, a proxy may provide it.
        let is_own = |origin: &str| {
            origin.split_once("://").is_some_and(|(scheme, from)| {
                from.eq_ignore_ascii_case(host) && (scheme == "https" || !self.is_https)
            })
        };
        match text(&ORIGIN) {
            Some(origin) if !is_own(origin) => return Err(Refusal::Origin),
            None if changes => return Err(Refusal::Origin),
            _ => {}
        }
        if let Some(token) = &self.token {
            let given = text(&AUTHORIZATION).and_then(password).unwrap_or_default();
            if !is_same(given.as_bytes(), token.as_bytes()) {
                return Err(Refusal::Token);
            }
        }
        if changes && !is_same(text(&PAGE).unwrap_or_default().as_bytes(), self.page.as_bytes()) {
            return Err(Refusal::Origin);
        }
        Ok(())
    }

    /// Whether a client that uses this host name meant this server: addresses need no lookup, but other names may be
    /// anybody's.
    fn is_here(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().unwrap_or(0)),
            _ => (host, if self.is_https { 443 } else { 80 }),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if self.names.contains(&name) {
            return true;
        }
        port == self.port && (name == "localhost" || name.parse::<IpAddr>().is_ok())
    }
}

/// The password, with any user name.
fn password(authorization: &str) -> Option<String> {
    let text = String::from_utf8(from_base64(authorization.strip_prefix("Basic ")?).ok()?).ok()?;
    text.split_once(':').map(|(_, password)| password.to_owned())
}

/// Compares in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differs == 0
}

/// A random secret.
fn secret() -> Result<String, CliError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| CliError::internal(format!("no random numbers available: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The required token, if there is one.
///
/// # Errors
/// The file cannot be read, or the token is too short: exit 2.
pub(super) fn token(
    given: Option<&str>,
    file: Option<&Path>,
    messages: &Messages,
) -> Result<Option<String>, CliError> {
    let token = match (given, file) {
        (Some(token), _) => {
            messages.warn("other users may see a token on the command line: --token-file is safe");
            token.to_owned()
        }
        (None, Some(path)) => {
            let name = path.to_string_lossy();
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| CliError::reading(&name, &error))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        (None, None) => return Ok(None),
    };
    if token.len() < SHORTEST {
        return Err(CliError::usage(format!(
            "the token is too short: it needs at least {SHORTEST} bytes"
        )));
    }
    Ok(Some(token))
}

/// Shorter tokens can be guessed.
const SHORTEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn guard(token: Option<&str>) -> Guard {
        let address = ([127, 0, 0, 1], 8030).into();
        Guard::new((address, false), &["Queue.example".to_owned()], token.map(str::to_owned))
            .unwrap()
    }

    fn headers(all: &[(&HeaderName, &str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| ((*name).clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn only_names_that_mean_this_server_are_answered() {
        let guard = guard(None);
        for host in [
            "127.0.0.1:8030",
            "localhost:8030",
            "LOCALHOST:8030",
            "[::1]:8030",
            "queue.example",
            "queue.EXAMPLE:443",
        ] {
            assert_eq!(guard.check(&headers(&[(&HOST, host)]), false), Ok(()), "{host}");
        }
        for host in [
            "evil.example:8030",
            "evil.example",
            "127.0.0.1:1",
            "localhost",
            "127.0.0.1.evil.example:8030",
            "",
        ] {
            assert_eq!(
                guard.check(&headers(&[(&HOST, host)]), false),
                Err(Refusal::Host),
                "{host}"
            );
        }
        assert_eq!(guard.check(&HeaderMap::new(), false), Err(Refusal::Host));
    }

    #[test]
    fn only_the_page_itself_changes_something() {
        let guard = guard(None);
        let (host, page) = ("127.0.0.1:8030", guard.page_token().to_owned());
        let own = "http://127.0.0.1:8030";
        let asked = |origin: Option<&str>, page: Option<&str>| {
            let mut all = vec![(&HOST, host)];
            all.extend(origin.map(|origin| (&ORIGIN, origin)));
            all.extend(page.map(|page| (&PAGE, page)));
            guard.check(&headers(&all), true)
        };
        assert_eq!(asked(Some(own), Some(&page)), Ok(()));
        for (origin, page) in [
            (None, Some(&*page)),
            (Some("null"), Some(&*page)),
            (Some("http://evil.example"), Some(&*page)),
            (Some("http://127.0.0.1:1"), Some(&*page)),
            (Some(own), None),
            (Some(own), Some("")),
            (Some(own), Some("0123456789abcdef0123456789abcdef")),
        ] {
            assert_eq!(asked(origin, page), Err(Refusal::Origin), "{origin:?} {page:?}");
        }
        // Even a read-only request of another page.
        let other = headers(&[(&HOST, host), (&ORIGIN, "http://evil.example")]);
        assert_eq!(guard.check(&other, false), Err(Refusal::Origin));
    }

    #[test]
    fn an_encrypted_page_is_asked_by_itself_only() {
        let address = ([127, 0, 0, 1], 443).into();
        let guard = Guard::new((address, true), &[], None).unwrap();
        let asked =
            |origin| guard.check(&headers(&[(&HOST, "127.0.0.1"), (&ORIGIN, origin)]), false);
        assert_eq!(asked("https://127.0.0.1"), Ok(()));
        assert_eq!(asked("http://127.0.0.1"), Err(Refusal::Origin));
    }

    #[test]
    fn the_token_is_the_password_of_any_user() {
        let guard = guard(Some("0123456789abcdef"));
        let asked = |authorization: &str| {
            guard.check(
                &headers(&[(&HOST, "127.0.0.1:8030"), (&AUTHORIZATION, authorization)]),
                false,
            )
        };
        let basic = |text: &str| format!("Basic {}", crate::output::base64(text.as_bytes()));
        assert_eq!(asked(&basic("ann:0123456789abcdef")), Ok(()));
        for wrong in
            [basic("ann:0123456789abcdeF"), basic("0123456789abcdef"), basic(""), "Bearer x".into()]
        {
            assert_eq!(asked(&wrong), Err(Refusal::Token), "{wrong}");
        }
        assert_eq!(guard.check(&headers(&[(&HOST, "127.0.0.1:8030")]), false), Err(Refusal::Token));
    }
}
