//! Callers that drive the lanes of a blocking producer, which has no tasks.

use super::*;

const TURN: Duration = Duration::from_millis(20);

/// The lane that a caller is to drive, if any, and until when it drives or sleeps.
fn lead(
    world: &mut World,
    slot: Option<SlotId>,
    last: Option<usize>,
) -> (Option<usize>, Option<Instant>) {
    match world.outbox.lead(slot, last, world.now) {
        Leadership::Drive(server, until) => (Some(server), until),
        Leadership::Park(until) => (None, until),
    }
}

/// A put for each server, in order, and whether to connect to it.
fn world(connects: &[bool]) -> (World, Vec<SlotId>) {
    let mut world = World::new(connects.len(), Selection::RoundRobin, Probes::ByPuts);
    let puts = connects.iter().map(|_| world.offer("default", b"x", &policy()).unwrap().unwrap());
    let slots = puts.collect();
    for (server, connects) in connects.iter().enumerate() {
        if *connects {
            world.turn(server, 0, 0);
        }
    }
    (world, slots)
}

#[test]
fn one_caller_drives_the_lane_of_its_put_and_the_next_takes_over() {
    let (mut world, slots) = world(&[true]);
    let second = world.offer("default", b"y", &policy()).unwrap().unwrap();
    let due = Some(world.now + policy().timeout);
    assert_eq!(lead(&mut world, Some(slots[0]), None), (Some(0), due), "as long as its put waits");
    assert_eq!(lead(&mut world, Some(second), None), (None, due), "it is driven");
    let [one, two] = [Sleeper::default(), Sleeper::default()];
    assert!(world.outbox.poll_answer(slots[0], &one.waker()).is_pending());
    assert!(world.outbox.poll_answer(second, &two.waker()).is_pending());
    for _ in 0..2 {
        world.turn(0, usize::MAX, 1);
    }
    assert!(one.is_awake(&mut world.outbox) && !two.is_awake(&mut world.outbox));
    assert!(world.answer(slots[0]).is_some());
    world.outbox.resign(0);
    assert!(two.is_awake(&mut world.outbox), "somebody has to drive it");
    assert_eq!(lead(&mut world, Some(second), None), (Some(0), due));
    world.settle();
    world.outbox.resign(0);
    // Nothing is left to do.
    assert_eq!(lead(&mut world, None, None).0, None);
}

#[test]
fn a_caller_drives_the_other_lanes_in_turns_with_its_own() {
    let (mut world, slots) = world(&[true, true, true]);
    let turn = Some(world.now + TURN);
    let mut driven = Vec::new();
    let mut last = None;
    for _ in 0..6 {
        let (server, until) = lead(&mut world, Some(slots[1]), last);
        assert_eq!(until, turn);
        last = server;
        driven.extend(server);
        world.outbox.resign(server.unwrap());
    }
    assert_eq!(driven, [1, 0, 1, 2, 1, 0]);
    // Those driven by others need no driver.
    for other in [0, 2] {
        world.outbox.lanes[other].is_driven = true;
    }
    let due = Some(world.now + policy().timeout);
    assert_eq!(lead(&mut world, Some(slots[1]), Some(1)), (Some(1), due));
    // Its own is driven by another, who wakes it.
    world.outbox.lanes[0].is_driven = false;
    assert_eq!(lead(&mut world, Some(slots[1]), Some(1)), (None, due));
}

/// A turn is too short to make a connection, and its own put has nothing of it.
#[test]
fn a_caller_connects_to_the_server_of_its_put_only() {
    let (mut world, slots) = world(&[false, true, false]);
    let due = Some(world.now + policy().timeout);
    assert_eq!(lead(&mut world, Some(slots[1]), Some(1)), (Some(1), due), "nothing else to drive");
    world.outbox.resign(1);
    // The connection to its own server comes first.
    assert_eq!(lead(&mut world, Some(slots[0]), None), (Some(0), due));
    world.outbox.resign(0);
    // Then the one that is there has its turn.
    let turn = Some(world.now + TURN);
    assert_eq!(lead(&mut world, Some(slots[0]), Some(0)), (Some(1), turn));
}

#[test]
fn callers_without_a_put_share_all_lanes() {
    let (mut world, _) = world(&[false, true, false]);
    let drive = |world: &mut World| lead(world, None, None);
    assert_eq!(drive(&mut world), (Some(0), None), "it waits for the connection");
    assert_eq!(drive(&mut world), (Some(1), Some(world.now + TURN)), "another one has nobody");
    assert_eq!(drive(&mut world), (Some(2), None));
    let due = Some(world.now + policy().timeout);
    assert_eq!(drive(&mut world), (None, due));
    (0..3).for_each(|server| world.outbox.resign(server));
    assert_eq!(drive(&mut world).0, Some(0));
    world.outbox.resign(0);
    assert_eq!(drive(&mut world).0, Some(1), "the next one in turn");
    world.outbox.resign(1);
    // A caller in line has its own time.
    let put = Put::new(b"x", crate::PutOptions::default()).unwrap();
    let end = Some(world.now + SECOND);
    world.outbox.stand_in_line(&put, (&policy(), end), Waker::noop());
    world.outbox.abandon(3);
    (0..17).for_each(|_| drop(world.offer("default", b"x", &policy())));
    world.outbox.stand_in_line(&put, (&policy(), end), Waker::noop());
    assert_eq!(drive(&mut world), (Some(2), end));
}

