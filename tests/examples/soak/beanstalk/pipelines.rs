//! Plain clients that put many jobs at once.

use beanstalk_client::{Client, blocking, protocol::Put};
use fixtures::history::{Fate, Key};

use super::{Connections, Part, TUBE, connect_options, put_options};
use crate::{
    body::{body_of, fate_of},
    pace::Pace,
    rng::Rng,
    stage::Stage,
};

/// Number of jobs put at once.
const BATCH: u32 = 20;

/// A batch of new jobs. A pipeline has a deadline for each reply, none for all.
fn batch(stage: &Stage, actor: u32, rng: &mut Rng) -> (Vec<Key>, Vec<Put<Vec<u8>>>) {
    let keys: Vec<Key> = (0..BATCH).map(|_| stage.ledger.submit(actor, None, false)).collect();
    let puts = keys
        .iter()
        .map(|key| Put::new(body_of(*key, rng), put_options(rng)).expect("the options are good"));
    let puts = puts.collect();
    (keys, puts)
}

impl Part {
    pub async fn pipeline_async(self, mut rng: Rng) -> String {
        let Part { stage, actor, place, rate } = self;
        let options = connect_options(place, rng.next());
        let mut pace = Pace::new(rate / f64::from(BATCH), 1);
        let mut connections = Connections::default();
        let mut client: Option<Client> = None;
        while stage.turn_async(&mut pace).await {
            if client.is_none() {
                client = connect(&options).await.ok();
            }
            let Some(client) = &mut client else { continue };
            connections.see(&stage, Some(client.epoch()));
            let (keys, puts) = batch(&stage, actor, &mut rng);
            let mut replies = client.call_many(puts);
            let mut keys = keys.into_iter();
            while let Some(reply) = replies.next().await {
                let key = keys.next().expect("one reply for each");
                stage.ledger.submitted(actor, key, fate_of(&reply));
            }
            // Those that the pipeline did not take.
            keys.for_each(|key| stage.ledger.submitted(actor, key, Fate::NotSent));
        }
        format!("async pipeline: {} connections", connections.seen)
    }

    pub fn pipeline_blocking(self, mut rng: Rng) -> String {
        let Part { stage, actor, place, rate } = self;
        let options = connect_options(place, rng.next());
        let mut pace = Pace::new(rate / f64::from(BATCH), 1);
        let mut connections = Connections::default();
        let mut client: Option<blocking::Client> = None;
        while stage.turn(&mut pace) {
            if client.is_none() {
                client = connect_blocking(&options).ok();
            }
            let Some(client) = &mut client else { continue };
            connections.see(&stage, Some(client.epoch()));
            let (keys, puts) = batch(&stage, actor, &mut rng);
            let mut keys = keys.into_iter();
            for reply in client.call_many(puts) {
                let key = keys.next().expect("one reply for each");
                stage.ledger.submitted(actor, key, fate_of(&reply));
            }
            keys.for_each(|key| stage.ledger.submitted(actor, key, Fate::NotSent));
        }
        format!("blocking pipeline: {} connections", connections.seen)
    }
}

async fn connect(options: &beanstalk_client::ConnectOptions) -> beanstalk_client::Result<Client> {
    let mut client = Client::connect(options).await?;
    client.use_tube(TUBE).await?;
    Ok(client)
}

fn connect_blocking(
    options: &beanstalk_client::ConnectOptions,
) -> beanstalk_client::Result<blocking::Client> {
    let mut client = blocking::Client::connect(options)?;
    client.use_tube(TUBE)?;
    Ok(client)
}
