//! Callers and drivers that wait, and what wakes them.

use std::cell::Cell;

use super::*;

/// A waker, and how often it was known to be woken.
#[derive(Default)]
pub(super) struct Sleeper(Arc<Woken>, Cell<usize>);

impl Sleeper {
    pub(super) fn waker(&self) -> Waker {
        self.0.clone().into()
    }

    /// Whether it was woken since the last time.
    pub(super) fn is_awake(&self, outbox: &mut Outbox) -> bool {
        let mut woken = Vec::new();
        outbox.take_wakers(&mut woken);
        woken.into_iter().for_each(Waker::wake);
        self.1.replace(self.0.count()) < self.0.count()
    }
}

#[test]
fn a_flush_waits_for_the_puts_before_it() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    let nothing = world.outbox.mark();
    assert!(world.outbox.poll_passed(nothing, Waker::noop()).is_ready());
    world.put(0, Delivery::AtMostOnce, 60);
    let mark = world.outbox.mark();
    world.put(0, Delivery::AtMostOnce, 60);
    let sleeper = Sleeper::default();
    for _ in 0..2 {
        assert!(world.outbox.poll_passed(mark, &sleeper.waker()).is_pending());
    }
    for (takes, arrives) in [(0, 0), (0, 0), (usize::MAX, 0), (0, 1)] {
        world.turn(0, takes, arrives);
    }
    // Being connected wakes it, too.
    assert!(sleeper.is_awake(&mut world.outbox));
    assert!(world.outbox.poll_passed(mark, &sleeper.waker()).is_pending());
    assert!(!sleeper.is_awake(&mut world.outbox));
    assert_eq!(Arc::strong_count(&sleeper.0), 2, "its waker is kept once");
    world.turn(0, 0, 1);
    assert!(sleeper.is_awake(&mut world.outbox));
    assert!(world.outbox.poll_passed(mark, Waker::noop()).is_ready());
    assert_eq!(world.outbox.report().queued_jobs, 1, "the other one came later");
    // Those that wait for the same are woken together, and by the close.
    let others = [Sleeper::default(), Sleeper::default(), Sleeper::default()];
    let mark = world.outbox.mark();
    for other in &others {
        assert!(world.outbox.poll_passed(mark, &other.waker()).is_pending());
    }
    world.outbox.wake_all();
    let (one, rest) = world.outbox.take_few_wakers();
    assert!(one.is_some() && rest.len() == 2);
    // The same again, after everything was done.
    world.settle();
    world.put(0, Delivery::AtMostOnce, 60);
    let mark = world.outbox.mark();
    assert!(world.outbox.poll_passed(mark, Waker::noop()).is_pending());
    world.settle();
    assert!(world.outbox.poll_passed(mark, Waker::noop()).is_ready());
}

#[test]
fn connect_returns_the_first_connection_or_all_failures() {
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts).down(&[0]);
    world.outbox.want_connections();
    let sleeper = Sleeper::default();
    assert!(world.outbox.poll_connected(&sleeper.waker()).is_pending());
    world.turn(0, 0, 0);
    assert!(sleeper.is_awake(&mut world.outbox), "it has to look again");
    assert!(world.outbox.poll_connected(&sleeper.waker()).is_pending(), "there is another one");
    world.turn(1, 0, 0);
    assert!(sleeper.is_awake(&mut world.outbox));
    assert!(matches!(world.outbox.poll_connected(Waker::noop()), Poll::Ready(Ok(()))));

    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts).down(&[0, 1]);
    world.outbox.want_connections();
    world.turn(0, 0, 0);
    world.turn(1, 0, 0);
    let Poll::Ready(Err(error)) = world.outbox.poll_connected(Waker::noop()) else { panic!() };
    assert!(error.to_string().contains("none of the servers can be reached"), "{error}");
    let causes: Vec<String> =
        world.outbox.addresses.iter().map(|at| format!("{at}: refused")).collect();
    assert!(error.to_string().ends_with(&causes.join("; ")), "{error}");

    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts).down(&[0]);
    world.outbox.want_connections();
    world.turn(0, 0, 0);
    let Poll::Ready(Err(error)) = world.outbox.poll_connected(Waker::noop()) else { panic!() };
    let expected = format!("connect to {}: refused", world.outbox.addresses[0]);
    assert_eq!((error.to_string(), error.fate()), (expected, Fate::NotSent));
    // A server that accepts and says nothing has failed, too.
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    world.outbox.want_connections();
    let Pulse::Dial { by: Some(by), .. } = world.ask(0) else { panic!() };
    world.servers[0].connect();
    world.servers[0].io.opened();
    world.ask(0);
    assert!(world.outbox.poll_connected(Waker::noop()).is_pending());
    world.now = by;
    world.ask(0);
    let Poll::Ready(Err(error)) = world.outbox.poll_connected(Waker::noop()) else { panic!() };
    assert!(error.to_string().contains("no connection within the connect timeout of "), "{error}");
}

