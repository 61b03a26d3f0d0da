//! Which server gets a put, and what a server that fails or refuses means for it.

use super::*;

fn put(world: &mut World) {
    world.put(0, Delivery::AtMostOnce, 60);
}

fn refused() -> Error {
    Error::new(ErrorKind::Connect, Fate::NotSent, "refused")
}

#[test]
fn a_server_that_takes_long_to_connect_is_relieved_of_its_puts_by_one_that_is_ready() {
    let mut world = World::new(2, Selection::InOrder, Probes::InBackground);
    world.outbox.lanes[0].is_driven = true;
    world.outbox.lanes[1].is_driven = true;
    world.outbox.want_connections();
    world.turn(1, 0, 0);
    put(&mut world);
    let slow = world.now + SECOND;
    let Pulse::Dial { ask, .. } = world.pulse(0) else { panic!() };
    assert_eq!(ask, Some(slow));
    world.now = slow - Duration::from_millis(1);
    world.pulse(0);
    assert_eq!(queued(&world.outbox), [1, 0]);
    world.now = slow;
    let Pulse::Dial { ask, .. } = world.pulse(0) else { panic!() };
    assert!(ask.is_none_or(|ask| ask > slow), "not again at once");
    assert_eq!((queued(&world.outbox), world.outbox.report().moved), (vec![0, 1], 1));
    put(&mut world);
    assert_eq!(queued(&world.outbox), [0, 2], "nor does it get others");
    world.turn(0, 0, 0);
    put(&mut world);
    assert_eq!(queued(&world.outbox), [1, 2], "before it is connected");
}

#[test]
fn a_slow_server_keeps_its_puts_if_no_other_is_ready_or_a_caller_connects() {
    let mut world = World::new(2, Selection::InOrder, Probes::InBackground);
    world.outbox.lanes[0].is_driven = true;
    put(&mut world);
    world.pulse(0);
    world.now += SECOND;
    world.pulse(0);
    assert_eq!(queued(&world.outbox), [1, 0], "the other one was not tried either");
    // One that is ready, and refuses jobs, does not help.
    let mut world = World::new(2, Selection::InOrder, Probes::InBackground);
    world.outbox.lanes[0].is_driven = true;
    world.outbox.want_connections();
    world.turn(1, 0, 0);
    world.outbox.lanes[1].health.failed(world.now + 10 * SECOND);
    put(&mut world);
    world.pulse(0);
    world.now += SECOND;
    world.pulse(0);
    assert_eq!(queued(&world.outbox), [1, 0]);
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts);
    world.outbox.lanes[0].is_driven = true;
    world.outbox.want_connections();
    world.turn(1, 0, 0);
    put(&mut world);
    let Pulse::Dial { ask, .. } = world.pulse(0) else { panic!() };
    assert_eq!(ask, None, "the caller gives up with its put");
    put(&mut world);
    assert_eq!(queued(&world.outbox), [2, 0], "it is on its way");
    world.now += SECOND;
    world.pulse(0);
    assert_eq!(queued(&world.outbox), [2, 0]);
    put(&mut world);
    assert_eq!(queued(&world.outbox), [2, 1], "others go elsewhere");
}

#[test]
fn a_failed_server_gets_puts_again_once_it_is_connected_or_from_one_caller_at_a_time() {
    for probes in [Probes::ByPuts, Probes::InBackground] {
        let mut world = World::new(2, Selection::InOrder, probes).down(&[0]);
        world.outbox.want_connections();
        world.turn(0, 0, 0);
        world.turn(1, 0, 0);
        put(&mut world);
        assert_eq!(queued(&world.outbox), [0, 1], "it has just failed");
        world.now += 11 * SECOND;
        put(&mut world);
        let is_tried = probes == Probes::ByPuts;
        assert_eq!(queued(&world.outbox), if is_tried { [1, 1] } else { [0, 2] });
        world.pulse(0);
        put(&mut world);
        assert_eq!(queued(&world.outbox), if is_tried { [1, 2] } else { [0, 3] });
        world.servers[0].is_down = false;
        world.settle();
        world.check();
    }
}

