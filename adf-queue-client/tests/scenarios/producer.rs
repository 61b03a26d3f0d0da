//! Pushing through producers.

use std::{
    collections::BTreeSet,
    io,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use adf_queue_client::{
    Address, ConnectOptions, ConnectionState, Deadline, ErrorKind, Fate, Producer,
    ProducerEventKind, ProducerOptions, ProducerReport, QueueName, Refusal, Result, RetryPolicy,
    Selection, Servers, Transport, blocking,
};
use fixtures::{
    Dark,
    adf_queue::Server,
    proxy::{Proxy, Toxics},
};
use tokio::runtime::Runtime;

use crate::{
    face::{Async, Blocking, Face, both_faces, over_websocket, runtime, with_queue},
    support::{LATE, PATIENCE, World, queue_name},
};

over_websocket! {
    a_missing_queue_is_refused_or_created,
    enqueued_pushes_keep_their_order_and_a_closed_producer_takes_no_more,
}

both_faces! {
    a_server_that_is_away_is_passed_over,
    an_unresponsive_server_is_retried_in_the_background,
    no_push_waits_long_for_a_connection_while_another_server_is_there,
    equal_keys_go_to_one_server,
    a_push_waits_for_its_server,
    a_push_of_unknown_fate_is_the_callers_or_is_sent_again,
    a_server_that_falls_silent_is_left_by_the_next_push,
    unsendable_requests_are_refused_at_once,
    a_producer_that_connects_needs_one_of_its_servers,
    callers_share_the_connection_to_a_server,
    an_enqueued_push_completes_without_a_waiter,
    a_check_needs_an_answer_and_names_every_server_without_one,
    an_observer_sees_failed_servers_and_moved_pushes,
}

/// A producer, shared by threads.
trait ProducerFace: Sized + Send + Sync + 'static {
    fn new(options: ProducerOptions) -> Self;
    fn connect(options: ProducerOptions) -> Result<Self>;
    fn push(&self, end: End, key: Option<&str>, queue: &QueueName, body: &str) -> Result<u64>;
    fn report(&self) -> ProducerReport;
    /// Waits for the answers to these pushes only after the last one, or not at all.
    fn enqueue(&self, queue: &QueueName, bodies: Range<u32>, waits: bool) -> Vec<Result<u64>>;
    fn check(&self) -> Result<()>;
    fn flush(&self);
    fn close(&self) -> ProducerReport;
    fn state(&self) -> ConnectionState;

    fn rpush(&self, queue: &QueueName, body: &str) -> Result<u64> {
        self.push(End::Right, None, queue, body)
    }
}

/// An end of a queue.
#[derive(Clone, Copy)]
enum End {
    Left,
    Right,
}

struct Shared(Producer, Runtime);

impl ProducerFace for Shared {
    fn new(options: ProducerOptions) -> Self {
        Shared(Producer::new(options).unwrap(), runtime())
    }

    fn connect(options: ProducerOptions) -> Result<Self> {
        let runtime = runtime();
        Ok(Shared(runtime.block_on(Producer::connect(options))?, runtime))
    }

    fn push(&self, end: End, key: Option<&str>, queue: &QueueName, body: &str) -> Result<u64> {
        let Shared(producer, runtime) = self;
        let (queue, body) = (queue.clone(), body.to_owned());
        let id = runtime.block_on(async {
            match (end, key) {
                (End::Left, None) => producer.lpush(queue, body).await,
                (End::Right, None) => producer.rpush(queue, body).await,
                (End::Left, Some(key)) => producer.lpush_by_key(key, queue, body).await,
                (End::Right, Some(key)) => producer.rpush_by_key(key, queue, body).await,
            }
        });
        id.map(|id| id.get())
    }

    fn report(&self) -> ProducerReport {
        self.0.report()
    }

