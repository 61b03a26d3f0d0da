//! Callers that share a producer.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    thread,
};

use beanstalk_client::{Delivery, Producer, ProducerOptions, ProducerReport, blocking};
use tokio::task::JoinSet;

use super::{PATIENCE, Part, TUBE, connect_options, put_options};
use crate::{
    body::{body_of, fate_of},
    pace::Pace,
    rng::Rng,
    stage::Stage,
};

const CALLERS: u32 = 8;

fn options(place: SocketAddr, delivery: Delivery, rng: &mut Rng) -> ProducerOptions {
    ProducerOptions::from(connect_options(place, rng.next()))
        .delivery(delivery)
        .timeout(PATIENCE)
        .max_jobs(64)
        .seed(rng.next())
}

impl Part {
    /// The async face: sometimes a caller leaves before its answer.
    pub async fn shared_async(self, delivery: Delivery, mut rng: Rng) -> String {
        let Part { stage, actor, place, rate } = self;
        let options = options(place, delivery, &mut rng);
        let producer = Producer::new(options).expect("the options are good");
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let pace = Pace::new(rate, CALLERS);
            let (stage, producer) = (stage.clone(), producer.clone());
            callers.spawn(call(stage, actor + caller, producer, delivery, pace, rng.fork()));
        }
        callers.join_all().await;
        tell(&stage, "async", delivery, &producer.close().await)
    }

    /// The blocking face.
    pub fn shared_blocking(self, delivery: Delivery, mut rng: Rng) -> String {
        let Part { stage, actor, place, rate } = self;
        let options = options(place, delivery, &mut rng);
        let producer = blocking::Producer::new(options).expect("the options are good");
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (stage, producer, mut rng) = (&stage, &producer, rng.fork());
                scope.spawn(move || {
                    let (mut pace, actor) = (Pace::new(rate, CALLERS), actor + caller);
                    let at_least_once = delivery == Delivery::AtLeastOnce;
                    while stage.turn(&mut pace) {
                        let key = stage.ledger.submit(actor, Some(PATIENCE), at_least_once);
                        let body = body_of(key, &mut rng);
                        let outcome = producer.put(TUBE, &body, put_options(&mut rng));
                        stage.ledger.submitted(actor, key, fate_of(&outcome));
                    }
                });
            }
        });
        tell(&stage, "blocking", delivery, &producer.close())
    }
}

async fn call(
    stage: Arc<Stage>,
    actor: u32,
    producer: Producer,
    delivery: Delivery,
    mut pace: Pace,
    mut rng: Rng,
) {
    while stage.turn_async(&mut pace).await {
        let key = stage.ledger.submit(actor, Some(PATIENCE), delivery == Delivery::AtLeastOnce);
        let body = body_of(key, &mut rng);
        let put = producer.put(TUBE, &body, put_options(&mut rng));
        let fate = stage.fate_for_caller(&mut rng, put).await;
        stage.ledger.submitted(actor, key, fate);
    }
}

/// The summary of a producer that has ended; its counters have to add up.
fn tell(stage: &Stage, face: &str, delivery: Delivery, report: &ProducerReport) -> String {
    stage.ledger.counts.connections.fetch_add(report.connections, Ordering::Relaxed);
    let ProducerReport { accepted, inserted, buried, refused, not_sent, unknown, .. } = report;
    if inserted + buried + refused + not_sent + unknown != *accepted || report.queued_jobs != 0 {
        stage.ledger.problem(format!("the counters of a producer do not add up: {report:?}"));
    }
    format!("{face} producer, {delivery:?}: {report}")
}
