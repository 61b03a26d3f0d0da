//! Connections and servers that fail while a worker works.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    ConnectOptions, Outcome, PutOptions, Retries, Servers, SlotState, WorkerOptions,
};
use fixtures::{
    beanstalkd::{Server, Version},
    fault::Fault,
    real::Beanstalkd,
};
use queue_core::proof::Scripts;

use super::faces::{WorkerFace, put};
use crate::support::{
    both_faces,
    damaged::delete_buried,
    place::{PATIENCE, connect, options, start, with_client},
};

const SECOND: Duration = Duration::from_secs(1);

both_faces!(
    a_reserve_cut_at_any_byte_loses_no_job,
    a_delete_whose_answer_is_lost_is_unknown_and_never_sent_again,
    a_server_killed_again_and_again_loses_no_job,
    a_frozen_server_is_noticed_and_used_again_when_it_thaws,
    a_dying_server_does_not_delay_the_others,
    a_run_until_its_tubes_are_empty_gives_up_a_server_that_is_away,
    every_release_of_the_server_is_worked_for,
    an_observer_that_panics_costs_no_slot,
    a_server_without_an_id_is_not_a_new_server,
);

fn worker_options(server: impl Into<Servers>) -> WorkerOptions {
    let quick = Duration::from_millis(2);
    let servers: Servers = server.into();
    WorkerOptions::from(servers).reconnect_backoff(quick, 20 * quick)
}

fn at(address: &str) -> ConnectOptions {
    options(address)
}

/// It never ended.
fn a_run_until_its_tubes_are_empty_gives_up_a_server_that_is_away<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let away = fixtures::Port::take().unwrap();
    let mut client: F = connect(server.address());
    put(&mut client, "x");
    let servers = Servers::new([at(&away.address().to_string()), at(server.address())]).unwrap();
    let worker = F::start(worker_options(servers).slots(2).until_empty(), |_| Ok(Outcome::Delete));
    let events = worker.events.clone();
    let report = worker.end();
    assert_eq!((report.finished, report.given_up), (1, 2), "{report}");
    assert_eq!(events.count("GivenUp"), 2);
}

/// It ended the thread of its slot, and the blocking worker never ended.
fn an_observer_that_panics_costs_no_slot<F: WorkerFace>() {
    for prefetch in [1, 8] {
        let (server, mut client) = start::<F>();
        for body in ["fail", "2", "3"] {
            put(&mut client, body);
        }
        // The failed job does not come again before the worker is stopped.
        let retries = Retries::default().backoff(10 * PATIENCE, 1, 10 * PATIENCE);
        let options = worker_options(at(server.address())).prefetch(prefetch).retries(retries);
        let worker = F::start_told(
            options,
            |_| panic!("an observer of a test"),
            |job| match job.body().as_slice() {
                b"fail" => Err("on purpose".to_owned()),
                _ => Ok(Outcome::Delete),
            },
        );
        assert!(server.wait_for(PATIENCE, |view| view.ready + view.reserved == 0));
        let report = worker.stop();
        assert_eq!((report.finished, report.total()), (2, 3), "{report}");
    }
}

/// B4: every byte of RESERVED and its body, a clean end and a reset.
fn a_reserve_cut_at_any_byte_loses_no_job<F: WorkerFace>() {
    let whole = "RESERVED 1 5\r\nhello\r\n".len();
    for cut in 0..whole {
        for reset in [false, true] {
            let (server, mut client) = start::<F>();
            let id = put(&mut client, "hello");
            let fault = Fault::nth(1).of("reserve-with-timeout");
            let fault = if reset { fault.reset_after(cut) } else { fault.cut_after(cut) };
            server.faults().add(fault.executed());
            let worker = F::start(worker_options(at(server.address())).until_empty(), |job| {
                assert_eq!(job.body(), b"hello");
                assert_eq!(job.stats().unwrap().pri.get(), 77);
                Ok(Outcome::Delete)
            });
            let report = worker.end();
            assert_eq!((report.finished, report.total()), (1, 1), "{cut} {reset}");
            assert_eq!(client.stats_job(id).unwrap(), None);
        }
    }
}

