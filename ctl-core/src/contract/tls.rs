//! TLS to servers: flags, whom the tool trusts, and what tests of it need: an authority, certificates, a proxy.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::Case;
use super::program::ended;
use crate::tool::Tool;

/// Who signs certificates.
pub type Authority = CertifiedIssuer<'static, KeyPair>;

/// One that nobody knows.
#[must_use]
pub fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for this machine, and its key, as files.
#[must_use]
pub fn identity(authority: &Authority, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    numbered(authority, directory, name, 1)
}

/// The same, with a serial number.
#[must_use]
pub fn numbered(
    authority: &Authority,
    directory: &Path,
    name: &str,
    serial: u64,
) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.serial_number = Some(serial.into());
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let (pem, key_file) =
        (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    std::fs::write(&pem, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    private(&key_file, 0o600);
    (pem, key_file)
}

/// Sets the mode of a file, where there are modes.
pub fn private(file: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let _ = (file, mode);
}

/// Ends TLS in front of the server at `upstream`; `clients` says whose certificates clients have to show.
#[must_use]
pub fn proxy(
    (pem, key): &(PathBuf, PathBuf),
    clients: Option<&Authority>,
    upstream: &str,
) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_file(pem).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
    let upstream: SocketAddr = upstream.parse().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || {
                let acceptor = tokio_rustls::TlsAcceptor::from(config);
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(async {
                    stream.set_nonblocking(true).unwrap();
                    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut upstream = tokio::net::TcpStream::connect(upstream).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
                });
            });
        }
    });
    address
}

/// A list of the authority that revokes these certificates, as a file.
#[must_use]
pub fn revoking(authority: &Authority, file: &Path, serials: &[u64]) -> String {
    let (then, later) = (rcgen::date_time_ymd(2024, 1, 1), rcgen::date_time_ymd(4000, 1, 1));
    let revoked = |serial: &u64| RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: then,
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: then,
        next_update: later,
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    std::fs::write(file, list.signed_by(authority).unwrap().pem().unwrap()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A flag without a server that has TLS, a file that is not there, and one that is not what the flag says.
pub fn tls_flags_that_cannot_work_are_refused<T: Tool>(case: &Case<T>) {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.pem");
    std::fs::write(&text, "no certificate").unwrap();
    let text = text.to_str().unwrap();
    let said = |arguments: &[&str], code| {
        case.program.at("127.0.0.1:1", &[&["ping"], arguments].concat()).exits(code).err
    };
    let idle = said(&["--tls-ca", text], 2);
    let scheme = format!("{}://", T::PROGRAM.tls.scheme);
    assert!(idle.contains("no server address uses TLS") && idle.contains(&scheme), "{idle}");
    assert!(said(&["--tls", "--tls-ca", "/no/such/file"], 66).contains("/no/such/file"));
    assert!(said(&["--tls", "--tls-ca", text], 77).contains("no PEM certificate"));
    assert!(said(&["--tls", "--tls-crl", text], 77).contains("no PEM revocation list"));
    assert!(said(&["--tls", "--tls-cert", text], 2).contains("belong together"));
    // Nobody listens there, with TLS or without.
    said(&["--tls", "--tls-insecure"], 69);
}

/// For what a known authority has signed, by every way to name that; never in plain text where TLS was asked for.
pub fn a_server_is_trusted_for_its_certificate_only<T: Tool>(case: &Case<T>) {
    let directory = tempfile::tempdir().unwrap();
    let (_server, plain) = Case::<T>::server();
    let (known, stranger) = (authority(), authority());
    let file = |name: &str, authority: &Authority| {
        let path = directory.path().join(name);
        std::fs::write(&path, authority.pem()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ca, other) = (file("ca.pem", &known), file("other.pem", &stranger));
    let address = proxy(&identity(&known, directory.path(), "server"), None, &plain).to_string();
    let program = &case.program;
    let smoke = |at: &str, flags: &[&str]| program.at(at, &[&["smoke", "-q"], flags].concat());
    // Every connection that the tool makes.
    smoke(&address, &["--tls", "--tls-ca", &ca]).exits(0);
    smoke(&format!("{}://{address}", T::PROGRAM.tls.scheme), &["--tls-ca", &ca]).exits(0);
    let mut command = program.command(&["smoke", "--tls", program.flag, &address]);
    ended(command.env(T::PROGRAM.tls.authorities, &ca).spawn().unwrap()).exits(0);
    // The system does not know the authority, and another one is not it.
    for flags in [&[][..], &["--tls-ca", &other]] {
        let ran = smoke(&address, &[&["--tls", "-o", "json"], flags].concat()).exits(77);
        assert_eq!(ran.error_alone()["code"], "TLS", "{flags:?}");
    }
    let ran = program.at(&address, &["ping", "--tls", "--tls-insecure"]).exits(0);
    assert!(ran.err.contains("not checked"), "{}", ran.err);
    // Plain text is never what --tls ends up with: a server that answers it breaks TLS, and others wait for a line of theirs.
    let ran = smoke(&plain, &["--tls", "--tls-ca", &ca, "--connect-timeout", "1s"]);
    assert!(matches!(ran.code, Some(69 | 77)) && ran.err.contains("plain text"), "{ran:?}");
    smoke(&plain, &["--tls-ca", &ca]).exits(2);
    program.bare(&["smoke", "-q", "--embedded", "--tls"]).exits(2);
    smoke(&address, &["--tls", "--tls-ca", "/no/such/file"]).exits(66);
}
