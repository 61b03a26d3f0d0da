//! Every wait ends at the deadline that its error names.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    Client, ConnectOptions, Deadline, Error, ErrorKind, Fate, ProducerOptions, PutOptions,
    Reserved, RetryPolicy,
    protocol::{Peek, Put, ReserveWithTimeout},
};
use fixtures::{beanstalkd::Server, fault::Fault, real::Beanstalkd};
use queue_core::proof::{Flood, Scripts, read_bytes, read_line, read_to_end, runtime};

use crate::support::{
    Blocking, Face, both_faces, both_producers,
    connectors::over,
    place::{LATE, PATIENCE, connect, options, with_client},
    producing::Producing,
};

/// For what nothing has to meet.
const SHORT: Duration = Duration::from_millis(800);

/// Short waits, and no retries that would stretch them.
fn short(address: &str) -> ConnectOptions {
    options(address).reply_timeout(SHORT).write_timeout(SHORT).retry(RetryPolicy::never())
}

/// The same for a server that answers before it is silent.
fn late(address: &str) -> ConnectOptions {
    short(address).reply_timeout(LATE).write_timeout(LATE)
}

fn assert_timeout(error: &Error, which: Deadline, fate: Fate) {
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout(which), fate), "{error}");
    assert!(error.is_temporary());
}

both_faces!(
    a_silent_server_meets_the_reply_deadline,
    a_reply_that_drips_meets_the_same_deadline,
    a_server_that_does_not_read_meets_the_write_deadline,
    the_total_deadline_ends_a_reserve,
    a_silent_timed_reserve_ends_after_its_time_and_that_of_a_reply,
    each_waiter_of_a_silent_pipeline_gets_one_error,
    a_late_reply_is_not_taken_for_the_next,
    deadline_soon_is_asked_for_once_per_call,
    a_refused_connection_names_every_address,
    a_frozen_server_meets_a_deadline_and_is_used_again_when_it_thaws,
    a_flood_of_bytes_meets_the_same_deadlines,
    a_flood_while_nothing_can_be_written_meets_the_deadline_and_takes_no_room,
);

/// C2.
fn a_silent_server_meets_the_reply_deadline<F: Face>() {
    let server = Scripts::start(|_, mut stream| read_to_end(&mut stream));
    let mut client = F::connect(short(&server.address())).unwrap();
    let error = client.put(b"x", PutOptions::default()).unwrap_err();
    assert_timeout(&error, Deadline::Reply, Fate::Unknown);
    assert_eq!(error.command(), Some("put"));
    assert!(error.to_string().contains("reply timeout"), "{error}");
    assert!(!client.is_connected());
}

