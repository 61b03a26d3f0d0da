//! When a connection is made, checked and given up, and what becomes of a command meanwhile.

use super::*;

/// Sends a part of each command, and has the server hang up, until there is an outcome. Returns how often it was tried,
/// and how often after a pause.
fn hang_up(bench: &mut Bench) -> (u32, u32) {
    let (mut tries, mut pauses) = (1, 0);
    bench.ask();
    bench.hand.takes(5);
    let mut pulse = bench.lose();
    loop {
        match pulse {
            Pulse::Close(Some(at)) => {
                (bench.hand.now, pauses) = (at, pauses + 1);
                pulse = bench.ask();
            }
            Pulse::Dial { .. } => {
                tries += 1;
                bench.hand.opens();
                bench.ask();
                bench.hand.takes(5);
                pulse = bench.lose();
            }
            _ => return (tries, pauses),
        }
    }
}

#[test]
fn a_server_that_accepts_and_closes_is_retried_within_the_policy() {
    let mut bench = Bench::new(options());
    bench.hand.role.0.begin(&put("body"));
    assert_eq!(hang_up(&mut bench), (4, 3));
    assert_eq!(bench.failure(), (ErrorKind::ConnectionLost, Fate::NotSent));
    assert_eq!(bench.hand.role.0.session.metrics().connections, 4);
}

/// The next one waited, as if the server had accepted and hung up.
#[test]
fn a_connection_that_has_answered_only_dropped_calls_has_served() {
    let mut bench = Bench::begun(&put("dropped"));
    bench.hand.comes(b"INSERTED 1\r\n");
    bench.puts_in_part();
    assert!(matches!(bench.lose(), Pulse::Dial { .. }));
    // What restores the tube is no answer to a caller.
    bench.hand.opens();
    bench.ask();
    bench.write();
    bench.hear("INSERTED 2\r\n");
    bench.begin(&Use("mine".try_into().unwrap()));
    bench.hear("USING mine\r\n");
    bench.puts_in_part();
    bench.lose_and_open();
    bench.hand.takes("use mine\r\n".len() + 5);
    bench.hand.comes(b"USING mine\r\n");
    assert!(matches!(bench.lose(), Pulse::Close(Some(_))));
}

#[test]
fn a_pair_that_was_not_sent_whole_is_sent_again_as_a_pair() {
    let mut bench = Bench::new(options());
    bench.hand.role.0.begin_pair(&put("one"), &put("two"));
    bench.ask();
    let both = "put 1024 0 60 3\r\none\r\nput 1024 0 60 3\r\ntwo\r\n";
    assert_eq!(bench.hand.unsent(), both.as_bytes());
    bench.hand.takes(5);
    bench.lose();
    let Pulse::Close(Some(at)) = bench.ask() else { panic!() };
    bench.hand.now = at;
    bench.ask();
    bench.hand.opens();
    bench.ask();
    assert_eq!(bench.write(), both);
    let one = bench.hear("INSERTED 1\r\n").unwrap().unwrap();
    assert_eq!(one, Response::Inserted(1.into()));
    bench.hand.role.0.begin_second();
    let two = bench.hear("INSERTED 2\r\n").unwrap().unwrap();
    assert_eq!(two, Response::Inserted(2.into()));
}

#[test]
fn a_command_after_a_pair_that_acted_on_a_job_is_repeated_as_any_other() {
    let mut bench = Bench::new(options());
    bench.begin_pair(&put("one"), &Delete::new(JobId::from(7)));
    assert!(bench.hear("INSERTED 1\r\n").is_some());
    bench.hand.role.0.begin_second();
    assert!(bench.hear("DELETED\r\n").is_some());
    bench.puts_in_part();
    assert!(matches!(bench.lose(), Pulse::Dial { .. }));
    // A pair that acts on one is not.
    bench.hand.opens();
    bench.ask();
    bench.write();
    assert!(bench.hear("INSERTED 2\r\n").is_some());
    bench.hand.role.0.begin_pair(&put("one"), &Delete::new(JobId::from(7)));
    bench.ask();
    bench.hand.takes(5);
    assert_eq!(bench.lose(), Pulse::Close(None));
}

#[test]
fn a_command_whose_time_is_over_is_not_sent_on_another_connection() {
    let mut bench = Bench::new(options().total_timeout(Some(5 * SECOND)));
    bench.puts_in_part();
    bench.hand.now += 5 * SECOND;
    assert_eq!(bench.ask(), Pulse::Close(None));
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "put to simulated:11300: not done within the total timeout of 5 s"
    );
    assert_eq!(error.fate(), Fate::NotSent);
}

