//! TLS with rustls: trusted certificates, and client certificates.

#[cfg(any(feature = "tokio", feature = "blocking"))]
use std::io;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
        pem::PemObject,
    },
};

use crate::{Error, ErrorKind, excerpt};

/// Certificates and names for TLS addresses.
///
/// A server's certificate is checked against the operating system's roots, or only against the given authorities, and
/// must carry the host name of the address. There is no fallback to plain text. The operating system's roots are read
/// once, for these options and their clones.
///
/// They are the only part of a client's options that serde neither reads nor writes: a configuration that was printed
/// or stored would reveal the client's key. Store the paths of certificates in your configuration, and read the
/// certificates from there.
#[derive(Clone, Default)]
pub struct TlsOptions {
    authorities: Option<Vec<u8>>,
    revocations: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    server_name: Option<String>,
    unchecked: bool,
    #[cfg(feature = "platform-verifier")]
    by_platform: bool,
    provider: Option<Arc<CryptoProvider>>,
    /// The caller's own configuration, which replaces everything above except for the name.
    whole: Option<Arc<ClientConfig>>,
    /// Built when first needed, since reading many roots takes longer than a handshake.
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// The configuration of a connection, and the name that the certificate must carry.
pub(crate) type Prepared = (Arc<ClientConfig>, ServerName<'static>);

impl TlsOptions {
    /// Trusts only these authorities, one or more certificates in PEM, instead of the operating system's roots.
    #[must_use]
    pub fn authorities_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.made = Arc::default();
        self.authorities = Some(pem.into());
        self
    }

    /// Rejects certificates revoked by these lists of the authorities, one or more in PEM. Each authority in a server's
    /// chain needs one, or the server is rejected. A list is used even after its expiry. Without lists, revocations are
    /// not checked.
    #[must_use]
    pub fn revocation_lists_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.made = Arc::default();
        self.revocations = Some(pem.into());
        self
    }

    /// Presents this certificate chain to the server; both in PEM.
    #[must_use]
    pub fn client_certificate_pem(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.made = Arc::default();
        self.identity = Some((chain.into(), key.into()));
        self
    }

    /// Lets the operating system verify certificates: with its own verifier on macOS, iOS, Android and Windows, with
    /// its roots and revocations; elsewhere with its roots.
    ///
    /// It cannot be combined with [authorities](Self::authorities_pem) or [revocation
    /// lists](Self::revocation_lists_pem): connecting then fails.
    #[cfg(feature = "platform-verifier")]
    #[must_use]
    pub fn platform_verifier(mut self) -> Self {
        self.made = Arc::default();
        self.by_platform = true;
        self
    }

    /// Uses this cryptography, such as that of `aws-lc-rs` or a FIPS-validated one, instead of `ring`.
    #[must_use]
    pub fn crypto_provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.made = Arc::default();
        self.provider = Some(provider);
        self
    }

    /// Uses this rustls configuration unchanged: the CAs, CRLs, certificates and cryptography set here are then
    /// ignored. Only [`server_name`](Self::server_name) still applies.
    ///
    /// It must come from the version of rustls that this crate exports as `rustls`.
    #[must_use]
    pub fn client_config(mut self, config: Arc<ClientConfig>) -> Self {
        self.whole = Some(config);
        self
    }

    /// The name that the server's certificate must carry, if it differs from the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Accepts any certificate. Traffic is encrypted, but anyone on the path can read and alter it: use this only for
    /// experiments.
    #[must_use]
    pub fn danger_accept_any_certificate(mut self) -> Self {
        self.made = Arc::default();
        self.unchecked = true;
        self
    }

    /// The configuration for a connection to `host`.
    pub(crate) fn prepare(&self, host: &str) -> Result<Prepared, Error> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|error| {
            unusable(format!("the server name {}", excerpt(name.as_bytes())), error)
        })?;
        if let Some(config) = self.whole.as_ref().or_else(|| self.made.get()) {
            return Ok((Arc::clone(config), name));
        }
        let config = self.config()?;
        // If another thread was faster, it has built the same.
        Ok((Arc::clone(self.made.get_or_init(|| config)), name))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        let ring = || Arc::new(rustls::crypto::ring::default_provider());
        let provider = self.provider.clone().unwrap_or_else(ring);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("the TLS versions", error))?;
        let builder = if self.unchecked {
            let anybody = Arc::new(Anybody(provider));
            builder.dangerous().with_custom_certificate_verifier(anybody)
        } else {
            builder.dangerous().with_custom_certificate_verifier(self.verifier(provider)?)
        };
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates("the client certificate", chain)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| unusable("the client key", error))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| unusable("the client key with this certificate", error))?
            }
        };
        Ok(Arc::new(config))
    }

    /// The verifier of server certificates.
    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        #[cfg(feature = "platform-verifier")]
        if self.by_platform {
            if self.authorities.is_some() || self.revocations.is_some() {
                return Err(unusable(
                    "the platform's verifier",
                    "it supports neither authorities nor revocation lists of the caller",
                ));
            }
            let verifier = rustls_platform_verifier::Verifier::new(provider)
                .map_err(|error| unusable("the platform's verifier", error))?;
            return Ok(Arc::new(verifier));
        }
        let roots = Arc::new(self.roots()?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .with_crls(self.revoked()?)
            .build()
            .map_err(|error| unusable("the revocation lists", error))?;
        Ok(verifier)
    }

    fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
        let what = "the revocation lists";
        let Some(pem) = &self.revocations else { return Ok(Vec::new()) };
        let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
        match found {
            Ok(found) if found.is_empty() => Err(unusable(what, "no PEM revocation list in it")),
            Ok(found) => Ok(found),
            Err(error) => Err(unusable(what, error)),
        }
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(pem) => {
                for certificate in certificates("the authorities", pem)? {
                    roots
                        .add(certificate)
                        .map_err(|error| unusable("a certificate of the authorities", error))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        if roots.is_empty() {
            return Err(Error::failed(
                ErrorKind::Tls,
                "there are no certificate authorities: the system has none, so pass some with authorities_pem",
            ));
        }
        Ok(roots)
    }
}

