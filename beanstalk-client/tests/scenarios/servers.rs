//! Producers with several servers: who is chosen, and what happens when one fails.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    ConnectionState, Delivery, ErrorKind, Fate, ProducerOptions, Selection, Servers,
};
use fixtures::{
    beanstalkd::{Listen, Server},
    fault::Fault,
    real::{Beanstalkd, RealServer},
};

use super::producer::{drain, total_jobs};
use crate::support::{
    Environment, Face,
    place::{PATIENCE, connect, options},
    producing::Producing,
};

crate::support::producer_scenarios!(a_draining_server_hands_its_puts_to_the_next);

crate::support::both_producers!(
    a_key_keeps_its_server_and_moves_only_while_that_is_away,
    a_server_out_of_memory_hands_its_puts_to_the_next,
    a_server_that_is_away_is_passed_over_and_used_again_when_it_is_back,
    queued_puts_leave_a_hanging_server,
    a_server_killed_under_load_fails_no_put,
);

fn several(addresses: &[&str], selection: Selection) -> ProducerOptions {
    let servers = Servers::new(addresses.iter().map(|address| options(address))).unwrap();
    ProducerOptions::from(servers.selection(selection))
}

fn a_key_keeps_its_server_and_moves_only_while_that_is_away<P: Producing>() {
    let mut servers: Vec<Option<Server>> = (0..3).map(|_| Some(Server::start().unwrap())).collect();
    let addresses: Vec<String> =
        servers.iter().flatten().map(|server| server.address().to_owned()).collect();
    let names: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let producer = P::connect(several(&names, Selection::ByKey)).unwrap();
    let put_all = || {
        for key in 0..60 {
            let keyed = producer.key(format!("key {key}").as_bytes());
            let _ = keyed.put_plain("a", key.to_string().as_bytes()).unwrap();
        }
    };
    let keys = |address: &str| -> HashSet<Vec<u8>> {
        drain(address).remove("a").unwrap_or_default().into_iter().collect()
    };
    put_all();
    let homes: Vec<_> = addresses.iter().map(|address| keys(address)).collect();
    assert!(homes.iter().all(|keys| keys.len() > 5), "{homes:?}");
    put_all();
    assert_eq!(addresses.iter().map(|address| keys(address)).collect::<Vec<_>>(), homes);
    // Its keys go elsewhere, and no others.
    servers[1] = None;
    put_all();
    for server in [0, 2] {
        assert!(keys(&addresses[server]).is_superset(&homes[server]));
    }
    let listen = Listen::Tcp(addresses[1].parse().unwrap());
    servers[1] = Some(Server::builder().listen(listen).start().unwrap());
    let patience = Instant::now() + PATIENCE;
    loop {
        put_all();
        let now: Vec<_> = addresses.iter().map(|address| keys(address)).collect();
        if now == homes {
            break;
        }
        assert!(Instant::now() < patience, "{now:?}");
    }
}