#[test]
fn a_closed_producer_finishes_accepted_puts_only() {
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    for _ in 0..20 {
        world.put(0, Delivery::AtMostOnce, 60);
    }
    world.outbox.lanes[0].is_driven = true;
    let put = Put::new(b"x", crate::PutOptions::default()).unwrap();
    let (sleeper, tube) = (Sleeper::default(), TubeName::default());
    let place = world.outbox.stand_in_line(&put, (&policy(), None), &sleeper.waker());
    world.outbox.close();
    assert!(sleeper.is_awake(&mut world.outbox), "it waited for room");
    let stands = (&policy(), None);
    let room = world.outbox.poll_room(place, &put, &tube, stands, world.now, Waker::noop());
    assert!(matches!(room, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Closed));
    assert_eq!(world.offer("default", b"x", &policy()).unwrap_err().kind(), ErrorKind::Closed);
    assert!(world.outbox.poll_closed(&sleeper.waker()).is_pending());
    world.settle();
    assert_eq!(world.servers[0].stored.len(), 20);
    assert_eq!(world.ask(0), Pulse::Over);
    assert!(sleeper.is_awake(&mut world.outbox));
    assert!(world.outbox.poll_closed(Waker::noop()).is_ready());
    assert_eq!(world.outbox.state(), ConnectionState::Closed);
    // A driver that has its own last turn to do is waited for.
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    world.outbox.lanes[0].is_driven = true;
    world.outbox.close();
    assert!(world.outbox.poll_closed(Waker::noop()).is_pending());
    world.ask(0);
    assert!(world.outbox.poll_closed(Waker::noop()).is_ready());
    // Without a driver, there is nothing to wait for.
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts);
    assert!(world.outbox.poll_closed(Waker::noop()).is_pending(), "it is not closed");
    world.outbox.close();
    assert!(world.outbox.poll_closed(Waker::noop()).is_ready());
}

#[test]
fn new_work_wakes_a_sleeping_driver() {
    for what in ["a put", "a connection", "the close", "a caller in line", "nothing"] {
        let mut world = World::new(1, Selection::InOrder, Probes::InBackground);
        world.outbox.claim(0);
        let (first, last) = (Sleeper::default(), Sleeper::default());
        world.outbox.sleep(0, &first.waker());
        world.outbox.sleep(0, &last.waker());
        assert_eq!(Arc::strong_count(&first.0), 1, "only its last waker is kept");
        match what {
            "a put" => world.put(0, Delivery::AtMostOnce, 60),
            "a connection" => world.outbox.want_connections(),
            "the close" => world.outbox.close(),
            "a caller in line" => {
                let put = Put::new(b"x", crate::PutOptions::default()).unwrap();
                world.outbox.stand_in_line(&put, (&policy(), None), Waker::noop());
            }
            _ => {}
        }
        assert_eq!(last.is_awake(&mut world.outbox), what != "nothing", "{what}");
    }
    // The close waits for it, even if it has done nothing yet.
    let mut world = World::new(1, Selection::InOrder, Probes::InBackground);
    world.outbox.claim(0);
    world.outbox.close();
    assert!(world.outbox.poll_closed(Waker::noop()).is_pending());
    let sleeper = Sleeper::default();
    assert!(world.outbox.poll_closed(&sleeper.waker()).is_pending());
    assert_eq!(world.ask(0), Pulse::Over);
    assert!(sleeper.is_awake(&mut world.outbox));
    assert!(world.outbox.poll_closed(Waker::noop()).is_ready());
}

#[test]
fn the_driver_of_another_server_is_woken_for_puts_that_move_to_it_and_by_the_end_of_all() {
    let mut world = World::new(2, Selection::InOrder, Probes::InBackground);
    world.outbox.claim(0);
    world.outbox.claim(1);
    world.servers[0].is_down = true;
    world.put(0, Delivery::AtMostOnce, 60);
    let sleeper = Sleeper::default();
    world.outbox.sleep(1, &sleeper.waker());
    world.turn(0, 0, 0);
    assert!(sleeper.is_awake(&mut world.outbox));
    world.outbox.close();
    world.outbox.sleep(0, &sleeper.waker());
    for (takes, arrives) in [(0, 0), (0, 0), (usize::MAX, 0)] {
        world.turn(1, takes, arrives);
    }
    assert!(!sleeper.is_awake(&mut world.outbox));
    world.turn(1, 0, usize::MAX);
    assert!(sleeper.is_awake(&mut world.outbox), "it has to end, too");
}