/// Its driver connects in the background, even if nothing is to be sent.
#[test]
fn a_server_that_failed_is_tried_again_without_a_put_only_where_a_task_can_do_it() {
    for probes in [Probes::ByPuts, Probes::InBackground] {
        let mut world = World::new(2, Selection::InOrder, probes).down(&[0]);
        world.put(0, Delivery::AtMostOnce, 2);
        world.servers[1].is_down = true;
        world.turn(0, 0, 0);
        world.turn(1, 0, 0);
        world.now += 60 * SECOND;
        world.turn(1, 0, 0);
        assert_eq!(world.failure(0).fate(), Fate::NotSent);
        let pulse = world.pulse(0);
        if probes == Probes::ByPuts {
            assert_eq!(pulse, Pulse::Close(None));
            assert_eq!(world.outbox.report().servers[0].state, ConnectionState::Idle);
        } else {
            assert!(matches!(pulse, Pulse::Dial { .. }), "{pulse:?}");
        }
    }
}

/// Nothing else can come of it, with one server.
#[test]
fn the_only_server_is_not_tried_again_without_a_put() {
    for probes in [Probes::ByPuts, Probes::InBackground] {
        let mut world = World::new(1, Selection::InOrder, probes).down(&[0]);
        world.put(0, Delivery::AtMostOnce, 2);
        world.turn(0, 0, 0);
        world.now += 60 * SECOND;
        assert_eq!(world.pulse(0), Pulse::Close(None));
        assert_eq!(world.failure(0).fate(), Fate::NotSent);
    }
}

#[test]
fn puts_for_a_server_that_is_away_go_to_the_next_that_is_connected() {
    for probes in [Probes::ByPuts, Probes::InBackground] {
        let mut world = World::new(2, Selection::InOrder, probes).down(&[0, 1]);
        world.outbox.want_connections();
        world.turn(0, 0, 0);
        world.turn(1, 0, 0);
        world.now += 5 * SECOND;
        world.turn(0, 0, 0);
        put(&mut world);
        let at = queued(&world.outbox).iter().position(|puts| *puts == 1).unwrap();
        let other = 1 - at;
        world.servers[other].is_down = false;
        while !world.servers[other].is_connected {
            world.now += SECOND / 10;
            world.turn(other, 0, 0);
        }
        world.turn(other, usize::MAX, usize::MAX);
        for _ in 0..3 {
            world.turn(other, usize::MAX, usize::MAX);
        }
        assert!(world.has(0), "{:?}", queued(&world.outbox));
    }
}

/// It may be frozen. What it was sent before waits for it, and no other put does.
#[test]
fn a_silent_server_gets_no_put_while_another_answers() {
    for probes in [Probes::ByPuts, Probes::InBackground] {
        let mut world = World::new(2, Selection::InOrder, probes);
        world.outbox.want_connections();
        world.turn(0, 0, 0);
        world.turn(1, 0, 0);
        put(&mut world);
        world.write(0);
        world.now += SECOND - Duration::from_millis(1);
        world.turn(0, 0, 0);
        put(&mut world);
        assert_eq!(queued(&world.outbox), [2, 0]);
        world.now += Duration::from_millis(1);
        world.turn(0, 0, 0);
        put(&mut world);
        assert_eq!(queued(&world.outbox), [2, 1], "the first has not answered for a second");
        world.rounds(3);
        put(&mut world);
        assert_eq!(queued(&world.outbox), [1, 0], "it answers again");
        // Without another, its puts wait for it.
        world.servers[1].is_down = true;
        world.turn(1, 0, 0);
        world.write(0);
        world.now += 2 * SECOND;
        world.turn(0, 0, 0);
        put(&mut world);
        assert_eq!(queued(&world.outbox).iter().sum::<usize>(), 2);
    }
}

#[test]
fn a_server_without_a_stated_limit_has_none() {
    for answer in [
        text("---\nmax-job-size: 0\n"),
        text("---\nuptime: 1\n"),
        text("what is that?\n"),
        "UNKNOWN_COMMAND\r\n".to_owned(),
    ] {
        let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
        world.outbox.want_connections();
        world.greet(0, &answer);
        assert_eq!(world.outbox.state(), ConnectionState::Ready, "{answer}");
        let put = world.offer("default", &[b'x'; 5000], &policy());
        assert!(put.unwrap().is_some(), "{answer}");
    }
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    world.outbox.want_connections();
    world.greet(0, "DELETED\r\n");
    assert_eq!(world.outbox.state(), ConnectionState::Backoff);
    let refused = world.outbox.poll_connected(Waker::noop());
    assert!(matches!(refused, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Protocol));
}