/// F5: by the time of a second delete the id may be another's.
fn a_delete_whose_answer_is_lost_is_unknown_and_never_sent_again<F: WorkerFace>() {
    for executed in [true, false] {
        let (server, mut client) = start::<F>();
        let id = put(&mut client, "x");
        let fault = Fault::nth(1).of("delete").cut_after(0);
        server.faults().add(if executed { fault.executed() } else { fault.unexecuted() });
        let worker =
            F::start(worker_options(at(server.address())).until_empty(), |_| Ok(Outcome::Delete));
        let report = worker.end();
        let again = u64::from(!executed);
        assert_eq!((report.unknown, report.finished), (1, again), "{report}");
        assert_eq!(client.stats_job(id).unwrap(), None);
        let deletes = server.requests().iter().filter(|r| r.text().starts_with("delete")).count();
        assert_eq!(deletes as u64, 1 + again, "one for each time that it was run");
    }
}

/// B19: with its log on disk, under load.
fn a_server_killed_again_and_again_loses_no_job<F: WorkerFace>() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Beanstalkd::builder().arg("-b").arg(folder.path()).arg("-f").arg("0");
    let Some(mut server) = builder.start() else { return };
    let address = server.address().to_owned();
    let runs = Arc::new(Mutex::new(BTreeMap::<Vec<u8>, u32>::new()));
    let seen = runs.clone();
    // A restart gives every reserved job back: that must not bury any.
    let patient = Retries::default().reserves(u64::MAX);
    let worker = F::start(worker_options(at(&address)).slots(3).retries(patient), move |job| {
        *seen.lock().unwrap().entry(job.body()).or_default() += 1;
        thread::sleep(Duration::from_millis(1));
        Ok(Outcome::Delete)
    });
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let mut client: F = connect(&address);
    let producer = thread::spawn(move || {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            if stop.load(Ordering::SeqCst) && acknowledged.len() > 50 {
                break;
            }
            let body = format!("{number}");
            if client.put(body.as_bytes(), PutOptions::default()).is_ok() {
                acknowledged.push(body.into_bytes());
            } else {
                thread::sleep(Duration::from_millis(5));
            }
        }
        acknowledged
    });
    let ran = || runs.lock().unwrap().values().sum::<u32>();
    let more = |before: u32| {
        let deadline = Instant::now() + 3 * PATIENCE;
        while ran() < before + 20 {
            assert!(Instant::now() < deadline, "no more jobs run");
            thread::sleep(Duration::from_millis(5));
        }
    };
    more(0);
    for _ in 0..5 {
        let before = ran();
        server.restart().unwrap();
        more(before);
    }
    done.store(true, Ordering::SeqCst);
    let acknowledged = producer.join().unwrap();
    let mut client: F = connect(&address);
    let deadline = Instant::now() + 3 * PATIENCE;
    loop {
        let stats = client.stats().unwrap();
        if stats.current_jobs_ready + stats.current_jobs_reserved == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        thread::sleep(Duration::from_millis(5));
    }
    delete_buried(&mut client);
    assert_eq!(client.stats().unwrap().current_jobs_buried, 0);
    worker.events.wait_for("replaced", 1);
    let report = worker.stop();
    let runs = runs.lock().unwrap();
    let missing = acknowledged.iter().filter(|body| !runs.contains_key(*body)).count();
    assert_eq!(missing, 0, "of {}: {report}", acknowledged.len());
    // Whatever ran twice had its connection cut while running.
    let again: u64 = runs.values().map(|times| u64::from(*times) - 1).sum();
    assert!(again <= report.lost + report.unknown, "{again} again, {report}");
}

