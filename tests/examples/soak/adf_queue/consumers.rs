//! Plain clients that pull, and delete or give back.

use std::{sync::Arc, thread, time::Duration};

use adf_queue_client::{Client, Delivery, ErrorKind, Result, blocking};
use fixtures::history::{Fate, Key};

use super::{Connections, connect_options};
use crate::{body::fate_of, ledger::count, rng::Rng, stage::Stage};

/// Who pulls, and where.
pub struct Consumer {
    pub stage: Arc<Stage>,
    pub actor: u32,
    pub url: String,
    pub queue: &'static str,
}

/// What happens to a message.
#[derive(Clone, Copy)]
enum End {
    Delete,
    Left,
    Right,
}

impl Consumer {
    /// Sometimes pulls without waiting for the answer, which must lose no message.
    pub async fn run_async(self, mut rng: Rng) -> String {
        let options = connect_options(&self.url, rng.next());
        let client = Client::new(options).expect("the options are good");
        let mut connections = Connections::default();
        while !self.stage.is_over() {
            connections.see(&self.stage, client.epoch());
            let pull = client.pull_within(self.queue, rng.millis(2000));
            let patience = match rng.one_in(4) {
                true => rng.millis(50),
                false => Duration::from_secs(3600),
            };
            let pulled = match tokio::time::timeout(patience, pull).await {
                Ok(Ok(Some(delivery))) => delivery,
                Ok(Ok(None)) => continue,
                Ok(Err(_)) => {
                    // The server may have forgotten its queues.
                    let _ = client.ensure_queue(self.queue).await;
                    tokio::time::sleep(rng.millis(200)).await;
                    continue;
                }
                Err(_) => {
                    count(&self.stage.ledger.counts.cancelled);
                    continue;
                }
            };
            let (key, end) = self.begin(&pulled, &mut rng);
            tokio::time::sleep(rng.millis(5)).await;
            let outcome = match end {
                End::Delete => client.delete(&pulled).await,
                End::Left => client.lcancel(&pulled).await,
                End::Right => client.rcancel(&pulled).await,
            };
            self.end(key, end, &outcome);
        }
        format!("async consumer of {}: {} connections", self.queue, connections.seen)
    }

    pub fn run_blocking(self, mut rng: Rng) -> String {
        let options = connect_options(&self.url, rng.next());
        let mut client = blocking::Client::new(options).expect("the options are good");
        let mut connections = Connections::default();
        while !self.stage.is_over() {
            connections.see(&self.stage, client.epoch());
            let pulled = match client.pull_within(self.queue, rng.millis(1000)) {
                Ok(Some(delivery)) => delivery,
                Ok(None) => continue,
                Err(_) => {
                    // The server may have forgotten its queues.
                    let _ = client.ensure_queue(self.queue);
                    thread::sleep(rng.millis(200));
                    continue;
                }
            };
            let (key, end) = self.begin(&pulled, &mut rng);
            thread::sleep(rng.millis(5));
            let outcome = match end {
                End::Delete => client.delete(&pulled),
                End::Left => client.lcancel(&pulled),
                End::Right => client.rcancel(&pulled),
            };
            self.end(key, end, &outcome);
        }
        format!("blocking consumer of {}: {} connections", self.queue, connections.seen)
    }

    /// Records a delivery, whose body has to be one of ours, and chooses its end.
    fn begin(&self, pulled: &Delivery, rng: &mut Rng) -> (Key, End) {
        let key = self.stage.ledger.came(self.actor, pulled.body());
        let end = match rng.below(100) {
            _ if self.stage.is_calm() => End::Delete,
            0 => End::Left,
            1 => End::Right,
            _ => End::Delete,
        };
        if matches!(end, End::Delete) {
            self.stage.ledger.finish(self.actor, key);
        }
        (key, end)
    }

    fn end(&self, key: Key, end: End, outcome: &Result<()>) {
        if matches!(end, End::Delete) {
            // If the message belongs to somebody else, the delete was not sent.
            let fate = match outcome {
                Err(error) if *error.kind() == ErrorKind::JobLost => Fate::NotSent,
                other => fate_of(other),
            };
            self.stage.ledger.finished(self.actor, key, fate);
        }
    }
}
