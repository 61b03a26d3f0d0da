//! Several commands in flight, whose replies are awaited one after the other.

use super::*;

fn pipeline() -> Bench {
    Bench::new(options().reply_timeout(3 * SECOND).write_timeout(2 * SECOND))
}

impl Bench {
    fn send<C: Command>(&mut self, command: &C) -> Ticket {
        self.hand.role.0.session.send(command).unwrap()
    }

    fn awaits(&mut self, ticket: Ticket) -> Pulse {
        self.hand.role.0.await_reply(ticket, ServerWait::None);
        self.ask()
    }

    fn failure(&mut self) -> (ErrorKind, Fate) {
        let error = self.hand.role.0.reply().unwrap().unwrap_err();
        (error.kind(), error.fate())
    }
}

#[test]
fn a_reply_of_a_pipeline_is_due_from_when_it_is_awaited() {
    let mut bench = pipeline();
    let (one, two) = (bench.send(&put("one")), bench.send(&put("two")));
    let start = bench.hand.now;
    assert_eq!(bench.awaits(one).until(), Some(start + 3 * SECOND));
    bench.write();
    assert_eq!(bench.hear("INSERTED 1\r\n").unwrap().unwrap(), Response::Inserted(1.into()));
    // The caller is busy elsewhere.
    bench.hand.now += 3600 * SECOND;
    let due = bench.hand.now + 3 * SECOND;
    assert_eq!(bench.awaits(two).until(), Some(due));
    // Its future is dropped, and another one follows: the time goes on.
    bench.hand.now += 2 * SECOND;
    assert_eq!(bench.awaits(two).until(), Some(due));
    bench.hand.now = due;
    assert_eq!(bench.ask(), Pulse::Close(None));
    assert_eq!(bench.failure(), (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
}

#[test]
fn a_reply_of_a_pipeline_also_has_the_time_of_a_write_that_goes_on() {
    let mut bench = pipeline();
    let one = bench.send(&put("one"));
    bench.awaits(one);
    bench.write();
    bench.hand.now += 3 * SECOND;
    bench.send(&put("two"));
    assert!(matches!(bench.ask(), Pulse::Go(Some(_))));
    // The time of a reply is that of the options.
    let mut bench = pipeline();
    bench.hand.role.0.set_reply_timeout(SECOND);
    let one = bench.send(&put("one"));
    assert_eq!(bench.awaits(one).until(), Some(bench.hand.now + SECOND));
}

#[test]
fn another_reply_of_a_pipeline_has_its_own_time() {
    let mut bench = pipeline();
    let (one, two) = (bench.send(&put("one")), bench.send(&put("two")));
    bench.awaits(one);
    bench.write();
    bench.hand.now += 2 * SECOND;
    let now = bench.hand.now;
    assert_eq!(bench.awaits(two).until(), Some(now + 3 * SECOND));
    assert!(bench.hear("INSERTED 1\r\nINSERTED 2\r\n").unwrap().is_ok());
}

#[test]
fn a_pipeline_whose_peer_takes_nothing_fails_after_the_time_of_a_write_and_of_a_reply() {
    let mut bench = pipeline();
    let one = bench.send(&put("one"));
    let start = bench.hand.now;
    assert_eq!(bench.awaits(one).until(), Some(start + 3 * SECOND));
    bench.hand.now += 3 * SECOND;
    assert_eq!(bench.ask().until(), Some(start + 5 * SECOND));
    bench.hand.now += 2 * SECOND;
    assert_eq!(bench.ask(), Pulse::Close(None));
    assert_eq!(bench.failure(), (ErrorKind::Timeout(Deadline::Write), Fate::NotSent));
}

/// Its caller would encode ever more commands behind a body that the server does not want.
#[test]
fn a_pipeline_gets_a_refusal_before_its_command_is_written_whole() {
    let mut bench = pipeline();
    let one = bench.send(&put("body"));
    bench.awaits(one);
    bench.hand.takes(20);
    assert_eq!(bench.hear("JOB_TOO_BIG\r\n").unwrap().unwrap(), Response::JobTooBig);
}