/// C4: a byte arrives well within every wait, forever; the limit applies to the whole reply.
fn a_reply_that_drips_meets_the_same_deadline<F: Face>() {
    let server = Scripts::start(|_, mut stream| {
        let _ = read_line(&mut stream);
        let _ = stream.write_all(b"OK 1000000\r\n");
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    let mut client = F::connect(short(&server.address())).unwrap();
    let error = client.stats().unwrap_err();
    assert_timeout(&error, Deadline::Reply, Fate::Unknown);
    let mut client = F::connect(short(&server.address())).unwrap();
    let replies = client.call_many([beanstalk_client::protocol::Stats]);
    assert_timeout(replies[0].as_ref().unwrap_err(), Deadline::Reply, Fate::Unknown);
}

/// B27.
fn a_server_that_does_not_read_meets_the_write_deadline<F: Face>() {
    let server = Scripts::start(|_, mut stream| {
        read_bytes(&mut stream, 1000);
        thread::park_timeout(PATIENCE);
    });
    let body = vec![b'x'; 24 << 20];
    let mut client = F::connect(short(&server.address())).unwrap();
    let error = client.put(&body, PutOptions::default()).unwrap_err();
    assert_timeout(&error, Deadline::Write, Fate::NotSent);
    assert!(!client.is_connected());
    let mut client = F::connect(short(&server.address())).unwrap();
    let put = Put::new(&body, PutOptions::default()).unwrap();
    let replies = client.call_many([put]);
    assert_timeout(replies[0].as_ref().unwrap_err(), Deadline::Write, Fate::NotSent);
}

fn the_total_deadline_ends_a_reserve<F: Face>() {
    let silent = Scripts::start(|_, mut stream| read_to_end(&mut stream));
    let total = |address: &str| options(address).total_timeout(Some(LATE));
    let mut client = F::connect(total(&silent.address())).unwrap();
    assert_timeout(&client.reserve().unwrap_err(), Deadline::Total, Fate::Unknown);
}

fn a_silent_timed_reserve_ends_after_its_time_and_that_of_a_reply<F: Face>() {
    let server = Scripts::start(|_, mut stream| read_to_end(&mut stream));
    let mut client = F::connect(short(&server.address())).unwrap();
    let started = Instant::now();
    let error = client.reserve_with_timeout(Duration::from_millis(1)).unwrap_err();
    assert_timeout(&error, Deadline::Reply, Fate::Unknown);
    // The server's second and the time of a reply, less what a timer may be early.
    let time = Duration::from_secs(1) + SHORT;
    assert!(started.elapsed() > time - SHORT / 10, "{:?}", started.elapsed());
    // In a pipeline, too: what was written at once leaves nothing of the time to write.
    let options = short(&server.address()).write_timeout(PATIENCE);
    let mut client = F::connect(options).unwrap();
    let replies = client.call_many([ReserveWithTimeout::new(Duration::ZERO).unwrap()]);
    assert_timeout(replies[0].as_ref().unwrap_err(), Deadline::Reply, Fate::Unknown);
}

/// A body without end: there is always something to read.
const ENDLESS: &[u8] = b"FOUND 1 18446744073709551000\r\n";

/// C4: the deadline is checked while bytes arrive, too.
fn a_flood_of_bytes_meets_the_same_deadlines<F: Face>() {
    let short = over(short("127.0.0.1"), || Flood::new(ENDLESS));
    let total = short.clone().reply_timeout(PATIENCE).total_timeout(Some(SHORT));
    for (options, which) in [(short, Deadline::Reply), (total, Deadline::Total)] {
        let mut client = F::connect(options.clone()).unwrap();
        assert_timeout(&client.peek(1).unwrap_err(), which, Fate::Unknown);
        if which == Deadline::Reply {
            let mut client = F::connect(options).unwrap();
            let replies = client.call_many([Peek(1.into()), Peek(1.into())]);
            assert_timeout(replies[0].as_ref().unwrap_err(), which, Fate::Unknown);
        }
    }
}

/// C7: it reads while it cannot write, but no more than the size of a reply.
fn a_flood_while_nothing_can_be_written_meets_the_deadline_and_takes_no_room<F: Face>() {
    const LIMIT: u64 = 1 << 20;
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let options = short("127.0.0.1").max_body_size(LIMIT as usize);
    let options = over(options, move || Flood::new(ENDLESS).stuck().counted_by(&count));
    let mut client = F::connect(options).unwrap();
    let error = client.put(b"x", PutOptions::default()).unwrap_err();
    assert_timeout(&error, Deadline::Write, Fate::NotSent);
    assert!(read.load(Ordering::Relaxed) < 2 * LIMIT, "{read:?} bytes were read");
}

/// Other tasks of the same thread get their turn.
#[test]
fn a_flood_of_bytes_leaves_room_for_others() {
    let options = over(options("127.0.0.1"), || Flood::new(ENDLESS));
    runtime().block_on(async {
        let mut client = Client::connect(options).await.unwrap();
        let other = tokio::spawn(async { tokio::time::sleep(SHORT / 20).await });
        tokio::select! {
            peeked = client.peek(1) => panic!("it had to wait for the deadline: {peeked:?}"),
            other = other => other.unwrap(),
        }
    });
}

/// The request that a producer begins with.
fn a_flood_in_place_of_a_greeting_meets_the_deadline<P: Producing>() {
    let options = over(options("127.0.0.1").connect_timeout(SHORT), || Flood::new(ENDLESS));
    let error = P::connect(ProducerOptions::from(options)).err().unwrap();
    assert_timeout(&error, Deadline::Connect, Fate::NotSent);
}

both_producers!(a_flood_in_place_of_a_greeting_meets_the_deadline);

fn each_waiter_of_a_silent_pipeline_gets_one_error<F: Face>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(5).of("put").hang());
    let mut client = F::connect(late(server.address())).unwrap();
    let puts = (0..8).map(|_| Put::new("x", PutOptions::default()).unwrap());
    let replies = client.call_many(puts);
    assert_eq!(replies.len(), 8);
    assert!(replies[..4].iter().all(Result::is_ok));
    assert_timeout(replies[4].as_ref().unwrap_err(), Deadline::Reply, Fate::Unknown);
    for reply in &replies[5..] {
        let error = reply.as_ref().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    }
}

