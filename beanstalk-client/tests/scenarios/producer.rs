//! Producers of both faces: what is put, in which tube, and the fate of puts when something goes wrong.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use beanstalk_client::{
    ConnectionState, Delivery, ErrorKind, Fate, ProducerOptions, PutOptions, blocking,
};
use fixtures::{beanstalkd::Server, fault::Fault};

use crate::support::{
    Blocking, Environment, Face,
    damaged::next_whole,
    place::{PATIENCE, connect, options},
    producing::Producing,
};

crate::support::producer_scenarios!(
    puts_of_many_callers_arrive_once_in_their_tubes,
    the_order_of_one_caller_is_kept,
    options_of_a_put_reach_the_server,
    a_body_over_the_servers_limit_is_refused_locally_and_costs_nothing,
    a_closed_producer_takes_nothing_more,
);

crate::support::both_producers!(
    a_put_of_unknown_fate_fails_or_is_sent_again_as_was_chosen,
    refusals_are_typed_and_concern_their_put_alone,
);

pub(crate) fn producer_options(address: &str) -> ProducerOptions {
    ProducerOptions::from(options(address))
}

/// Takes every job of a server: tube to bodies, in order of arrival.
pub(crate) fn drain(address: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut client: Blocking = connect(address);
    let mut found: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for tube in client.list_tubes().unwrap() {
        client.watch(tube.as_str()).unwrap();
    }
    while let Some(job) = next_whole(&mut client) {
        let tube = client.stats_job(job.id).unwrap().unwrap().tube.to_string();
        client.delete(&job).unwrap();
        found.entry(tube).or_default().push(job.body.to_vec());
    }
    found
}

pub(crate) fn total_jobs(address: &str) -> u64 {
    blocking::Client::connect(address).unwrap().stats().unwrap().total_jobs
}

fn puts_of_many_callers_arrive_once_in_their_tubes<P: Producing>(environment: Environment) {
    let place = environment.start();
    let producer = P::connect(producer_options(place.address())).unwrap();
    let callers: Vec<_> = (0..16)
        .map(|caller| {
            let producer = producer.clone();
            thread::spawn(move || {
                for job in 0..25 {
                    let tube = format!("tube{}", (caller + job) % 3);
                    let body = format!("{tube} {caller} {job}");
                    assert!(!producer.put_plain(&tube, body.as_bytes()).unwrap().is_buried());
                }
            })
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    assert_eq!(producer.state(), ConnectionState::Ready);
    let report = producer.close();
    assert_eq!((report.accepted, report.inserted, report.connections), (400, 400, 1));
    assert_eq!((report.queued_jobs, report.queued_bytes), (0, 0));
    let found = drain(place.address());
    assert_eq!(found.values().map(Vec::len).sum::<usize>(), 400);
    for (tube, bodies) in found {
        for body in bodies {
            assert!(body.starts_with(tube.as_bytes()), "{body:?} in {tube}");
        }
    }
}

fn the_order_of_one_caller_is_kept<P: Producing>(environment: Environment) {
    let place = environment.start();
    let producer = P::connect(producer_options(place.address())).unwrap();
    let bodies: Vec<Vec<u8>> = (0..1000).map(|n| n.to_string().into_bytes()).collect();
    let ids: Vec<u64> = producer
        .put_all("default", &bodies)
        .into_iter()
        .map(|inserted| inserted.unwrap().id().get())
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(drain(place.address())["default"], bodies);
}

fn options_of_a_put_reach_the_server<P: Producing>(environment: Environment) {
    let place = environment.start();
    let producer = P::new(producer_options(place.address())).unwrap();
    assert_eq!(producer.state(), ConnectionState::Idle);
    let put = PutOptions::default()
        .priority(7)
        .delay(Duration::from_secs(90))
        .ttr(Duration::from_secs(11));
    let id = producer.put("a-tube", b"x", put).unwrap().id();
    let mut client = blocking::Client::connect(place.address()).unwrap();
    let stats = client.stats_job(id).unwrap().unwrap();
    assert_eq!((stats.pri.get(), stats.ttr, stats.delay), (7, 11, 90));
    for tube in ["", "-a", "a b", "a\r\nb"] {
        let error = producer.put_plain(tube, b"x").unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
    }
}

/// B17.
fn a_body_over_the_servers_limit_is_refused_locally_and_costs_nothing<P: Producing>(
    environment: Environment,
) {
    let place = environment.start_with_max_job_size(100);
    let connected = P::connect(producer_options(place.address())).unwrap();
    // Before there is a connection the limit is not known: the put is refused when there is one.
    let lazy = P::new(producer_options(place.address())).unwrap();
    for producer in [connected, lazy] {
        let error = producer.put_plain("default", &[b'x'; 101]).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::JobTooBig, Fate::NotSent));
        assert!(error.to_string().contains("101 bytes"), "{error}");
        assert!(error.to_string().contains("max-job-size of 100"), "{error}");
        let _ = producer.put_plain("default", &[b'x'; 100]).unwrap();
        assert_eq!(producer.report().connections, 1);
    }
    let mut client = blocking::Client::connect(place.address()).unwrap();
    let stats = client.stats().unwrap();
    assert_eq!((stats.cmd_put, stats.total_jobs), (2, 2));
}