/// C2.
fn a_frozen_server_is_noticed_and_used_again_when_it_thaws<F: WorkerFace>() {
    let Some(server) = Beanstalkd::start() else { return };
    let mut client: F = connect(server.address());
    let impatient = at(server.address()).reply_timeout(SECOND);
    let worker = F::start(worker_options(impatient).reserve_wait(SECOND), |_| Ok(Outcome::Delete));
    worker.events.wait_for("connected", 1);
    server.freeze().unwrap();
    worker.events.wait_for("disconnected", 1);
    server.thaw().unwrap();
    let id = put(&mut client, "x");
    worker.events.wait_for(&format!("deleted {id}"), 1);
    assert_eq!(worker.stop().finished, 1);
}

/// Every server has its own slots.
fn a_dying_server_does_not_delay_the_others<F: WorkerFace>() {
    let servers: Vec<Server> = (0..3).map(|_| Server::start().unwrap()).collect();
    // One more accepts connections and sends nothing.
    let silent = Scripts::start(|_, mut stream| queue_core::proof::read_to_end(&mut stream));
    let addresses: Vec<String> = servers.iter().map(|s| s.address().to_owned()).collect();
    let all = addresses.iter().cloned().chain([silent.address()]);
    let list = Servers::new(all.map(|address| at(&address))).unwrap();
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let worker = F::start(worker_options(list).slots(2), move |job| {
        seen.lock().unwrap().push(String::from_utf8(job.body()).unwrap());
        Ok(Outcome::Delete)
    });
    assert_eq!(worker.handle.slots().len(), 8);
    for (number, address) in addresses.iter().enumerate() {
        let mut client: F = connect(address);
        for job in 0..50 {
            put(&mut client, &format!("{number} {job}"));
        }
    }
    worker.events.wait_for("deleted", 150);
    let mut servers = servers.into_iter();
    drop(servers.next());
    worker.events.wait_for("disconnected", 2);
    for (number, server) in servers.as_slice().iter().enumerate() {
        let mut client: F = connect(server.address());
        for job in 0..50 {
            put(&mut client, &format!("{} later {job}", number + 1));
        }
    }
    worker.events.wait_for("deleted", 250);
    let gone: beanstalk_client::Address = addresses[0].parse().unwrap();
    for slot in worker.handle.slots() {
        let is_away = matches!(slot.state, SlotState::BackingOff | SlotState::Connecting);
        assert!(slot.server != gone || is_away, "{slot:?}");
    }
    // The silent server's slots wait for answers: a stop does not wait for them.
    let start = Instant::now();
    let report = worker.stop();
    assert!(start.elapsed() < PATIENCE / 2);
    assert_eq!((report.finished, report.total()), (250, 250));
    let mut runs = runs.lock().unwrap().clone();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 250, "each once");
}

/// B26: statistics of all shapes.
fn every_release_of_the_server_is_worked_for<F: WorkerFace>() {
    for version in [Version::V1_10, Version::V1_11, Version::V1_12, Version::V1_13] {
        let (server, mut client) =
            with_client::<F>(Server::builder().version(version).start().unwrap());
        client.use_tube("1e5").unwrap();
        let id = put(&mut client, "x");
        let options = worker_options(at(server.address())).until_empty();
        let retries = Retries::default().releases(0);
        let worker = F::start_on(options.retries(retries), &["1e5"], |job| {
            assert_eq!(job.stats().unwrap().tube, "1e5");
            Err("no luck".into())
        });
        assert_eq!(worker.end().buried, 1);
        assert_eq!(client.stats_job(id).unwrap().unwrap().pri.get(), 77);
    }
}

/// The statistics, with the server's id among them, are refused once.
fn a_server_without_an_id_is_not_a_new_server<F: WorkerFace>() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(2).of("stats").reply("OUT_OF_MEMORY").unexecuted());
    let worker = F::start(worker_options(at(server.address())), |_| Ok(Outcome::Delete));
    for connections in 1..4 {
        worker.events.wait_for("connected", connections);
        server.close_connections();
    }
    worker.events.wait_for("connected", 4);
    assert_eq!(worker.events.count("replaced"), 0, "{:?}", worker.events.all());
    worker.stop();
}
