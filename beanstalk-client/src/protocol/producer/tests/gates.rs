//! A limit of ready jobs in each tube.

use super::*;

const INTERVAL: Duration = Duration::from_millis(100);

/// A producer with a limit of 3, which has its connection.
fn limited() -> World {
    let options = options(1, Selection::InOrder).max_ready(3).depth_interval(INTERVAL);
    let mut world = World::of(options, some_probes());
    world.outbox.want_connections();
    world.turn(0, 0, 0);
    world
}

/// Puts as many jobs as `count` into a tube.
fn put(world: &mut World, count: usize) {
    (0..count).for_each(|_| world.put(0, Delivery::AtMostOnce, 60));
}

const ASKED: &str = "stats-tube tube0\r\n";

#[test]
fn puts_wait_while_their_tube_is_full_and_go_when_there_is_room() {
    let mut world = limited();
    world.servers[0].ready = 1;
    put(&mut world, 5);
    world.turn(0, 0, 0);
    assert_eq!(world.unsent(0), ASKED, "the first put waits for the first answer");
    world.turn(0, usize::MAX, usize::MAX);
    for _ in 0..3 {
        world.turn(0, usize::MAX, usize::MAX);
    }
    assert_eq!(world.servers[0].stored.len(), 2, "one is ready, and three may be");
    assert_eq!(world.outbox.report().queued_jobs, 3);
    let Some(at) = world.ask(0).until() else { panic!("it asks again") };
    assert!(at <= world.now + INTERVAL);
    world.now += INTERVAL;
    world.turn(0, 0, 0);
    assert_eq!(world.unsent(0), ASKED);
    for _ in 0..3 {
        world.turn(0, usize::MAX, usize::MAX);
    }
    assert_eq!(world.servers[0].stored.len(), 4, "consumers have taken two");
    // The rest waits on the next connection, too.
    world.step(&Step::Break { server: 0, takes: 0 });
    world.settle();
    world.check();
    assert_eq!(world.servers[0].stored.len(), 5);
}

#[test]
fn a_put_that_does_not_wait_fails_if_its_tube_is_full() {
    let mut world = limited();
    world.servers[0].ready = 3;
    put(&mut world, 1);
    let impatient = Policy { waits: false, ..policy() };
    for _ in 0..3 {
        world.turn(0, usize::MAX, usize::MAX);
    }
    let error = world.offer("tube0", b"x", &impatient).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::QueueFull, Fate::NotSent));
    assert!(error.to_string().contains("3 jobs are ready"), "{error}");
    assert!(error.to_string().contains("the limit is 3"), "{error}");
    assert_eq!(world.outbox.report().accepted, 1);
    assert!(world.offer("tube0", b"x", &policy()).unwrap().is_some(), "others wait");
    assert!(world.offer("tube1", b"x", &impatient).unwrap().is_some(), "that one is not full");
}

#[test]
fn a_put_that_waits_too_long_for_its_tube_says_that_it_is_full() {
    let mut world = limited();
    world.servers[0].ready = 3;
    world.put(0, Delivery::AtMostOnce, 2);
    for _ in 0..3 {
        world.turn(0, usize::MAX, usize::MAX);
    }
    world.now += 2 * SECOND;
    world.turn(0, 0, 0);
    let error = world.failure(0);
    assert_eq!((error.kind(), error.fate()), (ErrorKind::QueueFull, Fate::NotSent));
    // Before there is an answer, nobody knows.
    let mut world = limited();
    world.put(0, Delivery::AtMostOnce, 2);
    world.now += 2 * SECOND;
    world.turn(0, 0, 0);
    assert_eq!(world.failure(0).kind(), overdue_kind());
    assert_eq!(world.outbox.report().queued_jobs, 0);
}

#[test]
fn a_server_that_does_not_count_its_jobs_gets_some_in_each_interval() {
    // A tube that does not exist is empty.
    for answer in ["UNKNOWN_COMMAND\r\n", "NOT_FOUND\r\n"] {
        let mut world = limited();
        put(&mut world, 5);
        world.turn(0, 0, 0);
        world.turn(0, usize::MAX, 0);
        world.servers[0].connection.replies[0] = answer.to_owned();
        for _ in 0..3 {
            world.turn(0, usize::MAX, usize::MAX);
        }
        assert!(world.servers[0].is_connected, "{answer}");
        assert_eq!(world.servers[0].stored.len(), 3, "{answer}");
    }
}

#[test]
fn an_answer_to_another_question_ends_the_connection() {
    for answer in ["DELETED\r\n", &text("---\nname: other\ncurrent-jobs-ready: 0\n")] {
        let mut world = limited();
        put(&mut world, 1);
        world.turn(0, 0, 0);
        world.turn(0, usize::MAX, 0);
        world.servers[0].connection.replies[0] = answer.to_owned();
        world.turn(0, 0, 1);
        assert!(!world.servers[0].is_connected, "{answer}");
        world.settle();
        world.check();
    }
}

/// The question is behind the put, and neither was written.
#[test]
fn a_question_outlasts_the_puts_that_are_overdue() {
    let mut world = limited();
    put(&mut world, 1);
    for _ in 0..4 {
        world.turn(0, usize::MAX, usize::MAX);
    }
    assert_eq!(world.servers[0].stored.len(), 1);
    world.put(0, Delivery::AtMostOnce, 1);
    world.now += INTERVAL;
    world.put(0, Delivery::AtMostOnce, 60);
    // The last one is preceded by a question.
    world.now += SECOND;
    world.turn(0, 0, 0);
    assert_eq!(world.failure(1).kind(), overdue_kind());
    assert_eq!(world.unsent(0).matches(ASKED).count(), 1, "{}", world.unsent(0));
    world.settle();
    world.check();
}

#[test]
fn a_tube_that_is_full_is_told_once_and_once_that_it_has_room() {
    let options = options(1, Selection::InOrder).max_ready(3).depth_interval(INTERVAL);
    let mut world = World::of(options.on_event(|_| {}), some_probes());
    world.outbox.want_connections();
    world.turn(0, 0, 0);
    world.servers[0].ready = 3;
    put(&mut world, 1);
    for _ in 0..20 {
        world.turn(0, usize::MAX, usize::MAX);
        world.now += INTERVAL / 2;
    }
    assert_eq!(world.events(), ["0 connected", "0 tube tube0 is full: 3 jobs are ready"]);
    world.servers[0].ready = 2;
    for _ in 0..4 {
        world.turn(0, usize::MAX, usize::MAX);
        world.now += INTERVAL / 2;
    }
    assert_eq!(world.events(), ["0 tube tube0 has room"]);
}
