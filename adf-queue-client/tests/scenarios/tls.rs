//! TLS in front of a server that has none: a proxy ends it.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
};

use adf_queue_client::{ConnectOptions, ErrorKind, Fate, RetryPolicy, TlsOptions};
use fixtures::{adf_queue::Server, tls::Authority};

use crate::face::{Face, both_faces};

/// All transports, over TLS.
const SCHEMES: [&str; 4] = ["adfs", "adfs+json", "https", "https+json"];

both_faces!(
    messages_go_through_tls,
    a_certificate_of_an_unknown_authority_is_refused,
    a_server_without_tls_is_never_spoken_to_in_plain_text,
);

/// Ends TLS in front of `server`, for as long as the test program runs.
fn proxy(authority: &Authority, server: &Server) -> SocketAddr {
    authority.identity("127.0.0.1").server(None).proxy(server.socket_addr().unwrap())
}

fn to(scheme: &str, address: SocketAddr, tls: TlsOptions) -> ConnectOptions {
    let options: ConnectOptions = format!("{scheme}://{address}").parse().unwrap();
    options.tls(tls).require_tls(true).retry(RetryPolicy::never())
}

fn messages_go_through_tls<F: Face>() {
    let (server, authority) = (Server::builder().queue("/q").start().unwrap(), Authority::new());
    let address = proxy(&authority, &server);
    for scheme in SCHEMES {
        let tls = TlsOptions::default().authorities_pem(authority.pem());
        let mut client = F::connect(to(scheme, address, tls)).unwrap();
        let queue = "/q".parse().unwrap();
        client.rpush(&queue, "x".repeat(60_000).into()).unwrap();
        let pulled = client.pull(&queue).unwrap();
        assert_eq!(pulled.body().len(), 60_000);
        client.delete(&pulled).unwrap();
        client.ping().unwrap();
        assert_eq!(client.stats().unwrap().queues.len(), 1, "the page of {scheme}");
    }
}

fn a_certificate_of_an_unknown_authority_is_refused<F: Face>() {
    let (server, known) = (Server::start().unwrap(), Authority::new());
    let address = proxy(&Authority::new(), &server);
    for scheme in SCHEMES {
        let tls = TlsOptions::default().authorities_pem(known.pem());
        let mut client = F::new(to(scheme, address, tls)).unwrap();
        let error = client.rpush(&"/q".parse().unwrap(), "x".into()).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::Tls, Fate::NotSent), "{error}");
    }
}

fn a_server_without_tls_is_never_spoken_to_in_plain_text<F: Face>() {
    for scheme in SCHEMES {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            first[0]
        });
        let tls = TlsOptions::default().authorities_pem(Authority::new().pem());
        let mut client = F::new(to(scheme, address, tls)).unwrap();
        let error = client.rpush(&"/q".parse().unwrap(), "x".into()).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::Tls, Fate::NotSent), "{error}");
        assert_eq!(server.join().unwrap(), 0x16, "a handshake");
    }
    for (plain, secure) in [("adf+json", "adfs+json"), ("http", "https")] {
        let plain: ConnectOptions = format!("{plain}://10.0.0.5").parse().unwrap();
        let error = F::new(plain.require_tls(true)).err().unwrap();
        assert!(error.to_string().contains(&format!("write {secure}://10.0.0.5")), "{error}");
    }
}
