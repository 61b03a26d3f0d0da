//! Producers against servers that are slow, silent, full, frozen, killed and started again.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    ConnectionState, Deadline, Delivery, ErrorKind, Fate, ProducerEventKind, ProducerOptions,
    PutOptions, RetryPolicy, Selection, Servers, blocking,
};
use fixtures::{beanstalkd::Server, fault::Fault, real::Beanstalkd};
use queue_core::proof::{Scripts, read_bytes, read_line, read_to_end};

use super::producer::{drain, greet, producer_options, total_jobs};
use crate::support::{
    Environment,
    place::{LATE, PATIENCE, options},
    producing::{AsyncProducer, Producing},
};

crate::support::both_producers!(
    a_server_that_cannot_be_reached_fails_connect_and_names_it,
    a_put_waits_for_a_server_that_comes_later,
    without_retries_the_first_failure_ends_a_put,
    a_silent_server_ends_puts_by_the_reply_deadline,
    a_put_that_fails_unnoticed_is_an_event,
    a_check_says_whether_a_server_answers,
    a_server_that_falls_silent_is_left_by_the_next_put,
    each_put_keeps_its_own_deadline_on_a_silent_server,
    a_server_that_accepts_and_closes_is_not_hammered,
    a_connection_lost_while_idle_costs_nothing,
    a_full_queue_says_so_and_holds_no_more_than_its_bound,
    a_pipeline_gives_each_body_one_answer,
    a_dropped_pipeline_leaves_the_producer_in_step,
    accepted_puts_complete_after_the_last_clone_is_dropped,
    a_frozen_server_meets_deadlines_and_is_used_again_when_it_thaws,
    a_server_that_stops_reading_meets_the_write_deadline,
);

crate::support::producer_scenarios!(a_put_without_a_waiter_is_sent);

/// For what nothing has to meet.
const SHORT: Duration = Duration::from_millis(800);

/// The attempt was started with the remaining time of the put that waited for it, and was cut short with each. (In the
/// blocking face it is made by a caller, who gives up with his own put.)
#[test]
fn puts_that_fall_due_do_not_end_the_attempt_to_connect() {
    let server = Server::start().unwrap();
    let address = server.socket_addr().unwrap();
    let slow = Duration::from_millis(400);
    let to = options(server.address()).connector(move |_| async move {
        tokio::time::sleep(slow).await;
        tokio::net::TcpStream::connect(address).await
    });
    let producer = AsyncProducer::new(ProducerOptions::from(to)).unwrap().timeout(slow / 4);
    let puts = (0..100).map(|_| producer.put_plain("a", b"x"));
    assert!(puts.into_iter().any(|put| put.is_ok()), "no connection was ever made");
}

/// Nothing is read while a thread does something else, which must not make its answer count as late.
#[test]
fn a_stream_without_readiness_is_read_before_an_answer_is_overdue() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(2).of("put").delay(SHORT / 4));
    let address = server.socket_addr().unwrap();
    let to = options(server.address())
        .reply_timeout(LATE)
        .blocking_connector(move |_, _| TcpStream::connect(address).map(Blind));
    let producer = blocking::Producer::connect(ProducerOptions::from(to)).unwrap();
    let put = |body: &[u8]| producer.enqueue("a", body, PutOptions::default()).unwrap();
    let (first, second) = (put(b"1"), put(b"2"));
    let _ = first.wait().unwrap();
    thread::sleep(LATE + SHORT);
    let _ = second.wait().unwrap();
    assert_eq!(producer.close().connections, 1);
}

/// Knows no more of its input than a read returns.
struct Blind(TcpStream);

impl Read for Blind {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.0.read(space)
    }
}

impl Write for Blind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl blocking::Duplex for Blind {
    fn set_read_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(timeout)
    }
}

/// The address of a port without a listener.
fn nobody() -> String {
    fixtures::Port::take().unwrap().dead().to_string()
}

fn total() -> ErrorKind {
    ErrorKind::Timeout(Deadline::Total)
}

/// C1.
fn a_server_that_cannot_be_reached_fails_connect_and_names_it<P: Producing>() {
    let address = nobody();
    let error = P::connect(producer_options(&address)).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert!(error.to_string().contains(&address), "{error}");
    let both: ProducerOptions = format!("{address},{}", nobody()).parse().unwrap();
    let error = P::connect(both).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().contains(&address), "{error}");
}

