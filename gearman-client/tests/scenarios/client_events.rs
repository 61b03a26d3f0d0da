//! What a client reports about its servers.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use fixtures::{fault::Fault, gearmand::Server};
use gearman_client::{
    ClientEvent, ClientEventKind, ConnectOptions, ErrorKind, Outcome, RetryPolicy,
};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{PATIENCE, options},
};

both_faces!(
    repeating_a_request_after_a_loss_is_an_event,
    resubmitting_a_job_after_a_loss_is_an_event,
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

    /// Waits until a server has this number of events, or for long enough. The driver of a connection and its callers
    /// report in no particular order.
    fn sorted(&self, address: &str, count: usize) -> Vec<&'static str> {
        let started = Instant::now();
        while self.of(address).len() < count && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
        let mut told = self.of(address);
        told.sort_unstable();
        told
    }
}

fn quick(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(5), Duration::from_millis(50));
    options.retry(retry)
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
    let mut worker = F::Worker::of("f", server.address());
    // A job without a client is also run.
    while !running.is_finished() {
        if let Some(job) = worker.next_within(Duration::from_millis(10)) {
            worker.complete(job, "done").unwrap();
        }
    }
    assert_eq!(running.join().unwrap().unwrap(), Outcome::Complete("done".into()));
    worker.stop();
}
