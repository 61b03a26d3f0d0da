//! Workers of both faces, with handlers and by hand, which succeed, fail, panic and take long.

use std::{
    net::SocketAddr,
    panic,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use fixtures::history::{Fate, Key};
use gearman_client::{Failure, Worker, WorkerOptions, blocking};

use super::{Ending, WORK, connect_options, result_of};
use crate::{ON_PURPOSE, rng::Rng, stage::Stage};

pub struct Plan {
    pub stage: Arc<Stage>,
    pub actor: u32,
    pub place: SocketAddr,
    pub concurrency: usize,
}

impl Plan {
    pub async fn handlers_async(self, mut rng: Rng) -> String {
        let mut worker = Worker::new(self.options(&mut rng)).expect("a runtime");
        let context = HandlerContext::new(&self, &mut rng);
        let handler = context.clone();
        worker
            .register(WORK, move |job| {
                let context = handler.clone();
                async move {
                    let key = context.stage.ledger.came(context.actor, &job.workload);
                    tokio::time::sleep(context.takes()).await;
                    let _ = job.status(1, 2).await;
                    context.end(key)
                }
            })
            .expect("the name is good");
        let report = worker.run_until(self.is_over()).await;
        format!("async worker {} ({} at once): {report}", self.actor, self.concurrency)
    }

    pub fn handlers_blocking(self, mut rng: Rng) -> String {
        let options = self.options(&mut rng);
        let mut worker = blocking::Worker::new(options).expect("the options are good");
        let context = HandlerContext::new(&self, &mut rng);
        let handler = move |job: &mut blocking::JobContext<'_>| {
            let key = context.stage.ledger.came(context.actor, &job.workload);
            thread::sleep(context.takes());
            let _ = job.status(1, 2);
            context.end(key)
        };
        worker.register(WORK, handler).expect("the name is good");
        let stop = worker.handle();
        let stage = self.stage.clone();
        let stopper = thread::spawn(move || {
            while !stage.is_over() {
                thread::sleep(Duration::from_millis(50));
            }
            stop.stop();
        });
        let report = worker.run().expect("a run has no errors");
        stopper.join().expect("it only waits");
        format!("blocking worker {} ({} at once): {report}", self.actor, self.concurrency)
    }

    pub async fn by_hand_async(self, mut rng: Rng) -> String {
        let mut worker = Worker::new(self.options(&mut rng)).expect("a runtime");
        let context = HandlerContext::new(&self, &mut rng);
        worker.can_do(WORK, None).expect("the name is good");
        while !self.stage.is_over() {
            // A job that arrives while nobody waits for it is returned by the next call.
            let patience = Duration::from_millis(100);
            let next = tokio::time::timeout(patience, worker.next_job()).await;
            let Ok(job) = next else { continue };
            let key = context.stage.ledger.came(context.actor, &job.workload);
            tokio::time::sleep(context.takes()).await;
            context.note_end(key);
            let _ = match Ending::of(key) {
                Ending::Complete => job.complete(result_of(key)).await,
                Ending::Exception => job.exception(result_of(key)).await,
                Ending::Fail => job.fail().await,
                Ending::Panic => {
                    // The same as a handler that panics.
                    drop(job);
                    Ok(())
                }
            };
        }
        let report = worker.stop().await;
        format!("async worker by hand {}: {report}", self.actor)
    }

    pub fn by_hand_blocking(self, mut rng: Rng) -> String {
        let options = self.options(&mut rng);
        let mut worker = blocking::Worker::new(options).expect("the options are good");
        let context = HandlerContext::new(&self, &mut rng);
        worker.can_do(WORK, None).expect("the name is good");
        while !self.stage.is_over() {
            let Ok(Some(job)) = worker.next_job(Duration::from_millis(200)) else { continue };
            let key = context.stage.ledger.came(context.actor, &job.workload);
            thread::sleep(context.takes());
            context.note_end(key);
            let _ = match Ending::of(key) {
                Ending::Complete => worker.complete(job, result_of(key)),
                Ending::Exception => worker.exception(job, result_of(key)),
                Ending::Fail => worker.fail(job),
                Ending::Panic => {
                    drop(job);
                    Ok(())
                }
            };
        }
        format!("blocking worker by hand {}: {}", self.actor, worker.stop())
    }

    fn options(&self, rng: &mut Rng) -> WorkerOptions {
        WorkerOptions::from(connect_options(self.place, rng.next()))
            .slots(self.concurrency)
            .regrab(Duration::from_secs(2))
            .grace(Duration::from_secs(10))
    }

    async fn is_over(&self) {
        while !self.stage.is_over() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// State shared by the handlers of a worker.
#[derive(Clone)]
struct HandlerContext {
    stage: Arc<Stage>,
    actor: u32,
    rng: Arc<Mutex<Rng>>,
}

impl HandlerContext {
    fn new(plan: &Plan, rng: &mut Rng) -> Self {
        let rng = Arc::new(Mutex::new(rng.fork()));
        HandlerContext { stage: plan.stage.clone(), actor: plan.actor, rng }
    }

    fn takes(&self) -> Duration {
        let mut rng = self.rng.lock().unwrap();
        if rng.one_in(500) && !self.stage.is_calm() {
            self.stage.at_most(rng.millis(2000))
        } else {
            rng.millis(3)
        }
    }

    /// Results are not acknowledged: their fate is unknown here.
    fn note_end(&self, key: Key) {
        self.stage.ledger.finish(self.actor, key);
        self.stage.ledger.finished(self.actor, key, Fate::Unknown);
    }

    fn end(&self, key: Key) -> Result<String, Failure> {
        self.note_end(key);
        match Ending::of(key) {
            Ending::Complete => Ok(result_of(key)),
            Ending::Fail => Err(Failure::Fail),
            Ending::Exception => Err(Failure::exception(result_of(key))),
            Ending::Panic => panic::panic_any(ON_PURPOSE),
        }
    }
}