impl fmt::Debug for TlsOptions {
    /// Never shows the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TlsOptions {
            authorities,
            revocations,
            identity,
            server_name,
            unchecked,
            #[cfg(feature = "platform-verifier")]
            by_platform,
            provider,
            whole,
            made: _,
        } = self;
        let size = |pem: &Option<Vec<u8>>| pem.as_ref().map(|pem| format!("{} bytes", pem.len()));
        let mut shown = f.debug_struct("TlsOptions");
        #[cfg(feature = "platform-verifier")]
        shown.field("platform_verifier", by_platform);
        shown
            .field("authorities", &size(authorities))
            .field("revocations", &size(revocations))
            .field("client_certificate", &identity.is_some())
            .field("server_name", server_name)
            .field("unchecked", unchecked)
            .field("crypto_provider", &provider.is_some())
            .field("client_config", &whole.is_some())
            .finish()
    }
}

/// A verifier that accepts any certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(what, "no PEM certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(what, error)),
    }
}

fn unusable(what: impl fmt::Display, why: impl fmt::Display) -> Error {
    Error::failed(ErrorKind::Tls, format!("{what} cannot be used")).with_detail(why)
}

/// A reason why a handshake may run into the connect deadline: a server may wait for the end of what it takes for plain
/// text.
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) const NO_ANSWER: &str =
    "the server did not answer the TLS handshake (is this port plain text?)";

/// The error of a failed handshake. Plain-text servers close the connection or answer with text.
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) fn handshake_failed(error: io::Error) -> Error {
    let closed = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    );
    let rustls = error.get_ref().and_then(|cause| cause.downcast_ref());
    let message = match rustls {
        _ if closed => {
            "TLS is required but the server closed the connection during the handshake (is this port plain text?)"
        }
        // The answer was not TLS.
        Some(rustls::Error::InvalidMessage(_)) => {
            "the TLS handshake failed (is this port plain text?)"
        }
        _ => "the TLS handshake failed",
    };
    Error::failed(ErrorKind::Tls, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_needs_is_made_once_for_options_and_their_clones() {
        let options = TlsOptions::default().danger_accept_any_certificate();
        let clone = options.clone();
        let (first, name) = options.prepare("one").unwrap();
        let (second, other) = clone.prepare("two").unwrap();
        assert!(Arc::ptr_eq(&first, &second) && name != other);
        let own = clone.clone().client_config(Arc::clone(&first)).authorities_pem("none");
        assert!(Arc::ptr_eq(&own.prepare("one").unwrap().0, &first), "it is used as it is");
        let cryptography = clone.clone().crypto_provider(Arc::new(CryptoProvider {
            cipher_suites: Vec::new(),
            ..rustls::crypto::ring::default_provider()
        }));
        let error = cryptography.prepare("one").unwrap_err().to_string();
        assert!(error.contains("the TLS versions cannot be used"), "{error}");
        let changed = clone.authorities_pem("none").danger_accept_any_certificate();
        let (third, _) = changed.prepare("one").unwrap();
        assert!(!Arc::ptr_eq(&first, &third), "other options are another way to connect");
    }
}