/// The next server may have a larger limit.
#[test]
fn the_limit_of_a_server_ends_with_its_connection() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    world.outbox.want_connections();
    world.turn(0, 0, 0);
    assert_eq!(world.pulse(0), Pulse::Rest(None), "it is wanted no more");
    world.breaks(0);
    assert!(world.offer("default", &[b'x'; 1001], &policy()).unwrap().is_some());
}

#[test]
fn a_connection_that_breaks_within_an_answer_leaves_nothing_of_it_to_the_next() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    world.outbox.want_connections();
    world.greet(0, "OK 1000\r\n---\n");
    world.breaks(0);
    world.now += SECOND;
    put(&mut world);
    world.settle();
    assert!(world.has(0));
}

#[test]
fn a_job_that_is_buried_at_once_is_stored() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    put(&mut world);
    world.write(0);
    world.servers[0].connection.replies[1] = "BURIED 5\r\n".to_owned();
    world.turn(0, 0, 2);
    world.collect();
    let outcome = world.jobs[0].outcome.take().unwrap().unwrap();
    assert_eq!(outcome, Inserted::Buried(5.into()));
    assert_eq!((world.outbox.report().buried, world.outbox.report().inserted), (1, 0));
}

/// Also a refusal that is about the job.
#[test]
fn a_server_that_answers_a_put_works_again() {
    for answer in ["INSERTED 1\r\n", "BURIED 1\r\n", "JOB_TOO_BIG\r\n"] {
        let mut world = World::new(1, Selection::InOrder, Probes::ByPuts).down(&[0]);
        world.put(0, Delivery::AtMostOnce, 3600);
        world.turn(0, 0, 0);
        world.now += 60 * SECOND;
        world.servers[0].is_down = false;
        world.write(0);
        assert_eq!(world.outbox.lanes[0].health.failures(), 1, "a connection alone says nothing");
        world.servers[0].connection.replies[1] = answer.to_owned();
        world.turn(0, 0, 2);
        assert_eq!(world.outbox.lanes[0].health.failures(), 0, "{answer}");
    }
}

/// Its waiter saw a timeout.
#[test]
fn a_put_that_is_overdue_does_not_go_to_the_next_server() {
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts);
    world.servers[0].refuses = true;
    world.put(0, Delivery::AtLeastOnce, 2);
    world.write(0);
    world.now += 2 * SECOND;
    world.turn(0, 0, 0);
    let error = world.failure(0);
    assert_eq!((error.kind(), error.fate()), (overdue_kind(), Fate::Unknown));
    world.turn(0, 0, usize::MAX);
    assert_eq!((queued(&world.outbox), world.outbox.report().queued_jobs), (vec![0, 0], 0));
    assert_eq!(world.outbox.report().moved, 0);
}

/// It counted as two failures, and the server was left out for longer.
#[test]
fn a_put_that_falls_due_as_its_connection_is_lost_is_part_of_that_failure() {
    let reply_timeout = "host".parse::<crate::ConnectOptions>().unwrap().reply_timeout.as_secs();
    for is_silent in [false, true] {
        let mut world = World::new(2, Selection::InOrder, Probes::ByPuts);
        world.put(0, Delivery::AtMostOnce, reply_timeout);
        world.write(0);
        world.now += reply_timeout as u32 * SECOND;
        match is_silent {
            true => world.turn(0, 0, 0),
            false => world.end(0, End::Lost(std::io::ErrorKind::ConnectionReset.into())),
        }
        assert_eq!(world.outbox.lanes[0].phase, LanePhase::Backoff);
        assert_eq!(world.outbox.lanes[0].health.failures(), 1, "{is_silent}");
        let error = world.failure(0);
        assert_eq!((error.kind(), error.fate()), (overdue_kind(), Fate::Unknown));
    }
}

