//! TLS through a proxy in front of the in-memory server: good and bad certificates, no way back to plain text.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use beanstalk_client::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, PutOptions, Reserved, RetryPolicy, TlsOptions,
};
use fixtures::beanstalkd::Server;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, RevokedCertParams,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tests::{
    Face, both_faces,
    connectors::resolved_by,
    listener::{Scripts, read_to_end},
    place::{PATIENCE, options},
};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, in PEM and in DER.
struct Identity {
    pem: String,
    key_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn identity(
    authority: &Authority,
    name: &str,
    change: impl Fn(&mut CertificateParams),
) -> Identity {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Identity {
        pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        chain: vec![certificate.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    }
}

fn config(identity: Identity, clients: Option<&Authority>) -> ServerConfig {
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
    builder.with_single_cert(identity.chain, identity.key).unwrap()
}

/// Ends TLS in front of `server`.
fn proxy(config: ServerConfig, server: &Server) -> Scripts {
    let config = Arc::new(config);
    let address = server.socket_addr().unwrap();
    Scripts::start(move |_, stream| {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&config));
        tests::face::runtime().block_on(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut upstream = tokio::net::TcpStream::connect(address).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
        });
    })
}

fn tls_options(proxy: &Scripts, tls: TlsOptions) -> ConnectOptions {
    let address = format!("beanstalks://{}", proxy.address());
    options(&address).tls(tls).require_tls(true)
}

fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions::default().authorities_pem(authority.pem())
}

fn refused<F: Face>(options: ConnectOptions) -> Error {
    let error = F::connect(options).err().expect("the connection is refused");
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Tls, Fate::NotSent), "{error}");
    error
}

both_faces!(
    jobs_go_through_tls,
    tls_goes_over_the_stream_of_a_connector,
    a_certificate_for_another_name_is_refused,
    a_certificate_of_an_unknown_authority_is_refused,
    an_expired_certificate_is_refused,
    a_revoked_certificate_is_refused,
    a_client_certificate_is_shown_when_it_is_asked_for,
    a_missing_client_certificate_is_an_error,
    unusable_tls_options_are_refused_before_connecting,
    a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear,
    a_silent_port_meets_the_connect_deadline,
    tls_cut_in_the_middle_of_a_body_is_never_a_short_body,
    a_tls_connection_lost_while_nobody_looked_is_noticed,
);

fn jobs_go_through_tls<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let proxy = proxy(config(identity(&authority, "127.0.0.1", |_| {}), None), &server);
    let mut client = F::connect(tls_options(&proxy, trusting(&authority))).unwrap();
    for size in [0, 1, 65_535] {
        let body = vec![b'\n'; size];
        let _ = client.put(&body, PutOptions::default()).unwrap();
        let job = client.reserve().unwrap().job().unwrap();
        assert_eq!(job.body, body);
        client.delete(&job).unwrap();
    }
    let puts = (0..300).map(|n| {
        beanstalk_client::protocol::Put::new(n.to_string(), PutOptions::default()).unwrap()
    });
    assert!(client.call_many(puts).iter().all(Result::is_ok));
    client.use_tube("mine").unwrap();
    client.reconnect().unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "mine");
    assert_eq!(client.reserve_with_timeout(Duration::ZERO).unwrap().job().unwrap().body, "0");
    client.quit().unwrap();
}

fn tls_goes_over_the_stream_of_a_connector<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let proxy = proxy(config(identity(&authority, "queue.invalid", |_| {}), None), &server);
    let there = proxy.address().parse().unwrap();
    let options = options("beanstalks://queue.invalid").tls(trusting(&authority));
    let mut client = F::connect(resolved_by(options.clone(), move |_| Ok(there))).unwrap();
    client.use_tube("mine").unwrap();
    client.reconnect().unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "mine");
    assert!(client.check_connection());
    // What the connector gives in plain text is not taken for TLS.
    let plain = server.socket_addr().unwrap();
    let options = options.connect_timeout(Duration::from_millis(300));
    let error = F::connect(resolved_by(options, move |_| Ok(plain))).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Tls | ErrorKind::Timeout(Deadline::Connect)));
}

fn a_certificate_for_another_name_is_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let proxy = proxy(config(identity(&authority, "queue.example", |_| {}), None), &server);
    let error = refused::<F>(tls_options(&proxy, trusting(&authority)));
    assert!(error.to_string().contains("not valid for"), "{error}");
    // Unless the caller says that this is the name.
    let named = trusting(&authority).server_name("queue.example");
    let mut client = F::connect(tls_options(&proxy, named)).unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "default");
    assert_eq!(server.requests().len(), 1);
}

fn a_certificate_of_an_unknown_authority_is_refused<F: Face>() {
    let server = Server::start().unwrap();
    let (known, unknown) = (authority(), authority());
    let proxy = proxy(config(identity(&unknown, "127.0.0.1", |_| {}), None), &server);
    refused::<F>(tls_options(&proxy, trusting(&known)));
    assert_eq!(server.requests(), []);
}

fn an_expired_certificate_is_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let expired = identity(&authority, "127.0.0.1", |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let proxy = proxy(config(expired, None), &server);
    let error = refused::<F>(tls_options(&proxy, trusting(&authority)));
    assert!(error.to_string().contains("xpired"), "{error}");
    assert_eq!(server.requests(), []);
}

/// A list of the authority that revokes these certificates.
fn revoking(authority: &Authority, serials: &[u64]) -> String {
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
    list.signed_by(authority).unwrap().pem().unwrap()
}

