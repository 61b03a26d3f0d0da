//! Clients that submit jobs in the background and in the foreground.

use std::{net::SocketAddr, sync::Arc, thread, time::Duration};

use fixtures::history::{Fate, Key};
use gearman_client::{
    Client, FunctionName, Outcome, Result, SubmitOptions, blocking, protocol::Submit,
};
use tokio::{sync::Mutex, task::JoinSet};

use super::{
    ANSWER_LIMIT, Connections, Ending, PATIENCE, SQUARE, WORK, connect_options, submit_options,
};
use crate::{
    body::{body_of, fate_of},
    pace::Pace,
    rng::Rng,
    stage::Stage,
};

/// Tasks or threads of one submitter.
const CALLERS: u32 = 4;
/// Number of jobs submitted at once.
const BATCH: u32 = 20;

pub struct Submitter {
    pub stage: Arc<Stage>,
    pub actor: u32,
    pub place: SocketAddr,
    pub rate: f64,
    pub idempotent: bool,
}

impl Submitter {
    /// Background jobs of callers that share a client; sometimes a caller leaves.
    pub async fn background_async(self, mut rng: Rng) -> String {
        let client = self.client(Some(PATIENCE), &mut rng);
        let this = Arc::new(self);
        let connections = Arc::new(Mutex::new(Connections::default()));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (this, client) = (this.clone(), client.clone());
            let (connections, rng) = (connections.clone(), rng.fork());
            callers.spawn(async move {
                this.background(&client, &connections, this.actor + caller, rng).await;
            });
        }
        callers.join_all().await;
        let seen = connections.lock().await.seen;
        format!("{}: {seen} connections", this.name("async background"))
    }

    async fn background(
        &self,
        client: &Client,
        connections: &Mutex<Connections>,
        actor: u32,
        mut rng: Rng,
    ) {
        let mut pace = Pace::new(self.rate, CALLERS);
        while self.stage.turn_async(&mut pace).await {
            connections.lock().await.see(&self.stage, client.epochs().collect());
            let key = self.stage.ledger.submit(actor, Some(PATIENCE), self.idempotent);
            let body = body_of(key, &mut rng);
            let options = SubmitOptions::default().idempotent(self.idempotent);
            let submit = client.submit_background(WORK, &body, options);
            let fate = self.stage.fate_for_caller(&mut rng, submit).await;
            self.stage.ledger.submitted(actor, key, fate);
        }
    }

    /// Foreground jobs of callers that share a client.
    pub async fn foreground_async(self, mut rng: Rng) -> String {
        let client = self.client(None, &mut rng);
        let this = Arc::new(self);
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (this, client, mut rng) = (this.clone(), client.clone(), rng.fork());
            callers.spawn(async move {
                let actor = this.actor + caller;
                let mut pace = Pace::new(this.rate, CALLERS);
                let mut connections = Connections::default();
                while this.stage.turn_async(&mut pace).await {
                    if caller == 0 {
                        connections.see(&this.stage, client.epochs().collect());
                    }
                    let key = this.begin(actor);
                    let body = body_of(key, &mut rng);
                    let options = submit_options(this.idempotent);
                    this.answered(actor, key, client.run(WORK, &body, options).await);
                }
            });
        }
        callers.join_all().await;
        this.name("async foreground")
    }

    /// Foreground jobs of threads with a client each.
    pub fn foreground_blocking(self, mut rng: Rng) -> String {
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (this, mut rng) = (&self, rng.fork());
                scope.spawn(move || {
                    let actor = this.actor + caller;
                    let mut client = this.client_blocking(&mut rng);
                    let mut pace = Pace::new(this.rate, CALLERS);
                    let mut connections = Connections::default();
                    while this.stage.turn(&mut pace) {
                        connections.see(&this.stage, client.epochs().collect());
                        let key = this.begin(actor);
                        let body = body_of(key, &mut rng);
                        let options = submit_options(this.idempotent);
                        this.answered(actor, key, client.run(WORK, &body, options));
                    }
                });
            }
        });
        self.name("blocking foreground")
    }

    /// Background jobs, many at a time.
    pub async fn batches_async(self, mut rng: Rng) -> String {
        let client = self.client(None, &mut rng);
        let mut connections = Connections::default();
        let mut pace = Pace::new(self.rate / f64::from(BATCH), 1);
        while self.stage.turn_async(&mut pace).await {
            connections.see(&self.stage, client.epochs().collect());
            let (keys, jobs) = self.batch(&mut rng);
            let mut keys = keys.into_iter();
            let mut answers = client.call_many(jobs);
            while let Some(answer) = answers.next().await {
                let key = keys.next().expect("one answer for each");
                self.stage.ledger.submitted(self.actor, key, fate_of(&answer));
            }
            keys.for_each(|key| {
                self.stage.ledger.submitted(self.actor, key, Fate::NotSent);
            });
        }
        format!("{}: {} connections", self.name("async batches"), connections.seen)
    }

    /// The same with the blocking face.
    pub fn batches_blocking(self, mut rng: Rng) -> String {
        let mut client = self.client_blocking(&mut rng);
        let mut connections = Connections::default();
        let mut pace = Pace::new(self.rate / f64::from(BATCH), 1);
        while self.stage.turn(&mut pace) {
            connections.see(&self.stage, client.epochs().collect());
            let (keys, jobs) = self.batch(&mut rng);
            let mut keys = keys.into_iter();
            for answer in client.call_many(jobs) {
                let key = keys.next().expect("one answer for each");
                self.stage.ledger.submitted(self.actor, key, fate_of(&answer));
            }
            keys.for_each(|key| self.stage.ledger.submitted(self.actor, key, Fate::NotSent));
        }
        format!("{}: {} connections", self.name("blocking batches"), connections.seen)
    }

    /// Numbers to be squared by worker processes that are killed; an answer means that the job was done.
    pub fn squares(self, mut rng: Rng) -> String {
        let mut client = self.client_blocking(&mut rng);
        let mut pace = Pace::new(self.rate, 1);
        while self.stage.turn(&mut pace) {
            let key = self.begin(self.actor);
            let outcome = client.run(SQUARE, key.to_string(), submit_options(true));
            if let Ok(outcome) = &outcome {
                self.stage.ledger.delivered(self.actor, key);
                let right = (key * key).to_string();
                if *outcome != Outcome::Complete(right.into()) {
                    let what = format!("the square of {key} is not {outcome:?}");
                    self.stage.ledger.problem(what);
                }
            }
            self.ended(self.actor, key, outcome);
        }
        self.name("blocking squares")
    }

    fn begin(&self, actor: u32) -> Key {
        self.stage.ledger.submit(actor, Some(ANSWER_LIMIT), self.idempotent)
    }

    /// A foreground job has its answer, which has to be the right one.
    fn answered(&self, actor: u32, key: Key, outcome: Result<Outcome>) {
        if let Ok(outcome) = &outcome
            && !Ending::of(key).is_told_as(key, outcome)
        {
            self.stage.ledger.problem(format!("job {key} got the wrong answer {outcome:?}"));
        }
        self.ended(actor, key, outcome);
    }

    fn ended(&self, actor: u32, key: Key, outcome: Result<Outcome>) {
        let ledger = &self.stage.ledger;
        ledger.submitted(actor, key, fate_of(&outcome));
        match outcome {
            Ok(_) => {
                // An answer proves that the job has ended.
                ledger.finish(actor, key);
                ledger.finished(actor, key, Fate::Acknowledged);
            }
            Err(error) if self.idempotent => {
                ledger.problem(format!("an idempotent job, {key}, got no answer: {error}"));
            }
            Err(_) => {}
        }
    }

    fn batch(&self, rng: &mut Rng) -> (Vec<Key>, Vec<Submit<Vec<u8>>>) {
        let function = FunctionName::try_from(WORK).expect("the name is good");
        let ledger = &self.stage.ledger;
        let keys: Vec<Key> = (0..BATCH).map(|_| ledger.submit(self.actor, None, false)).collect();
        let jobs = keys.iter().map(|key| {
            let options = SubmitOptions::default();
            Submit::background(function.clone(), body_of(*key, rng), options).expect("it is small")
        });
        let jobs = jobs.collect();
        (keys, jobs)
    }

    fn client(&self, total: Option<Duration>, rng: &mut Rng) -> Client {
        let options = connect_options(self.place, rng.next()).total_timeout(total);
        Client::new(options).expect("the options are good")
    }

    fn client_blocking(&self, rng: &mut Rng) -> blocking::Client {
        let options = connect_options(self.place, rng.next()).total_timeout(None);
        blocking::Client::new(options).expect("the options are good")
    }

    fn name(&self, kind: &str) -> String {
        let idempotent = if self.idempotent { ", idempotent" } else { "" };
        format!("{kind}{idempotent} ({})", self.actor)
    }
}
