//! What a client reports about its servers.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use fixtures::{
    Port,
    fault::Fault,
    gearmand::{Listen, Server},
};
use gearman_client::{
    ClientEvent, ClientEventKind, ConnectOptions, ErrorKind, Outcome, RetryPolicy, Servers,
};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{PATIENCE, options},
};

both_faces!(
    an_unreachable_server_is_skipped_and_reported_once,
    repeating_a_request_after_a_loss_is_an_event,
    resubmitting_a_job_after_a_loss_is_an_event,
    an_observer_that_panics_harms_no_call,
);

/// The words of the events, each with its server.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<ClientEvent>>>);

impl Told {
    fn hear(&self, options: ConnectOptions) -> ConnectOptions {
        let told = self.clone();
        options.on_event(move |event| told.0.lock().unwrap().push(event.clone()))
    }

    /// The events of a server.
    fn of(&self, address: &str) -> Vec<&'static str> {
        let told = self.0.lock().unwrap();
        let of_it = told.iter().filter(|event| event.server.to_string() == address);
        of_it
            .map(|event| match &event.what {
                ClientEventKind::Connected => "connected",
                ClientEventKind::Disconnected(error) => match error.kind() {
                    ErrorKind::Connect => "not reached",
                    ErrorKind::ConnectionLost => "lost",
                    other => panic!("{other:?}: {error}"),
                },
                ClientEventKind::BackingOff(_) => "backing off",
                ClientEventKind::Moved => "moved",
                ClientEventKind::Resent => "resent",
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Waits until the events of a server are as expected, or for long enough. The driver of a connection and its
    /// callers report in no particular order.
    fn until(&self, address: &str, expected: impl Fn(&[&str]) -> bool) -> Vec<&'static str> {
        let started = Instant::now();
        while !expected(&self.of(address)) && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        self.of(address)
    }

    /// Waits until a server has this number of events.
    fn sorted(&self, address: &str, count: usize) -> Vec<&'static str> {
        let mut told = self.until(address, |told| told.len() >= count);
        told.sort_unstable();
        told
    }
}

fn quick(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(5), Duration::from_millis(50));
    options.retry(retry)
}

fn an_unreachable_server_is_skipped_and_reported_once<F: Face>() {
    // The port stays reserved.
    let port = Port::take().unwrap();
    let (address, told) = (port.address().to_string(), Told::default());
    let good = Server::start().unwrap();
    let list = [quick(&address), quick(good.address())].map(|server| told.hear(server));
    let mut client = F::connect(Servers::new(list).unwrap()).unwrap();
    for _ in 0..50 {
        client.submit_background("f", b"w", options()).unwrap();
    }
    let away = told.until(&address, |told| told.contains(&"backing off"));
    assert_eq!(away.iter().filter(|it| **it == "not reached").count(), 1, "{away:?}");
    assert!(away.iter().filter(|it| **it == "backing off").count() >= 1, "{away:?}");
    assert!(!away.contains(&"connected") && !away.contains(&"resent"), "{away:?}");
    assert_eq!(told.sorted(good.address(), 1), ["connected"]);
    let back = Server::builder().listen(Listen::Tcp(port.address())).start().unwrap();
    let started = Instant::now();
    while back.view().jobs == 0 {
        client.submit_background("f", b"w", options()).unwrap();
        assert!(started.elapsed() < PATIENCE, "it is never used");
    }
    let back = told.until(&address, |told| told.contains(&"connected"));
    assert!(back.contains(&"connected"), "{back:?}");
}

fn repeating_a_request_after_a_loss_is_an_event<F: Face>() {
    let (server, told) = (Server::start().unwrap(), Told::default());
    let mut client = F::connect(told.hear(quick(server.address()))).unwrap();
    server.faults().add(Fault::nth(1).of("SUBMIT_JOB_BG").executed().reset_after(0));
    client.submit_background("f", b"w", options().idempotent(true)).unwrap();
    assert_eq!(told.sorted(server.address(), 4), ["connected", "connected", "lost", "resent"]);
    server.faults().add(Fault::nth(1).of("SUBMIT_JOB_BG").executed().reset_after(0));
    client.submit_background("f", b"w", options()).unwrap_err();
    assert_eq!(
        told.sorted(server.address(), 5),
        ["connected", "connected", "lost", "lost", "resent"]
    );
}

fn resubmitting_a_job_after_a_loss_is_an_event<F: Face>() {
    let (server, told) = (Server::start().unwrap(), Told::default());
    let mut client = F::connect(told.hear(quick(server.address()))).unwrap();
    let address = server.address().to_owned();
    // Its first answer is lost, and then the connection on which its result would come.
    server.faults().add(Fault::nth(1).of("SUBMIT_JOB").executed().reset_after(0));
    let running = thread::spawn(move || client.run("f", b"w", options().idempotent(true)));
    assert!(told.sorted(&address, 4).contains(&"resent"));
    assert!(server.wait_for(PATIENCE, |view| view.connections == 1));
    let submitted =
        || server.requests().iter().filter(|it| it.text().starts_with("SUBMIT")).count();
    while submitted() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    server.reset_connections();
    assert_eq!(told.sorted(&address, 7).iter().filter(|it| **it == "resent").count(), 2);
    let mut worker = F::Worker::connect(server.address()).unwrap();
    worker.can_do("f");
    // A job without a client is also run.
    while !running.is_finished() {
        if let Some(job) = worker.next_within(Duration::from_millis(10)) {
            worker.complete(job, "done").unwrap();
        }
    }
    assert_eq!(running.join().unwrap().unwrap(), Outcome::Complete("done".into()));
    worker.stop();
}

fn an_observer_that_panics_harms_no_call<F: Face>() {
    let server = Server::start().unwrap();
    let told = Told::default();
    let options_ = quick(server.address()).on_event(|_| panic!("on purpose"));
    let mut client = F::connect(told.hear(options_)).unwrap();
    client.submit_background("f", b"w", options()).unwrap();
    assert_eq!(told.of(server.address()), ["connected"]);
}
