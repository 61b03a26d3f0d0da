//! TLS to servers: trusted and own certificates, from flags and environment.

#[cfg(feature = "tls")]
use std::path::Path;
use std::path::PathBuf;

use clap::{Args, Command};
#[cfg(feature = "tls")]
pub use queue_core::TlsOptions as Tls;

use crate::config::Settings;
#[cfg(feature = "tls")]
use crate::config::keys;
use crate::error::CliError;
#[cfg(feature = "tls")]
use crate::error::Exit;
use crate::output::messages::Messages;
use crate::program::TlsNames;

/// TLS settings of connections; impossible in a build without TLS.
#[cfg(not(feature = "tls"))]
#[derive(Debug, Clone)]
pub enum Tls {}

/// Flags of TLS.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct TlsArgs {
    /// Connect to every server over TLS
    #[arg(long, global = true, hide_short_help = true)]
    pub tls: bool,

    /// Trust only the CAs in this PEM file
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// Refuse the certificates that the lists in this PEM file revoke
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    #[arg(conflicts_with = "tls_insecure")]
    tls_crl: Option<PathBuf>,

    /// Show this certificate, a PEM file
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate, a PEM file
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Accept any certificate; anyone on the path can read and alter traffic
    #[arg(long, global = true, hide_short_help = true)]
    tls_insecure: bool,
}

/// Puts the tool's own names into the help of these flags.
#[must_use]
pub(crate) fn with_names(tree: Command, names: &TlsNames) -> Command {
    let TlsNames { scheme, authorities, revocations, certificate, key } = names;
    let helps = [
        ("tls", format!("Use TLS for every server, as with {scheme}:// addresses")),
        (
            "tls_ca",
            format!(
                "Trust only the CAs in this PEM file [default: {authorities}, then the system's]"
            ),
        ),
        (
            "tls_crl",
            format!(
                "Reject certificates revoked by the CRLs in this PEM file [default: {revocations}]"
            ),
        ),
        ("tls_cert", format!("Client certificate, a PEM file [default: {certificate}]")),
        ("tls_key", format!("Private key of the client certificate, a PEM file [default: {key}]")),
    ];
    let long = format!(
        "Reject certificates revoked by the CRLs in this PEM file: one list for each CA in the servers' chains, \
         or the servers are rejected; an outdated list still counts [default: {revocations}]"
    );
    let named =
        helps.into_iter().fold(tree, |tree, (flag, help)| tree.mut_arg(flag, |arg| arg.help(help)));
    named.mut_arg("tls_crl", |arg| arg.long_help(long))
}