/// B18.
fn a_draining_server_hands_its_puts_to_the_next<P: Producing>(environment: Environment) {
    let (first, second) = (environment.start(), environment.start());
    let producer =
        P::connect(several(&[first.address(), second.address()], Selection::InOrder)).unwrap();
    let alone = P::connect(options(first.address()).into()).unwrap();
    let _ = producer.put_plain("a", b"x").unwrap();
    first.drain();
    for _ in 0..10 {
        let _ = producer.put_plain("a", b"x").unwrap();
    }
    assert_eq!((total_jobs(first.address()), total_jobs(second.address())), (1, 10));
    let report = producer.report();
    assert!(report.moved >= 1 && report.refused == 0, "{report:?}");
    // Callers without another server are informed.
    let error = alone.put_plain("a", b"x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Draining, Fate::Refused));
    assert!(error.is_temporary());
    second.drain();
    let error = producer.put_plain("a", b"x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Draining, Fate::Refused));
}

fn a_server_out_of_memory_hands_its_puts_to_the_next<P: Producing>() {
    let (first, second) = (Server::start().unwrap(), Server::start().unwrap());
    first.faults().add(Fault::nth(3).of("put").reply("OUT_OF_MEMORY"));
    let producer =
        P::connect(several(&[first.address(), second.address()], Selection::InOrder)).unwrap();
    for _ in 0..5 {
        let _ = producer.put_plain("a", b"x").unwrap();
    }
    assert_eq!(total_jobs(first.address()) + total_jobs(second.address()), 5);
    assert!(total_jobs(second.address()) >= 1);
}

fn a_server_that_is_away_is_passed_over_and_used_again_when_it_is_back<P: Producing>() {
    let Some(mut first) = Beanstalkd::start() else { return };
    let second = Server::start().unwrap();
    let addresses = [first.address().to_owned(), second.address().to_owned()];
    let names = [&*addresses[0], &*addresses[1]];
    let producer = P::connect(several(&names, Selection::InOrder)).unwrap();
    let put = || producer.put_plain("a", b"x");
    let _ = put().unwrap();
    // Made after the producer's connection, it hears of the end after it.
    let mut witness: crate::support::Blocking = connect(first.address());
    let _ = witness.list_tube_used().unwrap();
    first.kill();
    while witness.check_connection() {}
    for _ in 0..10 {
        let _ = put().unwrap();
    }
    assert_eq!(total_jobs(second.address()), 10);
    assert_ne!(producer.report().servers[0].state, ConnectionState::Ready);
    first.restart().unwrap();
    let patience = Instant::now() + PATIENCE;
    while total_jobs(first.address()) == 0 {
        let _ = put().unwrap();
        assert!(Instant::now() < patience, "{:?}", producer.report());
    }
    assert_eq!(producer.report().servers[0].state, ConnectionState::Ready);
    assert_eq!(producer.close().unknown, 0);
}

/// A waiting caller writes all accepted puts, also those for other servers.
fn queued_puts_leave_a_hanging_server<P: Producing>() {
    for flushes in [false, true] {
        let (first, second) = (Server::start().unwrap(), Server::start().unwrap());
        let servers = several(&[first.address(), second.address()], Selection::RoundRobin);
        let producer = P::connect(servers.timeout(PATIENCE)).unwrap();
        while total_jobs(first.address()) == 0 || total_jobs(second.address()) == 0 {
            let _ = producer.put_plain("a", b"x").unwrap();
        }
        let before = total_jobs(second.address());
        first.faults().add(Fault::always().of("put").hang());
        let start = Instant::now();
        let waits = {
            let producer = producer.clone();
            thread::spawn(move || {
                if flushes {
                    (0..4).for_each(|_| producer.try_put("a", b"x").unwrap());
                    producer.flush();
                } else {
                    let _ = producer.put_all("a", &vec![b"x".to_vec(); 4]);
                }
            })
        };
        while total_jobs(second.address()) < before + 2 {
            let waited = start.elapsed();
            assert!(waited < PATIENCE / 2, "flushes: {flushes}, {:?}", producer.report());
            thread::sleep(Duration::from_millis(5));
        }
        first.faults().clear();
        first.close_connections();
        waits.join().unwrap();
    }
}

/// B19, C10, and G3 for beanstalkd: one server, and three, one after the other killed under load. With one, what is put
/// meanwhile waits for its return.
fn a_server_killed_under_load_fails_no_put<P: Producing>() {
    for count in [1, 3] {
        let folders: Vec<_> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let start = |folder: &tempfile::TempDir| {
            Beanstalkd::builder().arg("-b").arg(folder.path()).arg("-f").arg("0").start()
        };
        let Some(servers) = folders.iter().map(start).collect::<Option<Vec<RealServer>>>() else {
            return;
        };
        kill_each_under_load::<P>(servers);
    }
}

fn kill_each_under_load<P: Producing>(mut servers: Vec<RealServer>) {
    let addresses: Vec<String> = servers.iter().map(|server| server.address().to_owned()).collect();
    let names: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let options = several(&names, Selection::RoundRobin).delivery(Delivery::AtLeastOnce);
    let producer = P::connect(options).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..6)
        .map(|caller| {
            let (producer, done) = (producer.clone(), done.clone());
            thread::spawn(move || {
                let mut put = Vec::new();
                while !done.load(Ordering::SeqCst) {
                    let body = format!("{caller} {}", put.len()).into_bytes();
                    assert!(!producer.put_plain("a", &body).unwrap().is_buried());
                    put.push(body);
                }
                put
            })
        })
        .collect();
    let goes_on = || {
        let before = producer.report().inserted;
        while producer.report().inserted < before + 200 {
            thread::sleep(Duration::from_millis(1));
        }
    };
    for round in 0..4 {
        let server = &mut servers[round % names.len()];
        goes_on();
        server.kill();
        if names.len() > 1 {
            goes_on();
        }
        server.restart().unwrap();
    }
    done.store(true, Ordering::SeqCst);
    let acknowledged: Vec<Vec<u8>> =
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    let report = producer.close();
    assert_eq!(report.inserted, acknowledged.len() as u64);
    assert_eq!((report.unknown, report.not_sent, report.refused), (0, 0, 0));
    let found: Vec<Vec<u8>> =
        names.iter().flat_map(|address| drain(address).remove("a").unwrap_or_default()).collect();
    assert!(found.len() as u64 <= report.inserted + report.resent, "{} of {report:?}", found.len());
    let found: HashSet<Vec<u8>> = found.into_iter().collect();
    for body in &acknowledged {
        assert!(found.contains(body), "{} is lost", String::from_utf8_lossy(body));
    }
}
