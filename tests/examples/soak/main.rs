//! A soak: the real clients, producers and workers against a real server that is killed again and again, over networks
//! that delay, split, cut and swallow bytes as a seed determines.
//!
//! ```text
//! cargo run --release -p tests --example soak -- beanstalkd --minutes 30
//! cargo run --release -p tests --example soak -- gearmand --minutes 30 --seed 7 --json
//! cargo run --release -p tests --example soak -- adf-queue --minutes 30
//! ```
//!
//! Adf.QueueServer is the program that `ADF_QUEUE_PROGRAM` names, or `mock-adfqueue`, if that was built in the same
//! profile.
//!
//! Everything that happens is recorded, and the rules of [`fixtures::history`] are checked meanwhile: nothing that was
//! acknowledged is lost, nothing is delivered that was not submitted or was already done, every call returns in time.
//! At the end the network is healed, the queues are drained and everything is stopped in an orderly way. Memory,
//! descriptors and threads of this process have to stay flat. A run of a minute or more has to have had something to
//! survive, of each kind. The exit code is 0 if all of that held, 1 if not, 2 for
//! wrong arguments and 3 if the run did not end on its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, unreachable_pub)]

mod adf_queue;
mod beanstalk;
#[path = "../../tests/sim/body.rs"]
mod body;
mod gearman;
mod ledger;
mod network;
mod open_jobs;
mod options;
mod outages;
mod outsiders;
mod pace;
mod resources;
#[path = "../../tests/sim/rng.rs"]
mod rng;
mod run;
mod stage;
mod summary;
mod trend;

use std::{env, panic, process::ExitCode, thread, time::Duration};

use crate::options::{Options, USAGE};

/// How much longer than asked a run may take: for draining and stopping.
const OVERTIME: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let options = match Options::parse(env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    hide_expected_panics();
    let limit = options.length + OVERTIME;
    thread::spawn(move || {
        thread::sleep(limit);
        eprintln!("soak: still not at its end after {limit:?}");
        std::process::exit(3);
    });
    let Some(summary) = (options.soak)(&options) else {
        eprintln!("soak: the server is not installed");
        return ExitCode::from(2);
    };
    if options.json {
        println!("{}", summary.json());
    } else {
        println!("{summary}");
    }
    ExitCode::from(u8::from(!summary.is_good()))
}

/// The message of handlers that panic on purpose.
const ON_PURPOSE: &str = "a handler panics on purpose";

/// Those panics are not reported; all others are.
fn hide_expected_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&ON_PURPOSE) {
            usual(info);
        }
    }));
}
