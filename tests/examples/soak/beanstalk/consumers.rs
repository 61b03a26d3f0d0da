//! Plain clients that reserve and delete.

use std::{thread, time::Duration};

use beanstalk_client::{
    Client, ConnectOptions, ErrorKind, JobRef, Reserved, Result, blocking,
    protocol::{Delete, ReserveWithTimeout},
};
use fixtures::history::Fate;

use super::{Connections, Part, TUBE, connect_options};
use crate::{body::fate_of, ledger::count, rng::Rng};

impl Part {
    /// Sometimes reserves without waiting for the answer, which must lose no job.
    pub async fn plain_async(self, mut rng: Rng) -> String {
        let Part { stage, actor, place, .. } = self;
        let options = connect_options(place, rng.next());
        let mut client = loop {
            match connect(&options).await {
                Ok(client) => break client,
                Err(_) => tokio::time::sleep(rng.millis(300)).await,
            }
        };
        let mut connections = Connections::default();
        while !stage.is_over() {
            connections.see(&stage, Some(client.epoch()));
            let reserve = client.reserve_with_timeout(Duration::from_secs(rng.below(3)));
            let patience = if rng.one_in(4) { rng.millis(50) } else { Duration::from_secs(3600) };
            let reserved = match tokio::time::timeout(patience, reserve).await {
                Ok(reserved) => reserved,
                Err(_) => {
                    count(&stage.ledger.counts.cancelled);
                    continue;
                }
            };
            let Ok(Reserved::Job(job)) = reserved else {
                tokio::time::sleep(rng.millis(200)).await;
                continue;
            };
            let key = stage.ledger.came(actor, &job.body);
            tokio::time::sleep(rng.millis(5)).await;
            stage.ledger.finish(actor, key);
            let outcome = client.delete(&job).await;
            stage.ledger.finished(actor, key, end_of(&outcome));
        }
        let _ = client.quit().await;
        format!("async consumer: {} connections", connections.seen)
    }

    /// Deletes a job and reserves the next one in one write.
    pub fn plain_blocking(self, mut rng: Rng) -> String {
        let Part { stage, actor, place, .. } = self;
        let options = connect_options(place, rng.next());
        let mut client = loop {
            match connect_blocking(&options) {
                Ok(client) => break client,
                Err(_) => thread::sleep(rng.millis(300)),
            }
        };
        let mut next = None;
        let mut connections = Connections::default();
        while !stage.is_over() {
            connections.see(&stage, Some(client.epoch()));
            let Some(job) = next.take() else {
                match client.reserve_with_timeout(Duration::from_secs(1)) {
                    Ok(reserved) => next = reserved.job(),
                    Err(_) => thread::sleep(rng.millis(200)),
                }
                continue;
            };
            let key = stage.ledger.came(actor, &job.body);
            thread::sleep(rng.millis(5));
            stage.ledger.finish(actor, key);
            // Requests the next job only if a worker will take it.
            if stage.is_calm() {
                let outcome = client.delete(&job);
                stage.ledger.finished(actor, key, end_of(&outcome));
                continue;
            }
            let delete = Delete::new(JobRef::from(&job));
            let reserve = ReserveWithTimeout::new(Duration::from_secs(1)).expect("it is short");
            match client.call_pair(&delete, &reserve) {
                Ok((deleted, reserved)) => {
                    stage.ledger.finished(actor, key, end_of(&deleted));
                    next = reserved.ok().and_then(Reserved::job);
                }
                Err(error) => {
                    stage.ledger.finished(actor, key, end_of::<()>(&Err(error)));
                }
            }
        }
        let _ = client.quit();
        format!("blocking consumer: {} connections", connections.seen)
    }
}

async fn connect(options: &ConnectOptions) -> Result<Client> {
    let mut client = Client::connect(options).await?;
    client.watch(TUBE).await?;
    client.ignore("default").await?;
    Ok(client)
}

fn connect_blocking(options: &ConnectOptions) -> Result<blocking::Client> {
    let mut client = blocking::Client::connect(options)?;
    client.watch(TUBE)?;
    client.ignore("default")?;
    Ok(client)
}

/// If the reservation is over, the delete was not sent.
fn end_of<T>(outcome: &Result<T>) -> Fate {
    match outcome {
        Err(error) if error.kind() == ErrorKind::JobLost => Fate::NotSent,
        other => fate_of(other),
    }
}
