//! Ways to a server: unix sockets, forms of addresses, streams provided by the caller.

use std::time::{Duration, Instant};

use beanstalk_client::{
    ConnectOptions, ErrorKind, Fate, PutOptions, ReleaseOptions, RetryPolicy,
    protocol::ReserveWithTimeout,
};
use fixtures::beanstalkd::Server;

use crate::support::{
    Environment, Face, both_faces,
    place::{PATIENCE, options},
    scenarios,
};

#[cfg(unix)]
scenarios!(a_unix_socket_serves_as_well);

#[cfg(unix)]
fn a_unix_socket_serves_as_well<F: Face>(environment: Environment) {
    let folder = tempfile::tempdir().unwrap();
    let place = environment.start_on_unix_socket(folder.path());
    assert!(place.address().starts_with("unix:/"), "{}", place.address());
    let mut client: F = place.connect();
    assert_eq!(client.address().to_string(), place.address());
    let body = vec![0xab; 65_535];
    let id = client.put(&body, PutOptions::default()).unwrap().id();
    let job = client.reserve().unwrap().job().unwrap();
    assert_eq!((job.id, &job.body), (id, &body.into()));
    client.reconnect().unwrap();
    assert_eq!(client.delete(&job).unwrap_err().kind(), ErrorKind::JobLost);
    assert!(client.reserve_with_timeout(PATIENCE).unwrap().job().is_some());
    client.quit().unwrap();
}

scenarios!(a_lazy_client_connects_at_its_first_call, a_reset_client_is_like_a_new_one,);

fn a_lazy_client_connects_at_its_first_call<F: Face>(environment: Environment) {
    let place = environment.start();
    // The first connection does not count as a further attempt.
    let options = options(place.address()).retry(RetryPolicy::never());
    let mut client = F::new(options).unwrap();
    assert_eq!((client.is_connected(), client.metrics().connections), (false, 0));
    client.reset().unwrap();
    assert_eq!(client.metrics().connections, 0);
    client.watch("other").unwrap();
    assert_eq!((client.is_connected(), client.metrics().connections), (true, 1));
    assert_eq!(client.list_tubes_watched().unwrap().len(), 2);
}

/// What it holds is given back, and what it used and watched is forgotten, by the next connection, too.
fn a_reset_client_is_like_a_new_one<F: Face>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let assert_new = |client: &mut F| {
        assert_eq!(client.list_tube_used().unwrap(), "default");
        assert_eq!(client.list_tubes_watched().unwrap(), ["default"]);
        assert_eq!((client.used_tube().as_str(), client.watched_tubes().len()), ("default", 1));
    };
    let first = client.epoch();
    client.use_tube("mine").unwrap();
    client.watch_only(vec!["mine", "more"]).unwrap();
    let _ = client.put(b"x", PutOptions::default().priority(7)).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    client.release(&job, ReleaseOptions::new(9)).unwrap();
    let commands = client.metrics().commands;
    client.reset().unwrap();
    // use, watch, and two times ignore
    assert_eq!((client.epoch(), client.metrics().commands), (first, commands + 4));
    client.reset().unwrap();
    assert_eq!(client.metrics().commands, commands + 4, "there is nothing to do");
    assert_new(&mut client);

    client.watch_only(vec!["mine"]).unwrap();
    let job = client.reserve().unwrap().job().unwrap();
    client.reset().unwrap();
    assert!(!client.is_connected());
    let mut other: F = place.connect();
    other.watch_only(vec!["mine"]).unwrap();
    let again = other.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
    assert_eq!((again.id, other.stats_job(job.id).unwrap().unwrap().pri.get()), (job.id, 9));
    assert_new(&mut client);
    assert_ne!(client.epoch(), first);
    assert_eq!(client.delete(&job).unwrap_err().kind(), ErrorKind::JobLost);

    // A dropped reserve, and an unclaimed job.
    let wait = ReserveWithTimeout::new(PATIENCE).unwrap();
    assert_eq!(client.call_some(2, 0, [wait]).len(), 0);
    let _ = client.put(b"y", PutOptions::default()).unwrap();
    let look = ReserveWithTimeout::new(Duration::ZERO).unwrap();
    let _ = client.put(b"z", PutOptions::default()).unwrap();
    let job = client.call_some(2, 1, [look, look]).remove(0).unwrap().job().unwrap();
    client.delete(&job).unwrap();
    client.reset().unwrap();
    assert_new(&mut client);
    assert!(other.watch_only(vec!["default"]).is_ok());
    assert_eq!(other.reserve_with_timeout(PATIENCE).unwrap().job().unwrap().body, "z");
}

