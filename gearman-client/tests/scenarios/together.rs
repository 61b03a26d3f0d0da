//! Requests of many callers, which are sent together. Time is the runtime's, so that nothing depends on the machine.

use std::time::Duration;

use gearman_client::{Client, ConnectOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    task::JoinSet,
    time::{Instant, timeout},
};

/// An echo of one byte, and its answer.
const ECHO: &[u8] = b"\0REQ\0\0\0\x10\0\0\0\x01x";
const ANSWER: &[u8] = b"\0RES\0\0\0\x11\0\0\0\x01x";

const NEVER: Duration = Duration::from_secs(5);

struct Callers {
    client: Client,
    server: DuplexStream,
    tasks: JoinSet<()>,
}

impl Callers {
    async fn new() -> Self {
        let (near, server) = tokio::io::duplex(1 << 16);
        let options: ConnectOptions = "queue.invalid".parse().unwrap();
        let client = Client::from_stream(near, options.exceptions(false)).await.unwrap();
        Callers { client, server, tasks: JoinSet::new() }
    }

    fn call(&mut self, callers: usize) {
        for _ in 0..callers {
            let client = self.client.clone();
            self.tasks.spawn(async move { drop(client.echo("x").await.unwrap()) });
        }
    }

    /// Waits for exactly these requests, and returns how long that took.
    async fn expect(&mut self, requests: usize) -> Duration {
        let began = Instant::now();
        let mut read = vec![0; requests * ECHO.len()];
        timeout(NEVER, self.server.read_exact(&mut read)).await.expect("they come").unwrap();
        assert_eq!(read, ECHO.repeat(requests));
        began.elapsed()
    }

    async fn answer(&mut self, requests: usize) {
        self.server.write_all(&ANSWER.repeat(requests)).await.unwrap();
        for _ in 0..requests {
            self.tasks.join_next().await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_others_while_many_are_under_way() {
    let mut callers = Callers::new().await;
    callers.call(32);
    assert_eq!(callers.expect(32).await, Duration::ZERO);
    callers.call(1);
    callers.answer(9).await;
    // 23 are in flight.
    assert!(timeout(Duration::ZERO, callers.server.read_u8()).await.is_err(), "the one waits");
    callers.call(12);
    // Now they are as many as those in flight, and are sent together.
    callers.answer(10).await;
    assert_eq!(callers.expect(13).await, Duration::ZERO);
    callers.answer(26).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_long_for_others() {
    let mut callers = Callers::new().await;
    callers.call(16);
    callers.expect(16).await;
    callers.call(1);
    let waited = callers.expect(1).await;
    // A timer of the runtime fires within a millisecond of its time.
    assert!((1..=3).contains(&waited.as_millis()), "{waited:?}");
    callers.answer(17).await;
}

#[tokio::test(start_paused = true)]
async fn requests_of_few_callers_go_out_at_once() {
    let mut callers = Callers::new().await;
    for caller in 1..=7 {
        callers.call(1);
        assert_eq!(callers.expect(1).await, Duration::ZERO, "caller {caller}");
    }
    callers.answer(7).await;
}

/// An abandoned call leaves its request held back, and the others in step.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_held_back_may_be_given_up() {
    let mut callers = Callers::new().await;
    callers.call(16);
    callers.expect(16).await;
    let given_up = timeout(Duration::from_micros(1), callers.client.echo("y")).await;
    assert!(given_up.is_err());
    let mut read = [0; 13];
    callers.server.read_exact(&mut read).await.unwrap();
    assert_eq!(read.last(), Some(&b'y'));
    let mut other = ANSWER.to_vec();
    *other.last_mut().unwrap() = b'y';
    callers.answer(16).await;
    callers.server.write_all(&other).await.unwrap();
    callers.call(1);
    callers.expect(1).await;
    callers.answer(1).await;
}