#[test]
fn a_caller_sleeps_until_its_server_may_be_retried() {
    let (mut world, slots) = world(&[false]);
    world.servers[0].is_down = true;
    let due = Some(world.now + policy().timeout);
    assert_eq!(lead(&mut world, Some(slots[0]), None), (Some(0), due));
    world.turn(0, 0, 0);
    world.outbox.resign(0);
    let until = world.outbox.lanes[0].health.quarantine(world.now);
    assert!(until.is_some());
    assert_eq!(lead(&mut world, Some(slots[0]), Some(0)), (None, until));
    world.now = until.unwrap();
    assert_eq!(lead(&mut world, Some(slots[0]), Some(0)), (Some(0), due));
    // Another driver is there, and looks after it.
    world.outbox.lanes[0].health.failed(world.now);
    world.outbox.lanes[0].phase = LanePhase::Backoff;
    assert_eq!(lead(&mut world, Some(slots[0]), Some(0)), (None, due));
}

#[test]
fn a_driver_that_stops_wakes_another_waiter() {
    let (mut world, slots) = world(&[true]);
    let [own, flush, line] = [Sleeper::default(), Sleeper::default(), Sleeper::default()];
    assert!(world.outbox.poll_answer(slots[0], &own.waker()).is_pending());
    let mark = world.outbox.mark();
    assert!(world.outbox.poll_passed(mark, &flush.waker()).is_pending());
    let put = Put::new(b"x", crate::PutOptions::default()).unwrap();
    (0..19).for_each(|_| world.put(0, Delivery::AtMostOnce, 60));
    let place = world.outbox.stand_in_line(&put, (&policy(), None), &line.waker());
    world.outbox.resign(0);
    assert!(own.is_awake(&mut world.outbox) && !flush.is_awake(&mut world.outbox));
    // The callers of the puts are gone, or awake.
    world.outbox.resign(0);
    assert!(line.is_awake(&mut world.outbox) && !flush.is_awake(&mut world.outbox));
    world.outbox.abandon(place);
    world.outbox.resign(0);
    assert!(flush.is_awake(&mut world.outbox));
    // With nothing to do, no caller is woken, except those that wait for the close.
    world.settle();
    let close = Sleeper::default();
    assert!(world.outbox.poll_closed(&close.waker()).is_pending());
    world.outbox.resign(0);
    assert!(!close.is_awake(&mut world.outbox));
    world.outbox.is_closing = true;
    world.outbox.resign(0);
    assert!(close.is_awake(&mut world.outbox));
}

#[test]
fn a_caller_meets_its_deadline_and_drives_no_closed_lane() {
    let (mut world, slots) = world(&[true]);
    world.now += policy().timeout;
    lead(&mut world, Some(slots[0]), None);
    let error = world.answer(slots[0]).unwrap().unwrap_err();
    assert_eq!(error.kind(), overdue_kind());
    assert!(error.to_string().contains("not done within the total timeout of 60 s"), "{error}");
    let (mut world, _) = self::world(&[false]);
    world.outbox.lanes[0].phase = LanePhase::Closed;
    assert_eq!(lead(&mut world, None, None).0, None);
}

#[test]
fn an_abandoned_connection_attempt_does_not_count() {
    let (mut world, slots) = world(&[false]);
    lead(&mut world, Some(slots[0]), None);
    let Pulse::Dial { by, .. } = world.pulse(0) else { panic!() };
    world.outbox.resign(0);
    assert_eq!(world.outbox.state(), ConnectionState::Idle);
    // The next one has its own time.
    world.now += SECOND;
    lead(&mut world, Some(slots[0]), None);
    let Pulse::Dial { by: again, .. } = world.pulse(0) else { panic!() };
    assert_eq!(again, by.map(|by| by + SECOND));
}

/// It may be unread since it arrived.
#[test]
fn an_unread_answer_is_read_before_its_put_expires() {
    let (mut world, slots) = world(&[true]);
    world.turn(0, usize::MAX, 0);
    let second = world.offer("default", b"y", &policy()).unwrap().unwrap();
    world.turn(0, 0, 0);
    world.turn(0, usize::MAX, 0);
    world.now += policy().timeout;
    assert_eq!(lead(&mut world, Some(slots[0]), None).0, Some(0));
    assert_eq!(world.pulse(0), Pulse::Look);
    world.move_bytes(0, 0, 1);
    assert!(world.answer(slots[0]).unwrap().is_ok());
    assert_eq!(world.answer(second).unwrap().unwrap_err().fate(), Fate::Unknown, "it has none");
}

#[test]
fn unwritten_puts_are_left_to_one_helper() {
    let (mut world, slots) = world(&[false]);
    let left = |world: &mut World| format!("{:?}", world.outbox.left(world.now));
    let is_written = |world: &mut World| world.outbox.poll_written(Waker::noop()).is_ready();
    assert_eq!(left(&mut world), "Help", "there is no connection");
    assert_eq!(left(&mut world), "Nothing", "one is enough");
    assert!(!is_written(&mut world));
    world.turn(0, usize::MAX, 0);
    world.turn(0, usize::MAX, 0);
    assert!(is_written(&mut world) && left(&mut world) == "Nothing");
    let waits = world.offer("default", b"y", &policy()).unwrap().unwrap();
    assert_eq!(left(&mut world), "Push(0)");
    assert_eq!(left(&mut world), "Nothing", "somebody does it");
    // It hands over to a caller that waits.
    let caller = Sleeper::default();
    assert!(world.outbox.poll_answer(waits, &caller.waker()).is_pending());
    world.outbox.resign(0);
    assert!(caller.is_awake(&mut world.outbox) && left(&mut world) == "Nothing");
    // That caller gives up.
    world.now += policy().timeout;
    lead(&mut world, Some(waits), None);
    world.outbox.resign(0);
    assert_eq!(left(&mut world), "Push(0)", "its put has expired");
    world.outbox.abandon(slots[0]);
}