both_faces!(
    a_missing_unix_socket_is_named,
    a_lazy_client_may_start_before_its_server,
    a_reset_that_fails_leaves_a_client_that_is_reset,
    plain_text_to_another_machine_is_refused_if_tls_is_required,
    a_connection_lost_while_idle_is_replaced_before_use,
);

fn a_lazy_client_may_start_before_its_server<F: Face>() {
    let port = fixtures::Port::take().unwrap();
    let address = port.address();
    let retry =
        RetryPolicy::new(u32::MAX).backoff(Duration::from_millis(1), Duration::from_millis(20));
    let options = options(&address.to_string()).retry(retry).total_timeout(Some(PATIENCE));
    let mut client = F::new(options.clone()).unwrap();
    let server = std::thread::spawn(move || {
        Server::builder().listen(fixtures::beanstalkd::Listen::Tcp(address)).start()
    });
    let inserted = client.put(b"x", PutOptions::default());
    let _server = server.join().unwrap().unwrap();
    let _ = inserted.unwrap();
    let elsewhere = "tcp://203.0.113.1:11300".parse::<ConnectOptions>().unwrap().require_tls(true);
    assert_eq!(F::new(elsewhere).err().unwrap().kind(), ErrorKind::InvalidInput);
}

fn a_reset_that_fails_leaves_a_client_that_is_reset<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(options(server.address()).retry(RetryPolicy::new(1))).unwrap();
    client.watch("mine").unwrap();
    server.faults().add(fixtures::fault::Fault::nth(1).of("ignore").cut_after(0));
    let error = client.reset().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert_eq!(client.list_tubes_watched().unwrap(), ["default"]);
}

#[cfg(unix)]
fn a_missing_unix_socket_is_named<F: Face>() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", folder.path().join("missing.sock").display());
    let error = F::connect(options(&address)).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert!(error.to_string().contains(&address), "{error}");
}

#[cfg(not(unix))]
fn a_missing_unix_socket_is_named<F: Face>() {
    let error = F::connect(options("unix:/tmp/x.sock")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// S14.
fn plain_text_to_another_machine_is_refused_if_tls_is_required<F: Face>() {
    let server = Server::start().unwrap();
    let error = F::connect(options("192.0.2.1:11300").require_tls(true)).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
    assert!(F::connect(options(server.address()).require_tls(true)).is_ok());
}

fn a_connection_lost_while_idle_is_replaced_before_use<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(options(server.address())).unwrap();
    client.use_tube("mine").unwrap();
    for with_reset in [false, true] {
        let epoch = client.epoch();
        if with_reset {
            server.reset_connections();
        } else {
            server.close_connections();
        }
        assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
        // The notification takes its time, even within one machine.
        let patience = Instant::now() + PATIENCE;
        while client.check_connection() {
            assert!(Instant::now() < patience, "it is never noticed");
        }
        assert!(!client.is_connected());
        assert_eq!(client.list_tube_used().unwrap(), "mine");
        assert_ne!(client.epoch(), epoch);
        assert!(client.check_connection());
    }
}

#[test]
fn invalid_addresses_are_refused_before_connecting() {
    for text in ["", "host:port", "http://127.0.0.1", "127.0.0.1:0", "a\r\nb"] {
        let error = ConnectOptions::try_from(text).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
    }
}
