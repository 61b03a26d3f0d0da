//! What users of such servers stumble over, and servers that are slightly different.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

use adf_queue_client::{
    Address, ConnectOptions, ConnectionState, Deadline, ErrorKind, Fate, Refusal, RetryPolicy,
    Transport,
};
use fixtures::{
    adf_queue::{LineEnd, Quirks, Server},
    fault::Fault,
};

use crate::{
    face::{Face, both_faces},
    support::{LATE, PATIENCE, queue_name},
};

both_faces!(
    a_body_of_over_65535_bytes_is_read_whole_in_binary,
    a_json_pull_never_kills_the_server,
    a_server_that_behaves_serves_as_well,
    a_client_that_goes_does_not_wait_for_the_answer_to_its_close,
    a_message_over_the_limit_ends_the_connection,
    a_non_queue_server_is_detected_at_once,
    a_host_that_the_server_would_not_read_is_refused,
    a_call_has_a_total_time,
    a_client_may_start_before_its_server,
    pings_without_an_interval_do_not_flood,
);

fn options(server: &Server, transport: Transport) -> ConnectOptions {
    let address: Address = server.address().parse().unwrap();
    ConnectOptions::new(address.with_transport(transport)).reply_timeout(PATIENCE)
}

/// Section 6: the length is modulo 65,536, and the body is complete.
fn a_body_of_over_65535_bytes_is_read_whole_in_binary<F: Face>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let queue = "/q".parse().unwrap();
    let mut json = F::connect(options(&server, Transport::WsJson)).unwrap();
    let mut binary = F::connect(options(&server, Transport::WsBin)).unwrap();
    for len in [65_535, 65_536, 70_000, 200_000] {
        json.rpush(&queue, "x".repeat(len).into()).unwrap();
        assert_eq!(binary.pull(&queue).unwrap().body().len(), len);
    }
}

/// Section 10: a JSON pull from a queue that does not exist ends the server's process.
fn a_json_pull_never_kills_the_server<F: Face>() {
    let quirks = Quirks { json_pull_kills_server: true, ..Quirks::default() };
    let server = Server::builder().quirks(quirks).start().unwrap();
    let mut client = F::connect(options(&server, Transport::WsJson)).unwrap();
    let queue = queue_name();
    let refused = ErrorKind::Refused(Refusal::QueueNotFound);
    assert_eq!(*client.pull(&queue).unwrap_err().kind(), refused);
    assert_eq!(*client.try_pull(&queue).unwrap_err().kind(), refused);
    client.create_queue(&queue).unwrap();
    client.rpush(&queue, "x".into()).unwrap();
    assert_eq!(client.pull(&queue).unwrap().body(), "x");
    assert!(!server.view().is_dead);
}

fn a_server_that_behaves_serves_as_well<F: Face>() {
    for line_end in [LineEnd::Lf, LineEnd::CrLf] {
        let mut quirks = Quirks::none();
        quirks.line_end = line_end;
        let server = Server::builder().queue("/q").quirks(quirks).start().unwrap();
        for transport in [Transport::WsBin, Transport::WsJson] {
            let mut client = F::connect(options(&server, transport)).unwrap();
            let queue = "/q".parse().unwrap();
            client.rpush(&queue, "a\u{1}b".into()).unwrap();
            let pulled = client.pull(&queue).unwrap();
            assert_eq!(pulled.body(), "a\u{1}b");
            client.ping().unwrap();
            client.delete(&pulled).unwrap();
        }
    }
}

/// Section 7: the server ignores a close, and continues until the end of the stream.
fn a_client_that_goes_does_not_wait_for_the_answer_to_its_close<F: Face>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let mut client = F::connect(options(&server, Transport::WsBin)).unwrap();
    let queue = "/q".parse().unwrap();
    client.rpush(&queue, "x".into()).unwrap();
    client.pull(&queue).unwrap();
    assert_eq!((server.view().websockets, server.view().pulled), (1, 1));
    drop(client);
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0 && view.ready == 1));
}

fn a_message_over_the_limit_ends_the_connection<F: Face>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let queue = "/q".parse().unwrap();
    let mut client = F::connect(options(&server, Transport::WsBin).max_message_size(1000)).unwrap();
    client.rpush(&queue, "x".repeat(2000).into()).unwrap();
    let error = client.pull(&queue).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::MessageTooLarge);
    assert!(error.to_string().contains("raise max_message_size"), "{error}");
    assert_eq!(client.count(&queue).unwrap(), 1, "the server has it again");
}

/// Section 8.2: another server, or a proxy, answers with a page.
fn a_non_queue_server_is_detected_at_once<F: Face>() {
    for (answer, kind) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"[..], ErrorKind::Protocol),
        (b"HTTP/1.1 505 Http Version Not Supported\n\n", ErrorKind::Protocol),
        (b"UNKNOWN_COMMAND\r\n", ErrorKind::Protocol),
        (b"", ErrorKind::ConnectionLost),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                asked.extend(byte);
            }
            stream.write_all(answer).unwrap();
        });
        let error = F::connect(address.parse().unwrap()).err().unwrap();
        assert_eq!((error.kind(), error.fate()), (&kind, Fate::NotSent), "{error}");
        server.join().unwrap();
    }
}

/// Section 8.4: the server closes the connection at a line of over 512 bytes.
fn a_host_that_the_server_would_not_read_is_refused<F: Face>() {
    let error = F::new("x".repeat(600).parse().unwrap()).err().unwrap();
    assert_eq!(*error.kind(), ErrorKind::InvalidInput);
    let error = F::new("bücher".parse().unwrap()).err().unwrap();
    assert_eq!(*error.kind(), ErrorKind::InvalidInput);
}

fn a_call_has_a_total_time<F: Face>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let queue = "/q".parse().unwrap();
    let quick = options(&server, Transport::WsBin).total_timeout(Some(LATE));
    let mut client = F::connect(quick).unwrap();
    server.faults().add(Fault::nth(1).of("count").hang());
    let error = client.count(&queue).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Timeout(Deadline::Total));
    assert!(client.pull_within(&queue, Duration::from_millis(20)).unwrap().is_none());
}

fn a_client_may_start_before_its_server<F: Face>() {
    let address = fixtures::Port::take().unwrap().dead();
    let address: ConnectOptions = address.to_string().parse().unwrap();
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(1), Duration::from_millis(2));
    let mut client = F::new(address.retry(retry)).unwrap();
    assert_eq!(client.connection_state(), ConnectionState::Idle);
    let error = client.ping().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::Connect, Fate::NotSent));
}

fn pings_without_an_interval_do_not_flood<F: Face>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let options = options(&server, Transport::WsBin).ping_interval(Some(Duration::ZERO));
    let mut client = F::connect(options).unwrap();
    assert!(
        client.pull_within(&"/q".parse().unwrap(), Duration::from_millis(500)).unwrap().is_none()
    );
    let sent = client.metrics().bytes_out;
    assert!(sent < 5_000, "{sent} bytes");
}
