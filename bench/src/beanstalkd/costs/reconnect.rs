//! How long it takes until producers and workers continue after their server has returned.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use beanstalk_client::{
    Delivery, Producer, ProducerOptions, PutOptions, Worker, WorkerEventKind, WorkerOptions,
    blocking,
};

use crate::{
    beanstalkd::{scenario::Kind, start},
    figures::Figures,
    measure::median,
};

/// An outage, and how often it is repeated.
const OUTAGES: [(Duration, u32); 2] = [(Duration::from_secs(1), 9), (Duration::from_secs(5), 5)];
const QUICK_OUTAGES: [(Duration, u32); 1] = [(Duration::from_millis(300), 3)];

/// How long to wait for a sign of life.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn measure(figures: Figures, quick: bool) -> Result<()> {
    let (mut server, _) = start()?;
    let runtime = Kind::Multi.runtime()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let runtime_context = runtime.enter();
    let subjects = [
        ("producer, async", async_producer(server.address(), &is_over)?),
        ("producer, blocking", blocking_producer(server.address(), &is_over)?),
        ("worker, async", async_worker(server.address(), &is_over)?),
        ("worker, blocking", blocking_worker(server.address(), &is_over)?),
    ];
    for (outage, rounds) in if quick { &QUICK_OUTAGES[..] } else { &OUTAGES } {
        let mut times = vec![Vec::new(); subjects.len()];
        for _ in 0..*rounds {
            // Everybody is working when the server goes away.
            for (_, signs) in &subjects {
                while signs.try_recv().is_ok() {}
            }
            thread::sleep(Duration::from_millis(100));
            server.kill();
            thread::sleep(*outage);
            for (_, signs) in &subjects {
                while signs.try_recv().is_ok() {}
            }
            let restarted = Instant::now();
            server.restart()?;
            for ((name, signs), times) in subjects.iter().zip(&mut times) {
                let sign = signs.recv_timeout(PATIENCE).with_context(|| format!("no {name}"))?;
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
    is_over.store(true, Ordering::SeqCst);
    drop(runtime_context);
    runtime.shutdown_background();
    Ok(())
}

/// When the server last answered.
type Signs = Receiver<Instant>;

fn producer_options(address: &str) -> Result<ProducerOptions> {
    Ok(ProducerOptions::try_from(address)?.delivery(Delivery::AtLeastOnce))
}

/// Between two puts.
const PAUSE: Duration = Duration::from_millis(5);

fn async_producer(address: &str, is_over: &Arc<AtomicBool>) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let (producer, is_over) = (Producer::new(producer_options(address)?)?, is_over.clone());
    tokio::spawn(async move {
        while !is_over.load(Ordering::SeqCst) {
            if producer.put("mail", "hello", PutOptions::default()).await.is_ok() {
                give_sign(&signs);
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(seen)
}

fn blocking_producer(address: &str, is_over: &Arc<AtomicBool>) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let producer = blocking::Producer::new(producer_options(address)?)?;
    let is_over = is_over.clone();
    thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
            if producer.put("mail", "hello", PutOptions::default()).is_ok() {
                give_sign(&signs);
            }
            thread::sleep(PAUSE);
        }
    });
    Ok(seen)
}

fn worker_options(address: &str, signs: Sender<Instant>) -> Result<WorkerOptions> {
    let options = WorkerOptions::new(address)?;
    Ok(options.on_event(move |event| {
        if matches!(event.what, WorkerEventKind::Connected) {
            give_sign(&signs);
        }
    }))
}

fn async_worker(address: &str, _is_over: &Arc<AtomicBool>) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let mut worker = Worker::new(worker_options(address, signs)?)?;
    worker.register("nothing", |_job| async {})?;
    tokio::spawn(worker.run());
    Ok(seen)
}

fn blocking_worker(address: &str, is_over: &Arc<AtomicBool>) -> Result<Signs> {
    let (signs, seen) = mpsc::channel();
    let mut worker = blocking::Worker::new(worker_options(address, signs)?)?;
    worker.register("nothing", |_job| ())?;
    let (handle, is_over) = (worker.handle(), is_over.clone());
    thread::spawn(move || worker.run());
    thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
            thread::sleep(PAUSE);
        }
        handle.stop();
    });
    Ok(seen)
}

/// The receiver may be gone.
fn give_sign(signs: &Sender<Instant>) {
    let _ = signs.send(Instant::now());
}