#[test]
fn each_kind_of_failure_is_reported_once_per_outage() {
    let options = options(1, Selection::InOrder).on_event(|_| {});
    let mut world = World::of(options, Probes::ByPuts).down(&[0]);
    world.put(0, Delivery::AtMostOnce, 3600);
    let mut events = Vec::new();
    for _ in 0..3 {
        world.turn(0, 0, 0);
        world.now += 60 * SECOND;
        events.extend(world.events());
    }
    let news: Vec<_> = events.iter().filter(|event| event.contains("disconnected")).collect();
    assert_eq!(news, ["0 disconnected: refused"]);
    assert_eq!(events.len(), 4, "each pause is told: {events:?}");
    world.servers[0].is_down = false;
    world.turn(0, 0, 0);
    assert_eq!(world.events(), ["0 connected"]);
    world.turn(0, usize::MAX, 0);
    world.breaks(0);
    let lost = world.outbox.take_events();
    let fate = lost.iter().find_map(|(_, what)| match what {
        ProducerEventKind::Disconnected(error) => Some(error.fate()),
        _ => None,
    });
    assert_eq!(fate, Some(Fate::Unknown), "puts may have been in flight");
    assert!(world.outbox.take_lost(0) && !world.outbox.take_lost(0), "told once");
    for _ in 0..2 {
        world.now += 60 * SECOND;
        world.put(0, Delivery::AtLeastOnce, 3600);
        // After the answer to `use`, the put is written.
        for (takes, arrives) in [(0, 0), (0, 0), (usize::MAX, 0), (usize::MAX, 1), (usize::MAX, 0)]
        {
            world.turn(0, takes, arrives);
        }
        world.breaks(0);
        let events = world.events();
        assert!(events.iter().any(|event| event.contains("disconnected")), "again: {events:?}");
        assert!(events.iter().any(|event| event.contains("sent again")), "{events:?}");
    }
}

#[test]
fn puts_moved_or_refused_together_are_reported_together() {
    let options = options(2, Selection::InOrder).on_event(|_| {});
    let mut world = World::of(options, Probes::ByPuts).down(&[0]);
    (0..3).for_each(|_| put(&mut world));
    world.turn(0, 0, 0);
    let events = world.events();
    assert_eq!(events[0], "0 disconnected: refused");
    assert_eq!(events.last().unwrap(), "0 3 puts go to another server");
    assert!(!world.outbox.take_lost(0), "it never served");
}

/// What the pump says about a connection that the lane has given up is no news.
#[test]
fn a_failure_is_counted_once() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    put(&mut world);
    let Pulse::Dial { by: Some(by), .. } = world.pulse(0) else { panic!() };
    world.now = by + Duration::from_millis(1);
    assert!(matches!(world.pulse(0), Pulse::Close(Some(_))), "the attempt took too long");
    assert_eq!(world.outbox.lanes[0].health.failures(), 1);
    world.servers[0].io.ended(End::NotConnected(refused()));
    world.pulse(0);
    assert_eq!(world.outbox.lanes[0].health.failures(), 1);

    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    put(&mut world);
    world.write(0);
    world.servers[0].connection.replies[0] = "USING tube\r\n".to_owned();
    bring(&mut world.servers[0].io, b"USING tube\r\n");
    assert_eq!(world.pulse(0), Pulse::Close(None));
    world.servers[0].io.ended(End::Lost(std::io::ErrorKind::ConnectionReset.into()));
    world.pulse(0);
    assert_eq!(world.outbox.lanes[0].health.failures(), 1);
}

/// The tube that the server uses is that of the last `use` that was answered.
#[test]
fn a_put_after_one_that_was_overdue_goes_to_its_own_tube() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    put(&mut world);
    world.rounds(4);
    assert!(world.has(0));
    world.put(1, Delivery::AtMostOnce, 1);
    world.now += SECOND;
    world.turn(0, 0, 0);
    assert_eq!(world.failure(1).kind(), overdue_kind());
    world.offer("default", b"here", &policy()).unwrap().unwrap();
    world.settle();
    assert_eq!(world.servers[0].stored[1], ("default".to_owned(), b"here".to_vec()));
}

/// Idle connections are checked by callers that have something to write; a task is told when one ends.
#[test]
fn an_idle_connection_is_not_checked_without_need() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    put(&mut world);
    world.settle();
    world.now += 3600 * SECOND;
    assert_eq!(world.pulse(0), Pulse::Rest(None), "there is nothing to write");
    let mut world = World::new(1, Selection::InOrder, Probes::InBackground);
    put(&mut world);
    world.settle();
    world.now += 60 * SECOND;
    put(&mut world);
    assert!(matches!(world.pulse(0), Pulse::Go(_)));
    assert_ne!(world.unsent(0), "");
}
