//! TLS in front of the in-memory server: good and bad certificates, cuts, no fallback to plain text.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{options, wire},
};
use fixtures::{
    gearmand::Server,
    tls::{self, Authority, Certificate},
};
use gearman_client::{
    ConnectOptions, Error, ErrorKind, Fate, RetryPolicy, TlsOptions, WorkerOptions, blocking,
    protocol::{Echo, PacketType},
};

/// Passes each connection to `serve`, in its own thread. The listener lives as long as the test program.
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

/// Ends TLS in front of `server`, with a certificate for `name`.
fn proxy(authority: &Authority, name: &str, server: &Server) -> SocketAddr {
    in_front(&authority.identity(name).server(None), server)
}

fn in_front(tls: &tls::Server, server: &Server) -> SocketAddr {
    tls.proxy(server.socket_addr().unwrap())
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
    a_certificate_of_an_unknown_authority_is_refused,
    a_self_signed_certificate_is_refused_unless_it_is_the_authority,
    a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear,
    a_stuck_tls_write_resumes,
);

fn jobs_go_through_tls<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
    let address = proxy(&authority, "127.0.0.1", &server);
    let options_ = to(address, trusting(&authority));
    let at = options_.clone();
    let worker = thread::spawn(move || {
        let mut worker = F::Worker::of("f", WorkerOptions::from(at));
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

fn a_certificate_of_an_unknown_authority_is_refused<F: Face>() {
    let server = Server::start().unwrap();
    let (known, unknown) = (Authority::new(), Authority::new());
    let address = proxy(&unknown, "127.0.0.1", &server);
    refused::<F>(to(address, trusting(&known)));
    // The operating system does not know it either.
    refused::<F>(to(address, TlsOptions::default()));
    assert_eq!(server.requests(), []);
}

fn a_self_signed_certificate_is_refused_unless_it_is_the_authority<F: Face>() {
    let (server, other) = (Server::start().unwrap(), Authority::new());
    let identity = Certificate::of("127.0.0.1").self_signed();
    let address = in_front(&identity.server(None), &server);
    refused::<F>(to(address, trusting(&other)));
    let pinned = TlsOptions::default().authorities_pem(identity.pem);
    assert_eq!(F::connect(to(address, pinned)).unwrap().echo("x").unwrap(), "x");
}

/// S12.
fn a_plain_text_port_is_refused_and_nothing_is_sent_in_the_clear<F: Face>() {
    let (server, authority) = (Server::start().unwrap(), Authority::new());
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

/// A stuck write read instead, and waited for an answer to bytes that TLS still held.
fn a_stuck_tls_write_resumes<F: Face>() {
    let authority = Authority::new();
    let server = authority.identity("127.0.0.1").server(None);
    let address = listen(move |stream| {
        let mut server = server.within(stream);
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
