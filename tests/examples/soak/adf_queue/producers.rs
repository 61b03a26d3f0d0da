//! Producers: callers that share a producer, and plain clients.

use std::{sync::Arc, thread, time::Duration};

use adf_queue_client::{Client, Producer, ProducerOptions, ProducerReport, blocking};
use fixtures::history::Key;
use tokio::task::JoinSet;

use super::{PATIENCE, QUEUE, connect_options, message};
use crate::{body::fate_of, pace::Pace, rng::Rng, stage::Stage};

/// Number of callers of a producer, and of pushes in flight on a plain client.
const CALLERS: u32 = 8;

/// Who pushes, where and how much.
pub struct Pushes {
    pub stage: Arc<Stage>,
    pub actor: u32,
    pub url: String,
    pub at_least_once: bool,
    pub rate: f64,
}

impl Pushes {
    /// The async face: sometimes a caller leaves before its answer.
    pub async fn shared_async(self, mut rng: Rng) -> String {
        let producer = Producer::new(self.options(&mut rng)).expect("the options are good");
        let this = Arc::new(self);
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (this, producer, rng) = (this.clone(), producer.clone(), rng.fork());
            callers.spawn(async move { this.call(caller, producer, rng).await });
        }
        callers.join_all().await;
        this.tell("async", producer.report())
    }

    /// Runs until the calm.
    async fn call(&self, caller: u32, producer: Producer, mut rng: Rng) {
        let (mut pace, actor) = (Pace::new(self.rate, CALLERS), self.actor + caller);
        while self.stage.turn_async(&mut pace).await {
            let (key, body) = self.begin(actor, &mut rng);
            let left = rng.one_in(2);
            let push = async {
                match left {
                    true => producer.lpush(QUEUE, body).await,
                    false => producer.rpush(QUEUE, body).await,
                }
            };
            let fate = self.stage.fate_for_caller(&mut rng, push).await;
            self.stage.ledger.submitted(actor, key, fate);
        }
    }

    /// The blocking face.
    pub fn shared_blocking(self, mut rng: Rng) -> String {
        let options = self.options(&mut rng);
        let producer = blocking::Producer::new(options).expect("the options are good");
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (this, producer, mut rng) = (&self, &producer, rng.fork());
                scope.spawn(move || {
                    let (mut pace, actor) = (Pace::new(this.rate, CALLERS), this.actor + caller);
                    while this.stage.turn(&mut pace) {
                        let (key, body) = this.begin(actor, &mut rng);
                        let outcome = producer.rpush(QUEUE, body);
                        this.stage.ledger.submitted(actor, key, fate_of(&outcome));
                    }
                });
            }
        });
        self.tell("blocking", producer.report())
    }

    /// A client that pushes several messages at once.
    pub async fn plain_async(self, mut rng: Rng) -> String {
        let client =
            Client::new(connect_options(&self.url, rng.next())).expect("the options are good");
        let (mut batches, mut pace) = (0_u64, Pace::new(self.rate, CALLERS));
        let this = Arc::new(self);
        while this.stage.turn_async(&mut pace).await {
            batches += 1;
            let pushes: Vec<_> = (0..CALLERS)
                .map(|caller| {
                    let (this, client) = (this.clone(), client.clone());
                    let (key, body) = this.begin(this.actor + caller, &mut rng);
                    tokio::spawn(async move {
                        let outcome = client.rpush(QUEUE, body).await;
                        let actor = this.actor + caller;
                        this.stage.ledger.submitted(actor, key, fate_of(&outcome));
                        outcome
                    })
                })
                .collect();
            let mut is_missing = false;
            for push in pushes {
                let outcome = push.await.expect("a push");
                is_missing |= outcome.is_err();
            }
            if is_missing {
                // The server may have forgotten its queues.
                let _ = client.ensure_queue(QUEUE).await;
            }
        }
        format!("async client to {}: {batches} batches of {CALLERS}", this.url)
    }

    /// A client that pushes one message after the other.
    pub fn plain_blocking(self, mut rng: Rng) -> String {
        let options = connect_options(&self.url, rng.next());
        let mut client = blocking::Client::new(options).expect("the options are good");
        let (mut pushed, mut pace) = (0_u64, Pace::new(self.rate, 1));
        while self.stage.turn(&mut pace) {
            let (key, body) = self.begin(self.actor, &mut rng);
            let outcome = client.rpush(QUEUE, body);
            self.stage.ledger.submitted(self.actor, key, fate_of(&outcome));
            pushed += u64::from(outcome.is_ok());
            if outcome.is_err() {
                // The server may have forgotten its queues.
                let _ = client.ensure_queue(QUEUE);
            }
        }
        format!("blocking client to {}: {pushed} pushed", self.url)
    }

    fn options(&self, rng: &mut Rng) -> ProducerOptions {
        ProducerOptions::from(connect_options(&self.url, rng.next()))
            .at_least_once(self.at_least_once)
            .create_queues(true)
            .timeout(PATIENCE)
    }

    /// A new message, whose submission is starting.
    fn begin(&self, actor: u32, rng: &mut Rng) -> (Key, Vec<u8>) {
        // A push over HTTP may wait for one of few connections, each of which has its own deadlines.
        let deadline = PATIENCE + Duration::from_secs(1);
        let key = self.stage.ledger.submit(actor, Some(deadline), self.at_least_once);
        (key, message(key, self.at_least_once, rng))
    }

    /// The summary of a producer.
    fn tell(&self, face: &str, report: ProducerReport) -> String {
        let guarantee = if self.at_least_once { "at least once" } else { "at most once" };
        format!("{face} producer, {guarantee}: {report}")
    }
}
