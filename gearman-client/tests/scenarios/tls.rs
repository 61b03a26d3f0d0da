//! TLS in front of the in-memory server: good and bad certificates, cuts, no way back to plain text.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use fixtures::gearmand::Server;
use gearman_client::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, Outcome, RetryPolicy, TlsOptions,
    WorkerOptions, blocking,
    protocol::{Echo, PacketType},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, RevokedCertParams,
};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{PATIENCE, options, wire},
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

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn identity(authority: &Authority, params: &CertificateParams) -> Identity {
    let key = KeyPair::generate().unwrap();
    let certificate = params.clone().signed_by(&key, authority).unwrap();
    Identity {
        pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        chain: vec![certificate.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    }
}

fn config(identity: Identity, clients: Option<&Authority>) -> Arc<ServerConfig> {
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
    Arc::new(builder.with_single_cert(identity.chain, identity.key).unwrap())
}

/// Gives each connection to `serve`, in a thread of its own. The listener lives as long as the test program.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Ends TLS in front of `server`.
fn proxy(config: Arc<ServerConfig>, server: &Server) -> SocketAddr {
    let upstream = server.socket_addr().unwrap();
    listen(move |stream| {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&config));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let mut upstream = tokio::net::TcpStream::connect(upstream).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
        });
    })
}

fn to(address: SocketAddr, tls: TlsOptions) -> ConnectOptions {
    let options: ConnectOptions = format!("gearmans://{address}").parse().unwrap();
    options.tls(tls).require_tls(true).retry(RetryPolicy::new(2))
}

fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions::default().authorities_pem(authority.pem())
}

/// Clients, workers and administrators are refused alike.
fn refused<F: Face>(options: ConnectOptions) -> Error {
    let error = F::connect(options.clone()).err().expect("the connection is refused");
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Tls, Fate::NotSent), "{error}");
    let worker = F::Worker::connect(WorkerOptions::from(options.clone())).err().unwrap();
    assert_eq!((worker.kind(), worker.fate()), (ErrorKind::Tls, Fate::NotSent), "{worker}");
    let admin = blocking::Admin::connect(options).err();
    assert_eq!(admin.unwrap().kind(), ErrorKind::Tls);
    error
}

both_faces!(
    jobs_go_through_tls,
    a_certificate_for_another_name_is_refused,
    a_certificate_of_an_unknown_authority_is_refused,
    a_self_signed_certificate_is_refused_unless_it_is_the_authority,
    an_expired_certificate_and_one_of_the_future_are_refused,
    a_revoked_certificate_is_refused,
    a_client_certificate_is_shown_when_it_is_asked_for,
    a_missing_or_foreign_client_certificate_is_an_error,
    unusable_tls_options_are_refused_before_connecting,
    a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear,
    a_silent_port_meets_the_connect_deadline,
    tls_cut_at_any_byte_of_an_answer_is_a_lost_connection,
    a_tls_connection_that_is_lost_is_made_again,
    a_write_that_is_stuck_in_tls_goes_on,
);

fn jobs_go_through_tls<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let address = proxy(config(identity(&authority, &params("127.0.0.1")), None), &server);
    let options_ = to(address, trusting(&authority));
    let at = options_.clone();
    let worker = thread::spawn(move || {
        let mut worker = F::Worker::connect(WorkerOptions::from(at)).unwrap();
        worker.can_do("f");
        for _ in 0..3 {
            let job = worker.next();
            let size = F::Worker::assignment(&job).workload.len();
            worker.data(&job, &"x".repeat(size)).unwrap();
            worker.complete(job, "done").unwrap();
        }
        worker.stop()
    });
    let mut client = F::connect(options_.clone()).unwrap();
    for size in [0, 1, 1 << 20] {
        let (_, events) = client.submit("f", &vec![0; size], options()).unwrap();
        assert_eq!(events.len(), 2);
    }
    assert_eq!(worker.join().unwrap().completed, 3);
    let echoes = client.call_many((0..600).map(|n| Echo(n.to_string())).collect());
    assert!(echoes.into_iter().enumerate().all(|(n, echo)| echo.unwrap() == n.to_string()));
    let mut admin = blocking::Admin::connect(options_).unwrap();
    assert!(admin.getpid().unwrap() > 0);
}

fn a_certificate_for_another_name_is_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let address = proxy(config(identity(&authority, &params("queue.example")), None), &server);
    let error = refused::<F>(to(address, trusting(&authority)));
    assert!(error.to_string().contains("not valid for"), "{error}");
    // Unless the caller says that this is the name.
    let named = trusting(&authority).server_name("queue.example");
    let mut client = F::connect(to(address, named)).unwrap();
    assert_eq!(client.echo("x").unwrap(), "x");
}

