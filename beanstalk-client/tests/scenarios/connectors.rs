//! Connections made by the caller: what a client asks of its connector, and when.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use beanstalk_client::{
    Address, Client, ConnectOptions, Deadline, Error, ErrorKind, Fate, Producer, ProducerOptions,
    PutOptions, RetryPolicy,
};
use fixtures::beanstalkd::Server;
use queue_core::Backoff;

use crate::support::{Face, both_faces, connectors::resolved_by, place::PATIENCE};

both_faces!(
    a_server_that_moved_is_found_again,
    an_error_of_a_connector_is_a_connect_error,
    a_client_without_sockets_backs_off_and_states_the_reason,
);

/// A name that does not resolve, so that only a connector can connect.
fn options() -> ConnectOptions {
    let options: ConnectOptions = "queue.invalid:7".parse().unwrap();
    options.reply_timeout(PATIENCE)
}

fn there(server: &Server) -> SocketAddr {
    server.socket_addr().unwrap()
}

/// C19.
fn a_server_that_moved_is_found_again<F: Face>() {
    let old = Server::start().unwrap();
    let new = Server::start().unwrap();
    let record = Arc::new(Mutex::new(there(&old)));
    let resolver = Arc::clone(&record);
    let mut client =
        F::connect(resolved_by(options(), move |_| Ok(*resolver.lock().unwrap()))).unwrap();
    let _ = client.put(b"one", PutOptions::default()).unwrap();
    drop(old);
    *record.lock().unwrap() = there(&new);
    // The call that notices may fail; the next one goes to the name's current address.
    let mut outcome = client.put(b"two", PutOptions::default());
    if outcome.is_err() {
        outcome = client.put(b"two", PutOptions::default());
    }
    assert_eq!(outcome.unwrap().id().get(), 1);
    assert_eq!(new.requests().len(), 1);
}

fn an_error_of_a_connector_is_a_connect_error<F: Face>() {
    let options = resolved_by(options(), |_| Err(io::Error::other("the tunnel is down")));
    let error = F::connect(options).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert_eq!(error.to_string(), "cannot connect to queue.invalid:7: the tunnel is down");
}

/// C20: no file descriptor is left. The attempts are bounded, and each but the first comes after a delay.
fn a_client_without_sockets_backs_off_and_states_the_reason<F: Face>() {
    const EMFILE: i32 = 24;
    let server = Server::start().unwrap();
    let (place, calls) = (there(&server), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&calls);
    let policy = RetryPolicy::new(4).backoff(Duration::from_millis(40), Duration::from_millis(80));
    let options = resolved_by(options().retry(policy.seed(1)), move |_| {
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(place),
            _ => Err(io::Error::from_raw_os_error(EMFILE)),
        }
    });
    let mut client = F::connect(options).unwrap();
    assert!(client.reconnect().is_err());
    let started = std::time::Instant::now();
    let error = client.put(b"x", PutOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert!(error.to_string().contains(&io::Error::from_raw_os_error(EMFILE).to_string()));
    assert_eq!(calls.load(Ordering::Relaxed), 2 + 4);
    let mut delays = Backoff::new(Duration::from_millis(40), Duration::from_millis(80), 1);
    let first = delays.next_delay();
    // That was the delay after the failure of the reconnect; the call has its own.
    delays.reset();
    let least: Duration = (0..3).map(|_| delays.next_delay()).sum::<Duration>() + first;
    assert!(started.elapsed() >= least, "{:?} is shorter than {least:?}", started.elapsed());
}

/// An in-memory peer that accepts everything and never answers.
fn silent(address: Address) -> impl Future<Output = io::Result<tokio::io::DuplexStream>> + Send {
    assert_eq!(address.to_string(), "queue.invalid:7");
    async {
        let (near, far) = tokio::io::duplex(1024);
        // The holder of the other end keeps it open.
        std::mem::forget(far);
        Ok(near)
    }
}

fn assert_timeout(error: &Error, deadline: Deadline) {
    assert_eq!(error.kind(), ErrorKind::Timeout(deadline), "{error}");
}