fn a_revoked_certificate_is_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let seventh =
        identity(&authority, "127.0.0.1", |params| params.serial_number = Some(7_u64.into()));
    let proxy = proxy(config(seventh, None), &server);
    for foreign in [revoking(&authority, &[6, 7]), revoking(&self::authority(), &[])] {
        let tls = trusting(&authority).revocation_lists_pem(foreign);
        refused::<F>(tls_options(&proxy, tls));
    }
    assert_eq!(server.requests(), []);
    let tls = trusting(&authority).revocation_lists_pem(revoking(&authority, &[6, 8]));
    let mut client = F::connect(tls_options(&proxy, tls)).unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

fn a_client_certificate_is_shown_when_it_is_asked_for<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let proxy = proxy(config(identity(&authority, "127.0.0.1", |_| {}), Some(&authority)), &server);
    let mine = identity(&authority, "client", |_| {});
    let tls = trusting(&authority).client_certificate_pem(mine.pem, mine.key_pem);
    let mut client = F::connect(tls_options(&proxy, tls)).unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

fn a_missing_client_certificate_is_an_error<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let proxy = proxy(config(identity(&authority, "127.0.0.1", |_| {}), Some(&authority)), &server);
    let options = tls_options(&proxy, trusting(&authority)).retry(RetryPolicy::never());
    // With TLS 1.3 the server says so only after the client has finished its part of the handshake.
    match F::connect(options) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Tls, "{error}"),
        Ok(mut client) => {
            let error = client.list_tube_used().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionLost, "{error}");
        }
    }
    assert_eq!(server.requests(), []);
}

/// S13.
fn unusable_tls_options_are_refused_before_connecting<F: Face>() {
    let authority = authority();
    let untouched = Scripts::start(|_, _| {});
    let (one, other) =
        (identity(&authority, "client", |_| {}), identity(&authority, "client", |_| {}));
    for tls in [
        TlsOptions::default().authorities_pem("no certificate"),
        trusting(&authority).revocation_lists_pem("no list"),
        trusting(&authority).client_certificate_pem(one.pem.clone(), other.key_pem),
        trusting(&authority).client_certificate_pem(one.pem, "no key"),
        trusting(&authority).server_name("not a name"),
    ] {
        let error = refused::<F>(tls_options(&untouched, tls.clone()));
        assert!(error.to_string().contains("cannot be used"), "{error}");
        assert!(!format!("{tls:?}").contains("BEGIN"), "{tls:?}");
    }
    assert_eq!(untouched.accepted(), 0);
}

/// S12.
fn a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let address = format!("beanstalks://{}", server.address());
    // It takes the handshake for a command line and waits for its end, so it is the deadline that ends this.
    let options = options(&address).tls(trusting(&authority));
    let error = F::connect(options.connect_timeout(Duration::from_secs(1))).err().unwrap();
    assert_eq!(error.fate(), Fate::NotSent);
    assert!(error.to_string().contains("is this port plain text?"), "{error}");
    // What it received was the start of a handshake, never a command.
    assert!(server.requests().iter().all(|request| request.verb.is_none()));
    let closing = Scripts::start(|_, mut stream| {
        let mut first = [0; 1];
        let _ = stream.read(&mut first);
        let _ = stream.shutdown(Shutdown::Both);
    });
    let error = refused::<F>(tls_options(&closing, trusting(&authority)));
    assert!(error.to_string().contains("closed the connection during the handshake"), "{error}");
}

/// C1: the connect deadline covers the handshake.
fn a_silent_port_meets_the_connect_deadline<F: Face>() {
    let silent = Scripts::start(|_, mut stream| read_to_end(&mut stream));
    let options = tls_options(&silent, trusting(&authority()));
    let error = F::connect(options.connect_timeout(Duration::from_millis(60))).err().unwrap();
    assert_eq!(
        (error.kind(), error.fate()),
        (ErrorKind::Timeout(Deadline::Connect), Fate::NotSent),
        "{error}"
    );
}

/// C21: without the closing alert the end of the stream is no end.
fn tls_cut_in_the_middle_of_a_body_is_never_a_short_body<F: Face>() {
    let authority = authority();
    let config = Arc::new(config(identity(&authority, "127.0.0.1", |_| {}), None));
    for with_alert in [true, false] {
        let config = Arc::clone(&config);
        let server = Scripts::start(move |_, mut stream| {
            let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            serve_half_a_job(&mut tls, &mut stream, with_alert);
        });
        let mut client = F::connect(tls_options(&server, trusting(&authority))).unwrap();
        let error = client.reserve().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    }
}

fn serve_half_a_job(tls: &mut rustls::ServerConnection, stream: &mut TcpStream, with_alert: bool) {
    let mut line = [0; 9];
    let mut server = rustls::Stream::new(tls, stream);
    if server.read_exact(&mut line).is_err() {
        return;
    }
    let _ = server.write_all(b"RESERVED 1 100\r\nhalf a body");
    if with_alert {
        tls.send_close_notify();
        let _ = tls.write_tls(stream);
    }
    let _ = stream.shutdown(Shutdown::Write);
    read_to_end(stream);
}

fn a_tls_connection_lost_while_nobody_looked_is_noticed<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let proxy = proxy(config(identity(&authority, "127.0.0.1", |_| {}), None), &server);
    let mut client = F::connect(tls_options(&proxy, trusting(&authority))).unwrap();
    assert_eq!(client.reserve_with_timeout(Duration::ZERO).unwrap(), Reserved::TimedOut);
    // A session ticket that has come meanwhile is no sign of a dead connection.
    assert!(client.check_connection());
    server.close_connections();
    let started = std::time::Instant::now();
    while client.check_connection() {
        assert!(started.elapsed() < PATIENCE, "the end of the connection is not seen");
        thread::yield_now();
    }
    assert_eq!(client.list_tube_used().unwrap(), "default");
}
