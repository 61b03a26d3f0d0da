//! When an async worker waits, and for how long. Time is the runtime's, so that nothing depends on the machine.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gearman_client::{ConnectOptions, RetryPolicy, Worker};
use tokio::{
    io::DuplexStream,
    sync::oneshot,
    time::{Instant, sleep},
};

const REPLY: Duration = Duration::from_secs(100);
const DELAY: Duration = Duration::from_secs(500);

fn patient() -> ConnectOptions {
    let options: ConnectOptions = "queue.invalid".parse().unwrap();
    // With a seed, since one delay in a hundred is shorter than a worker runs here.
    options.reply_timeout(REPLY).retry(RetryPolicy::new(1).backoff(DELAY, DELAY).seed(3))
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