/// C16: time is the runtime's, so a clock that stands still, or jumps, decides.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_decides_when_deadlines_pass() {
    let options = options()
        .reply_timeout(Duration::from_secs(100))
        .retry(
            RetryPolicy::new(1)
                .backoff(Duration::from_secs(1000), Duration::from_secs(1000))
                .seed(3),
        )
        .connector(silent);
    let (began, really) = (tokio::time::Instant::now(), std::time::Instant::now());
    let mut client = Client::connect(options).await.unwrap();
    assert_timeout(&client.stats().await.unwrap_err(), Deadline::Reply);
    assert_eq!(began.elapsed().as_secs(), 100);
    // The next call connects again, after the delay that the seed gives.
    let mut delays = Backoff::new(Duration::from_secs(1000), Duration::from_secs(1000), 3);
    let delay = delays.next_delay();
    assert_timeout(&client.stats().await.unwrap_err(), Deadline::Reply);
    let expected = Duration::from_secs(200) + delay;
    assert!(
        began.elapsed().abs_diff(expected) < Duration::from_millis(10),
        "{:?}",
        began.elapsed()
    );
    assert!(really.elapsed() < PATIENCE);
}

/// C1.
#[tokio::test(start_paused = true)]
async fn a_connector_that_never_ends_meets_the_connect_deadline() {
    let options =
        options().connector(|_| std::future::pending::<io::Result<tokio::io::DuplexStream>>());
    let began = tokio::time::Instant::now();
    let error = Client::connect(options).await.err().unwrap();
    assert_timeout(&error, Deadline::Connect);
    assert_eq!(began.elapsed().as_secs(), 5);
}

/// C1: a producer proceeds to the next attempt, however long its puts may take.
#[tokio::test(start_paused = true)]
async fn a_connector_that_never_ends_costs_a_producer_no_more_than_an_attempt() {
    let attempts = Arc::new(AtomicU32::new(0));
    let count = attempts.clone();
    let options = options().connector(move |address| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            silent(address).await
        }
    });
    let options = options.connect_timeout(Duration::from_secs(1));
    let options = ProducerOptions::from(options);
    let producer = Producer::new(options.timeout(Duration::from_secs(1000))).unwrap();
    let put = producer.put("default", b"x", PutOptions::default());
    let _ = tokio::time::timeout(Duration::from_secs(100), put).await;
    assert!(attempts.load(Ordering::Relaxed) > 1, "it waits for the first attempt");
}

#[test]
fn a_blocking_connector_gets_its_time_limit() {
    let told = Arc::new(Mutex::new(None));
    let teller = Arc::clone(&told);
    let options = options().connect_timeout(Duration::from_secs(7)).blocking_connector(
        move |_, left| -> io::Result<std::net::TcpStream> {
            *teller.lock().unwrap() = left;
            Err(io::ErrorKind::TimedOut.into())
        },
    );
    let error = beanstalk_client::blocking::Client::connect(options).err().unwrap();
    // It may have given up early.
    assert_eq!(error.kind(), ErrorKind::Connect);
    let left = told.lock().unwrap().unwrap();
    assert!(left <= Duration::from_secs(7) && left > Duration::from_secs(6), "{left:?}");
}

/// C20, with the real limit: in its own process, since the limit is the process's.
#[cfg(target_os = "linux")]
#[test]
fn a_process_without_file_descriptors_gets_an_error_and_recovers() {
    use std::fs::File;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    const NAME: &str = "connectors::a_process_without_file_descriptors_gets_an_error_and_recovers";
    if std::env::var_os("WITHOUT_DESCRIPTORS").is_none() {
        return crate::support::run_alone(NAME, &[("WITHOUT_DESCRIPTORS", "1")]);
    }
    let server = Server::start().unwrap();
    let runtime = queue_core::proof::runtime();
    // One connection before, so that what is made once is there. It stays and was answered: the server, which is in
    // this process, would take or close its end at any time, and leave a descriptor free.
    let connect_async = || runtime.block_on(Client::connect(server.address()));
    let connect_blocking = || beanstalk_client::blocking::Client::connect(server.address());
    let mut before = (connect_async().unwrap(), connect_blocking().unwrap());
    runtime.block_on(before.0.list_tube_used()).unwrap();
    before.1.list_tube_used().unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    for error in [connect_async().err().unwrap(), connect_blocking().err().unwrap()] {
        assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent), "{error}");
        assert!(error.to_string().contains("Too many open files"), "{error}");
    }
    drop(hoard);
    drop((connect_async().unwrap(), connect_blocking().unwrap()));
}
