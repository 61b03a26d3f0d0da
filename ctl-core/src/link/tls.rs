//! TLS to servers: trusted and own certificates, from flags and environment.

#[cfg(feature = "tls")]
use std::path::{Path, PathBuf};

use clap::{Args, Command};
#[cfg(feature = "tls")]
pub use queue_core::TlsOptions as Tls;

use crate::config::Settings;
use crate::config::keys::{self, Key};
use crate::error::CliError;
#[cfg(feature = "tls")]
use crate::error::Exit;
use crate::output::messages::Messages;
use crate::program::TlsNames;
use crate::text::escape;

/// TLS settings of connections; impossible in a build without TLS.
#[cfg(not(feature = "tls"))]
#[derive(Debug, Clone)]
pub enum Tls {}

/// The flag of TLS.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct TlsArgs {
    /// Use TLS for every server
    #[arg(long, global = true, hide_short_help = true, value_name = "KEY=FILE,...", num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "", value_parser = TlsFlag::parse)]
    tls: Option<TlsFlag>,
}

/// The value of `--tls`: each key at most once.
#[derive(Debug, Clone, Default)]
struct TlsFlag(Vec<(Key, String)>);

/// The keys of `--tls`, without the start of their names.
const FLAG_KEYS: [Key; 5] =
    [keys::TLS_CA, keys::TLS_CRL, keys::TLS_CERT, keys::TLS_KEY, keys::TLS_INSECURE];

impl TlsFlag {
    fn parse(text: &str) -> Result<Self, String> {
        let mut values: Vec<(Key, String)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (name, file) = part.split_once('=').map_or((part, None), |(a, b)| (a, Some(b)));
            let key = FLAG_KEYS.into_iter().find(|key| key.name.strip_prefix("tls-") == Some(name));
            let (key, value) = match (key, file) {
                (Some(keys::TLS_INSECURE), None) => (keys::TLS_INSECURE, "true"),
                (Some(key), Some(file)) if key.is_file() && !file.is_empty() => (key, file),
                _ => {
                    let part = escape::line(part);
                    let known = "ca=FILE, crl=FILE, cert=FILE, key=FILE, insecure";
                    return Err(format!("`{part}` is not one of {known}"));
                }
            };
            if values.iter().any(|(given, _)| *given == key) {
                return Err(format!("{name} is given twice"));
            }
            values.push((key, value.to_owned()));
        }
        let has = |key| values.iter().any(|(given, _)| *given == key);
        match has(keys::TLS_CRL) && has(keys::TLS_INSECURE) {
            true => Err("crl checks certificates, and insecure does not: only one of them".into()),
            false => Ok(Self(values)),
        }
    }
}

/// Puts the tool's own names into the help of this flag.
#[must_use]
pub(crate) fn with_names(tree: Command, names: &TlsNames) -> Command {
    let TlsNames { scheme, authorities, revocations, certificate, key } = names;
    let short = format!("Use TLS for every server, as with {scheme}:// addresses");
    let long = format!(
        "{short}. Keys, separated by commas:\n\
         ca=FILE    trust only the CAs in this PEM file [default: {authorities}, then the system's]\n\
         crl=FILE   reject certificates that the lists in this PEM file revoke: one list for each CA in the servers' chains, \
         or the servers are rejected; an outdated list still counts [default: {revocations}]\n\
         cert=FILE  client certificate, a PEM file [default: {certificate}]\n\
         key=FILE   its private key, a PEM file [default: {key}]\n\
         insecure   accept any certificate; anyone on the path can read and alter traffic"
    );
    let short = format!("{short}; keys: ca=FILE, crl=FILE, cert=FILE, key=FILE, insecure");
    tree.mut_arg("tls", |arg| arg.help(short).long_help(long))
}

impl TlsArgs {
    /// Whether the flag is given.
    pub fn is_given(&self) -> bool {
        self.tls.is_some()
    }

