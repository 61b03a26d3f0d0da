//! TLS with rustls: trusted certificates, and client certificates.

#[cfg(any(all(feature = "tokio", feature = "tls"), feature = "blocking"))]
use std::io;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls13_signature_with_raw_key},
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName,
        SubjectPublicKeyInfoDer, UnixTime, pem::PemObject,
    },
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::certificate::PublicKey;

use crate::address::scheme::without_zone;
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

    /// Presents this certificate chain to the server; both in PEM. The certificate is sent as it is, of whatever version
    /// of X.509: only the server judges it. The key must not be encrypted.
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
        let name = self.server_name.as_deref().unwrap_or(without_zone(host));
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
        let verifier = self.verifier(Arc::clone(&provider))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let identity = Arc::new(SingleCertAndKey::from(identity(chain, key, &provider)?));
                builder.with_client_cert_resolver(identity)
            }
        };
        Ok(Arc::new(config))
    }

    /// The verifier of server certificates.
    fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        if self.unchecked {
            return Ok(Arc::new(AnyCertificate(provider)));
        }
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
        let what = "the revocation lists";
        let revoked: Vec<CertificateRevocationListDer<'_>> = match &self.revocations {
            Some(pem) => from_pem(what, "no PEM revocation list in it", pem)?,
            None => Vec::new(),
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let verifier = verifier.with_crls(revoked).build();
        Ok(verifier.map_err(|error| unusable(what, error))?)
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
        let size = |pem: &Option<Vec<u8>>| pem.as_ref().map(|pem| format!("{} bytes", pem.len()));
        let mut shown = f.debug_struct("TlsOptions");
        #[cfg(feature = "platform-verifier")]
        shown.field("platform_verifier", &self.by_platform);
        shown
            .field("authorities", &size(&self.authorities))
            .field("revocations", &size(&self.revocations))
            .field("client_certificate", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .field("unchecked", &self.unchecked)
            .field("crypto_provider", &self.provider.is_some())
            .field("client_config", &self.whole.is_some())
            .finish()
    }
}

/// A verifier that accepts any certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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
        let PublicKey { algorithm, key, .. } = public_key(certificate)?;
        let known = self.0.signature_verification_algorithms.mapping.iter();
        let mut of_scheme = known.filter(|(scheme, _)| *scheme == signature.scheme);
        let is_valid = of_scheme.any(|(_, algorithms)| {
            let mut algorithms = algorithms.iter();
            algorithms.any(|one| {
                one.public_key_alg_id().as_ref() == algorithm
                    && one.verify_signature(key, message, signature.signature()).is_ok()
            })
        });
        match is_valid {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(public_key(certificate)?.info);
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn public_key<'a>(certificate: &'a CertificateDer<'_>) -> Result<PublicKey<'a>, rustls::Error> {
    PublicKey::of(certificate).ok_or_else(|| CertificateError::BadEncoding.into())
}

/// The client's certificates with their key; both in PEM. Only the server judges the certificates.
fn identity(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let chain = certificates("the client certificate", chain)?;
    let own = chain.first().and_then(PublicKey::of);
    let own = own.ok_or_else(|| unusable("the client certificate", "it is not X.509"))?;
    let what = "the client key";
    let read = PrivateKeyDer::from_pem_slice(key).map_err(|error| match is_encrypted(key) {
        true => unusable(what, ENCRYPTED),
        false => unusable(what, error),
    })?;
    let key = provider.key_provider.load_private_key(read);
    let key = key.map_err(|error| unusable(what, error))?;
    if key.public_key().is_some_and(|public| *public != *own.info) {
        return Err(unusable(what, "it is not the key of the client certificate"));
    }
    Ok(CertifiedKey::new(chain, key))
}

const ENCRYPTED: &str =
    "it is encrypted (decrypt it with `openssl pkey -in KEY.pem -out DECRYPTED.pem`)";

/// Whether a private key in PEM has a passphrase, in PKCS #8 or as older programs write it.
fn is_encrypted(pem: &[u8]) -> bool {
    let marks = ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "Proc-Type: 4,ENCRYPTED"];
    let text = String::from_utf8_lossy(pem);
    marks.iter().any(|mark| text.contains(mark))
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    from_pem(what, "no PEM certificate in it", pem)
}

/// All that PEM has of this type; if there is nothing, `none` is the reason of the error.
fn from_pem<T: PemObject>(what: &str, none: &str, pem: &[u8]) -> Result<Vec<T>, Error> {
    let found: Result<Vec<_>, _> = T::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(what, none)),
        found => found.map_err(|error| unusable(what, error)),
    }
}

fn unusable(what: impl fmt::Display, why: impl fmt::Display) -> Error {
    Error::failed(ErrorKind::Tls, format!("{what} cannot be used")).with_detail(why)
}

/// A reason why a handshake may run into the connect deadline: a server may wait for the end of what it takes for plain
/// text.
#[cfg(any(all(feature = "tokio", feature = "tls"), feature = "blocking"))]
pub(crate) const NO_ANSWER: &str =
    "the server did not answer the TLS handshake (is this port plain text?)";

