//! What a gearmand sends, given to the state of a client's connection and of a worker's.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gearman_client::{
    Address, Assignment, FunctionName, Grab, JobHandle, SubmitOptions,
    protocol::{
        Decoder, Echo, GetStatus, JobEnd, Magic, Packet, Recipient, Session, Submit, WorkerSession,
    },
};

use super::pieces::{Cut, copy};

/// Requests that are under way, and places of a worker.
const WAITERS: usize = 6;
const PLACES: usize = 3;

/// Whatever arrives, nobody is answered twice, everybody is informed when the connection ends, a worker holds no more
/// jobs than it has places, and its answers do not grow without end.
pub fn gearman_sessions(data: &[u8]) {
    let mut decoder = Decoder::new(Magic::Response, 1 << 16);
    let mut packets = Vec::new();
    for piece in Cut::Whole.pieces(data) {
        // What is no packet ends the stream; the packets before it count.
        let _ = copy(&mut decoder, piece, Decoder::space, Decoder::received, |decoder| {
            while let Some(packet) = decoder.next()? {
                packets.push(packet);
            }
            Ok::<(), gearman_client::Error>(())
        });
    }
    client(&packets);
    worker(&packets);
}

fn server() -> Arc<Address> {
    Arc::new(Address::default())
}

fn client(packets: &[Packet]) {
    let mut session: Session<usize> = Session::new(server());
    let handle: JobHandle = "H:vm:1".parse().expect("a handle");
    for waiter in 0..WAITERS {
        match waiter % 3 {
            0 => session.send(&submit(), waiter),
            1 => session.send(&Echo("fuzz"), waiter),
            _ => session.send(&GetStatus(handle.clone()), waiter),
        }
    }
    let written = session.outgoing().len();
    session.sent(written);
    let mut answered = [false; WAITERS];
    let mut ended = [false; WAITERS];
    for packet in packets {
        match session.accept(packet.clone()) {
            Ok(Recipient::Answer(waiter, _) | Recipient::Created(waiter, _)) => {
                assert!(!answered[waiter], "{waiter} is answered twice");
                answered[waiter] = true;
            }
            Ok(Recipient::Event(waiter, event)) => {
                assert!(answered[waiter], "{waiter} has a job before it was created");
                assert!(!ended[waiter], "{waiter} hears of a job that has ended");
                ended[waiter] = event.is_last();
            }
            Ok(Recipient::Nobody) => {}
            Err(_) => break,
        }
        assert_eq!(session.pending(), answered.iter().filter(|answered| !**answered).count());
    }
    let mut told = [false; WAITERS];
    for lost in session.close() {
        assert!(!std::mem::replace(&mut told[lost.waiter], true), "somebody is told twice");
        assert_eq!(lost.handle.is_some(), answered[lost.waiter]);
    }
    assert!((0..WAITERS).all(|waiter| answered[waiter] || told[waiter]), "somebody waits forever");
}

fn submit() -> Submit<Bytes> {
    let function = FunctionName::try_from("rev").expect("a name");
    Submit::foreground(function, Bytes::from_static(b"abc"), SubmitOptions::default())
        .expect("it is valid")
}

fn worker(packets: &[Packet]) {
    let mut now = Instant::now();
    let mut session = WorkerSession::new(server(), PLACES, Grab::All, Duration::from_secs(10), now);
    session.can_do(&FunctionName::try_from("rev").expect("a name"), None);
    session.start();
    let mut held: Vec<Assignment> = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let _next = session.poll(now);
        match session.accept(packet, now) {
            Ok(Some(job)) => held.push(job),
            Ok(None) => {}
            Err(_) => break,
        }
        assert!(session.running() <= PLACES, "the worker holds {} jobs", session.running());
        if index % 2 == 1
            && let Some(job) = held.pop()
        {
            // What the server said of the job may make this an error.
            let _ = session.finish(&job.handle, JobEnd::Complete(b"done"), now);
        }
        let queued = session.outgoing().len();
        assert!(queued <= 64 * 1024, "{queued} bytes wait to be sent for one packet");
        session.sent(queued);
        session.settled().for_each(drop);
        now += Duration::from_millis(100);
    }
    session.close();
    assert_eq!(session.running(), 0);
}
