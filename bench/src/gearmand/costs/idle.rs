//! How much a worker without a job sends, also while the server keeps waking it for nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use fixtures::gearmand::{PacketType, Server};
use gearman_client::{Worker, blocking};

use crate::{figures::Figures, gearmand::scenario::Kind};

const MOST_PACKETS: f64 = 2.0;

pub fn measure(figures: Figures, quick: bool) -> Result<()> {
    let time = Duration::from_secs(if quick { 5 } else { 30 });
    // All at the same time, each with its own in-memory server: that one counts, and can be told to storm.
    let mut runs = Vec::new();
    for (name, is_storm) in [("an idle worker", false), ("a worker in a NOOP storm", true)] {
        for kind in [Kind::Async, Kind::Blocking] {
            runs.push((name, kind, thread::spawn(move || run(kind, is_storm, time))));
        }
    }
    for (name, kind, run) in runs {
        let packets = run.join().map_err(|_| anyhow!("a thread panicked"))??;
        let what = format!("packets of {name}, {}", kind.name());
        figures.print(&what, packets, "per second", Some(MOST_PACKETS));
    }
    Ok(())
}

/// Packets a second that the worker sends.
fn run(kind: Kind, is_storm: bool, time: Duration) -> Result<f64> {
    let server = Server::start()?;
    let address = server.address().to_owned();
    let is_over = Arc::new(AtomicBool::new(false));
    let worker = {
        let is_over = is_over.clone();
        thread::spawn(move || work(kind, &address, &is_over))
    };
    ensure!(server.wait_for(Duration::from_secs(10), |view| view.sleeping == 1), "nobody sleeps");
    let storm = PacketType::Noop.response::<&str>(&[]).repeat(10);
    // At the start, some spurious wake-ups are answered at once, as when several workers are woken for one job.
    let mut start = Instant::now();
    let mut is_start = true;
    loop {
        if is_storm {
            server.send(1, storm.clone());
        }
        thread::sleep(Duration::from_millis(10));
        if is_start && start.elapsed() > Duration::from_secs(1) {
            is_start = false;
            server.clear_requests();
            start = Instant::now();
        }
        if !is_start && start.elapsed() > time {
            break;
        }
    }
    let packets = server.requests().len() as f64 / start.elapsed().as_secs_f64();
    is_over.store(true, Ordering::SeqCst);
    worker.join().map_err(|_| anyhow!("the worker panicked"))?.context("the worker failed")?;
    Ok(packets)
}

fn work(kind: Kind, address: &str, is_over: &AtomicBool) -> Result<()> {
    const GLANCE: Duration = Duration::from_millis(100);
    if kind == Kind::Blocking {
        let mut worker = blocking::Worker::connect(address)?;
        worker.can_do("nothing", None)?;
        while !is_over.load(Ordering::SeqCst) {
            ensure!(worker.next_job(GLANCE)?.is_none(), "a job came");
        }
        return Ok(());
    }
    kind.runtime()?.block_on(async {
        let mut worker = Worker::connect(address).await?;
        worker.can_do("nothing", None)?;
        while !is_over.load(Ordering::SeqCst) {
            ensure!(tokio::time::timeout(GLANCE, worker.next_job()).await.is_err(), "a job came");
        }
        Ok(())
    })
}