impl TlsArgs {
    /// Whether any flag is given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        let Self { tls, tls_ca, tls_crl, tls_cert, tls_key, tls_insecure } = self;
        let files = [tls_ca, tls_crl, tls_cert, tls_key];
        *tls || *tls_insecure || files.into_iter().any(Option::is_some)
    }

    /// The TLS settings, if `any` server uses TLS.
    ///
    /// # Errors
    /// A file that is missing (66), unreadable (74) or of the wrong kind (77); flags that require each other or have no
    /// effect (2); TLS in a build without it (2).
    pub fn read(
        &self,
        any: bool,
        (tool, names): (&str, &TlsNames),
        settings: &Settings,
        messages: &Messages,
    ) -> Result<Option<Tls>, CliError> {
        if any {
            return self.files(tool, settings, messages).map(Some);
        }
        if self.is_given() {
            let scheme = names.scheme;
            return Err(CliError::usage("TLS flags given, but no server address uses TLS")
                .hint(format!("--tls, or a {scheme}:// address")));
        }
        Ok(None)
    }

    #[cfg(not(feature = "tls"))]
    fn files(&self, tool: &str, _: &Settings, _: &Messages) -> Result<Tls, CliError> {
        Err(CliError::usage(format!("this {tool} was built without TLS")))
    }

    #[cfg(feature = "tls")]
    fn files(&self, _: &str, settings: &Settings, messages: &Messages) -> Result<Tls, CliError> {
        let file = |flag: &Option<PathBuf>, key: &str| {
            let setting = settings.setting(key, ("", flag.clone()), |text| Ok(text.into()))?;
            Ok::<Option<PathBuf>, CliError>(setting.map(|setting| setting.value))
        };
        let mut tls = Tls::default();
        if let Some(path) = file(&self.tls_ca, keys::TLS_CA)? {
            tls = tls.authorities_pem(pem(&path, CERTIFICATE)?);
        }
        if let Some(path) = file(&self.tls_crl, keys::TLS_CRL)? {
            tls = tls.revocation_lists_pem(pem(&path, REVOCATION_LIST)?);
        }
        match (file(&self.tls_cert, keys::TLS_CERT)?, file(&self.tls_key, keys::TLS_KEY)?) {
            (Some(chain), Some(key)) => {
                warn_of_readers(&key, messages);
                tls = tls.client_certificate_pem(pem(&chain, CERTIFICATE)?, private_key(&key)?);
            }
            (None, None) => {}
            _ => {
                return Err(CliError::usage("a certificate needs its key, and vice versa")
                    .hint("--tls-cert FILE --tls-key FILE"));
            }
        }
        if settings.is_on(keys::TLS_INSECURE, self.tls_insecure) {
            messages.warn("the server's certificate is not verified (--tls-insecure)");
            tls = tls.danger_accept_any_certificate();
        }
        Ok(tls)
    }
}

#[cfg(feature = "tls")]
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| CliError::reading(&path.to_string_lossy(), &error))
}

/// The expected content of a PEM file: its label, its name for people, and the openssl command that shows it.
#[cfg(feature = "tls")]
pub(crate) type Content = (&'static str, &'static str, &'static str);

#[cfg(feature = "tls")]
pub(crate) const CERTIFICATE: Content = ("CERTIFICATE", "certificate", "x509");

#[cfg(feature = "tls")]
const REVOCATION_LIST: Content = ("X509 CRL", "revocation list", "crl");

/// Reads a file, with an error that names it if it lacks this content.
#[cfg(feature = "tls")]
pub(crate) fn pem(path: &Path, (label, what, command): Content) -> Result<Vec<u8>, CliError> {
    let bytes = read(path)?;
    let begin = format!("-----BEGIN {label}-----");
    if bytes.windows(begin.len()).any(|window| window == begin.as_bytes()) {
        return Ok(bytes);
    }
    let message = format!("there is no PEM {what} in {}: no line {begin}", path.display());
    let hint = format!("another file, or if it is DER: openssl {command} -inform DER -in FILE");
    Err(CliError::new(Exit::Permission, "TLS", message).hint(hint))
}

/// Reads a file, with an error that names it if it holds no private key.
#[cfg(feature = "tls")]
pub(crate) fn private_key(path: &Path) -> Result<Vec<u8>, CliError> {
    let bytes = read(path)?;
    // Of each of its kinds, such as `RSA PRIVATE KEY`.
    let end = b"PRIVATE KEY-----";
    if bytes.windows(end.len()).any(|window| window == end) {
        return Ok(bytes);
    }
    let message = format!("there is no PEM private key in {}", path.display());
    let hint = "another file, or if it is DER: openssl pkey -inform DER -in FILE";
    Err(CliError::new(Exit::Permission, "TLS", message).hint(hint))
}

#[cfg(all(feature = "tls", unix))]
pub(crate) fn warn_of_readers(key: &Path, messages: &Messages) {
    use std::os::unix::fs::PermissionsExt as _;
    if std::fs::metadata(key).is_ok_and(|meta| meta.permissions().mode() & 0o044 != 0) {
        messages.warn(format!("other users can read the key in {}: chmod 600", key.display()));
    }
}

#[cfg(all(feature = "tls", not(unix)))]
pub(crate) fn warn_of_readers(_: &Path, _: &Messages) {}
