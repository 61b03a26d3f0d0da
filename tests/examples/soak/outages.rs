//! Kills the server again and again, and sometimes freezes it.

use std::{thread, time::Duration};

use fixtures::{history::Event, real::RealServer};

use crate::{ledger::count, rng::Rng, stage::Stage};

/// How often starting a server is retried.
const RESTARTS: u32 = 5;

pub struct Outages {
    pub every: Duration,
    /// A killed server has lost its jobs.
    pub forgets: bool,
}

impl Outages {
    /// Runs until the calm, and kills the server at least once. It is running when this returns.
    pub fn run(&self, server: &mut RealServer, stage: &Stage, mut rng: Rng) {
        let mut was_killed = false;
        loop {
            let wait = self.every.mul_f64(0.7) + self.every.mul_f64(rng.below(60) as f64 / 100.0);
            let freeze = rng.one_in(2).then(|| Duration::from_millis(300) + rng.millis(3500));
            let mut goes_on = stage.pause(wait / 2);
            if let Some(time) = freeze.filter(|_| goes_on) {
                freeze_for(server, stage, stage.at_most(time));
            }
            goes_on = goes_on && stage.pause(wait / 2);
            if !goes_on && was_killed {
                return;
            }
            server.kill();
            was_killed = true;
            count(&stage.ledger.counts.kills);
            stage.ledger.remark("killed");
            if self.forgets {
                stage.ledger.note(0, Event::Forgot);
            }
            thread::sleep(stage.at_most(rng.millis(2000)));
            if !bring_back(server, stage) {
                return;
            }
            stage.ledger.remark("restarted");
        }
    }
}

fn bring_back(server: &mut RealServer, stage: &Stage) -> bool {
    let mut last = None;
    for _ in 0..RESTARTS {
        match server.restart() {
            Ok(()) => return true,
            Err(error) => last = Some(error),
        }
    }
    let error = last.map_or_else(String::new, |error| error.to_string());
    stage.ledger.problem(format!("the killed server does not start again: {error}"));
    stage.calm_down();
    false
}

#[cfg(unix)]
fn freeze_for(server: &RealServer, stage: &Stage, time: Duration) {
    stage.ledger.remark("frozen");
    count(&stage.ledger.counts.freezes);
    if let Err(error) = server.freeze() {
        stage.ledger.problem(format!("the server cannot be frozen: {error}"));
    }
    thread::sleep(time);
    if let Err(error) = server.thaw() {
        stage.ledger.problem(format!("the server cannot be thawed: {error}"));
    }
    stage.ledger.remark("thawed");
}

#[cfg(not(unix))]
fn freeze_for(_: &RealServer, _: &Stage, _: Duration) {}
