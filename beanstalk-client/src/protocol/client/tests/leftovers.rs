//! Calls that were dropped, and what their replies mean for the next ones.

use super::*;

fn wait(seconds: u32) -> ReserveWithTimeout {
    ReserveWithTimeout::new(seconds * SECOND).unwrap()
}

#[test]
fn a_reserve_behind_another_waits_for_the_rest_of_its_time() {
    for (passes, said) in [
        (Duration::from_millis(999), "reserve-with-timeout 10\r\n"),
        (SECOND, "reserve-with-timeout 9\r\n"),
        (4 * SECOND, "reserve-with-timeout 6\r\n"),
    ] {
        let mut bench = Bench::new(options().reply_timeout(20 * SECOND));
        bench.begin(&wait(30));
        assert_eq!(bench.begin(&wait(10)), "");
        bench.hand.now += passes;
        assert!(bench.hear("TIMED_OUT\r\n").is_none());
        assert_eq!(bench.write(), said);
        let reply = bench.hear("RESERVED 7 2\r\nhi\r\n").unwrap().unwrap();
        assert!(matches!(reply, Response::Reserved(_)), "{reply:?}");
    }
    let mut bench = Bench::begun(&wait(30));
    bench.begin(&Reserve);
    bench.hand.now += 20 * SECOND;
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.write(), "reserve\r\n", "it has no end");
    // Its time was over when the earlier one ended.
    let mut bench = Bench::begun(&wait(30));
    bench.begin(&wait(5));
    bench.hand.now += 5 * SECOND;
    assert_eq!(bench.hear("TIMED_OUT\r\n").unwrap().unwrap(), Response::TimedOut);
    // A touch is only due then.
    let (mut bench, touch) = held_behind_a_reserve();
    bench.begin(&touch);
    bench.hand.now += 9 * SECOND;
    assert!(matches!(bench.ask(), Pulse::Go(Some(_))));
    bench.hand.now += SECOND;
    assert!(bench.hear("TIMED_OUT\r\n").is_none());
    assert_eq!(bench.write(), "touch 7\r\n");
}

#[test]
fn the_job_of_an_abandoned_reserve_goes_to_the_next() {
    for (answer, is_it) in [
        ("DEADLINE_SOON\r\n", (|reply| matches!(reply, Response::DeadlineSoon)) as fn(_) -> bool),
        ("RESERVED 7 5\r\nlarge\r\n", |reply| matches!(reply, Response::BodyTooLarge { .. })),
        ("RESERVED 7 4\r\nbody\0\0", |reply| matches!(reply, Response::BodyDamaged { .. })),
    ] {
        let mut bench = Bench::new(options().max_body_size(4));
        bench.begin(&Reserve);
        bench.begin(&wait(30));
        assert!(is_it(bench.hear(answer).unwrap().unwrap()), "{answer}");
        assert!(bench.hand.role.0.session.is_open());
    }
}

/// Closing the connection returns an unclaimed job, with everything else that it holds.
#[test]
fn an_abandoned_job_with_a_damaged_body_ends_the_connection() {
    let (mut bench, touch) = held_behind_a_reserve();
    bench.begin(&touch);
    bench.hear("RESERVED 8 4\r\nbody\0\0");
    assert!(!bench.hand.role.0.session.is_open());
    let mut bench = Bench::new(options().max_body_size(4));
    bench.begin(&ReserveJob(8.into()));
    assert_eq!(bench.begin(&Reserve), "");
    assert!(bench.hear("RESERVED 8 5\r\nlarge\r\n").is_none());
    assert_eq!(bench.ask(), Pulse::Close(None), "the reserve goes on elsewhere");
    // What a dropped reserve by id did not get is of no interest.
    let mut bench = Bench::begun(&ReserveJob(8.into()));
    bench.begin(&Reserve);
    assert!(bench.hear("DEADLINE_SOON\r\n").is_none());
    assert_eq!(bench.write(), "reserve\r\n");
}

#[test]
fn a_reserve_whose_predecessor_is_lost_may_have_lost_its_job() {
    let mut bench = Bench::begun(&Reserve);
    bench.begin(&Reserve);
    assert_eq!(bench.lose(), Pulse::Close(None));
    assert_eq!(bench.failure(), (ErrorKind::ConnectionLost, Fate::Unknown));
    // One by id only waits.
    let mut bench = Bench::begun(&ReserveJob(7.into()));
    assert_eq!(bench.begin(&ReserveJob(8.into())), "");
    bench.lose();
    assert_eq!(bench.failure(), (ErrorKind::ConnectionLost, Fate::NotSent));
}

#[test]
fn a_touch_waits_for_all_reserves_that_are_left() {
    let (mut bench, touch) = held_behind_a_reserve();
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.begin_pair(&ReserveJob(8.into()), &Reserve), "reserve-job 8\r\nreserve\r\n");
    assert_eq!(bench.begin(&touch), "");
    assert!(bench.hear("NOT_FOUND\r\n").is_none());
    assert_eq!(bench.write(), "", "the other one is still there");
    assert!(bench.hear("TIMED_OUT\r\n").is_none());
    assert_eq!(bench.write(), "touch 7\r\n");
}