#[test]
fn a_lane_without_its_task_is_reported() {
    let options = options(1, Selection::InOrder).on_event(|_| {});
    let mut world = World::of(options, Probes::InBackground);
    world.outbox.claim(0);
    let sleeper = Sleeper::default();
    assert!(world.outbox.poll_closed(&sleeper.waker()).is_pending());
    world.servers[0].io.abandoned();
    assert_eq!(world.ask(0), Pulse::Over);
    let events = world.events();
    assert!(events[0].contains("driver is gone"), "{events:?}");
    assert!(sleeper.is_awake(&mut world.outbox));
}

#[test]
fn the_waiting_caller_of_a_put_is_woken_by_its_answer_and_when_another_server_gets_it() {
    let mut world = World::new(2, Selection::InOrder, Probes::ByPuts).down(&[0]);
    let slot = world.offer("default", b"x", &policy()).unwrap().unwrap();
    let sleeper = Sleeper::default();
    assert!(world.outbox.poll_answer(slot, &sleeper.waker()).is_pending());
    world.turn(0, 0, 0);
    assert!(sleeper.is_awake(&mut world.outbox), "it drives another lane from now on");
    assert!(world.outbox.poll_answer(slot, &sleeper.waker()).is_pending());
    world.turn(1, usize::MAX, 0);
    world.turn(1, usize::MAX, 0);
    assert!(!sleeper.is_awake(&mut world.outbox));
    world.turn(1, 0, usize::MAX);
    let (woken, others) = world.outbox.take_few_wakers();
    assert!(woken.is_none() && others.is_empty(), "the pump has woken it");
    assert!(sleeper.is_awake(&mut world.outbox) && world.answer(slot).unwrap().is_ok());

    // A put that stays where it is wakes no caller.
    let mut world = World::new(1, Selection::InOrder, Probes::ByPuts).down(&[0]);
    let slot = world.offer("default", b"x", &policy()).unwrap().unwrap();
    assert!(world.outbox.poll_answer(slot, &sleeper.waker()).is_pending());
    world.turn(0, 0, 0);
    assert!(!sleeper.is_awake(&mut world.outbox));
    world.outbox.close();
    world.settle();
    let (woken, _) = world.outbox.take_few_wakers();
    woken.into_iter().for_each(Waker::wake);
    assert!(sleeper.is_awake(&mut world.outbox));
}

#[test]
fn room_that_a_caller_gives_up_goes_to_the_next_in_line() {
    let mut world = World::of(options(1, Selection::InOrder).max_jobs(1), Probes::ByPuts);
    let first = world.offer("default", b"x", &policy()).unwrap().unwrap();
    let places = [0; 3].map(|_| world.stand_in_line(1, None));
    let poll = |world: &mut World, place: usize| has_room(world, places[place], 1);
    world.rounds(4);
    assert!(world.answer(first).unwrap().is_ok());
    // The first in line has its room, and goes away with it.
    assert!(poll(&mut world, 1).is_none());
    world.outbox.abandon(places[0]);
    assert!(poll(&mut world, 2).is_none());
    assert!(poll(&mut world, 1).is_some());
    // A put that was accepted is sent although its caller is gone.
    world.outbox.abandon(places[1]);
    world.rounds(4);
    assert_eq!(world.servers[0].stored.len(), 2);
    assert!(poll(&mut world, 2).is_some());
    world.settle();
    assert_eq!(world.servers[0].stored.len(), 3);
}

/// A producer whose queue is full for anything but an empty put, with callers in line for these sizes.
fn full(sizes: &[(usize, u64)]) -> (World, SlotId, Vec<SlotId>) {
    let options = options(1, Selection::InOrder).max_bytes(2 * 64 + 50);
    let mut world = World::of(options, Probes::ByPuts);
    let first = world.offer("default", &[b'x'; 50], &policy()).unwrap().unwrap();
    let line = sizes.iter().map(|(size, seconds)| {
        let due = world.now + Duration::from_secs(*seconds);
        world.stand_in_line(*size, Some(due))
    });
    let line = line.collect();
    (world, first, line)
}

