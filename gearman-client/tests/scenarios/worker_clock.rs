//! When an async worker waits, and for how long. Time is the runtime's, so that nothing depends on the machine.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gearman_client::{
    ConnectOptions, RetryPolicy, Worker, WorkerOptions,
    protocol::{Decoder, Magic, PacketType},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use super::support::{is_grab, wire};

const REPLY: Duration = Duration::from_secs(100);
const DELAY: Duration = Duration::from_secs(500);
const NEVER: Duration = Duration::from_secs(100_000);

fn patient() -> ConnectOptions {
    let options: ConnectOptions = "queue.invalid".parse().unwrap();
    options.reply_timeout(REPLY).retry(RetryPolicy::new(1).backoff(DELAY, DELAY))
}

/// A server with one connection.
struct Peer {
    stream: DuplexStream,
    decoder: Decoder,
}

impl Peer {
    /// With a worker that has eight places and can do `f`.
    async fn with_worker() -> (Peer, Worker) {
        let (near, stream) = tokio::io::duplex(1 << 16);
        let near = Mutex::new(Some(near));
        let options = patient().connector(move |_| {
            let near = near.lock().unwrap().take();
            async move { near.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()) }
        });
        let mut worker = Worker::connect(WorkerOptions::from(options).slots(8)).await.unwrap();
        worker.can_do("f", None).unwrap();
        (Peer { stream, decoder: Decoder::new(Magic::Request, 1 << 20) }, worker)
    }

    async fn reads(&mut self, is_it: impl Fn(PacketType) -> bool) {
        loop {
            while let Some(packet) = self.decoder.next().unwrap() {
                if is_it(packet.packet_type) {
                    return;
                }
            }
            let n = self.stream.read(self.decoder.space()).await.unwrap();
            assert!(n > 0, "the worker closed");
            self.decoder.received(n);
        }
    }

    async fn writes(&mut self, packet_type: PacketType, arguments: &[&str]) {
        self.stream.write_all(&wire(packet_type, arguments)).await.unwrap();
    }

    async fn gives_job(&mut self, number: usize) {
        let handle = format!("H:x:{number}");
        self.writes(PacketType::JobAssignAll, &[&handle, "f", "u", "", "w"]).await;
    }
}

/// Large jobs on a slow line: grabs that were sent together are answered one after the other, each within its time.
#[tokio::test(start_paused = true)]
async fn each_of_many_grabs_has_the_time_of_a_reply() {
    let (mut peer, mut worker) = Peer::with_worker().await;
    let server = tokio::spawn(async move {
        for number in 0..8 {
            peer.reads(is_grab).await;
            // The first shows at once that the server knows this kind of grab.
            if number > 0 {
                sleep(REPLY * 3 / 5).await;
            }
            peer.gives_job(number).await;
        }
        peer
    });
    let mut jobs = Vec::new();
    while jobs.len() < 8 {
        jobs.push(timeout(NEVER, worker.next_job()).await.expect("the connection is given up"));
    }
    assert!(jobs.iter().all(|job| !job.is_lost()));
    assert_eq!(worker.handle().metrics().connections, 1);
    drop(server.await.unwrap());
}

/// Grabs before and after the echo were sent at the same instant.
#[tokio::test(start_paused = true)]
async fn a_barrier_is_past_when_its_echo_comes_whatever_is_asked_behind_it() {
    let (mut peer, mut worker) = Peer::with_worker().await;
    let server = tokio::spawn(async move {
        peer.reads(is_grab).await;
        peer.gives_job(1).await;
        peer.reads(is_grab).await;
        peer.reads(is_grab).await;
        peer.reads(|packet| packet == PacketType::EchoReq).await;
        // This makes it ask for more.
        peer.gives_job(2).await;
        peer.reads(is_grab).await;
        let mut both = wire(PacketType::NoJob, &[]);
        both.extend(wire(PacketType::EchoRes, &[""]));
        peer.stream.write_all(&both).await.unwrap();
        peer
    });
    let _job = timeout(NEVER, worker.next_job()).await.unwrap();
    let began = Instant::now();
    timeout(NEVER, worker.echo_barrier()).await.unwrap().expect("the echo came");
    assert!(began.elapsed() < REPLY / 2, "{:?}", began.elapsed());
    drop(server.await.unwrap());
}

async fn stops(worker: Worker, running: Duration) -> Duration {
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = tokio::spawn(worker.run_until(stopped));
    sleep(running).await;
    let told = Instant::now();
    stop.send(()).unwrap();
    worker.await.unwrap();
    told.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopped_while_it_backs_off_connects_no_more() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let options = patient().connector({
        let attempts = attempts.clone();
        move |_| {
            attempts.fetch_add(1, Ordering::SeqCst);
            async { Err::<DuplexStream, _>(io::ErrorKind::ConnectionRefused.into()) }
        }
    });
    let mut worker = Worker::new(options).unwrap();
    worker.can_do("f", None).unwrap();
    let took = stops(worker, DELAY / 100).await;
    // The first one, and one at once because nothing was known about the server.
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    assert!(took < DELAY / 100, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stopped_while_it_connects_gives_that_up() {
    let options = patient().connect_timeout(DELAY);
    let options = options.connector(|_| std::future::pending::<io::Result<DuplexStream>>());
    let mut worker = Worker::new(options).unwrap();
    worker.can_do("f", None).unwrap();
    let took = stops(worker, DELAY / 100).await;
    assert!(took < DELAY / 100, "{took:?}");
}
