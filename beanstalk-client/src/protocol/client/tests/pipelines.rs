//! Several commands in flight, whose replies are awaited one after the other.

use std::sync::{Arc, Mutex};

use queue_core::Instrument;

use super::*;
use crate::protocol::Window;

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
fn a_reply_of_a_pipeline_also_gets_the_time_of_an_ongoing_write() {
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
fn bytes_that_come_before_a_pipeline_has_written_anything_answer_nothing_of_it() {
    let mut bench = pipeline();
    let one = bench.send(&put("one"));
    bench.awaits(one);
    assert!(bench.hear("INSERTED 1\r\n").is_none());
    bench.hand.takes(1);
    bench.ask();
    assert!(bench.hand.role.0.reply().unwrap().is_ok());
}

type Seen = Arc<Mutex<Vec<String>>>;

/// What is measured is noted: the operation and its error, and the number of a counter.
fn measured(options: ConnectOptions) -> (ConnectOptions, Seen) {
    let seen = Seen::default();
    let notes = seen.clone();
    let options = options.on_measurement(move |seen| {
        let error = seen.error_type().map(|error| format!(" {error}")).unwrap_or_default();
        let what = match seen.instrument() {
            Instrument::SentMessages => format!("sent {}", seen.value()),
            Instrument::ConsumedMessages => format!("consumed {}", seen.value()),
            _ => "ended".to_owned(),
        };
        notes.lock().unwrap().push(format!("{} {what}{error}", seen.operation()));
    });
    (options, seen)
}

fn take(seen: &Seen) -> Vec<String> {
    std::mem::take(&mut seen.lock().unwrap())
}

#[test]
fn a_pipeline_measures_sent_and_received_messages() {
    let (options, seen) = measured(options());
    let mut client = ClientSession::new(options, true);
    let mut window = Window::new();
    window.span(&client);
    let mut puts = (0..2).map(|_| put("body"));
    window.fill(&mut client.session, &mut puts);
    let answers = [Response::Inserted(1.into()), Response::Draining];
    let outcomes = answers.map(|answer| window.complete(&mut client, Ok(answer)).unwrap().is_ok());
    assert_eq!(outcomes, [true, false]);
    drop(window);
    assert_eq!(take(&seen), ["put sent 1", "put sent 1 draining", "put ended draining"]);
    let mut window = Window::new();
    window.span(&client);
    window.fill(&mut client.session, &mut [ReserveJob(7.into())].into_iter());
    let job = Response::Reserved(crate::Job::for_test(7, "body"));
    assert!(window.complete(&mut client, Ok(job)).unwrap().is_ok());
    drop(window);
    assert_eq!(take(&seen), ["reserve-job consumed 1", "reserve-job ended"]);
}

#[test]
fn a_call_measures_its_message_and_its_end() {
    let (options, seen) = measured(options());
    let mut client = ClientSession::new(options, true);
    let mut operation = crate::trace::command(&client, &ReserveJob(7.into()));
    let job = Response::Reserved(crate::Job::for_test(7, "body"));
    assert!(client.conclude(&ReserveJob(7.into()), Ok(job), &mut operation).is_ok());
    drop(operation);
    assert_eq!(take(&seen), ["reserve-job consumed 1", "reserve-job ended"]);
    // Both commands of a pair end with their connection.
    let mut operations = [0; 2].map(|_| crate::trace::command(&client, &Stats));
    let [first, second] = &mut operations;
    let lost = Error::new(ErrorKind::ConnectionLost, Fate::Unknown, "gone");
    assert!(client.conclude_first(&Stats, Err(lost), [first, second]).is_err());
    assert_eq!(take(&seen), ["stats ended connection_lost"; 2]);
}