fn a_put_waits_for_a_server_that_comes_later<P: Producing>() {
    let address = nobody();
    let producer = P::new(producer_options(&address)).unwrap();
    let put = thread::spawn({
        let producer = producer.clone();
        move || producer.put_plain("a", b"x")
    });
    while producer.report().accepted == 0 || producer.report().servers[0].last_error.is_none() {
        thread::yield_now();
    }
    let listen = fixtures::beanstalkd::Listen::Tcp(address.parse().unwrap());
    let server = Server::builder().listen(listen).start().unwrap();
    let _ = put.join().unwrap().unwrap();
    assert_eq!(drain(server.address())["a"].len(), 1);
}

fn without_retries_the_first_failure_ends_a_put<P: Producing>() {
    let producer = P::new(producer_options(&nobody()).retries(false)).unwrap();
    let error = producer.put_plain("a", b"x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
}

/// C2.
fn a_silent_server_ends_puts_by_the_reply_deadline<P: Producing>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("put").hang());
    let to = options(server.address()).reply_timeout(LATE);
    let producer = P::connect(ProducerOptions::from(to)).unwrap();
    let error = producer.put_plain("a", b"x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
    // The connection is not used again, and its late reply is dropped.
    let _ = producer.put_plain("a", b"y").unwrap();
    assert_eq!(producer.close().connections, 2);
}

/// Its connection stays until the reply timeout.
fn a_server_that_falls_silent_is_left_by_the_next_put<P: Producing>() {
    let (silent, other) = (Server::start().unwrap(), Server::start().unwrap());
    silent.faults().add(Fault::nth(2).of("put").hang());
    let servers = [&silent, &other].map(|server| {
        let retry = RetryPolicy::default().backoff(PATIENCE, PATIENCE);
        options(server.address()).reply_timeout(10 * PATIENCE).retry(retry)
    });
    let servers = Servers::new(servers).unwrap().selection(Selection::InOrder);
    let producer = P::connect(ProducerOptions::from(servers)).unwrap().timeout(3 * PATIENCE);
    // If its connection takes long, puts go to the other server.
    let mut elsewhere = 0;
    loop {
        let _ = producer.put_plain("a", b"before").unwrap();
        if total_jobs(silent.address()) > 0 {
            break;
        }
        elsewhere += 1;
    }
    assert_eq!(producer.timeout(LATE).put_plain("a", b"late").unwrap_err().kind(), total());
    for _ in 0..2 {
        let _ = producer.put_plain("a", b"elsewhere").unwrap();
    }
    let jobs = (total_jobs(silent.address()), total_jobs(other.address()));
    assert_eq!(jobs, (2, elsewhere + 2));
}

/// A caller whose put has a long deadline does not keep others beyond theirs.
fn each_put_keeps_its_own_deadline_on_a_silent_server<P: Producing>() {
    let server = Server::start().unwrap();
    let patient = options(server.address()).reply_timeout(100 * PATIENCE);
    let producer = P::connect(ProducerOptions::from(patient)).unwrap();
    server.faults().add(Fault::nth(1).of("put").hang());
    let put = |timeout: Duration| {
        let producer = producer.timeout(timeout);
        thread::spawn(move || producer.put_plain("a", b"x").unwrap_err().kind())
    };
    let long = put(100 * PATIENCE);
    until("it is accepted", || producer.report().accepted == 1);
    let short = [200, 900, 500].map(|millis| put(Duration::from_millis(millis)));
    short.into_iter().for_each(|put| assert_eq!(put.join().unwrap(), total()));
    assert!(!long.is_finished());
    server.stop();
    assert_eq!(long.join().unwrap(), ErrorKind::ConnectionLost);
}

/// C18.
fn a_server_that_accepts_and_closes_is_not_hammered<P: Producing>() {
    let listener = Scripts::start(|_, mut stream| {
        greet(&mut stream);
        read_bytes(&mut stream, 1);
    });
    let slow = RetryPolicy::default().backoff(Duration::from_millis(50), Duration::from_secs(10));
    let to = options(&listener.address()).retry(slow);
    let options = ProducerOptions::from(to).delivery(Delivery::AtLeastOnce).seed(3);
    let producer = P::new(options.timeout(Duration::from_secs(2))).unwrap();
    producer.put_plain("a", b"x").unwrap_err();
    // 50 ms doubling reaches 2 s with the sixth delay; shares of delays make that some more.
    assert!(listener.accepted() < 25, "{} connections", listener.accepted());
}

/// C22.
fn a_connection_lost_while_idle_costs_nothing<P: Producing>() {
    let Some(mut server) = Beanstalkd::start() else { return };
    let producer = P::connect(producer_options(server.address())).unwrap();
    for round in 1..=3 {
        let _ = producer.put_plain("a", b"x").unwrap();
        server.kill();
        server.restart().unwrap();
        // Time for the news to travel.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(producer.report().connections, round);
    }
    let _ = producer.put_plain("a", b"x").unwrap();
    assert_eq!(producer.close().unknown, 0);
}