fn a_closed_producer_takes_nothing_more<P: Producing>(environment: Environment) {
    let place = environment.start();
    let producer = P::connect(producer_options(place.address())).unwrap();
    let _ = producer.put_plain("default", b"x").unwrap();
    let report = producer.clone().close();
    assert_eq!((report.accepted, report.inserted), (1, 1));
    assert_eq!(producer.state(), ConnectionState::Closed);
    let error = producer.put_plain("default", b"x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Closed, Fate::NotSent));
    producer.flush();
    assert_eq!(producer.close(), report);
    assert_eq!(total_jobs(place.address()), 1);
}

/// Reads the question that a producer begins a connection with, and answers it.
pub(crate) fn greet(stream: &mut std::net::TcpStream) -> Option<()> {
    use std::io::Write;
    assert_eq!(queue_core::proof::read_line(stream)?, "stats");
    let text = "---\nmax-job-size: 99999999\n";
    stream.write_all(format!("OK {}\r\n{text}\r\n", text.len()).as_bytes()).ok()
}

/// B2.
fn a_put_of_unknown_fate_fails_or_is_sent_again_as_was_chosen<P: Producing>() {
    for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
        for executed in [true, false] {
            let server = Server::start().unwrap();
            let fault = Fault::nth(2).of("put").cut_after(0);
            server.faults().add(if executed { fault.executed() } else { fault.unexecuted() });
            let options = producer_options(server.address());
            // For all of its puts, or for those of one handle.
            let producer = match executed {
                true => P::connect(options.delivery(delivery)).unwrap(),
                false => P::connect(options).unwrap().delivery(delivery),
            };
            let _ = producer.put_plain("a", b"x").unwrap();
            let second = producer.put_plain("a", b"y");
            let _ = producer.put_plain("a", b"z").unwrap();
            let report = producer.close();
            let again = match delivery {
                Delivery::AtMostOnce => {
                    let error = second.unwrap_err();
                    assert_eq!(
                        (error.kind(), error.fate()),
                        (ErrorKind::ConnectionLost, Fate::Unknown)
                    );
                    assert!(error.is_temporary());
                    assert_eq!((report.inserted, report.unknown, report.resent), (2, 1, 0));
                    0
                }
                Delivery::AtLeastOnce => {
                    let _ = second.unwrap();
                    assert_eq!((report.inserted, report.unknown, report.resent), (3, 0, 1));
                    1
                }
                other => panic!("{other} is not tested"),
            };
            // The tube was chosen anew on the new connection.
            let jobs = drain(server.address()).remove("a").unwrap();
            assert_eq!(jobs.len(), 2 + again + usize::from(executed));
        }
    }
}

/// B16.
fn refusals_are_typed_and_concern_their_put_alone<P: Producing>() {
    for (reply, kind, stays) in [
        ("OUT_OF_MEMORY", ErrorKind::OutOfMemory, true),
        ("INTERNAL_ERROR", ErrorKind::InternalError, true),
        ("DRAINING", ErrorKind::Draining, true),
        ("JOB_TOO_BIG", ErrorKind::JobTooBig, true),
        ("SURPRISE", ErrorKind::UnexpectedReply, true),
        ("BAD_FORMAT", ErrorKind::BadFormat, false),
        ("UNKNOWN_COMMAND", ErrorKind::UnknownCommand, false),
        ("EXPECTED_CRLF", ErrorKind::ExpectedCrlf, false),
    ] {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(2).of("put").reply(reply));
        let producer = P::connect(producer_options(server.address())).unwrap();
        let put = || producer.put_plain("a", b"x");
        let _ = put().unwrap();
        let error = put().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (kind, Fate::Refused), "{reply}");
        assert_eq!(error.command(), Some("put"));
        let temporary = matches!(kind, ErrorKind::OutOfMemory | ErrorKind::Draining);
        assert_eq!(error.is_temporary(), temporary, "{error}");
        let _ = put().unwrap();
        let report = producer.close();
        assert_eq!((report.inserted, report.refused), (2, 1));
        assert_eq!(report.connections, if stays { 1 } else { 2 }, "{reply}");
    }
}

crate::support::both_producers!(an_observer_sees_failed_servers_and_moved_puts);

fn an_observer_sees_failed_servers_and_moved_puts<P: Producing>() {
    let (draining, server) = (Server::start().unwrap(), Server::start().unwrap());
    draining.drain();
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let servers = format!("127.0.0.1:1,{},{}", draining.address(), server.address());
    let options: ProducerOptions = servers.parse().unwrap();
    let options = options.delivery(Delivery::AtLeastOnce).timeout(PATIENCE).seed(1);
    let quick = options.reconnect_backoff(Duration::from_millis(1), Duration::from_millis(5));
    let producer = P::new(quick.on_event(move |event| {
        told.lock().unwrap().push((event.server.to_string(), format!("{:?}", event.what)));
        panic!("the producer goes on");
    }));
    let producer = producer.unwrap();
    let _ = producer.put_plain("t", b"x").unwrap();
    server.faults().add(Fault::nth(1).of("put").executed().cut_after(0));
    for _ in 0..20 {
        let _ = producer.put_plain("t", b"x").unwrap();
    }
    producer.close();
    let events = events.lock().unwrap();
    let has = |address: &str, what: &str| {
        events.iter().any(|(server, kind)| server == address && kind.starts_with(what))
    };
    let [nowhere, draining, server] = ["127.0.0.1:1", draining.address(), server.address()];
    for (address, what) in [
        (nowhere, "Disconnected"),
        (nowhere, "BackingOff"),
        (nowhere, "Moved"),
        (draining, "Connected"),
        (draining, "Refused"),
        (draining, "Moved"),
        (server, "Connected"),
        (server, "Disconnected"),
        (server, "Resent { puts: 1 }"),
    ] {
        assert!(has(address, what), "{address}: {what} is not among {events:#?}");
    }
    let refused =
        events.iter().filter(|(server, kind)| server == nowhere && kind.starts_with("Disc"));
    assert_eq!(refused.count(), 1, "each kind is reported once");
}