fn a_certificate_of_an_unknown_authority_is_refused<F: Face>() {
    let server = Server::start().unwrap();
    let (known, unknown) = (authority(), authority());
    let address = proxy(config(identity(&unknown, &params("127.0.0.1")), None), &server);
    refused::<F>(to(address, trusting(&known)));
    // The operating system does not know it either.
    refused::<F>(to(address, TlsOptions::default()));
    assert_eq!(server.requests(), []);
}

fn a_self_signed_certificate_is_refused_unless_it_is_the_authority<F: Face>() {
    let (server, other) = (Server::start().unwrap(), authority());
    let key = KeyPair::generate().unwrap();
    let certificate = params("127.0.0.1").self_signed(&key).unwrap();
    let identity = Identity {
        pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        chain: vec![certificate.der().clone()],
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    };
    let pem = identity.pem.clone();
    let address = proxy(config(identity, None), &server);
    refused::<F>(to(address, trusting(&other)));
    let pinned = TlsOptions::default().authorities_pem(pem);
    assert_eq!(F::connect(to(address, pinned)).unwrap().echo("x").unwrap(), "x");
}

fn an_expired_certificate_and_one_of_the_future_are_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    for (from, until, words) in [(2001, 2002, "xpired"), (4000, 4001, "valid")] {
        let mut params = params("127.0.0.1");
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let address = proxy(config(identity(&authority, &params), None), &server);
        let error = refused::<F>(to(address, trusting(&authority)));
        assert!(error.to_string().contains(words), "{error}");
    }
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
    let mut params = params("127.0.0.1");
    params.serial_number = Some(7_u64.into());
    let address = proxy(config(identity(&authority, &params), None), &server);
    for foreign in [revoking(&authority, &[6, 7]), revoking(&self::authority(), &[])] {
        refused::<F>(to(address, trusting(&authority).revocation_lists_pem(foreign)));
    }
    assert_eq!(server.requests(), []);
    let tls = trusting(&authority).revocation_lists_pem(revoking(&authority, &[6, 8]));
    assert_eq!(F::connect(to(address, tls)).unwrap().echo("x").unwrap(), "x");
}

fn a_client_certificate_is_shown_when_it_is_asked_for<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let identity_ = identity(&authority, &params("127.0.0.1"));
    let address = proxy(config(identity_, Some(&authority)), &server);
    let mine = identity(&authority, &params("client"));
    let tls = trusting(&authority).client_certificate_pem(mine.pem, mine.key_pem);
    assert_eq!(F::connect(to(address, tls)).unwrap().echo("x").unwrap(), "x");
}

fn a_missing_or_foreign_client_certificate_is_an_error<F: Face>() {
    let (server, mine, foreign) = (Server::start().unwrap(), authority(), authority());
    let address = proxy(config(identity(&mine, &params("127.0.0.1")), Some(&mine)), &server);
    let stranger = identity(&foreign, &params("client"));
    for tls in
        [trusting(&mine), trusting(&mine).client_certificate_pem(stranger.pem, stranger.key_pem)]
    {
        // With TLS 1.3 the server says so only after the client has finished its part of the handshake: the client
        // learns it from the answer to its first request.
        let options = to(address, tls).retry(RetryPolicy::never());
        let error = F::connect(options).and_then(|mut client| client.echo("x")).unwrap_err();
        let kinds = [ErrorKind::Tls, ErrorKind::ConnectionLost];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    assert_eq!(server.requests(), []);
}

/// S13.
fn unusable_tls_options_are_refused_before_connecting<F: Face>() {
    let authority = authority();
    let untouched = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = untouched.local_addr().unwrap();
    let (one, other) =
        (identity(&authority, &params("client")), identity(&authority, &params("client")));
    for tls in [
        TlsOptions::default().authorities_pem("no certificate"),
        trusting(&authority).revocation_lists_pem("no list"),
        trusting(&authority).client_certificate_pem(one.pem.clone(), other.key_pem),
        trusting(&authority).client_certificate_pem(one.pem, "no key"),
        trusting(&authority).server_name("not a name"),
    ] {
        let error = refused::<F>(to(address, tls.clone()));
        assert!(error.to_string().contains("cannot be used"), "{error}");
        assert!(!format!("{tls:?}").contains("BEGIN"), "{tls:?}");
    }
    untouched.set_nonblocking(true).unwrap();
    assert!(untouched.accept().is_err(), "nobody connected");
}

/// S12.
fn a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let plain = to(server.socket_addr().unwrap(), trusting(&authority));
    // It takes the handshake for a line of text and waits for its end, so it may be the deadline that ends this.
    let error = F::connect(plain.connect_timeout(Duration::from_secs(1))).err().unwrap();
    assert_eq!(error.fate(), Fate::NotSent);
    assert!(error.to_string().contains("is this port plain text?"), "{error}");
    // What it received was the start of a handshake, never a packet.
    let requests = server.requests();
    assert!(requests.iter().all(|request| !request.text().contains("OPTION_REQ")), "{requests:?}");
    let closing = listen(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        let _ = stream.shutdown(Shutdown::Both);
    });
    let error = refused::<F>(to(closing, trusting(&authority)));
    assert!(error.to_string().contains("closed the connection during the handshake"), "{error}");
    let talking = listen(|mut stream| {
        let _ = stream.write_all(b"ERR UNKNOWN_COMMAND\r\n");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let error = refused::<F>(to(talking, trusting(&authority)));
    assert!(error.to_string().contains("is this port plain text?"), "{error}");
}

/// C1: the connect deadline covers the handshake.
fn a_silent_port_meets_the_connect_deadline<F: Face>() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = to(silent.local_addr().unwrap(), trusting(&authority()));
    let error = F::connect(options.connect_timeout(Duration::from_millis(60))).err().unwrap();
    let kind = ErrorKind::Timeout(Deadline::Connect);
    assert_eq!((error.kind(), error.fate()), (kind, Fate::NotSent), "{error}");
}