#[test]
fn a_total_deadline_reports_how_the_last_connection_was_lost() {
    let mut bench = Bench::new(options().total_timeout(Some(5 * SECOND)));
    bench.begin(&Use("mine".try_into().unwrap()));
    bench.hear("USING mine\r\n");
    bench.starts(&put("body"));
    let end = Some(bench.hand.now + 5 * SECOND);
    bench.hand.takes(5);
    let Pulse::Dial { by, .. } = bench.lose() else { panic!("it is tried again") };
    assert_eq!(by, end, "within the time of the call");
    bench.hand.now += 5 * SECOND;
    bench.ask();
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Total));
    assert!(error.to_string().contains("the connection was lost"), "{error}");
}

#[test]
fn both_commands_of_a_pair_have_one_total_deadline() {
    let mut bench = Bench::new(options().total_timeout(Some(5 * SECOND)));
    bench.begin_pair(&put("one"), &put("two"));
    bench.hand.now += 3 * SECOND;
    assert!(bench.hear("INSERTED 1\r\n").is_some());
    bench.hand.role.0.begin_second();
    assert_eq!(bench.ask().until(), Some(bench.hand.now + 2 * SECOND));
    bench.hand.now += 2 * SECOND;
    bench.ask();
    assert_eq!(bench.failure().0, ErrorKind::Timeout(Deadline::Total));
}

/// Its future was dropped after the answer had arrived.
#[test]
fn an_untaken_outcome_is_not_given_to_the_next_call() {
    let mut bench = Bench::begun(&put("dropped"));
    bench.hand.comes(b"INSERTED 1\r\n");
    bench.ask();
    assert_eq!(bench.begin(&ListTubeUsed), "list-tube-used\r\n");
    assert!(bench.hand.role.0.reply().is_none());
    let reply = bench.hear("USING default\r\n").unwrap().unwrap();
    assert_eq!(reply, Response::Using("default".into()));
}

/// They may belong to an answer that is read together with them later.
#[test]
fn bytes_that_come_before_a_command_is_written_are_left_until_then() {
    let mut bench = Bench::new(options());
    bench.starts(&ListTubeUsed);
    assert!(bench.hear("USING default\r\n").is_none());
    bench.write();
    bench.ask();
    assert!(bench.hand.role.0.reply().unwrap().is_ok());
}

#[test]
fn a_server_that_sends_unsolicited_data_is_retried_after_a_pause() {
    let mut bench = Bench::new(options());
    bench.hand.comes(b"USING default\r\n");
    assert_eq!(bench.starts(&ListTubeUsed), Pulse::Close(None));
    bench.hand.closes();
    assert!(matches!(bench.ask(), Pulse::Close(Some(_))));
}

/// The caller wants another one, whatever the last was like.
#[test]
fn connections_replaced_by_the_caller_are_not_failures() {
    let base = Duration::from_millis(10);
    let retry = RetryPolicy::new(3).backoff(base, 600 * SECOND).seed(1);
    let mut bench = Bench::new(options().retry(retry));
    for _ in 0..20 {
        bench.hand.role.0.connect();
        assert_eq!(bench.ask(), Pulse::Close(None));
        bench.hand.closes();
        bench.ask_and_open();
        assert!(bench.hand.role.0.ready().unwrap().is_ok());
    }
    bench.puts_in_part();
    let Pulse::Close(Some(at)) = bench.lose() else { panic!() };
    assert!(at - bench.hand.now <= base);
}

#[test]
fn a_connection_is_idle_from_its_last_answer() {
    let mut bench = Bench::begun(&put("a"));
    bench.hand.now += 5 * SECOND;
    assert!(bench.hear("INSERTED 1\r\n").is_some());
    bench.hand.now += SECOND;
    assert_eq!(bench.begin(&ListTubeUsed), "list-tube-used\r\n");
}

#[test]
fn a_call_without_reconnects_states_the_reason() {
    let mut bench = Bench::new(options().reply_timeout(3 * SECOND).retry(RetryPolicy::never()));
    bench.begin(&put("dropped"));
    bench.hand.now += 3 * SECOND;
    assert_eq!(bench.starts(&ListTubeUsed), Pulse::Look);
    bench.hand.looked();
    assert_eq!(bench.ask(), Pulse::Close(None));
    bench.hand.closes();
    bench.ask();
    assert_eq!(bench.failure().0, ErrorKind::Timeout(Deadline::Reply));
}

