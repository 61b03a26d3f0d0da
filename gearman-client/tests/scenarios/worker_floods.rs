//! Servers that never stop talking.

use std::{
    io::Write,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fixtures::gearmand::Server;
use gearman_client::{
    ConnectOptions, Deadline, ErrorKind, RetryPolicy, Servers, WorkerOptions, protocol::PacketType,
};

use super::{
    face::{Face, WorkFace, both_faces},
    handlers::HandlerFace,
    support::{LATE, PATIENCE, answer_grab, options, serve, wire},
};

both_faces!(
    a_barrier_under_a_flood_ends_with_its_deadline,
    a_stop_under_a_flood_ends_with_its_grace,
    a_flood_from_one_server_holds_up_no_other,
    a_flood_while_a_result_is_stuck_is_not_kept,
);

fn quick(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(50), Duration::from_secs(10));
    options.reply_timeout(LATE).retry(retry)
}

/// Endless NOOPs, perhaps after the answer to the first grab.
fn flood(mut stream: TcpStream, has_answers: bool) {
    if has_answers {
        answer_grab(&mut stream, &wire(PacketType::NoJob, &[]));
    }
    let noops = wire(PacketType::Noop, &[]).repeat(1000);
    while stream.write_all(&noops).is_ok() {}
}

fn a_barrier_under_a_flood_ends_with_its_deadline<F: Face>() {
    let address = serve(|stream, _| flood(stream, false));
    let to = quick(&address).reply_timeout(Duration::from_secs(1));
    let mut worker = F::Worker::new(WorkerOptions::from(to));
    worker.can_do("f");
    let started = Instant::now();
    let error = worker.barrier().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply), "{error}");
    assert!(started.elapsed() < 2 * PATIENCE, "{:?}", started.elapsed());
}

fn a_stop_under_a_flood_ends_with_its_grace<F: HandlerFace>() {
    let address = serve(|stream, _| flood(stream, false));
    let options_ = WorkerOptions::from(quick(&address).reply_timeout(PATIENCE * 10));
    let worker = F::start(options_.grace(Duration::from_secs(1)).barrier(false), |_| Ok("".into()));
    worker.until("the flood is on", |view| view.metrics().bytes_in > 100_000);
    let started = Instant::now();
    assert_eq!(worker.stop().completed, 0);
    assert!(started.elapsed() < 2 * PATIENCE, "{:?}", started.elapsed());
}

fn a_flood_from_one_server_holds_up_no_other<F: Face>() {
    let server = Server::start().unwrap();
    let address = serve(|stream, _| flood(stream, true));
    let list = [quick(&address), quick(server.address())];
    let mut worker = F::Worker::of("f", WorkerOptions::from(Servers::new(list).unwrap()));
    let mut client = F::to(server.address());
    let started = Instant::now();
    for _ in 0..5 {
        client.submit_background("f", b"", options()).unwrap();
        worker.completes_next("");
    }
    assert!(started.elapsed() < 2 * PATIENCE, "{:?}", started.elapsed());
}

/// A server that reads nothing and floods: its data is not collected until the write reaches its deadline.
fn a_flood_while_a_result_is_stuck_is_not_kept<F: Face>() {
    let flooded = Arc::new(AtomicUsize::new(0));
    let address = serve({
        let flooded = flooded.clone();
        move |mut stream, number| {
            if number > 0 {
                return;
            }
            answer_grab(
                &mut stream,
                &wire(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]),
            );
            let noops = wire(PacketType::Noop, &[]).repeat(1000);
            while stream.write_all(&noops).is_ok() {
                flooded.fetch_add(noops.len(), Ordering::SeqCst);
            }
        }
    });
    let to = quick(&address).write_timeout(Duration::from_secs(1)).reply_timeout(PATIENCE);
    let mut worker = F::Worker::new(WorkerOptions::from(to));
    worker.can_do("f");
    let job = worker.next();
    let started = Instant::now();
    let _ = worker.complete(job, &"x".repeat(32 << 20));
    while worker.connected() > 0 {
        let _ = worker.next_within(Duration::from_millis(10));
        assert!(started.elapsed() < PATIENCE, "the write has no deadline");
    }
    assert!(flooded.load(Ordering::SeqCst) > 0);
    let report = worker.stop();
    assert_eq!((report.completed, report.unknown), (0, 1), "{report}");
}