/// A server that answers its first put on request.
struct Stopped {
    server: Scripts,
    goes_on: Arc<AtomicBool>,
    read: Arc<AtomicUsize>,
}

fn stopped() -> Stopped {
    let goes_on = Arc::new(AtomicBool::new(false));
    let read = Arc::new(AtomicUsize::new(0));
    let (go, count) = (goes_on.clone(), read.clone());
    let server = Scripts::start(move |_, mut stream| {
        greet(&mut stream);
        let mut id = 0;
        while let Some(line) = read_line(&mut stream) {
            if let Some(tube) = line.strip_prefix("use ") {
                stream.write_all(format!("USING {tube}\r\n").as_bytes()).unwrap();
                continue;
            }
            let size: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
            read_bytes(&mut stream, size + 2);
            count.fetch_add(1, Ordering::SeqCst);
            while !go.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            id += 1;
            let _ = stream.write_all(format!("INSERTED {id}\r\n").as_bytes());
        }
    });
    Stopped { server, goes_on, read }
}

/// C8.
fn a_full_queue_says_so_and_holds_no_more_than_its_bound<P: Producing>() {
    for (jobs, bytes, fits) in [(10, usize::MAX, 10), (1000, 10 * (1000 + 64), 10), (5, 0, 1)] {
        let stopped = stopped();
        let options = producer_options(&stopped.server.address()).max_jobs(jobs).max_bytes(bytes);
        let producer = P::connect(options).unwrap();
        let mut accepted = 0;
        let error = loop {
            match producer.try_put("a", &[b'x'; 1000]) {
                Ok(()) => accepted += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), error.fate()), (ErrorKind::QueueFull, Fate::NotSent));
        assert!(error.is_temporary());
        assert_eq!(accepted, fits);
        assert_eq!(producer.report().queued_jobs, fits);
        assert!(producer.report().queued_bytes <= fits * (1000 + 64));
        // A put with a timeout waits for room until it expires.
        let error = producer.timeout(SHORT).put_plain("a", b"x").unwrap_err();
        assert_eq!((error.kind(), error.fate()), (total(), Fate::NotSent));
        stopped.goes_on.store(true, Ordering::SeqCst);
        producer.flush();
        assert_eq!(stopped.read.load(Ordering::SeqCst), fits);
        producer.try_put("a", b"x").unwrap();
        assert_eq!(producer.close().inserted, fits as u64 + 1);
    }
}

fn bodies(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| n.to_string().into_bytes()).collect()
}

fn a_pipeline_gives_each_body_one_answer<P: Producing>() {
    let server = Server::start().unwrap();
    let producer = P::connect(producer_options(server.address()).max_jobs(7)).unwrap();
    server.faults().add(Fault::nth(500).of("put").reply("OUT_OF_MEMORY"));
    for window in [1, 5, 100] {
        let answers = producer.put_some("a", window, usize::MAX, &bodies(400));
        assert_eq!(answers.len(), 400);
    }
    let report = producer.close();
    assert_eq!((report.inserted, report.refused), (1199, 1));
}

fn a_dropped_pipeline_leaves_the_producer_in_step<P: Producing>() {
    let server = Server::start().unwrap();
    let producer = P::connect(producer_options(server.address())).unwrap();
    for take in 0..10 {
        let answers = producer.put_some("a", 8, take, &bodies(100));
        assert_eq!(answers.len(), take);
        let id = producer.put_plain("b", take.to_string().as_bytes()).unwrap().id();
        let mut client = beanstalk_client::blocking::Client::connect(server.address()).unwrap();
        let job = client.peek(id).unwrap().unwrap();
        assert_eq!(job.body, take.to_string(), "the answer is that to this put");
    }
    let report = producer.close();
    assert_eq!(report.accepted, report.inserted);
    assert_eq!(total_jobs(server.address()), report.inserted);
}

fn accepted_puts_complete_after_the_last_clone_is_dropped<P: Producing>() {
    let server = Server::start().unwrap();
    let producer = P::connect(producer_options(server.address())).unwrap();
    for body in bodies(100) {
        producer.try_put("a", &body).unwrap();
    }
    // The async face's tasks go on for as long as their runtime does.
    let runtime = producer.runtime();
    drop(producer);
    let patience = Instant::now() + PATIENCE;
    while total_jobs(server.address()) < 100 {
        assert!(Instant::now() < patience);
    }
    drop(runtime);
    assert_eq!(drain(server.address())["a"], bodies(100));
}