#[test]
fn a_client_of_a_given_stream_has_no_other() {
    let mut hand = ByHand::new(ClientSession::new(options(), false));
    hand.opens();
    let mut bench = Bench { hand };
    bench.begin(&put("body"));
    assert!(bench.hear("INSERTED 1\r\n").is_some());
    bench.puts_in_part();
    assert_eq!(bench.lose(), Pulse::Close(None));
    assert_eq!(bench.failure(), (ErrorKind::ConnectionLost, Fate::NotSent));
    assert_eq!(bench.starts(&put("body")), Pulse::Close(None));
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert!(error.to_string().ends_with("cannot reconnect"), "{error}");
}

#[test]
fn a_connection_that_was_just_made_is_not_checked_before_it_is_used() {
    let mut hand = ByHand::new(ClientSession::new(options(), true));
    hand.role.0.connect();
    hand.turn();
    hand.now += 3 * SECOND;
    hand.opens();
    let mut bench = Bench { hand };
    bench.ask();
    assert!(bench.hand.role.0.ready().is_some());
    bench.hand.now += SECOND;
    assert_eq!(bench.begin(&ListTubeUsed), "list-tube-used\r\n", "however long it took");
    bench.hear("USING default\r\n");
    bench.hand.now += SECOND + Duration::from_millis(1);
    assert_eq!(bench.begin(&ListTubeUsed), "");
    assert_eq!(bench.ask(), Pulse::Peek);
}

/// A pipeline starts on it.
#[test]
fn a_connection_is_drained_or_replaced_before_use() {
    let mut bench = Bench::begun(&put("body"));
    assert!(bench.hear("INSERTED 1\r\n").is_some());
    bench.begin(&put("dropped"));
    bench.hand.role.0.prepare();
    bench.hear("INSERTED 2\r\n");
    assert!(!bench.hand.role.0.session.awaits_replies() && bench.hand.role.0.session.is_open());
    bench.begin(&Reserve);
    bench.hand.role.0.prepare();
    assert_eq!(bench.ask(), Pulse::Close(None), "the server may hold its answer back");
    bench.hand.closes();
    bench.ask_and_open();
    assert!(bench.hand.role.0.ready().unwrap().is_ok());
}

#[test]
fn failures_are_counted_and_a_new_reply_timeout_counts_from_the_next_call() {
    let mut bench = Bench::new(options().reply_timeout(10 * SECOND));
    bench.hand.role.0.set_reply_timeout(2 * SECOND);
    let start = bench.hand.now;
    bench.begin(&ListTubeUsed);
    assert_eq!(bench.ask().until(), Some(start + 2 * SECOND));
    bench.hand.now += 2 * SECOND;
    bench.ask();
    let outcome = bench.hand.role.0.reply().unwrap();
    let client = &mut bench.hand.role.0;
    let error = client.conclude(&ListTubeUsed, outcome, &mut Operation::none()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    assert_eq!(client.session.metrics().errors_of(error.kind()), 1);
    // The failure of a pair is counted once.
    let mut bench = Bench::new(options());
    bench.begin_pair(&put("one"), &put("two"));
    bench.lose();
    let outcome = bench.hand.role.0.reply().unwrap();
    let operations = [&mut Operation::none(), &mut Operation::none()];
    let client = &mut bench.hand.role.0;
    let error = client.conclude_first(&put("one"), outcome, operations).unwrap_err();
    assert_eq!(client.session.metrics().errors_of(error.kind()), 1);
}

#[test]
fn unsolicited_data_is_read_up_to_a_limit() {
    let mut bench = Bench::new(options().max_body_size(100_000));
    bench.hand.comes(&vec![b'x'; 100_000]);
    assert!(!bench.hand.io().is_full(), "a reply may be as long");
    bench.hand.comes(&[b'x'; 10_000]);
    assert!(bench.hand.io().is_full());
}

/// The server reads the rest of a refused body as commands.
#[test]
fn a_command_is_written_whole_although_it_is_refused_before() {
    let mut bench = Bench::new(options());
    bench.starts(&put("body"));
    bench.hand.takes(10);
    assert!(bench.hear("JOB_TOO_BIG\r\n").is_none());
    assert_eq!(bench.write(), " 60 4\r\nbody\r\n");
    bench.ask();
    assert_eq!(bench.hand.role.0.reply().unwrap().unwrap(), Response::JobTooBig);
}