    fn enqueue(&self, queue: &QueueName, bodies: Range<u32>, waits: bool) -> Vec<Result<u64>> {
        let Shared(producer, runtime) = self;
        runtime.block_on(async {
            let (mut receipts, mut ids) = (Vec::new(), Vec::new());
            for body in bodies {
                receipts.push(producer.enqueue(queue, body.to_string()).await);
            }
            for receipt in receipts.into_iter().filter(|_| waits) {
                let id = match receipt {
                    Ok(receipt) => receipt.await,
                    Err(error) => Err(error),
                };
                ids.push(id.map(|id| id.get()));
            }
            ids
        })
    }

    fn check(&self) -> Result<()> {
        self.1.block_on(self.0.check())
    }

    fn flush(&self) {
        self.1.block_on(self.0.flush());
    }

    fn close(&self) -> ProducerReport {
        self.1.block_on(self.0.close())
    }

    fn state(&self) -> ConnectionState {
        self.0.state()
    }
}

impl ProducerFace for blocking::Producer {
    fn new(options: ProducerOptions) -> Self {
        blocking::Producer::new(options).unwrap()
    }

    fn connect(options: ProducerOptions) -> Result<Self> {
        blocking::Producer::connect(options)
    }

    fn push(&self, end: End, key: Option<&str>, queue: &QueueName, body: &str) -> Result<u64> {
        let (queue, body) = (queue.clone(), body.to_owned());
        let id = match (end, key) {
            (End::Left, None) => self.lpush(queue, body),
            (End::Right, None) => self.rpush(queue, body),
            (End::Left, Some(key)) => self.lpush_by_key(key, queue, body),
            (End::Right, Some(key)) => self.rpush_by_key(key, queue, body),
        };
        id.map(|id| id.get())
    }

    fn report(&self) -> ProducerReport {
        self.report()
    }

    fn enqueue(&self, queue: &QueueName, bodies: Range<u32>, waits: bool) -> Vec<Result<u64>> {
        let receipts: Vec<_> =
            bodies.map(|body| blocking::Producer::enqueue(self, queue, body.to_string())).collect();
        let ids = receipts.into_iter().filter(|_| waits);
        ids.map(|receipt| receipt?.wait().map(|id| id.get())).collect()
    }

    fn check(&self) -> Result<()> {
        self.check()
    }

    fn flush(&self) {
        self.flush();
    }

    fn close(&self) -> ProducerReport {
        self.close()
    }

    fn state(&self) -> ConnectionState {
        self.state()
    }
}

/// The producer of each face.
trait Produces: Face {
    type Producer: ProducerFace;
}

impl Produces for Async {
    type Producer = Shared;
}

impl Produces for Blocking {
    type Producer = blocking::Producer;
}

fn quick(options: ConnectOptions) -> ConnectOptions {
    let retry = RetryPolicy::default().backoff(Duration::from_millis(5), Duration::from_millis(50));
    options.reply_timeout(PATIENCE).retry(retry)
}

fn options(servers: &[&Server], queue: &QueueName) -> ProducerOptions {
    let connect = |server: &&Server| {
        let address: Address = server.address().parse().unwrap();
        let mut client = blocking::Client::connect(ConnectOptions::new(address.clone())).unwrap();
        client.create_queue(queue.clone()).unwrap();
        quick(ConnectOptions::new(address))
    };
    ProducerOptions::from(Servers::new(servers.iter().map(connect)).unwrap()).timeout(PATIENCE)
}

fn bodies(server: &Server, queue: &QueueName) -> Vec<String> {
    let messages = server.messages(queue.as_str()).into_iter();
    messages.map(|message| String::from_utf8(message.body).unwrap()).collect()
}

