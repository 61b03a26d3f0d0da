//! TLS to the server: trust, the tool's own certificate, no way back to plain text.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fixtures::gearmand::Server;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::harness::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for this machine, and its key, as files.
fn identity(authority: &Authority, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
    numbered(authority, directory, name, 1)
}

/// The same, with a serial number.
fn numbered(
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

fn private(file: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let _ = (file, mode);
}

/// Ends TLS in front of `server`; `clients` says whose certificates clients have to show.
fn proxy(
    (pem, key): &(PathBuf, PathBuf),
    clients: Option<&Authority>,
    server: &Server,
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
    let upstream = server.socket_addr().unwrap();
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

#[test]
fn a_server_is_trusted_for_its_certificate_only() {
    let directory = tempfile::tempdir().unwrap();
    let (server, known) = (Server::start().unwrap(), authority());
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let ca = ca.to_str().unwrap();
    let address = proxy(&identity(&known, directory.path(), "server"), None, &server).to_string();
    let smoke = |flags: &[&str]| bare(&[&["smoke", "-q"], flags].concat());
    // Every connection of the tool, for jobs, for text, and of its worker.
    smoke(&["-s", &address, "--tls", "--tls-ca", ca]).exits(0);
    smoke(&["-s", &format!("gearmans://{address}"), "--tls-ca", ca]).exits(0);
    let mut command = command(&["smoke", "--tls", "-s", &address]);
    ended(command.env("GEARMAND_CA_CERTIFICATE", ca).spawn().unwrap()).exits(0);
    // The system does not know the authority.
    let error = smoke(&["-s", &address, "--tls", "-o", "json"]).exits(77).error_alone();
    assert_eq!(error["code"], "TLS");
    let ran = bare(&["ping", "-s", &address, "--tls", "--tls-insecure"]).exits(0);
    assert!(ran.err.contains("not checked"), "{}", ran.err);
    // Plain text is never what --tls ends up with.
    smoke(&["-s", server.address(), "--tls", "--tls-ca", ca]).exits(77);
    smoke(&["-s", server.address(), "--tls-ca", ca]).exits(2);
    smoke(&["--embedded", "--tls"]).exits(2);
    smoke(&["-s", &address, "--tls", "--tls-ca", "/no/such/file"]).exits(66);
}

#[test]
fn the_tool_shows_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (server, known) = (Server::start().unwrap(), authority());
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let identity_of = |name: &str| identity(&known, directory.path(), name);
    let address = proxy(&identity_of("server"), Some(&known), &server).to_string();
    let (pem, key) = identity_of("client");
    let (_, other_key) = identity_of("other");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let ping = |flags: &[&str]| {
        bare(&[&["ping", "-s", &address, "--tls", "--tls-ca", &text(&ca)], flags].concat())
    };
    let ran = ping(&["--tls-cert", &text(&pem), "--tls-key", &text(&key)]).exits(0);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    assert!(!matches!(ping(&[]).code, Some(0)));
    ping(&["--tls-cert", &text(&pem)]).exits(2);
    ping(&["--tls-cert", &text(&pem), "--tls-key", &text(&other_key)]).exits(77);
    if cfg!(unix) {
        private(&key, 0o644);
        let ran = ping(&["--tls-cert", &text(&pem), "--tls-key", &text(&key)]).exits(0);
        assert!(ran.err.contains("other users can read the key"), "{}", ran.err);
    }
}

/// A list of the authority that revokes these certificates, as a file.
fn revoking(authority: &Authority, file: &Path, serials: &[u64]) -> String {
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

#[test]
fn a_revoked_certificate_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let in_directory = |name: &str| directory.path().join(name);
    let (server, known) = (Server::start().unwrap(), authority());
    std::fs::write(in_directory("ca.pem"), known.pem()).unwrap();
    let ca = in_directory("ca.pem").to_str().unwrap().to_owned();
    let identity = numbered(&known, directory.path(), "server", 7);
    let address = proxy(&identity, None, &server).to_string();
    let ping = ["ping", "-s", &address, "--tls", "--tls-ca", &ca, "-o", "json"];
    let with = |flags: &[&str]| bare(&[&ping, flags].concat());
    let revoked = revoking(&known, &in_directory("revoked.pem"), &[6, 7]);
    let others = revoking(&known, &in_directory("others.pem"), &[6, 8]);
    let foreign = revoking(&authority(), &in_directory("foreign.pem"), &[]);

    with(&[]).exits(0);
    with(&["--tls-crl", &others]).exits(0);
    let error = with(&["--tls-crl", &revoked]).exits(77).error_alone();
    assert_eq!(error["code"], "TLS");
    assert!(error["message"].as_str().unwrap().contains("Revoked"), "{error}");
    // Of a certificate that no list is for nothing is known.
    with(&["--tls-crl", &foreign]).exits(77);
    let mut by_environment = command(&ping);
    ended(by_environment.env("GEARCTL_TLS_CRL", &revoked).spawn().unwrap()).exits(77);
    // The flag wins, and where nothing is checked a list would be of no use.
    let mut by_both = command(&[&ping[..], &["--tls-crl", &others]].concat());
    ended(by_both.env("GEARCTL_TLS_CRL", &revoked).spawn().unwrap()).exits(0);
    with(&["--tls-crl", &revoked, "--tls-insecure"]).exits(2);
}

#[test]
fn a_file_that_is_no_revocation_list_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let known = authority();
    let ca = directory.path().join("ca.pem");
    std::fs::write(&ca, known.pem()).unwrap();
    let ca = ca.to_str().unwrap();
    let broken = directory.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN X509 CRL-----\n?\n-----END X509 CRL-----\n").unwrap();
    // Nothing is asked of the server.
    let ping = ["ping", "-s", "127.0.0.1:1", "--tls", "-o", "json"];
    let message = |code: i32, flags: &[&str]| {
        let error = bare(&[&ping, flags].concat()).exits(code).error_alone();
        error["message"].as_str().unwrap().to_owned()
    };
    let said = message(77, &["--tls-crl", ca]);
    assert!(said.contains("no PEM revocation list") && said.contains(ca), "{said}");
    let said = message(77, &["--tls-ca", ca, "--tls-crl", broken.to_str().unwrap()]);
    assert!(said.contains("the revocation lists"), "{said}");
    let said = message(77, &["--tls-ca", broken.to_str().unwrap()]);
    assert!(said.contains("no PEM certificate") && said.contains("broken.pem"), "{said}");
    assert!(message(66, &["--tls-crl", "/no/such/list"]).contains("/no/such/list"));
    let said = bare(&["ping", "-s", "127.0.0.1:1", "--tls-crl", ca]).exits(2);
    assert!(said.err.contains("no server address uses TLS"), "{}", said.err);
}
