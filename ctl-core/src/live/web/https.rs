//! The page over HTTPS: its certificate, and its clients.

use std::path::PathBuf;

use clap::Args;
use tokio::net::TcpStream;

use crate::error::CliError;
use crate::output::messages::Messages;

/// The flags of the page's own certificate. They have nothing to do with TLS to the servers of queues.
#[derive(Debug, Clone, Args)]
pub(super) struct HttpsArgs {
    /// Serve the page over HTTPS with this certificate and its chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "https_key")]
    https_cert: Option<PathBuf>,

    /// The key of the page's certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "https_cert")]
    https_key: Option<PathBuf>,
}

/// The encryption of browsers' connections.
#[cfg(feature = "tls")]
#[derive(Clone)]
pub(super) struct Encryption(tokio_rustls::TlsAcceptor);

/// This build has none.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub(super) enum Encryption {}

impl HttpsArgs {
    /// The configuration from these files; `None` without files, so that connections are not encrypted.
    ///
    /// # Errors
    /// A file is missing (66), cannot be read (74), has other content than the flag requires or does not match the
    /// other file (77); a build without TLS (2).
    pub(super) fn read(
        &self,
        tool: &str,
        messages: &Messages,
    ) -> Result<Option<Encryption>, CliError> {
        match (&self.https_cert, &self.https_key) {
            (Some(chain), Some(key)) => encryption((chain, key), tool, messages).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(not(feature = "tls"))]
fn encryption(_: (&PathBuf, &PathBuf), tool: &str, _: &Messages) -> Result<Encryption, CliError> {
    Err(CliError::usage(format!("this {tool} was built without TLS")))
}

#[cfg(feature = "tls")]
fn encryption(
    (chain, key): (&PathBuf, &PathBuf),
    _: &str,
    messages: &Messages,
) -> Result<Encryption, CliError> {
    use std::sync::Arc;

    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ServerConfig, version};

    use crate::error::Exit;
    use crate::link::tls;

    let wrong = |what: String| CliError::new(Exit::Permission, "TLS", what);
    let of_file = |path: &PathBuf, error: &dyn std::fmt::Display| {
        wrong(format!("{} cannot be used: {error}", path.display()))
    };
    tls::warn_of_readers(key, messages);
    let text = tls::pem(chain, tls::CERTIFICATE)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| of_file(chain, &error))?;
    let secret = PrivateKeyDer::from_pem_slice(&tls::private_key(key)?);
    let secret = secret.map_err(|error| of_file(key, &error))?;
    let versions = [&version::TLS13, &version::TLS12];
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&versions)
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, secret))
        .map_err(|error| {
            wrong(format!("{} and {}: {error}", chain.display(), key.display()))
                .hint("the key has to be that of the first certificate in the file")
        })?;
    Ok(Encryption(Arc::new(config).into()))
}

#[cfg(not(feature = "tls"))]
impl Encryption {
    /// A connection within TLS.
    pub(super) async fn accept(&self, _: TcpStream) -> Option<TcpStream> {
        match *self {}
    }
}

#[cfg(feature = "tls")]
impl Encryption {
    /// A connection within TLS; others are told about it.
    pub(super) async fn accept(
        &self,
        mut stream: TcpStream,
    ) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
        use tokio::io::AsyncWriteExt as _;
        use tokio::time::timeout;

        use crate::system::listen::http::PATIENCE;

        /// The first byte of a TLS connection: a handshake record.
        const HANDSHAKE: u8 = 22;
        /// The answer to a browser without TLS.
        const PLAIN: &[u8] =
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
            this page is served over https://\n";

        let mut first = [0];
        let Ok(Ok(1)) = timeout(PATIENCE, stream.peek(&mut first)).await else { return None };
        if first != [HANDSHAKE] {
            let _ = timeout(PATIENCE, stream.write_all(PLAIN)).await;
            return None;
        }
        timeout(PATIENCE, self.0.accept(stream)).await.ok()?.ok()
    }
}