/// Whether this caller has its room, and has put its job.
pub(super) fn has_room(world: &mut World, place: SlotId, size: usize) -> Option<Result<()>> {
    let put = Put::new(vec![b'x'; size], crate::PutOptions::default()).unwrap();
    let (tube, stands) = (TubeName::default(), (&policy(), None));
    match world.outbox.poll_room(place, &put, &tube, stands, world.now, Waker::noop()) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[test]
fn a_small_put_goes_when_the_large_one_before_it_has_left_the_line() {
    // Its caller goes away.
    let (mut world, _, line) = full(&[(1, 60), (0, 60)]);
    assert!(has_room(&mut world, line[1], 0).is_none(), "not before its turn");
    world.outbox.abandon(line[0]);
    assert!(has_room(&mut world, line[1], 0).unwrap().is_ok());
    // Its time is over.
    let (mut world, _, line) = full(&[(1, 5), (0, 60), (0, 9)]);
    world.turn(0, 0, 0);
    world.now += 5 * SECOND;
    assert_eq!(world.ask(0).until(), Some(world.now + 4 * SECOND), "for the next in line");
    assert!(matches!(has_room(&mut world, line[0], 1), Some(Err(_))));
    assert!(has_room(&mut world, line[1], 0).unwrap().is_ok());
    assert!(has_room(&mut world, line[2], 0).is_none(), "the queue is full again");
    world.now += 4 * SECOND;
    world.turn(0, 0, 0);
    assert!(matches!(has_room(&mut world, line[2], 0), Some(Err(_))));
    // It is too large for its server, as it turns out.
    let (mut world, first, line) = full(&[(1001, 60), (0, 60)]);
    world.rounds(4);
    assert!(world.answer(first).unwrap().is_ok());
    let error = has_room(&mut world, line[0], 1001).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::JobTooBig);
    assert!(has_room(&mut world, line[1], 0).unwrap().is_ok());
}

#[test]
fn a_caller_queued_after_a_departure_is_last() {
    let (mut world, first, line) = full(&[(50, 60), (50, 60), (50, 60)]);
    world.outbox.abandon(line[1]);
    let last = world.stand_in_line(50, None);
    // There is room for one at a time.
    let in_order = [(first, line[0]), (line[0], line[2]), (line[2], last)];
    for (before, next) in in_order {
        assert!(has_room(&mut world, next, 50).is_none());
        world.rounds(4);
        assert!(world.answer(before).unwrap().is_ok());
        assert!(next == last || has_room(&mut world, last, 50).is_none());
        assert!(has_room(&mut world, next, 50).unwrap().is_ok());
    }
    world.settle();
}

#[test]
fn room_wakes_the_last_waker_of_its_caller() {
    let (mut world, _, line) = full(&[(1, 60)]);
    let [first, last] = [Sleeper::default(), Sleeper::default()];
    let put = Put::new(b"", crate::PutOptions::default()).unwrap();
    let place = world.outbox.stand_in_line(&put, (&policy(), None), &first.waker());
    let (tube, stands, waker) = (TubeName::default(), (&policy(), None), last.waker());
    let room = world.outbox.poll_room(place, &put, &tube, stands, world.now, &waker);
    assert!(room.is_pending() && Arc::strong_count(&first.0) == 1);
    // The one before it leaves the line.
    world.outbox.abandon(line[0]);
    let mut woken = Vec::new();
    world.outbox.take_wakers(&mut woken);
    assert!(woken.iter().any(|woken| woken.will_wake(&waker)));
    assert!(has_room(&mut world, place, 0).unwrap().is_ok());
}

/// A producer lives for as long as its process.
#[test]
fn places_are_used_again() {
    let (mut world, first, _) = full(&[]);
    world.rounds(4);
    assert!(world.answer(first).unwrap().is_ok());
    for _ in 0..20 {
        // Answered; gone before its answer; too large; gone while it was in line, or with its room.
        let answered = world.offer("default", b"x", &policy()).unwrap().unwrap();
        let gone = world.offer("default", b"x", &policy()).unwrap().unwrap();
        let [in_line, with_room] = [0; 2].map(|_| world.stand_in_line(60, None));
        assert!(answered.max(gone).max(in_line).max(with_room) < 4);
        world.outbox.abandon(gone);
        world.outbox.abandon(in_line);
        world.rounds(4);
        assert!(world.answer(answered).unwrap().is_ok());
        world.outbox.abandon(with_room);
        assert_eq!(world.outbox.report().queued_jobs, 0);
        assert!(world.offer("default", &[b'x'; 1001], &policy()).is_err());
        // In line, and then too large.
        let place = world.stand_in_line(1001, None);
        assert!(matches!(has_room(&mut world, place, 1001), Some(Err(_))));
    }
}