fn a_late_reply_is_not_taken_for_the_next<F: Face>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("list-tube-used").delay(LATE * 2));
    let quick = RetryPolicy::new(3);
    let mut client = F::connect(late(server.address()).retry(quick)).unwrap();
    let error = client.list_tube_used().unwrap_err();
    assert_timeout(&error, Deadline::Reply, Fate::Unknown);
    client.use_tube("mine").unwrap();
    assert_eq!(client.list_tube_used().unwrap(), "mine");
}

/// B10: the library never repeats it; a caller that does so has to finish the job first.
fn deadline_soon_is_asked_for_once_per_call<F: Face>() {
    let (server, mut client) = with_client::<F>(Server::builder().virtual_clock().start().unwrap());
    let options = PutOptions::default().ttr(Duration::from_secs(10));
    let _ = client.put(b"x", options).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    server.advance(Duration::from_millis(9500));
    server.clear_requests();
    assert_eq!(client.reserve().unwrap(), Reserved::DeadlineSoon);
    let long = ReserveWithTimeout::new(PATIENCE).unwrap();
    assert_eq!(client.call(&long).unwrap(), Reserved::DeadlineSoon);
    assert_eq!(server.requests().len(), 2);
    client.delete(&job).unwrap();
}

/// C1.
fn a_refused_connection_names_every_address<F: Face>() {
    use std::net::ToSocketAddrs;

    // A port that was free a moment ago, and that stays reserved while this holds it without listening.
    let holder = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    holder.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let port = holder.local_addr().unwrap().as_socket().unwrap().port();
    let name = format!("localhost:{port}");
    let error = F::connect(options(&name)).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    let text = error.to_string();
    assert!(text.contains(&name), "{text}");
    for address in name.to_socket_addrs().unwrap() {
        assert!(text.contains(&address.to_string()), "{text}");
    }
}

/// C2, with a real server that is stopped in the middle.
#[cfg(unix)]
fn a_frozen_server_meets_a_deadline_and_is_used_again_when_it_thaws<F: Face>() {
    let Some(server) = Beanstalkd::start() else { return };
    let quick = RetryPolicy::new(3);
    let mut client = F::connect(late(server.address()).retry(quick)).unwrap();
    let _ = client.put(b"x", PutOptions::default()).unwrap();
    server.freeze().unwrap();
    let error = client.list_tube_used().unwrap_err();
    assert_timeout(&error, Deadline::Reply, Fate::Unknown);
    server.thaw().unwrap();
    let mut client: F = connect(server.address());
    assert_eq!(client.reserve().unwrap().job().unwrap().body, "x");
}

#[cfg(not(unix))]
fn a_frozen_server_meets_a_deadline_and_is_used_again_when_it_thaws<F: Face>() {}

/// C1: on Linux connecting to a unix socket waits while the server's queue of connections is full.
#[cfg(target_os = "linux")]
#[test]
fn connecting_to_a_full_unix_socket_meets_the_connect_deadline() {
    use socket2::{Domain, SockAddr, Socket, Type};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.sock");
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    listener.listen(0).unwrap();
    let address = format!("unix:{}", path.display());
    let options = options(&address).connect_timeout(SHORT);
    let clients: Vec<_> = (0..4).map(|_| Blocking::connect(options.clone())).collect();
    let error = clients.into_iter().find_map(Result::err).expect("the queue is full");
    assert_timeout(&error, Deadline::Connect, Fate::NotSent);
    let clients: Vec<_> = (0..4).map(|_| crate::support::Async::connect(options.clone())).collect();
    let error = clients.into_iter().find_map(Result::err).expect("the queue is full");
    assert!(
        matches!(error.kind(), ErrorKind::Connect | ErrorKind::Timeout(Deadline::Connect)),
        "{error}"
    );
}
