//! TLS to job servers: which certificates to trust and which to show, from flags and environment.

#[cfg(feature = "tls")]
use std::path::Path;
use std::path::PathBuf;

use clap::Args;
use ctl_core::config::Environment;
use ctl_core::error::CliError;
#[cfg(feature = "tls")]
use ctl_core::error::Exit;
use ctl_core::messages::Messages;
use gearman_client::{Address, ConnectOptions};

/// Flags of TLS.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct TlsArgs {
    /// TLS to every server, as with gearmans:// addresses
    #[arg(long, global = true, hide_short_help = true)]
    pub tls: bool,

    /// Trust only the authorities in this PEM file [default: GEARMAND_CA_CERTIFICATE, then the system's]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,

    /// Refuse the certificates that the lists in this PEM file revoke [default: GEARCTL_TLS_CRL]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        conflicts_with = "tls_insecure",
        long_help = "Refuse the certificates that the lists in this PEM file revoke: one list for each authority of the servers' \
                     chains, or their servers are refused; a list that is out of date still counts [default: GEARCTL_TLS_CRL]"
    )]
    pub tls_crl: Option<PathBuf>,

    /// Show this certificate, a PEM file [default: GEARMAN_CLIENT_PEM]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The key of the certificate, a PEM file [default: GEARMAN_CLIENT_KEY]
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// Accept any certificate of the server: whoever is in between reads and changes everything
    #[arg(long, global = true, hide_short_help = true)]
    pub tls_insecure: bool,
}

impl TlsArgs {
    /// Whether a flag was given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        let Self { tls, tls_ca, tls_crl, tls_cert, tls_key, tls_insecure } = self;
        let files = [tls_ca, tls_crl, tls_cert, tls_key];
        *tls || *tls_insecure || files.into_iter().any(Option::is_some)
    }

    /// The address that is meant, which is one with TLS if `--tls` says so.
    #[must_use]
    pub fn address(&self, address: Address) -> Address {
        match address {
            Address::Tcp { host, port } if self.tls => Address::Tls { host, port },
            other => other,
        }
    }

    /// Puts the certificates into the options of all servers, if one of them has TLS.
    ///
    /// # Errors
    /// A file that is missing (66), cannot be read (74) or is not what the flag says (77); flags that belong together or
    /// are of no use (2).
    #[cfg(feature = "tls")]
    pub fn apply(
        &self,
        options: Vec<ConnectOptions>,
        environment: &Environment,
        messages: &Messages,
    ) -> Result<Vec<ConnectOptions>, CliError> {
        if !self.is_of_use(&options)? {
            return Ok(options);
        }
        let mut tls = gearman_client::TlsOptions::default();
        if let Some(path) = file(&self.tls_ca, "GEARMAND_CA_CERTIFICATE", environment) {
            tls = tls.authorities_pem(pem(&path, CERTIFICATE)?);
        }
        if let Some(path) = file(&self.tls_crl, "GEARCTL_TLS_CRL", environment) {
            tls = tls.revocation_lists_pem(pem(&path, REVOCATION_LIST)?);
        }
        let chain = file(&self.tls_cert, "GEARMAN_CLIENT_PEM", environment);
        let key = file(&self.tls_key, "GEARMAN_CLIENT_KEY", environment);
        match (chain, key) {
            (Some(chain), Some(key)) => {
                warn_of_readers(&key, messages);
                tls = tls.client_certificate_pem(pem(&chain, CERTIFICATE)?, read(&key)?);
            }
            (None, None) => {}
            _ => {
                return Err(CliError::usage("a certificate and its key belong together")
                    .hint("--tls-cert FILE --tls-key FILE"));
            }
        }
        if self.tls_insecure {
            messages.warn("the server's certificate is not checked (--tls-insecure)");
            tls = tls.danger_accept_any_certificate();
        }
        Ok(options.into_iter().map(|options| options.tls(tls.clone())).collect())
    }

    /// As with TLS, which this build does not have.
    ///
    /// # Errors
    /// A flag of TLS: exit 2.
    #[cfg(not(feature = "tls"))]
    pub fn apply(
        &self,
        options: Vec<ConnectOptions>,
        _: &Environment,
        _: &Messages,
    ) -> Result<Vec<ConnectOptions>, CliError> {
        if self.is_of_use(&options)? {
            return Err(CliError::usage("this gearctl was built without TLS"));
        }
        Ok(options)
    }

    fn is_of_use(&self, options: &[ConnectOptions]) -> Result<bool, CliError> {
        let any = options.iter().any(|options| matches!(options.address(), Address::Tls { .. }));
        if !any && self.is_given() {
            return Err(CliError::usage("flags of TLS are given, but no server is to have it")
                .hint("--tls, or a gearmans:// address"));
        }
        Ok(any)
    }
}

#[cfg(feature = "tls")]
fn file(flag: &Option<PathBuf>, variable: &str, environment: &Environment) -> Option<PathBuf> {
    flag.clone().or_else(|| environment.var(variable).map(PathBuf::from))
}

#[cfg(feature = "tls")]
fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| CliError::reading(&path.to_string_lossy(), &error))
}

/// What a PEM file has to have: its label, what people call it, and openssl's command for it.
#[cfg(feature = "tls")]
type Content = (&'static str, &'static str, &'static str);

#[cfg(feature = "tls")]
const CERTIFICATE: Content = ("CERTIFICATE", "certificate", "x509");

#[cfg(feature = "tls")]
const REVOCATION_LIST: Content = ("X509 CRL", "revocation list", "crl");

/// Reads a file, and names it if there is nothing of the kind in it.
#[cfg(feature = "tls")]
fn pem(path: &Path, (label, what, command): Content) -> Result<Vec<u8>, CliError> {
    let bytes = read(path)?;
    let begin = format!("-----BEGIN {label}-----");
    if bytes.windows(begin.len()).any(|window| window == begin.as_bytes()) {
        return Ok(bytes);
    }
    let message = format!("there is no PEM {what} in {}: no line {begin}", path.display());
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