#[test]
fn a_touch_that_confirms_a_job_is_believed_while_the_job_is_certainly_held() {
    let asked = || {
        let mut bench = Bench::new(options().reply_timeout(20 * SECOND));
        bench.begin(&Reserve);
        bench.begin(&wait(30));
        bench.hear("RESERVED 7 2\r\nhi\r\n");
        assert_eq!(bench.write(), "touch 7\r\n");
        bench
    };
    let got = |reply: Option<Result<Response>>| matches!(reply, Some(Ok(Response::Reserved(job))) if job.id == 7.into());
    // Its own touch restarts the time to run, whenever the answer comes.
    let mut bench = asked();
    bench.hand.now += 5 * SECOND;
    assert!(got(bench.hear("TOUCHED\r\n")));
    // That of a dropped call may have been carried out when it was sent.
    for (passes, is_held) in [(249, true), (250, false)] {
        let mut bench = asked();
        bench.hand.now += Duration::from_millis(passes);
        assert_eq!(bench.begin(&wait(30)), "", "one touch is under way");
        assert_eq!(got(bench.hear("TOUCHED\r\n")), is_held);
        assert_eq!(bench.write(), if is_held { "" } else { "touch 7\r\n" });
    }
    let mut bench = asked();
    bench.lose();
    let error = bench.hand.role.0.reply().unwrap().unwrap_err();
    assert_eq!(error.command(), Some("touch"));
    let mut bench = asked();
    let error = bench.hear("OUT_OF_MEMORY\r\n").unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}

/// Each dropped reserve has its own time, from when the next call waits for it.
#[test]
fn the_time_of_an_earlier_reserve_is_not_that_of_one_before() {
    let waits = |bench: &mut Bench| {
        bench.begin(&wait(5));
        bench.begin(&wait(5));
        bench.ask();
        bench.hand.now += 4 * SECOND;
        bench.hand.looked();
        assert!(matches!(bench.ask(), Pulse::Go(Some(_))), "{:?}", bench.hand.role);
    };
    let mut bench = Bench::new(options().reply_timeout(10 * SECOND));
    waits(&mut bench);
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.write(), "reserve-with-timeout 1\r\n");
    assert!(bench.hear("TIMED_OUT\r\n").is_some());
    bench.hand.now += 30 * SECOND;
    bench.hand.looked();
    bench.starts(&ListTubeUsed);
    bench.hand.looked();
    bench.ask();
    bench.write();
    bench.hear("USING default\r\n");
    waits(&mut bench);
    // Nor is it on the next connection, where it is the first command again.
    let mut bench = Bench::new(options().reply_timeout(10 * SECOND));
    waits(&mut bench);
    bench.lose();
    bench.hand.now += 30 * SECOND;
    bench.hand.role.0.begin(&wait(5));
    bench.ask_and_open();
    bench.write();
    waits(&mut bench);
}

/// Data received during a wait was known, and gives the rest no further time.
#[test]
fn a_reply_that_stopped_in_the_middle_is_overdue_as_any_other() {
    let mut bench = Bench::new(options().reply_timeout(10 * SECOND));
    bench.begin(&wait(5));
    bench.begin(&wait(5));
    bench.hear("RESER");
    bench.hand.now += 15 * SECOND;
    assert_eq!(bench.starts(&wait(5)), Pulse::Look, "it may be here by now");
    bench.hand.looked();
    assert_eq!(bench.ask(), Pulse::Close(None));
    assert_eq!(bench.failure().0, ErrorKind::Timeout(Deadline::Reply));
}

#[test]
fn commands_of_a_pair_go_out_together_unless_an_earlier_reserve_is_left() {
    let mut bench = Bench::new(options());
    assert_eq!(bench.begin_pair(&Reserve, &Stats), "reserve\r\nstats\r\n");
    // The server answers such a one at once.
    let mut bench = Bench::begun(&wait(0));
    assert_eq!(bench.begin_pair(&Reserve, &Stats), "reserve\r\nstats\r\n");
    let mut bench = Bench::begun(&Reserve);
    bench.hand.role.0.begin_pair(&Delete::new(JobId::from(7)), &Stats);
    assert!(matches!(bench.ask(), Pulse::HalfClose(_)));
    assert_eq!(bench.write(), "delete 7\r\nstats\r\n");
}

/// It accepts no further command, so there is nothing to wait for.
#[test]
fn a_reserve_does_not_wait_on_a_connection_that_ends() {
    let mut bench = Bench::begun(&Reserve);
    bench.begin(&ListTubeUsed);
    assert_eq!(bench.starts(&Reserve), Pulse::Close(None));
}