/// C21: without the closing alert, and with it, the end of the stream in the middle of a packet is no short answer.
fn tls_cut_at_any_byte_of_an_answer_is_a_lost_connection<F: Face>() {
    let authority = authority();
    let config = config(identity(&authority, &params("127.0.0.1")), None);
    let answer = wire(PacketType::EchoRes, &["hello"]);
    for cut in 0..answer.len() {
        for with_alert in [true, false] {
            let (config, answer) = (Arc::clone(&config), answer.clone());
            let address = listen(move |mut stream| {
                let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                answer_in_part(&mut tls, &mut stream, &answer[..cut], with_alert);
            });
            let options = to(address, trusting(&authority)).exceptions(false);
            let mut client = F::connect(options.retry(RetryPolicy::never())).unwrap();
            let error = client.echo("hello").unwrap_err();
            let kind = ErrorKind::ConnectionLost;
            assert_eq!((error.kind(), error.fate()), (kind, Fate::Unknown), "after {cut}: {error}");
        }
    }
}

fn answer_in_part(
    tls: &mut ServerConnection,
    stream: &mut TcpStream,
    answer: &[u8],
    with_alert: bool,
) {
    let mut server = rustls::Stream::new(tls, stream);
    if server.read_exact(&mut [0; 17]).is_err() {
        return;
    }
    let _ = server.write_all(answer);
    if with_alert {
        tls.send_close_notify();
        let _ = tls.write_tls(stream);
    }
    let _ = stream.shutdown(Shutdown::Write);
    let _ = std::io::copy(stream, &mut std::io::sink());
}

fn a_tls_connection_that_is_lost_is_made_again<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), authority());
    let address = proxy(config(identity(&authority, &params("127.0.0.1")), None), &server);
    let mut worker =
        F::Worker::connect(WorkerOptions::from(to(address, trusting(&authority)))).unwrap();
    worker.can_do("f");
    assert!(worker.next_within(Duration::from_millis(20)).is_none());
    let mut client = F::connect(to(address, trusting(&authority))).unwrap();
    assert_eq!(client.echo("x").unwrap(), "x");
    server.reset_connections();
    // The client sees the end with its next call, or before it.
    let started = Instant::now();
    while client.echo("again").is_err() {
        assert!(started.elapsed() < PATIENCE);
    }
    let at = thread::spawn(move || client.run("f", b"", options()).unwrap());
    let job = worker.next();
    worker.complete(job, "r").unwrap();
    assert_eq!(at.join().unwrap(), Outcome::Complete("r".into()));
    assert_eq!(worker.stop().completed, 1);
}

/// A write that is stuck read instead, and waited there for an answer to bytes that TLS still held.
fn a_write_that_is_stuck_in_tls_goes_on<F: Face>() {
    let authority = authority();
    let config = config(identity(&authority, &params("127.0.0.1")), None);
    let address = listen(move |mut stream| {
        let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut server = rustls::Stream::new(&mut tls, &mut stream);
        let mut header = [0; 12];
        server.read_exact(&mut header).unwrap();
        // Longer than a write waits before the client looks whether the server wants to be read from.
        thread::sleep(Duration::from_millis(200));
        let size = u32::from_be_bytes(header[8..].try_into().unwrap());
        std::io::copy(&mut (&mut server).take(size.into()), &mut std::io::sink()).unwrap();
        server.write_all(&wire(PacketType::JobCreated, &["H:x:1"])).unwrap();
        let _ = std::io::copy(&mut server, &mut std::io::sink());
    });
    let at = to(address, trusting(&authority)).exceptions(false);
    let mut client = F::connect(at.retry(RetryPolicy::never())).unwrap();
    // More than fits into any socket's buffer.
    client.submit_background("f", &vec![b'x'; 32 << 20], options()).unwrap();
}