    /// The settings that the flag gives.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Key, String)> {
        let all = self.tls.iter().flat_map(|flag| flag.0.iter().cloned());
        self.is_given().then(|| (keys::TLS, "true".to_owned())).into_iter().chain(all)
    }

    /// The TLS settings, if `any` server uses TLS.
    ///
    /// # Errors
    /// A file that is missing (66), unreadable (74) or of the wrong kind (77); a certificate without its key, or a flag
    /// without effect (2); TLS in a build without it (2).
    pub fn read(
        &self,
        any: bool,
        tool: &str,
        settings: &Settings,
        messages: &Messages,
    ) -> Result<Option<Tls>, CliError> {
        if any {
            return self.files(tool, settings, messages).map(Some);
        }
        if self.is_given() {
            return Err(CliError::usage("--tls given, but a Unix socket has no TLS")
                .hint("the address of a host, or no --tls"));
        }
        Ok(None)
    }

    #[cfg(not(feature = "tls"))]
    fn files(&self, tool: &str, _: &Settings, _: &Messages) -> Result<Tls, CliError> {
        Err(CliError::usage(format!("this {tool} was built without TLS")))
    }

    #[cfg(feature = "tls")]
    fn files(&self, _: &str, settings: &Settings, messages: &Messages) -> Result<Tls, CliError> {
        let given = |key| self.given().find(|(given, _)| *given == key).map(|(_, text)| text);
        let file = |key: Key| {
            let setting = settings.setting(key, given(key), |text| Ok(text.to_owned()))?;
            Ok::<_, CliError>(setting.map(|setting| PathBuf::from(setting.value)))
        };
        let mut tls = Tls::default();
        if let Some(path) = file(keys::TLS_CA)? {
            tls = tls.authorities_pem(pem(&path, CERTIFICATE)?);
        }
        if let Some(path) = file(keys::TLS_CRL)? {
            tls = tls.revocation_lists_pem(pem(&path, REVOCATION_LIST)?);
        }
        match (file(keys::TLS_CERT)?, file(keys::TLS_KEY)?) {
            (Some(chain), Some(key)) => {
                warn_of_readers(&key, messages);
                tls =
                    tls.client_certificate_pem(pem(&chain, CERTIFICATE)?, pem(&key, PRIVATE_KEY)?);
            }
            (None, None) => {}
            _ => {
                return Err(CliError::usage("a certificate needs its key, and vice versa")
                    .hint("--tls=cert=FILE,key=FILE"));
            }
        }
        if settings.is_on(keys::TLS_INSECURE, given(keys::TLS_INSECURE).is_some()) {
            messages.warn("the server's certificate is not verified (insecure)");
            tls = tls.danger_accept_any_certificate();
        }
        Ok(tls)
    }
}

/// The expected content of a PEM file: what a line of it has, its name for people, and the openssl command that shows it.
#[cfg(feature = "tls")]
type Content = (&'static str, &'static str, &'static str);

#[cfg(feature = "tls")]
const CERTIFICATE: Content = ("-----BEGIN CERTIFICATE-----", "certificate", "x509");

#[cfg(feature = "tls")]
const REVOCATION_LIST: Content = ("-----BEGIN X509 CRL-----", "revocation list", "crl");

/// Of each of its kinds, such as `RSA PRIVATE KEY`.
#[cfg(feature = "tls")]
const PRIVATE_KEY: Content = ("PRIVATE KEY-----", "private key", "pkey");

/// Reads a file, with an error that names it if it lacks this content.
#[cfg(feature = "tls")]
fn pem(path: &Path, (mark, what, command): Content) -> Result<Vec<u8>, CliError> {
    let name = path.display();
    let bytes =
        std::fs::read(path).map_err(|error| CliError::reading(&name.to_string(), &error))?;
    if bytes.windows(mark.len()).any(|window| window == mark.as_bytes()) {
        return Ok(bytes);
    }
    let message = format!("there is no PEM {what} in {name}: no line with {mark}");
    let hint = format!("another file, or if it is DER: openssl {command} -inform DER -in FILE");
    Err(CliError::new(Exit::Permission, "TLS", message).hint(hint))
}

#[cfg(all(feature = "tls", unix))]
fn warn_of_readers(key: &Path, messages: &Messages) {
    use std::os::unix::fs::PermissionsExt as _;
    if std::fs::metadata(key).is_ok_and(|meta| meta.permissions().mode() & 0o044 != 0) {
        messages.warn(format!("other users can read the key in {}: chmod 600", key.display()));
    }
}

#[cfg(all(feature = "tls", not(unix)))]
fn warn_of_readers(_: &Path, _: &Messages) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys_of_the_flag_and_names_bad_ones() {
        let read = |text: &str| TlsFlag::parse(text).map(|flag| flag.0);
        assert_eq!(read(""), Ok(Vec::new()));
        let both = vec![(keys::TLS_CERT, "a=b.pem".to_owned()), (keys::TLS_KEY, "k".to_owned())];
        assert_eq!(read("cert=a=b.pem,key=k"), Ok(both));
        assert_eq!(read("insecure"), Ok(vec![(keys::TLS_INSECURE, "true".to_owned())]));
        for (text, said) in [
            ("ca", "`ca` is not one of"),
            ("ca=", "`ca=` is not one of"),
            ("insecure=x", "`insecure=x` is not one of"),
            ("ca=x,", "`` is not one of"),
            ("CA=x", "cert=FILE"),
            ("ca=x,ca=y", "ca is given twice"),
            ("insecure,crl=x", "only one of them"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}