fn a_missing_queue_is_refused_or_created<F: Produces>(world: &World) {
    let queue = queue_name();
    let producer = F::Producer::new(world.options().into());
    let error = producer.rpush(&queue, "x").unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    assert_eq!(producer.report().refused, 1);
    let options = ProducerOptions::from(world.options()).create_queues(true);
    let producer = F::Producer::new(options);
    assert_eq!(producer.rpush(&queue, "x").unwrap(), 1);
    assert_eq!(producer.push(End::Left, None, &queue, "y").unwrap(), 2);
    let report = producer.report();
    assert_eq!((report.pushed, report.created, report.is_complete()), (2, 1, true));
    let mut client = F::connect(world.options()).unwrap();
    let first = client.pull(&queue).unwrap();
    assert_eq!(first.body(), "y");
    client.delete(&first).unwrap();
    client.delete_queue(&queue).unwrap();
}

fn enqueued_pushes_keep_their_order_and_a_closed_producer_takes_no_more<F: Produces>(
    world: &World,
) {
    let (mut client, queue) = with_queue::<F>(world);
    let producer = F::Producer::new(ProducerOptions::from(world.options()).max_messages(16));
    let answers = producer.enqueue(&queue, 0..50, true);
    assert_eq!(answers.into_iter().map(Result::unwrap).collect::<BTreeSet<_>>().len(), 50);
    producer.enqueue(&queue, 50..100, false);
    producer.flush();
    assert_eq!(producer.report().to_string(), "100 messages pushed");
    for body in 0..100 {
        let message = client.try_pull(&queue).unwrap().unwrap();
        assert_eq!(message.body(), body.to_string().as_bytes());
        client.delete(&message).unwrap();
    }
    let missing = queue_name();
    producer.enqueue(&missing, 0..3, false);
    let report = producer.close();
    assert_eq!((report.pushed, report.refused), (100, 3));
    assert_eq!(producer.state(), ConnectionState::Closed);
    let refused = producer.enqueue(&queue, 0..1, true).pop().unwrap().unwrap_err();
    for error in [refused, producer.rpush(&queue, "x").unwrap_err(), producer.check().unwrap_err()]
    {
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::Closed, Fate::NotSent));
    }
    client.delete_queue(&queue).unwrap();
}

fn callers_share_the_connection_to_a_server<F: Produces>() {
    let server = Server::builder().queue("/q").start().unwrap();
    let queue: QueueName = "/q".parse().unwrap();
    let options: ProducerOptions = server.address().parse().unwrap();
    let producer = F::Producer::new(options.timeout(PATIENCE));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..50 {
                    producer.rpush(&queue, "x").unwrap();
                }
            });
        }
    });
    assert_eq!(server.view().connections, 1);
    assert_eq!(bodies(&server, &queue).len(), 800);
}

/// Its server is away at first, and the queue does not exist.
fn an_enqueued_push_completes_without_a_waiter<F: Produces>() {
    let queue = queue_name();
    let (server, options, _) = away_at_first(Server::start().unwrap());
    let producer = F::Producer::new(options.create_queues(true));
    producer.enqueue(&queue, 0..3, false);
    producer.flush();
    // In any order, since each was tried again.
    let pushed: BTreeSet<String> = bodies(&server, &queue).into_iter().collect();
    assert_eq!(pushed, ["0", "1", "2"].map(String::from).into());
    assert_eq!(producer.report().pushed, 3);
}

fn a_check_needs_an_answer_and_names_every_server_without_one<F: Produces>() {
    let server = Server::start().unwrap();
    let producer = F::Producer::new(server.address().parse().unwrap());
    assert_eq!(producer.state(), ConnectionState::Idle);
    producer.check().unwrap();
    assert_eq!(producer.state(), ConnectionState::Ready);
    let none = [(); 2].map(|()| fixtures::Port::take().unwrap());
    let [one, two] = none.each_ref().map(|port| port.address().to_string());
    let error = F::Producer::new(format!("{one},{two}").parse().unwrap()).check().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::Connect, Fate::NotSent));
    let text = error.to_string();
    assert!(text.contains(&one) && text.contains(&two), "{text}");
}

