//! TLS through a proxy in front of the in-memory server: good and bad certificates, no way back to plain text.

use std::{
    fmt::Display,
    io::{Read, Write},
    net::{Shutdown, SocketAddr},
    sync::Arc,
    thread,
    time::Duration,
};

use beanstalk_client::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate, PutOptions, Reserved, RetryPolicy,
    TlsOptions,
    rustls::{
        self,
        pki_types::{CertificateDer, pem::PemObject},
    },
};
use fixtures::{
    beanstalkd::Server,
    tls::{self, Authority, Certificate},
};
use queue_core::proof::{Scripts, read_to_end};

use crate::support::{
    Face, both_faces,
    connectors::resolved_by,
    place::{PATIENCE, options},
};

/// A server, and what ends TLS in front of it, with a certificate for `name`.
fn proxied(name: &str) -> (Server, Authority, SocketAddr) {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
    let proxy = in_front(&authority.identity(name).server(None), &server);
    (server, authority, proxy)
}

fn in_front(tls: &tls::Server, server: &Server) -> SocketAddr {
    tls.proxy(server.socket_addr().unwrap())
}

fn to(address: impl Display, tls: TlsOptions) -> ConnectOptions {
    options(&format!("beanstalks://{address}")).tls(tls).require_tls(true)
}

fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions::default().authorities_pem(authority.pem())
}

fn accepted<F: Face>(options: ConnectOptions) {
    let mut client = F::connect(options).unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "default");
}

fn refused<F: Face>(options: ConnectOptions) -> Error {
    let error = F::connect(options).err().expect("the connection is refused");
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Tls, Fate::NotSent), "{error}");
    error
}

both_faces!(
    jobs_go_through_tls,
    a_configuration_of_rustls_is_used_as_it_is,
    tls_goes_over_the_stream_of_a_connector,
    a_certificate_for_another_name_is_refused,
    a_certificate_of_an_unknown_authority_is_refused,
    a_certificate_that_the_platform_does_not_know_is_refused,
    an_expired_certificate_is_refused,
    a_revoked_certificate_is_refused,
    a_client_certificate_is_shown_when_it_is_asked_for,
    a_missing_client_certificate_is_an_error,
    unusable_tls_options_are_refused_before_connecting,
    a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear,
    a_silent_port_meets_the_connect_deadline,
    tls_cut_in_the_middle_of_a_body_is_never_a_short_body,
    a_tls_connection_lost_while_idle_is_noticed,
);

fn jobs_go_through_tls<F: Face>() {
    let (_server, authority, proxy) = proxied("127.0.0.1");
    let mut client = F::connect(to(proxy, trusting(&authority))).unwrap();
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

fn a_configuration_of_rustls_is_used_as_it_is<F: Face>() {
    let (_server, authority, proxy) = proxied("127.0.0.1");
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = |roots: rustls::RootCertStore| {
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&ring));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    };
    let pem = authority.pem();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let own = TlsOptions::default().client_config(config(roots));
    accepted::<F>(to(proxy, own));
    // What else was set does not add to it.
    let nobody = trusting(&authority).client_config(config(rustls::RootCertStore::empty()));
    refused::<F>(to(proxy, nobody));
    accepted::<F>(to(proxy, trusting(&authority).crypto_provider(ring)));
}

fn tls_goes_over_the_stream_of_a_connector<F: Face>() {
    let (server, authority, proxy) = proxied("queue.invalid");
    let options = options("beanstalks://queue.invalid").tls(trusting(&authority));
    let mut client = F::connect(resolved_by(options.clone(), move |_| Ok(proxy))).unwrap();
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
    let (server, authority, proxy) = proxied("queue.example");
    let error = refused::<F>(to(proxy, trusting(&authority)));
    assert!(error.to_string().contains("not valid for"), "{error}");
    // Unless the caller says that this is the name.
    let named = trusting(&authority).server_name("queue.example");
    accepted::<F>(to(proxy, named));
    assert_eq!(server.requests().len(), 1);
}

fn a_certificate_of_an_unknown_authority_is_refused<F: Face>() {
    let (server, _, proxy) = proxied("127.0.0.1");
    let error = refused::<F>(to(proxy, trusting(&Authority::new()))).to_string();
    assert!(error.contains("invalid peer certificate") && !error.contains("plain text"), "{error}");
    assert_eq!(server.requests(), []);
}

fn a_certificate_that_the_platform_does_not_know_is_refused<F: Face>() {
    let (server, authority, proxy) = proxied("127.0.0.1");
    let error = refused::<F>(to(proxy, TlsOptions::default().platform_verifier())).to_string();
    assert!(!error.contains("plain text"), "{error}");
    // The two would contradict each other, and neither is passed over in silence.
    let error = refused::<F>(to(proxy, trusting(&authority).platform_verifier())).to_string();
    assert!(error.contains("supports neither authorities nor revocation lists"), "{error}");
    assert_eq!(server.requests(), []);
    // Without it that authority is trusted.
    accepted::<F>(to(proxy, trusting(&authority)));
}