#[cfg(unix)]
fn a_frozen_server_meets_deadlines_and_is_used_again_when_it_thaws<P: Producing>() {
    let Some(server) = Beanstalkd::start() else { return };
    let producer = P::connect(producer_options(server.address())).unwrap();
    server.freeze().unwrap();
    let error = producer.timeout(SHORT).put_plain("a", b"x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (total(), Fate::Unknown));
    server.thaw().unwrap();
    let _ = producer.put_plain("a", b"y").unwrap();
    // The frozen server had the first one in its socket.
    assert_eq!(producer.report().connections, 1);
    let found = drain(server.address()).remove("a").unwrap();
    assert_eq!(found, [b"x", b"y"]);
}

#[cfg(not(unix))]
fn a_frozen_server_meets_deadlines_and_is_used_again_when_it_thaws<P: Producing>() {}

/// B27.
fn a_server_that_stops_reading_meets_the_write_deadline<P: Producing>() {
    let server = Scripts::start(|number, mut stream: TcpStream| {
        greet(&mut stream);
        if number == 1 {
            read_bytes(&mut stream, 10);
            thread::sleep(PATIENCE);
        }
        let body = 16 << 20;
        read_line(&mut stream);
        read_bytes(&mut stream, body + 2);
        let _ = stream.write_all(b"INSERTED 5\r\n");
        read_to_end(&mut stream);
    });
    let to = options(&server.address()).write_timeout(LATE);
    let producer = P::connect(ProducerOptions::from(to)).unwrap();
    // Its last byte was not written, so it is sent again.
    let inserted = producer.put_plain("default", &vec![b'x'; 16 << 20]).unwrap();
    assert_eq!(inserted.id().get(), 5);
    assert_eq!(producer.report().connections, 2);
    assert_eq!(producer.state(), ConnectionState::Ready);
}

/// Waits until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < 3 * PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether or not there is a connection, and with no later call.
fn a_put_without_a_waiter_is_sent<P: Producing>(environment: Environment) {
    let place = environment.start();
    let options = producer_options(place.address());
    for (jobs, producer) in [(1, P::connect(options.clone())), (2, P::new(options))] {
        let producer = producer.unwrap();
        producer.try_put("mail", b"x").unwrap();
        until("the job is put", || total_jobs(place.address()) == jobs);
        assert_eq!(producer.close().inserted, 1);
    }
}

fn a_put_that_fails_unnoticed_is_an_event<P: Producing>() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = events.clone();
    let options = producer_options(&nobody()).on_event(move |event| {
        if let ProducerEventKind::Failed { error, puts } = &event.what {
            told.lock().unwrap().push((error.kind(), error.fate(), *puts));
        }
    });
    let producer = P::new(options).unwrap().timeout(Duration::from_millis(50));
    producer.try_put("mail", b"x").unwrap();
    until("it is counted", || producer.report().not_sent == 1);
    until("it is an event", || !events.lock().unwrap().is_empty());
    assert_eq!(*events.lock().unwrap(), [(total(), Fate::NotSent, 1)]);
    producer.close();
}

/// Its state says nothing about that.
fn a_check_says_whether_a_server_answers<P: Producing>() {
    let server = Server::start().unwrap();
    let address = server.address().to_owned();
    let options = ProducerOptions::from(options(&address).reply_timeout(LATE));
    let producer = P::new(options).unwrap();
    assert_eq!(producer.state(), ConnectionState::Idle);
    for _ in 0..2 {
        producer.check().unwrap();
        assert_eq!(producer.state(), ConnectionState::Ready);
    }
    server.faults().add(Fault::nth(1).of("use").hang());
    let error = producer.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    let of_check = format!("check to {address}: no reply within the reply timeout of ");
    assert!(error.to_string().starts_with(&of_check), "{error}");
    producer.check().unwrap();
    drop(server);
    let error = producer.check().unwrap_err();
    assert!(error.to_string().contains(&address), "{error}");
    assert!(matches!(error.kind(), ErrorKind::Connect | ErrorKind::ConnectionLost), "{error}");
    let listen = fixtures::beanstalkd::Listen::Tcp(address.parse().unwrap());
    let _server = Server::builder().listen(listen).start().unwrap();
    producer.check().unwrap();
    assert_eq!(producer.close().accepted, 0);
    let error = producer.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(error.to_string(), "check: the producer is closed");
    // One that answers is enough.
    let other = Server::start().unwrap();
    let servers = format!("{},{}", nobody(), other.address());
    P::new(servers.parse().unwrap()).unwrap().check().unwrap();
}