/// No call follows the one that enqueued it.
#[test]
fn a_thread_carries_out_a_push_whose_receipt_was_dropped() {
    let (server, options, _) = away_at_first(Server::builder().queue("/q").start().unwrap());
    let producer = blocking::Producer::new(options).unwrap();
    drop(producer.enqueue("/q", "x").unwrap());
    assert!(server.wait_for(PATIENCE, |view| view.ready == 1));
}

fn a_server_that_is_away_is_passed_over<F: Produces>() {
    let (spare, queue) = (Server::start().unwrap(), queue_name());
    let away = fixtures::Port::take().unwrap();
    let address: Address = away.address().to_string().parse().unwrap();
    let mut servers = vec![quick(ConnectOptions::new(address))];
    let spares = options(&[&spare], &queue);
    let spares = spares.servers().addresses().cloned();
    servers.extend(spares.map(|address| quick(ConnectOptions::new(address))));
    let servers = Servers::new(servers).unwrap();
    let producer = F::Producer::new(ProducerOptions::from(servers).timeout(PATIENCE));
    for body in ["a", "b", "c"] {
        producer.rpush(&queue, body).unwrap();
    }
    assert_eq!(bodies(&spare, &queue), ["a", "b", "c"]);
    let report = producer.report();
    assert_eq!((report.pushed, report.is_complete()), (3, true));
    assert!((1..=3).contains(&report.moved), "{report}");
}

fn equal_keys_go_to_one_server<F: Produces>() {
    let servers = [(); 3].map(|()| Server::start().unwrap());
    let queue = queue_name();
    let all = options(&[&servers[0], &servers[1], &servers[2]], &queue);
    let producer = F::Producer::new(all.selection(Selection::ByKey));
    for key in 0..60 {
        let id = key.to_string();
        for (end, round) in [(End::Right, "second"), (End::Right, "third"), (End::Left, "first")] {
            producer.push(end, Some(&id), &queue, &format!("{key} {round}")).unwrap();
        }
    }
    let mut found = 0;
    for server in &servers {
        let bodies = bodies(server, &queue);
        assert!(!bodies.is_empty());
        let keys: BTreeSet<&str> =
            bodies.iter().map(|body| body.split(' ').next().unwrap()).collect();
        assert_eq!(bodies.len(), 3 * keys.len(), "each key is whole here");
        for key in keys {
            let of_key = bodies.iter().filter_map(|body| body.strip_prefix(&format!("{key} ")));
            assert_eq!(of_key.collect::<Vec<_>>(), ["first", "second", "third"]);
        }
        found += bodies.len();
    }
    assert_eq!(found, 180);
}

/// A proxy in its own front server that has the queue.
fn behind_proxy(queue: &QueueName) -> (Server, Proxy, ProducerOptions) {
    let server = Server::builder().queue(queue.as_str()).start().unwrap();
    let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
    let address: Address = proxy.address().to_string().parse().unwrap();
    let options = ProducerOptions::from(quick(ConnectOptions::new(address)));
    (server, proxy, options.timeout(PATIENCE))
}

fn a_push_waits_for_its_server<F: Produces>() {
    let queue = queue_name();
    let server = Server::builder().queue(queue.as_str()).start().unwrap();
    let (server, options, attempts) = away_at_first(server);
    let producer = F::Producer::new(options);
    assert_eq!(producer.rpush(&queue, "x").unwrap(), 1);
    assert_eq!(attempts.load(Ordering::SeqCst), 4);
    assert_eq!(bodies(&server, &queue), ["x"]);
}