fn an_expired_certificate_is_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
    let expired = authority.sign(Certificate::of("127.0.0.1").years(2001, 2002));
    let proxy = in_front(&expired.server(None), &server);
    let error = refused::<F>(to(proxy, trusting(&authority)));
    assert!(error.to_string().contains("xpired"), "{error}");
    assert_eq!(server.requests(), []);
}

fn a_revoked_certificate_is_refused<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
    let seventh = authority.sign(Certificate::of("127.0.0.1").serial(7));
    let proxy = in_front(&seventh.server(None), &server);
    for foreign in [authority.revoking(&[6, 7]), Authority::new().revoking(&[])] {
        let tls = trusting(&authority).revocation_lists_pem(foreign);
        refused::<F>(to(proxy, tls));
    }
    assert_eq!(server.requests(), []);
    let tls = trusting(&authority).revocation_lists_pem(authority.revoking(&[6, 8]));
    accepted::<F>(to(proxy, tls));
}

fn a_client_certificate_is_shown_when_it_is_asked_for<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
    let identity = authority.identity("127.0.0.1");
    let proxy = in_front(&identity.server(Some(&authority)), &server);
    let mine = authority.identity("client");
    let tls = trusting(&authority).client_certificate_pem(mine.pem, mine.key_pem);
    accepted::<F>(to(proxy, tls));
}

fn a_missing_client_certificate_is_an_error<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
    let identity = authority.identity("127.0.0.1");
    let proxy = in_front(&identity.server(Some(&authority)), &server);
    let options = to(proxy, trusting(&authority)).retry(RetryPolicy::never());
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
    let authority = Authority::new();
    let untouched = Scripts::start(|_, _| {});
    let (one, other) = (authority.identity("client"), authority.identity("client"));
    for tls in [
        TlsOptions::default().authorities_pem("no certificate"),
        trusting(&authority).revocation_lists_pem("no list"),
        trusting(&authority).client_certificate_pem(one.pem.clone(), other.key_pem),
        trusting(&authority).client_certificate_pem(one.pem, "no key"),
        trusting(&authority).server_name("not a name"),
    ] {
        let error = refused::<F>(to(untouched.address(), tls.clone()));
        assert!(error.to_string().contains("cannot be used"), "{error}");
        assert!(!format!("{tls:?}").contains("BEGIN"), "{tls:?}");
    }
    assert_eq!(untouched.accepted(), 0);
}

/// S12.
fn a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
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
    let error = refused::<F>(to(closing.address(), trusting(&authority)));
    assert!(error.to_string().contains("closed the connection during the handshake"), "{error}");
}

/// C1: the connect deadline covers the handshake.
fn a_silent_port_meets_the_connect_deadline<F: Face>() {
    let silent = Scripts::start(|_, mut stream| read_to_end(&mut stream));
    let options = to(silent.address(), trusting(&Authority::new()));
    let error = F::connect(options.connect_timeout(Duration::from_millis(60))).err().unwrap();
    assert_eq!(
        (error.kind(), error.fate()),
        (ErrorKind::Timeout(Deadline::Connect), Fate::NotSent),
        "{error}"
    );
}

/// C21: without the closing alert the end of the stream is no end.
fn tls_cut_in_the_middle_of_a_body_is_never_a_short_body<F: Face>() {
    let authority = Authority::new();
    let tls = authority.identity("127.0.0.1").server(None);
    for with_alert in [true, false] {
        let tls = tls.clone();
        let server =
            Scripts::start(move |_, stream| serve_half_a_job(tls.within(stream), with_alert));
        let mut client = F::connect(to(server.address(), trusting(&authority))).unwrap();
        let error = client.reserve().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    }
}

fn serve_half_a_job(mut server: tls::Stream, with_alert: bool) {
    let mut line = [0; 9];
    if server.read_exact(&mut line).is_err() {
        return;
    }
    let _ = server.write_all(b"RESERVED 1 100\r\nhalf a body");
    if with_alert {
        server.conn.send_close_notify();
        let _ = server.conn.write_tls(&mut server.sock);
    }
    let _ = server.sock.shutdown(Shutdown::Write);
    read_to_end(&mut server.sock);
}

fn a_tls_connection_lost_while_idle_is_noticed<F: Face>() {
    let (server, authority, proxy) = proxied("127.0.0.1");
    let mut client = F::connect(to(proxy, trusting(&authority))).unwrap();
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
