//! Scripts in real time: what expires, what falls due, who is served first.
//!
//! A script never sleeps. Where something takes time, it waits for the reply that shows it; a late server is not wrong.

use std::{net::SocketAddr, thread};

use fixtures::{
    beanstalkd::{Server, Version},
    real::Beanstalkd,
};

use crate::beanstalk_differential::{
    sides::{Conversation, probe},
    version,
};

/// One line of a script.
enum Action {
    /// This connection sends this; `;` stands for CRLF.
    Say(usize, &'static str),
    /// The same, and continues once it has had this many further replies.
    Ask(usize, &'static str, usize),
    /// Continues once this connection has had this many further replies.
    Hear(usize, usize),
    /// The same, while a second connection makes the real server check its reservations.
    ///
    /// The server loses the end of a reservation when it looks in the very microsecond
    /// of the deadline: the check before asks for `<=`, the one behind for `<`. The job stays
    /// reserved until its holder is answered something (beanstalkd/beanstalkd#262, #380).
    HearNudging(usize, usize, usize),
    /// This connection closes its half.
    HalfClose(usize),
    /// This connection closes, and the server has seen it.
    Close(usize),
    /// Both servers refuse puts from now on.
    Drain,
}

use Action::{Ask, Close, Drain, HalfClose, Hear, HearNudging, Say};

fn run(script: &[Action]) {
    let Some(mut replies) = both(script) else { return };
    // A busy machine may keep a server from what falls due until more has; not every time.
    for _ in 0..4 {
        if replies.0 != replies.1 {
            replies = both(script).expect("beanstalkd was there a moment ago");
        }
    }
    let (in_memory, by_real) = replies;
    assert_eq!(in_memory, by_real, "in memory on the left, real on the right");
}

/// All replies of all connections.
type Replies = Vec<Vec<String>>;

/// The replies in memory and of the real server, if that is installed.
fn both(script: &[Action]) -> Option<(Replies, Replies)> {
    let Some(real) = Beanstalkd::start() else {
        eprintln!("skipped: beanstalkd is not installed");
        return None;
    };
    let memory = Server::builder().version(version()).start().unwrap();
    probe(memory.socket_addr().unwrap());
    let replies = thread::scope(|scope| {
        let in_memory =
            scope.spawn(|| play(script, memory.socket_addr().unwrap(), || memory.drain()));
        let by_real = play(script, real.socket_addr().unwrap(), || real.drain().unwrap());
        (in_memory.join().unwrap(), by_real)
    });
    Some(replies)
}

fn play(script: &[Action], address: SocketAddr, drain: impl Fn()) -> Replies {
    let mut conversation = Conversation::new(address);
    for action in script {
        match action {
            Say(connection, text) => conversation.say(*connection, text),
            Ask(connection, text, count) => {
                conversation.say(*connection, text);
                conversation.hear(*connection, *count, None);
            }
            Hear(connection, count) => conversation.hear(*connection, *count, None),
            HearNudging(connection, count, holder) => {
                conversation.hear(*connection, *count, Some(*holder));
            }
            HalfClose(connection) => conversation.half_close(*connection),
            Close(connection) => conversation.close(*connection),
            Drain => drain(),
        }
    }
    conversation.finish()
}

#[test]
fn an_expired_job_goes_to_a_waiting_reserve() {
    run(&[
        Ask(0, "put 7 0 1 1;x;reserve;", 2),
        Say(1, "reserve;"),
        HearNudging(1, 1, 0),
        Ask(1, "stats-job 1;", 1),
        Ask(0, "delete 1;release 1 0 0;bury 1 0;touch 1;", 4),
        Ask(1, "delete 1;", 1),
    ]);
}

#[test]
fn the_old_holder_may_delete_an_expired_job_that_is_ready() {
    run(&[
        // The second job shows, by becoming ready later, that the first has expired.
        Ask(0, "put 0 0 1 1;x;reserve;use later;put 0 3 60 1;y;", 4),
        Say(1, "watch later;ignore default;reserve;"),
        HearNudging(1, 3, 0),
        Ask(1, "stats-job 1;", 1),
        Ask(0, "touch 1;delete 1;stats-tube default;", 3),
    ]);
}

#[test]
fn a_waiting_holder_gets_deadline_soon() {
    run(&[
        Ask(0, "put 0 0 2 1;x;reserve;reserve-with-timeout 30;", 3),
        Ask(0, "reserve;reserve-with-timeout 0;delete 1;reserve-with-timeout 0;", 4),
    ]);
}

#[test]
fn with_a_ttr_of_one_second_the_deadline_is_always_soon() {
    run(&[Ask(0, "put 0 0 1 1;x;reserve;reserve;delete 1;reserve-with-timeout 0;", 5)]);
}

#[test]
fn a_ready_job_beats_deadline_soon() {
    run(&[Ask(0, "put 0 0 1 1;x;put 0 0 60 1;y;reserve;reserve;reserve;", 5)]);
}

#[test]
fn a_ready_job_in_a_paused_tube_does_not_prevent_deadline_soon() {
    run(&[
        Ask(0, "put 0 0 1 1;x;put 0 0 60 1;y;reserve;pause-tube default 30;reserve;", 5),
        Ask(0, "reserve-with-timeout 0;reserve-job 2;", 2),
    ]);
}

#[test]
fn a_delayed_job_goes_to_a_waiting_reserve() {
    run(&[
        Say(0, "reserve;"),
        Ask(1, "put 5 1 60 1;x;peek-delayed;", 2),
        Hear(0, 1),
        Ask(0, "stats-job 1;", 1),
    ]);
}

#[test]
fn the_end_of_a_pause_wakes_waiting_reserves() {
    run(&[
        Ask(0, "pause-tube default 1;put 0 0 60 1;x;reserve-with-timeout 0;reserve;", 4),
        Ask(0, "stats-tube default;", 1),
    ]);
}

#[test]
fn a_zero_pause_ends_the_pause_and_wakes_reserves() {
    run(&[
        Ask(0, "put 0 0 60 1;x;pause-tube default 1000;reserve-with-timeout 0;", 3),
        Say(1, "reserve;"),
        Ask(0, "peek-ready;pause-tube default 0;", 2),
        Hear(1, 1),
        Ask(0, "stats-tube default;", 1),
    ]);
}

#[test]
fn a_pipeline_continues_after_a_reserve_timeout() {
    run(&[
        Ask(0, "reserve-with-timeout 1;list-tube-used;put 0 0 60 1;x;reserve-with-timeout 1;", 4),
        Ask(0, "stats;", 1),
    ]);
}

#[test]
fn touch_restores_the_full_time() {
    run(&[
        Ask(0, "put 0 0 2 1;x;reserve;reserve-with-timeout 30;touch 1;stats-job 1;", 5),
        // Again a second before the new deadline.
        Ask(0, "reserve-with-timeout 30;touch 1;", 2),
        Say(1, "reserve;"),
        HearNudging(1, 1, 0),
        Ask(1, "stats-job 1;", 1),
    ]);
}

#[test]
fn jobs_go_to_waiting_connections_in_the_server_s_order() {
    run(&[
        Ask(0, "reserve;", 0),
        Ask(1, "reserve;", 0),
        Ask(2, "reserve;", 0),
        Ask(3, "reserve;", 0),
        Ask(4, "put 0 0 60 1;a;put 0 0 60 1;b;put 0 0 60 1;c;put 0 0 60 1;d;", 4),
        Hear(0, 1),
        Hear(1, 1),
        Hear(2, 1),
        Hear(3, 1),
    ]);
}

#[test]
fn jobs_of_a_closed_connection_go_to_waiting_reserves() {
    run(&[
        Ask(0, "put 3 0 60 1;a;put 2 0 60 1;b;put 1 0 60 1;c;reserve;reserve;reserve;", 6),
        Ask(1, "reserve;", 0),
        Ask(2, "reserve;", 0),
        Close(0),
        Hear(1, 1),
        Hear(2, 1),
        Ask(1, "stats-job 1;stats-job 2;stats-job 3;", 3),
    ]);
}

#[test]
fn a_half_closed_connection_ends_its_wait_and_finishes_its_pipeline() {
    let held = match version() >= Version::V1_12 {
        true => "put 0 60 60 1;x;reserve-job 1;reserve;list-tube-used;stats-job 1;",
        false => "put 0 0 60 1;x;reserve-with-timeout 0;reserve;list-tube-used;stats-job 1;",
    };
    run(&[Ask(0, held, 2), HalfClose(0), Hear(0, 3), Ask(1, "reserve;", 1)]);
}

#[test]
fn a_draining_server_reads_bodies_and_uses_up_ids() {
    if version() < Version::V1_12 {
        eprintln!("skipped: this release does not say that it drains");
        return;
    }
    run(&[
        Ask(0, "put 0 0 60 1;x;", 1),
        Drain,
        Ask(0, "put 0 0 60 1;y;put 0 0 60 1;yyyput 0 0 60 1 ;use t;put 9 9 60 0;;", 5),
        Ask(0, "reserve;release 1 0 0;kick 1;stats-tube default;list-tubes;", 5),
    ]);
}
