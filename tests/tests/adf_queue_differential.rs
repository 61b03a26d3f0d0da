//! The in-memory Adf.QueueServer against the real one: the same bytes to both, the same answers back.
//!
//! Random sequences of requests on several WebSocket connections, binary and JSON, and over HTTP go to a fresh
//! in-memory server and to the real one that `ADF_QUEUE_SERVER` names; after every step all answers must be equal, byte
//! by byte, and at the end the status page and the contents of the queues. Names of queues, and request ids over HTTP,
//! belong to the run, so that the real server may have other users. Sequences have pings, frames and requests that are
//! odd or broken, and connections that are closed and reset; nothing in them depends on time. Where no real server is
//! named, the in-memory one answers sequences that were recorded from it (`recorded/`).
//!
//! Usually it is the same 30 sequences of each kind, so that a run says something about the change it tests;
//! `DIFFERENTIAL_CASES=1000` runs as many new ones.
//!
//! What the real server must not be sent, and sequences do not have: a pull as JSON from a queue that may be missing,
//! which ends it, and pulls over HTTP from a queue that may be deleted, each of which would hold one of its threads for
//! ever.

#[path = "adf_queue_differential/exchange.rs"]
mod exchange;
#[path = "adf_queue_differential/recorded.rs"]
mod recorded;
#[path = "adf_queue_differential/requests.rs"]
mod requests;
#[path = "adf_queue_differential/sequence.rs"]
mod sequence;
#[path = "adf_queue_differential/side.rs"]
mod side;
#[path = "adf_queue_differential/socket.rs"]
mod socket;
#[path = "adf_queue_differential/step.rs"]
mod step;
#[path = "adf_queue_differential/wire.rs"]
mod wire;

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use fixtures::{adf_queue::Server, real::AdfQueueServer};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{
    adf_queue_differential::{
        recorded::Recorded,
        sequence::{ODD_QUEUES, QUEUES},
        side::{Heard, PATIENCE, Side},
        step::{RUN, Step},
    },
    differential::run_all,
};

/// The comparison for the steps.
enum Reference {
    Real(Box<Side>),
    /// What was heard last, and the rest with the end.
    Recorded(Heard, std::vec::IntoIter<Heard>),
}

impl Reference {
    fn advance(&mut self, step: Option<&Step>) -> Result<(), String> {
        match self {
            Reference::Real(real) => {
                real.clear();
                advance(real, step).map_err(|error| format!("the real one: {error}"))?;
            }
            Reference::Recorded(heard, rest) => *heard = rest.next().unwrap_or_default(),
        }
        Ok(())
    }

    fn heard(&mut self) -> &Heard {
        match self {
            Reference::Real(real) => real.heard(),
            Reference::Recorded(heard, _) => heard,
        }
    }
}

/// A step, or the end.
fn advance(side: &mut Side, step: Option<&Step>) -> Result<(), String> {
    match step {
        Some(step) => side.apply(step),
        None => side.finish(&QUEUES, &ODD_QUEUES, &requests::IDS),
    }
}

fn compare(reference: &mut Reference, steps: &[Step]) -> Result<(), String> {
    let server = Server::builder().log_capacity(0).start().unwrap();
    let mut memory = Side::new(server.socket_addr().unwrap(), RUN.to_owned())?;
    for step in steps.iter().map(Some).chain([None]) {
        let place = || step.map_or_else(|| "at the end".to_owned(), |step| format!("after {step}"));
        reference.advance(step).map_err(|error| format!("{}: {error}", place()))?;
        advance(&mut memory, step).map_err(|error| format!("{}: in memory: {error}", place()))?;
        agree(&mut memory, reference).map_err(|wrong| format!("{}: {wrong}", place()))?;
        memory.clear();
    }
    Ok(())
}

