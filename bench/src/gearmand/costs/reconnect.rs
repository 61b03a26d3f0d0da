//! How long it takes until clients and workers continue after their server has returned.

use std::{
    convert::Infallible,
    future::pending,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use gearman_client::{Client, SubmitOptions, Worker, blocking};

use crate::{
    figures::Figures,
    gearmand::{scenario::Kind, start},
    measure::median,
};

/// An outage, and how often it is repeated.
const OUTAGES: [(Duration, u32); 2] = [(Duration::from_secs(1), 9), (Duration::from_secs(5), 5)];
const QUICK_OUTAGES: [(Duration, u32); 1] = [(Duration::from_millis(300), 3)];

/// How long to wait for a sign of life.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two submissions.
const PAUSE: Duration = Duration::from_millis(5);

/// Clients give a sign when a background job was taken, workers when they run one.
pub fn measure(figures: Figures, quick: bool) -> Result<()> {
    let (mut server, _) = start()?;
    let address = server.address().to_owned();
    let runtime = Kind::Multi.runtime()?;
    let subjects = [
        ("client, async", runtime.block_on(async_client(&address))?),
        ("client, blocking", blocking_client(&address)?),
        ("worker, async", runtime.block_on(async_worker(&address))?),
        ("worker, blocking", blocking_worker(&address)?),
    ];
    let seen = || {
        let sign = |(name, signs): &(&str, Signs)| {
            signs.recv_timeout(PATIENCE).with_context(|| format!("no {name}"))
        };
        subjects.iter().map(sign).collect::<Result<Vec<_>>>()
    };
    let forget = || subjects.iter().for_each(|(_, signs)| while signs.try_recv().is_ok() {});
    for (outage, rounds) in if quick { &QUICK_OUTAGES[..] } else { &OUTAGES } {
        let mut times = vec![Vec::new(); subjects.len()];
        for _ in 0..*rounds {
            // Everybody is working when the server goes away.
            forget();
            seen()?;
            server.kill();
            thread::sleep(*outage);
            forget();
            let restarted = Instant::now();
            server.restart()?;
            for (sign, times) in seen()?.into_iter().zip(&mut times) {
                times.push(sign.saturating_duration_since(restarted).as_secs_f64() * 1000.0);
            }
        }
        for ((name, _), times) in subjects.iter().zip(times) {
            let worst = times.iter().copied().fold(0.0, f64::max);
            let what = format!("{name}: back after {} s without a server", outage.as_secs_f64());
            figures.print(&format!("{what}, median"), median(times), "ms", None);
            figures.print(&format!("{what}, worst"), worst, "ms", None);
        }
    }
    runtime.shutdown_background();
    Ok(())
}

/// When the server last answered.
type Signs = Receiver<Instant>;

/// The receiver may be gone; then this is over.
fn give_sign(signs: &Sender<Instant>) -> bool {
    signs.send(Instant::now()).is_ok()
}

/// What the clients submit, so that each worker has something to do.
const FUNCTIONS: [&str; 2] = ["for-async", "for-blocking"];

async fn async_client(address: &str) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let client = Client::connect(address).await?;
    tokio::spawn(async move {
        loop {
            for function in FUNCTIONS {
                let done = client.submit_background(function, "x", SubmitOptions::default()).await;
                if done.is_ok() && !give_sign(&signs) {
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(seen)
}

fn blocking_client(address: &str) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let mut client = blocking::Client::connect(address)?;
    thread::spawn(move || {
        loop {
            for function in FUNCTIONS {
                let done = client.submit_background(function, "x", SubmitOptions::default());
                if done.is_ok() && !give_sign(&signs) {
                    return;
                }
            }
            thread::sleep(PAUSE);
        }
    });
    Ok(seen)
}

async fn async_worker(address: &str) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let mut worker = Worker::connect(address).await?;
    worker.register("for-async", move |_job| {
        give_sign(&signs);
        async { Ok::<_, Infallible>("") }
    })?;
    tokio::spawn(worker.run_until(pending::<()>()));
    Ok(seen)
}

fn blocking_worker(address: &str) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let mut worker = blocking::Worker::connect(address)?;
    let stop = worker.handle();
    worker.register("for-blocking", move |_job| {
        if !give_sign(&signs) {
            stop.stop();
        }
        Ok::<_, Infallible>("")
    })?;
    thread::spawn(move || worker.run());
    Ok(seen)
}