/// The server is away for the first three attempts, which are counted.
fn away_at_first(server: Server) -> (Server, ProducerOptions, Arc<AtomicUsize>) {
    let there = server.socket_addr().unwrap();
    let address: Address = server.address().parse().unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let (tried, tried_too) = (attempts.clone(), attempts.clone());
    let is_away = move |attempts: &AtomicUsize| match attempts.fetch_add(1, Ordering::SeqCst) {
        0..3 => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
        _ => Ok(()),
    };
    let options = quick(ConnectOptions::new(address))
        .connector(move |_| {
            let is_away = is_away(&tried);
            async move {
                is_away?;
                tokio::net::TcpStream::connect(there).await
            }
        })
        .blocking_connector(move |_, _| {
            is_away(&tried_too)?;
            std::net::TcpStream::connect(there)
        });
    (server, ProducerOptions::from(options).timeout(PATIENCE), attempts)
}

fn a_push_of_unknown_fate_is_the_callers_or_is_sent_again<F: Produces>() {
    for again in [false, true] {
        let queue = queue_name();
        let (server, proxy, options) = behind_proxy(&queue);
        let producer = F::Producer::new(options.at_least_once(again));
        producer.rpush(&queue, "before").unwrap();
        // The server accepts it, but its answer is lost.
        proxy.spoil_replies(Toxics::new().silence());
        let outcome = thread::scope(|scope| {
            let push = scope.spawn(|| producer.rpush(&queue, "x"));
            assert!(server.wait_for(PATIENCE, |view| view.ready == 2));
            proxy.heal();
            proxy.reset_connections();
            push.join().unwrap()
        });
        let report = producer.report();
        if again {
            outcome.unwrap();
            assert_eq!(bodies(&server, &queue), ["before", "x", "x"]);
            assert_eq!((report.pushed, report.resent), (2, 1));
        } else {
            assert_eq!(outcome.unwrap_err().fate(), Fate::Unknown);
            assert_eq!(bodies(&server, &queue), ["before", "x"]);
            assert_eq!((report.pushed, report.unknown), (1, 1));
        }
    }
}

fn a_server_that_falls_silent_is_left_by_the_next_push<F: Produces>() {
    let queue = queue_name();
    let (silent, proxy, _) = behind_proxy(&queue);
    let other = Server::builder().queue(queue.as_str()).start().unwrap();
    let options = |address: &str| quick(ConnectOptions::new(address.parse().unwrap()));
    let first = options(&proxy.address().to_string()).connect_timeout(LATE / 3);
    let servers = Servers::new([first, options(other.address())]).unwrap();
    let options = ProducerOptions::from(servers).at_least_once(true).timeout(LATE);
    let (options, failures) = counting_failures(options);
    let producer = F::Producer::new(options);
    // On a busy machine, the first one may be too slow at first.
    while bodies(&silent, &queue).is_empty() {
        producer.rpush(&queue, "before").unwrap();
    }
    proxy.spoil_replies(Toxics::new().silence());
    // It is not sent again.
    let late = producer.rpush(&queue, "late").unwrap_err();
    assert_eq!((late.kind(), late.fate()), (&ErrorKind::Timeout(Deadline::Total), Fate::Unknown));
    let text = "not done within the total timeout of 3 s";
    assert_eq!(late.to_string(), format!("rpush to {}: {text}", proxy.address()));
    assert_eq!(producer.report().resent, 0);
    // Also after an attempt to reach the silent one was left unanswered in its turn.
    let end = failures.load(Ordering::SeqCst) + 1;
    while failures.load(Ordering::SeqCst) < end {
        producer.rpush(&queue, "elsewhere").unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(bodies(&silent, &queue), ["before", "late"]);
}

fn unsendable_requests_are_refused_at_once<F: Produces>() {
    let world = World::in_memory(Transport::WsBin);
    let producer = F::Producer::new(world.options().into());
    let error = producer.rpush(&queue_name(), &"x".repeat(65_536)).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::InvalidInput, Fate::NotSent));
    let http = World::in_memory(Transport::HttpBin).options();
    assert_eq!(*blocking::Producer::new(http.clone()).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(*Producer::new(http).unwrap_err().kind(), ErrorKind::Unsupported);
}

