//! Servers and workers that never stop talking: deadlines hold whatever arrives, and other tasks get their turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use gearman_client::{
    Client, ConnectOptions, Deadline, ErrorKind, JobEvent, RetryPolicy,
    protocol::{Echo, PacketType, Submit},
};

use super::{
    face::{Face, both_faces},
    support::{LATE, PATIENCE, Peer, function, options, wire},
};

both_faces!(
    a_flood_does_not_postpone_the_reply_deadline,
    a_flood_does_not_postpone_the_total_deadline,
    a_chatty_worker_does_not_postpone_the_jobs_deadline,
    events_that_came_in_time_are_given_after_the_deadline,
);

const SHORT: Duration = Duration::from_millis(300);

/// Unsolicited packets.
fn babble() -> [Vec<u8>; 3] {
    [
        wire(PacketType::Noop, &[]),
        wire(PacketType::WorkStatus, &["H:x:1", "1", "2"]),
        wire(PacketType::WorkData, &["H:x:1", "some of it"]),
    ]
}

/// A server that answers the first request with `answer`, and then repeats the same forever.
fn flooding(request: PacketType, answer: Vec<u8>, babble: &[u8]) -> String {
    let flood = babble.repeat(1 << 10);
    let (address, _thread) = Peer::serve(vec![Box::new(move |mut peer: Peer| {
        peer.expect(PacketType::OptionReq);
        peer.expect(request);
        peer.write_bytes(&answer);
        while peer.try_write_all(&flood) {}
    })]);
    address
}

fn to(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    options.retry(RetryPolicy::never())
}

/// Each kind of babble, at the same time.
fn under_each_flood(request: PacketType, answer: &[u8], ends: impl Fn(ConnectOptions) + Sync) {
    let started = Instant::now();
    thread::scope(|scope| {
        for babble in babble() {
            let to = to(&flooding(request, answer.to_vec(), &babble));
            scope.spawn(|| ends(to));
        }
    });
    assert!(started.elapsed() < 3 * PATIENCE, "{:?}", started.elapsed());
}

fn a_flood_does_not_postpone_the_reply_deadline<F: Face>() {
    under_each_flood(PacketType::EchoReq, &[], |to| {
        let mut client = F::connect(to.reply_timeout(SHORT)).unwrap();
        let error = client.call(&Echo("x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply), "{error}");
    });
}

fn a_flood_does_not_postpone_the_total_deadline<F: Face>() {
    under_each_flood(PacketType::EchoReq, &[], |to| {
        let mut client = F::connect(to.total_timeout(Some(LATE))).unwrap();
        let error = client.call(&Echo("x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Total), "{error}");
    });
}

fn a_chatty_worker_does_not_postpone_the_jobs_deadline<F: Face>() {
    let created = wire(PacketType::JobCreated, &["H:x:1"]);
    under_each_flood(PacketType::SubmitJob, &created, |to| {
        let error = F::connect(to).unwrap().run("f", b"", options().timeout(SHORT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Job), "{error}");
    });
}

/// A deadline concerns what arrives, not how fast the caller reads.
fn events_that_came_in_time_are_given_after_the_deadline<F: Face>() {
    let (address, _server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.expect(PacketType::OptionReq);
        peer.expect(PacketType::SubmitJob);
        let mut all = wire(PacketType::JobCreated, &["H:x:1"]);
        all.extend(wire(PacketType::WorkData, &["H:x:1", "a"]));
        all.extend(wire(PacketType::WorkData, &["H:x:1", "b"]));
        all.extend(wire(PacketType::WorkComplete, &["H:x:1", "c"]));
        peer.write_bytes(&all);
        peer.wait_for_end();
    })]);
    let mut client = F::connect(to(&address)).unwrap();
    let submit = options().timeout(LATE);
    let events = client.submit_slowly("f", b"", submit, LATE + SHORT).unwrap().1;
    let events: Vec<_> = events.into_iter().map(|event| event.unwrap()).collect();
    let data = |text: &'static str| JobEvent::Data(text.into());
    assert_eq!(events, [data("a"), data("b"), JobEvent::Complete("c".into())]);
}

fn alone() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Counts its turns.
async fn tick(turns: Arc<AtomicUsize>) {
    loop {
        turns.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

/// On one thread: the driver, the caller, and another task.
#[test]
fn a_flood_leaves_other_tasks_their_turns() {
    let created = wire(PacketType::JobCreated, &["H:x:1"]);
    for babble in babble() {
        let address = flooding(PacketType::SubmitJob, created.clone(), &babble);
        alone().block_on(async {
            let client = Client::connect(to(&address)).await.unwrap();
            let mut job = client.submit("f", "", options()).await.unwrap();
            let turns = Arc::new(AtomicUsize::new(0));
            let ticking = tokio::spawn(tick(turns.clone()));
            let flooded = async {
                loop {
                    job.next().await.unwrap().unwrap();
                }
            };
            let others = async {
                while turns.load(Ordering::Relaxed) <= 5 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            // The flood continues, and dropping the call ends it.
            tokio::select! {
                () = flooded => {}
                () = others => {}
                () = tokio::time::sleep(PATIENCE) => panic!("{} turns", turns.load(Ordering::Relaxed)),
            }
            ticking.abort();
        });
    }
}

#[test]
fn a_flood_of_answers_leaves_other_tasks_their_turns() {
    let server = fixtures::gearmand::Server::start().unwrap();
    alone().block_on(async {
        let client = Client::connect(server.address()).await.unwrap();
        let turns = Arc::new(AtomicUsize::new(0));
        let ticking = tokio::spawn(tick(turns.clone()));
        let submit = || Submit::background(function("f"), "", options()).unwrap();
        let mut answers = client.call_many((0..5_000).map(|_| submit()));
        while let Some(answer) = answers.next().await {
            answer.unwrap();
        }
        let count = turns.load(Ordering::Relaxed);
        assert!(count > 5_000 / 256, "{count} turns");
        ticking.abort();
    });
}