/// The error of a failed handshake. Plain-text servers close the connection or answer with text.
#[cfg(any(all(feature = "tokio", feature = "tls"), feature = "blocking"))]
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
        Some(rustls::Error::InvalidCertificate(why))
            if format!("{why:?}").contains("UnsupportedCertVersion") =>
        {
            "the server's certificate is X.509 version 1, and only one of version 3 can be checked (make it anew, with its host as a subject alternative name)"
        }
        _ => "the TLS handshake failed",
    };
    Error::failed(ErrorKind::Tls, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use rustls::{
        ALL_VERSIONS, ClientConnection, DistinguishedName, ServerConfig, ServerConnection,
        SupportedProtocolVersion,
        server::danger::{ClientCertVerified, ClientCertVerifier},
    };

    use super::*;

    #[test]
    fn tls_configuration_is_built_once_for_options_and_clones() {
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

    /// An X.509 certificate of version 1, as `openssl x509 -req` makes it without extensions, and its key.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUR2Tlh4hWuD2GJKTC38j05OFVWbowCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyODE4MzgxNloYDzIxMjYxMTA0MTgzODE2WjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQemMKmvE9dFYxG
Dz/5gpTwqobqbifbsTaUHaFJPVuhXlE/OxjZfYvobyzsv+BSrbNQi1IdVUdMs70M
w8FfHjULMAoGCCqGSM49BAMCA0gAMEUCIQC7k0fPGofytsvQE/3qhCF1RGtvqwpB
jofkeZh8ztWzPQIgduaGMJbD7AD7+xxzlKKhgehwXx0M1KLLORt0qh0PPPw=
-----END CERTIFICATE-----
";
    const ITS_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsA+FCZ37+KMHdQ7u
L7X5tOCZQ32sgtpKIT4sd7WMRHKhRANCAAQemMKmvE9dFYxGDz/5gpTwqobqbifb
sTaUHaFJPVuhXlE/OxjZfYvobyzsv+BSrbNQi1IdVUdMs70Mw8FfHjUL
-----END PRIVATE KEY-----
";
    const OTHER_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpCepldpHvD1t0sWl
6n1B2gbKNo3/83Oex7ewDJQUEcahRANCAAS9Cfgdug7RMPtE/Iwo6eFB2MhjX/aE
bxihJccMIcusnxmTOr8wjEafsLbHYg/Rn75jKgMXoNjfkDg+aAUgyiK3
-----END PRIVATE KEY-----
";

    fn ring() -> Arc<CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    /// A server that demands a certificate of the client and takes any.
    #[derive(Debug)]
    struct Welcoming;

    impl ClientCertVerifier for Welcoming {
        fn root_hint_subjects(&self) -> &[DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: UnixTime,
        ) -> Result<ClientCertVerified, rustls::Error> {
            Ok(ClientCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            AnyCertificate(ring()).verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            AnyCertificate(ring()).verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            ring().signature_verification_algorithms.supported_schemes()
        }
    }

    /// A handshake in memory, by a server with this key and the certificate of version 1. Returns the number of the
    /// client's certificates that the server got.
    fn handshake(
        options: &TlsOptions,
        version: &'static SupportedProtocolVersion,
        key: &str,
    ) -> Result<usize, rustls::Error> {
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let key = ring().key_provider.load_private_key(key).unwrap();
        let chain = certificates("the certificate", VERSION_1.as_bytes()).unwrap();
        let own = SingleCertAndKey::from(CertifiedKey::new(chain, key));
        let server = ServerConfig::builder_with_provider(ring())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(Arc::new(Welcoming))
            .with_cert_resolver(Arc::new(own));
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        let (config, name) = options.prepare("old").unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        let mut wire = Vec::new();
        while client.is_handshaking() || server.is_handshaking() {
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets()?;
            wire.clear();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets()?;
            wire.clear();
        }
        Ok(server.peer_certificates().unwrap().len())
    }

    #[test]
    fn version_1_certificates_are_sent_and_accepted_without_verification() {
        let own = TlsOptions::default().client_certificate_pem(VERSION_1, ITS_KEY);
        let any = own.clone().danger_accept_any_certificate();
        for version in ALL_VERSIONS {
            assert_eq!(handshake(&any, version, ITS_KEY), Ok(1));
            let forged = handshake(&any, version, OTHER_KEY);
            let expected = rustls::Error::from(CertificateError::BadSignature);
            assert_eq!(forged, Err(expected), "the server has to have the key");
            let checked = own.clone().authorities_pem(VERSION_1);
            let error = handshake(&checked, version, ITS_KEY).unwrap_err();
            let error = handshake_failed(io::Error::other(error)).to_string();
            assert!(error.contains("X.509 version 1"), "{error}");
        }
    }

    #[test]
    fn an_unusable_client_certificate_or_key_error_has_a_remedy() {
        let error_of = |certificate: &str, key: &str| {
            let options = TlsOptions::default().client_certificate_pem(certificate, key);
            options.prepare("old").unwrap_err().to_string()
        };
        let expected = "the client key cannot be used: it is not the key of the client certificate";
        assert_eq!(error_of(VERSION_1, OTHER_KEY), expected);
        let pkcs8 = ITS_KEY.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let older = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,DFBA58\n\nMIGH\n-----END EC PRIVATE KEY-----\n";
        for encrypted in [&pkcs8, older] {
            let error = error_of(VERSION_1, encrypted);
            assert!(error.contains("it is encrypted") && error.contains("openssl pkey"), "{error}");
        }
        let error = error_of(VERSION_1, "none");
        assert!(error.starts_with("the client key cannot be used"), "{error}");
        let nothing = "-----BEGIN CERTIFICATE-----\nMAAwAA==\n-----END CERTIFICATE-----\n";
        assert_eq!(
            error_of(nothing, ITS_KEY),
            "the client certificate cannot be used: it is not X.509"
        );
    }

    #[test]
    fn a_cut_certificate_has_no_public_key() {
        let whole = certificates("it", VERSION_1.as_bytes()).unwrap().remove(0);
        assert!(PublicKey::of(&whole).is_some());
        for end in 0..whole.len() {
            assert!(PublicKey::of(&whole[..end].to_vec().into()).is_none(), "{end}");
        }
    }
}