fn a_producer_that_connects_needs_one_of_its_servers<F: Produces>() {
    let server = Server::start().unwrap();
    let both: ProducerOptions = format!("127.0.0.1:1,{}", server.address()).parse().unwrap();
    let producer = F::Producer::connect(both.create_queues(true)).unwrap();
    assert_eq!(server.view().connections, 1);
    producer.rpush(&queue_name(), "x").unwrap();
    assert_eq!(server.view().connections, 1, "the same one");
    let none: ProducerOptions = "127.0.0.1:1".parse().unwrap();
    let error = F::Producer::connect(none).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::Connect, Fate::NotSent));
}

fn an_observer_sees_failed_servers_and_moved_pushes<F: Produces>() {
    let server = Server::start().unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let both: ProducerOptions = format!("127.0.0.1:1,{}", server.address()).parse().unwrap();
    let producer =
        F::Producer::new(both.create_queues(true).timeout(PATIENCE).on_event(move |event| {
            told.lock().unwrap().push((event.server.to_string(), format!("{:?}", event.what)));
            panic!("the producer goes on");
        }));
    producer.rpush(&queue_name(), "x").unwrap();
    let events = events.lock().unwrap();
    let kinds: Vec<(bool, &str)> = events
        .iter()
        .map(|(of, what)| (of == server.address(), what.split(['(', ' ']).next().unwrap()))
        .collect();
    let expected = [
        (false, "Disconnected"),
        (false, "BackingOff"),
        (false, "Moved"),
        (true, "Connected"),
        (true, "Created"),
    ];
    assert_eq!(kinds, expected, "{events:#?}");
}

/// Another server is there for them. Only the first one waits for an attempt to connect.
fn an_unresponsive_server_is_retried_in_the_background<F: Produces>() {
    let queue = queue_name();
    let short = |options| quick(options).connect_timeout(Duration::from_millis(300));
    let dark = Dark::start().unwrap();
    let good = Server::builder().queue(queue.as_str()).start().unwrap();
    let dark = short(ConnectOptions::new(dark.address().to_string().parse().unwrap()));
    let good = quick(ConnectOptions::new(good.address().parse().unwrap()));
    let (options, attempts) =
        counting_failures(ProducerOptions::from(Servers::new([dark, good]).unwrap()));
    let producer = F::Producer::new(options);
    while attempts.load(Ordering::SeqCst) < 4 {
        producer.rpush(&queue, "x").unwrap();
    }
    assert_eq!(producer.report().moved, 1, "no other push waited for an attempt to connect");
}

/// The same, and the number of times that a server was left alone after a failure.
fn counting_failures(options: ProducerOptions) -> (ProducerOptions, Arc<AtomicUsize>) {
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    let options = options.on_event(move |event| {
        let is_failure = matches!(event.what, ProducerEventKind::BackingOff(_));
        counted.fetch_add(usize::from(is_failure), Ordering::SeqCst);
    });
    (options, failures)
}

/// A host that is switched off answers nothing for as long as it is asked.
fn no_push_waits_long_for_a_connection_while_another_server_is_there<F: Produces>() {
    let queue = queue_name();
    let dark = Dark::start().unwrap();
    let good = Server::builder().queue(queue.as_str()).start().unwrap();
    let servers = [&*dark.address().to_string(), good.address()];
    let endless = |address: &str| {
        ConnectOptions::new(address.parse().unwrap()).connect_timeout(10 * PATIENCE)
    };
    let options =
        ProducerOptions::from(Servers::new(servers.map(endless)).unwrap()).timeout(PATIENCE);
    let started = Instant::now();
    let producer = F::Producer::connect(options.clone()).unwrap();
    assert!(started.elapsed() < PATIENCE);
    for _ in 0..4 {
        producer.rpush(&queue, "x").unwrap();
    }
    F::Producer::new(options).rpush(&queue, "x").unwrap();
    assert_eq!(bodies(&good, &queue).len(), 5);
}