/// Waits until both have received the same, as long as one may merely lag behind: answers over HTTP arrive in any
/// order.
fn agree(memory: &mut Side, reference: &mut Reference) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (heard, expected) = (memory.heard(), reference.heard());
        if heard == expected {
            return Ok(());
        }
        if is_final(heard, expected) || Instant::now() > deadline {
            return Err(difference(heard, expected));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Some answer is there on both sides, and differs; or one side has another answer over WebSocket, where all there are
/// have come.
fn is_final(one: &Heard, other: &Heard) -> bool {
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    names.into_iter().any(|name| {
        let none = Vec::new();
        let (one, other) = (one.get(name).unwrap_or(&none), other.get(name).unwrap_or(&none));
        one.iter().zip(other).any(|(one, other)| one != other)
            || !name.starts_with('h') && one.len() != other.len()
    })
}

/// Where they differ.
fn difference(memory: &Heard, real: &Heard) -> String {
    let names: BTreeSet<&String> = memory.keys().chain(real.keys()).collect();
    let none = Vec::new();
    names.into_iter().fold(String::new(), |text, name| {
        let (memory, real) = (memory.get(name).unwrap_or(&none), real.get(name).unwrap_or(&none));
        let same = memory.iter().zip(real).take_while(|(memory, real)| memory == real).count();
        let (memory, real) = (&memory[same..], &real[same..]);
        if memory.is_empty() && real.is_empty() {
            return text;
        }
        format!(
            "{text}\non {name}, in memory:\n  {}\nreal:\n  {}",
            memory.join("\n  "),
            real.join("\n  ")
        )
    })
}

fn check(has_http: bool) {
    let Some(real) = AdfQueueServer::find() else { return };
    let run = |steps: &Vec<Step>| {
        let side = Side::new(real.socket_addr(), real.id())?;
        let mut reference = Reference::Real(Box::new(side));
        let result = compare(&mut reference, steps);
        if let (Err(_), Reference::Real(real)) = (&result, &mut reference) {
            // Others use the server, too, so nothing of this run may stay, if it can be removed.
            let _ = advance(real, None);
        }
        result
    };
    let shown = |steps: &Vec<Step>| steps.iter().map(|step| format!("{step}\n")).collect();
    run_all(30, 500, &sequence::steps(has_http, true), run, shown);
}

#[test]
fn random_websocket_sequences_match_the_real_server() {
    check(false);
}

#[test]
fn random_websocket_and_http_sequences_match_the_real_server() {
    check(true);
}

#[test]
fn recorded_sequences_match_the_real_server() {
    let all = recorded::all();
    assert!(!all.is_empty(), "nothing is recorded");
    let mut wrong = Vec::new();
    for (name, Recorded { steps, end }) in all {
        let (steps, mut heard): (Vec<Step>, Vec<Heard>) = steps.into_iter().unzip();
        heard.push(end);
        let mut reference = Reference::Recorded(Heard::new(), heard.into_iter());
        if let Err(error) = compare(&mut reference, &steps) {
            wrong.push(format!("{name}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How long nothing has to come over HTTP until what came is taken for all. Only recording needs this: whoever compares
/// knows what to wait for.
const QUIET: Duration = Duration::from_millis(300);

fn record(real: &AdfQueueServer, steps: Vec<Step>) -> Result<Recorded, String> {
    let mut side = Side::new(real.socket_addr(), real.id())?;
    let mut recorded = Recorded::default();
    for step in steps {
        advance(&mut side, Some(&step)).map_err(|error| format!("{step}: {error}"))?;
        if side.is_waiting() {
            std::thread::sleep(QUIET);
        }
        recorded.steps.push((step, side.heard().clone()));
        side.clear();
    }
    advance(&mut side, None)?;
    recorded.end = side.heard().clone();
    Ok(recorded)
}

/// `ADF_QUEUE_SERVER=… cargo test -p tests --test all adf_queue_differential -- --ignored` replaces the recorded
/// sequences.
#[test]
#[ignore = "replaces what was recorded from the real server"]
fn records_sequences() {
    let real = AdfQueueServer::find().expect("a server to record from");
    fs::create_dir_all(recorded::folder()).unwrap();
    for (kind, has_http) in [("websocket", false), ("http", true)] {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        for number in 0..12 {
            let steps = sequence::steps(has_http, false).new_tree(&mut runner).unwrap().current();
            let recorded = record(&real, steps).unwrap();
            let file = recorded::folder().join(format!("{kind}-{number:02}.txt"));
            fs::write(file, recorded.text("Adf.QueueServer 2.0.0")).unwrap();
        }
    }
}
