//! Connections made by the caller.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use fixtures::gearmand::Server;
use gearman_client::{
    Admin, Client, ConnectOptions, Deadline, ErrorKind, Fate, Outcome, RetryPolicy, Worker,
    WorkerOptions, blocking,
};
use queue_core::{Backoff, proof::runtime};

use super::{
    face::{Face, both_faces},
    handlers::HandlerFace,
    support::options,
};

/// The address of the name, which only a connector knows, and how often it was queried.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Option<SocketAddr>>>, Arc<AtomicU32>);

impl Record {
    fn of(server: &Server) -> Self {
        let record = Record::default();
        record.points_to(server);
        record
    }

    fn points_to(&self, server: &Server) {
        *self.0.lock().unwrap() = server.socket_addr();
    }

    fn asked(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }

    fn resolve(&self, name: &str) -> io::Result<SocketAddr> {
        assert_eq!(name, "queue.invalid:4730");
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.lock().unwrap().ok_or_else(|| io::Error::from_raw_os_error(EMFILE))
    }

    fn options(&self) -> ConnectOptions {
        let (one, two) = (self.clone(), self.clone());
        let options: ConnectOptions = "queue.invalid".parse().unwrap();
        options
            .connector(move |address| {
                let found = one.resolve(&address.to_string());
                async move { tokio::net::TcpStream::connect(found?).await }
            })
            .blocking_connector(move |address, _| {
                std::net::TcpStream::connect(two.resolve(&address.to_string())?)
            })
    }
}

/// No file descriptor is left.
const EMFILE: i32 = 24;

both_faces!(
    a_client_asks_its_connector_at_every_attempt,
    a_worker_is_restored_through_its_connector,
);

/// C19.
fn a_client_asks_its_connector_at_every_attempt<F: Face>() {
    let (old, new) = (Server::start().unwrap(), Server::start().unwrap());
    let record = Record::of(&old);
    let mut client = F::connect(record.options()).unwrap();
    client.submit_background("f", b"one", options()).unwrap();
    assert_eq!(record.asked(), 1);
    drop(old);
    record.points_to(&new);
    let mut outcome = client.submit_background("f", b"two", options());
    if outcome.is_err() {
        outcome = client.submit_background("f", b"two", options());
    }
    outcome.unwrap();
    assert_eq!(record.asked(), 2);
    assert_eq!(new.view().jobs, 1);
    let mut admin = blocking::Admin::connect(record.options()).unwrap();
    assert_eq!(admin.status().unwrap()[0].total, 1);
    runtime().block_on(async {
        let mut admin = Admin::connect(record.options()).await.unwrap();
        assert_eq!(admin.status().await.unwrap()[0].total, 1);
    });
}

/// The abilities are sent to the new server.
fn a_worker_is_restored_through_its_connector<F: HandlerFace>() {
    let (old, new) = (Server::start().unwrap(), Server::start().unwrap());
    let record = Record::of(&old);
    let worker = F::start(WorkerOptions::from(record.options()), |_| Ok("X".to_owned()));
    for server in [Some(old), None] {
        let mut client = F::connect(record.options()).unwrap();
        let outcome = client.run("f", b"x", options()).unwrap();
        assert_eq!(outcome, Outcome::Complete("X".into()));
        record.points_to(&new);
        drop(server);
    }
    assert_eq!(worker.stop().completed, 2);
}

/// C20: a worker that gets no socket tries again and again, but ever more seldom. The clock is the runtime's, so that
/// an hour passes at once.
#[tokio::test(start_paused = true)]
async fn a_worker_that_gets_no_socket_does_not_spin() {
    let attempts = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&attempts);
    let policy = RetryPolicy::default().seed(9);
    let options: ConnectOptions = "queue.invalid".parse().unwrap();
    let (near, far) = tokio::io::duplex(4096);
    let near = Arc::new(Mutex::new(Some(near)));
    let options = options.retry(policy).connector(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        let near = near.lock().unwrap().take();
        async move { near.ok_or_else(|| io::Error::from_raw_os_error(EMFILE)) }
    });
    let worker = Worker::new(options).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(stopped));
    drop(far);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    stop.send(()).unwrap();
    worker.await.unwrap();
    // The first connection, one at once because it counted as good, and then one after each delay.
    let mut delays = policy.delays();
    let mut at = Duration::ZERO;
    let mut expected = 2;
    loop {
        at += delays.next_delay();
        if at > Duration::from_secs(3600) {
            break;
        }
        expected += 1;
    }
    let attempts = attempts.load(Ordering::Relaxed);
    assert!(attempts.abs_diff(expected) <= 1, "{attempts} attempts instead of {expected}");
}

/// C20.
#[test]
fn a_client_without_sockets_states_the_reason() {
    let server = Server::start().unwrap();
    let record = Record::of(&server);
    let policy = RetryPolicy::new(2).backoff(Duration::from_millis(20), Duration::from_millis(40));
    let mut client = blocking::Client::connect(record.options().retry(policy.seed(4))).unwrap();
    *record.0.lock().unwrap() = None;
    drop(server);
    // The call that notices does not know the fate of its request.
    assert!(client.echo("x").is_err());
    let asked = record.asked();
    let error = client.echo("x").unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent), "{error}");
    assert!(error.to_string().contains(&io::Error::from_raw_os_error(EMFILE).to_string()));
    assert_eq!(record.asked() - asked, 3);
}

/// C16: time is the runtime's.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_decides_when_deadlines_pass() {
    let options: ConnectOptions = "queue.invalid".parse().unwrap();
    let policy =
        RetryPolicy::new(1).backoff(Duration::from_secs(500), Duration::from_secs(500)).seed(3);
    let options =
        options.exceptions(false).reply_timeout(Duration::from_secs(100)).retry(policy).connector(
            |_| async {
                let (near, far) = tokio::io::duplex(1024);
                // The holder of the other end keeps it open.
                std::mem::forget(far);
                Ok(near)
            },
        );
    let (began, really) = (tokio::time::Instant::now(), std::time::Instant::now());
    let client = Client::connect(options).await.unwrap();
    let error = client.echo("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    assert_eq!(began.elapsed().as_secs(), 100);
    let delay = Backoff::new(Duration::from_secs(500), Duration::from_secs(500), 3).next_delay();
    let error = client.echo("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    let most = Duration::from_secs(201) + delay;
    assert!((200..=most.as_secs()).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(really.elapsed() < Duration::from_secs(60));
}
