//! Tests of the role of a client over WebSocket, without sockets and clocks.

use std::{
    task::{Poll, Waker},
    time::Duration,
};

use fixtures::{
    ConnectionId,
    adf_queue::{Quirks, Server},
    offline::Offline,
};
use queue_core::{ConnectionState, End, Limit, Pulse, proof::ByHand};

use super::{Ask, AskAnswer, Link, connection::MAX_SPARE};
use crate::{
    ConnectOptions, Deadline, Delivery, Error, ErrorKind, Fate, MessageId, Push, QueueName,
    Refusal, RetryPolicy,
    protocol::{Action, Encoding, Request, Success},
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn options() -> ConnectOptions {
    let options: ConnectOptions = "server:1".parse().unwrap();
    options
        .reply_timeout(10 * SECOND)
        .write_timeout(5 * SECOND)
        .ping_interval(None)
        .retry(RetryPolicy::new(3).seed(7).backoff(SECOND / 100, SECOND))
}

pub(crate) fn json() -> ConnectOptions {
    let options: ConnectOptions = "adf+json://server:1".parse().unwrap();
    options.ping_interval(None)
}

pub(crate) fn queue() -> QueueName {
    "/q".parse().unwrap()
}

fn count() -> Ask {
    Ask::Plain(Action::Count, queue(), bytes::Bytes::new())
}

pub(crate) fn push(body: &str) -> Ask {
    Ask::Plain(Action::Rpush, queue(), body.to_owned().into())
}

pub(super) fn settle(action: Action, delivery: &Delivery) -> Ask {
    let (queue, id) = (delivery.queue().clone(), *delivery.request_id());
    Ask::Settle(action, queue, id, delivery.epoch())
}

fn quirks_that_kill() -> Quirks {
    Quirks { json_pull_kills_server: true, ..Quirks::default() }
}

/// The answer to an `rpush`.
fn pushed(id: u8, message: u8) -> [u8; 22] {
    let mut frame = *b"\x82\x14\x02\0\x01?\0\x02/q\0\x02ok\0\0\0\0\0\0\0?";
    (frame[5], frame[21]) = (b'0' + id, message);
    frame
}

fn reset() -> End<Error> {
    End::Lost(std::io::ErrorKind::ConnectionReset.into())
}

pub(crate) fn refused() -> Error {
    Error::new(ErrorKind::Connect, Fate::NotSent, "refused")
}

/// A link and its connection to a server, moved by hand.
struct Bench {
    hand: ByHand<Link>,
    server: Offline,
    connection: Option<ConnectionId>,
}

impl Bench {
    fn new(options: ConnectOptions) -> Self {
        Self::on(options, Server::builder().queue("/q").offline())
    }

    fn on(options: ConnectOptions, server: Offline) -> Self {
        Self::of(Link::new(options), server)
    }

    fn of(link: Link, server: Offline) -> Self {
        Bench { hand: ByHand::new(link), server, connection: None }
    }

    /// One that is connected and upgraded.
    fn open(options: ConnectOptions) -> Self {
        let mut bench = Bench::new(options);
        bench.connect();
        bench
    }

    fn turn(&mut self) -> Pulse {
        self.hand.turn()
    }

    /// A turn at a limit, at which nothing has arrived.
    fn turn_and_look(&mut self) {
        assert_eq!(self.turn(), Pulse::Look);
        self.hand.looked();
        self.turn();
    }

    fn state(&self) -> ConnectionState {
        self.hand.role.0.connection_state(self.hand.now)
    }

    fn link(&mut self) -> &mut Link {
        &mut self.hand.role.0
    }

    /// A new connection, upgraded.
    fn connect(&mut self) {
        self.attach();
        self.go();
        assert_eq!(self.state(), ConnectionState::Ready);
    }

    fn attach(&mut self) {
        if let Some(old) = self.connection.take() {
            self.server.hang_up(old);
        }
        self.hand.opens();
        self.connection = Some(self.server.connect());
    }

    /// Passes bytes to the server and back until both are quiet.
    fn go(&mut self) -> Pulse {
        loop {
            let pulse = self.turn();
            match self.write() + self.read() {
                0 if pulse == Pulse::Look => self.hand.looked(),
                0 => return pulse,
                _ => {}
            }
        }
    }

    fn write(&mut self) -> usize {
        let (bytes, id) = (self.hand.takes_all(), self.connection.unwrap());
        self.server.send(id, &bytes);
        bytes.len()
    }

    /// Passes bytes to the server, and none back.
    fn go_unanswered(&mut self) {
        self.turn();
        self.hand.takes_all();
    }

    fn read(&mut self) -> usize {
        let bytes = self.server.receive(self.connection.unwrap()).bytes;
        self.comes(&bytes);
        bytes.len()
    }

    fn comes(&mut self, bytes: &[u8]) {
        self.hand.comes(bytes);
    }

    fn lose(&mut self) {
        self.server.hang_up(self.connection.take().unwrap());
        self.hand.ends(reset());
    }

    /// The loss is noticed at once.
    fn lose_now(&mut self) {
        self.lose();
        self.turn();
    }

    /// A pull that is sent.
    fn begin_pull(&mut self) -> u64 {
        let number = self.begin(Ask::Pull(queue()));
        self.go();
        number
    }

    fn begin(&mut self, ask: Ask) -> u64 {
        let now = self.hand.now;
        self.link().begin(ask, Limit::never(), now).unwrap()
    }

    fn begin_for(&mut self, ask: Ask, time: Duration) -> u64 {
        let limit = Limit::until(Deadline::Total, Some(self.hand.now + time));
        let now = self.hand.now;
        self.link().begin(ask, limit, now).unwrap()
    }

    /// A pull whose caller gives up: it waits in the server.
    fn abandon_pull(&mut self) {
        let late = self.begin_for(Ask::Pull(queue()), SECOND);
        self.go();
        self.hand.now += SECOND;
        self.go();
        assert!(matches!(self.outcome(late), Some(Ok(AskAnswer::Nothing))));
    }

    /// Creates or deletes the queue.
    fn change(&mut self, action: Action) {
        self.ask(Ask::Plain(action, queue(), bytes::Bytes::new())).unwrap();
    }

    /// Another client does this with the queue.
    fn change_elsewhere(&mut self, action: &str) {
        self.post_elsewhere(action, "x");
    }

    fn post_elsewhere(&mut self, action: &str, body: &str) {
        let other = self.server.connect();
        let len = body.len();
        let request = format!(
            "POST /queue/{action}.bin?queue=/q&requestid=1 HTTP/1.1\r\nContent-Type: application/octet-stream\r\nContent-Length: {len}\r\n\r\n{body}"
        );
        self.server.send(other, request.as_bytes());
        assert!(!self.server.receive(other).bytes.is_empty());
    }

    /// Returns a message, which the pull that waits does not see.
    fn return_unseen(&mut self) -> Delivery {
        self.ask(push("x")).unwrap();
        let pulled = self.pull();
        self.abandon_pull();
        self.ask(settle(Action::Rcancel, &pulled)).unwrap().done().unwrap();
        pulled
    }

    /// Pulls the message that is ready, within the reply timeout.
    fn try_pull(&mut self) {
        let next = self.begin(Ask::TryPull(queue()));
        self.go();
        self.hand.now += 10 * SECOND;
        self.go();
        let outcome = self.outcome(next).unwrap();
        assert!(matches!(outcome, Ok(AskAnswer::Delivery(_))), "{outcome:?}");
    }

    fn refused(&mut self, ask: Ask) -> Error {
        let now = self.hand.now;
        self.link().begin(ask, Limit::never(), now).unwrap_err()
    }

    fn outcome(&mut self, number: u64) -> Option<crate::Result<AskAnswer>> {
        match self.link().poll(number, Waker::noop()) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// Whether a task continues.
    fn outcome_is_open(&self, number: u64) -> bool {
        self.hand.role.0.tasks.get(&number).is_some_and(|task| !task.is_done())
    }

    fn error(&mut self, number: u64) -> (ErrorKind, Fate) {
        let error = self.outcome(number).expect("it goes on").unwrap_err();
        (error.kind().clone(), error.fate())
    }

    fn delivery(&mut self, number: u64) -> Delivery {
        self.outcome(number).expect("no message came").unwrap().message().unwrap()
    }

    /// Sends a request, and gets the answer.
    fn ask(&mut self, ask: Ask) -> crate::Result<AskAnswer> {
        let number = self.begin(ask);
        self.go();
        self.outcome(number).expect("no answer came")
    }

    fn pull(&mut self) -> Delivery {
        self.ask(Ask::Pull(queue())).unwrap().message().unwrap()
    }
}

#[test]
fn nothing_is_sent_before_the_server_has_upgraded_the_connection() {
    let mut bench = Bench::new(options());
    assert_eq!(bench.turn(), Pulse::Close(None), "nobody wants a connection");
    let number = bench.begin(count());
    let by = Some(bench.hand.now + 5 * SECOND);
    assert_eq!(bench.turn(), Pulse::Dial { server: 0, by, ask: None });
    bench.attach();
    assert!(matches!(bench.turn(), Pulse::Go(until) if until == by), "it has to be upgraded");
    let asked = String::from_utf8(bench.hand.unsent().to_vec()).unwrap();
    assert!(asked.starts_with("GET /queue/bin HTTP/1.1\r\nHost: server:1\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n"), "{asked}");
    bench.write();
    bench.turn();
    assert!(bench.hand.io().is_drained(), "the answer to the upgrade has not come");
    bench.read();
    bench.turn();
    assert_eq!(bench.hand.unsent()[0], 0x82, "a binary frame");
    bench.go();
    assert_eq!(bench.outcome(number).unwrap().unwrap().counted().unwrap(), 0);
}

#[test]
fn distinguishes_http_messages_from_those_of_a_lost_connection() {
    let mut bench = Bench::open(options());
    let mut refused = |epoch| {
        let settle = Ask::Settle(Action::Delete, queue(), "mine".parse().unwrap(), epoch);
        let error = bench.refused(settle);
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::JobLost, Fate::NotSent));
        error.to_string()
    };
    let (over_http, of_another) = (refused(None), refused(Some(queue_core::Epoch::next())));
    assert!(
        over_http.contains("HTTP") && !of_another.contains("HTTP"),
        "{over_http}, {of_another}"
    );
}

#[test]
fn the_action_distinguishes_answers_to_delete_and_pull() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    let pulled = bench.pull();
    // A waiting pull has the id that its delete will have.
    let id = *pulled.request_id();
    let waiting = Request::count(id, queue());
    let waiting = bench.begin(Ask::Raw(waiting));
    let deleted = bench.begin(settle(Action::Delete, &pulled));
    bench.go();
    bench.outcome(deleted).unwrap().unwrap().done().unwrap();
    assert_eq!(bench.outcome(waiting).unwrap().unwrap().counted().unwrap(), 0);
}

/// The rest of its frame is still sent.
#[test]
fn a_request_whose_time_is_over_while_it_is_written_has_an_unknown_fate() {
    let mut bench = Bench::open(options());
    let late = bench.begin_for(push("late"), SECOND);
    bench.turn();
    bench.hand.now += SECOND;
    let queued = bench.begin_for(push("queued"), Duration::ZERO);
    bench.turn_and_look();
    assert_eq!(bench.error(late), (ErrorKind::Timeout(Deadline::Total), Fate::Unknown));
    assert_eq!(bench.error(queued), (ErrorKind::Timeout(Deadline::Total), Fate::NotSent));
    bench.go();
    let counted = bench.ask(count()).unwrap().counted().unwrap();
    assert_eq!(counted, 1, "the first, and not the second");
}

#[test]
fn unsent_requests_are_resent_but_sent_pushes_are_not() {
    let mut bench = Bench::open(options());
    let (one, two) = (bench.begin(push("one")), bench.begin(push("two")));
    let asked = bench.begin(count());
    bench.turn();
    let half = bench.hand.unsent().len() / 2;
    bench.hand.takes(half);
    bench.lose();
    assert!(
        matches!(bench.turn(), Pulse::Dial { .. }),
        "a server that has served is tried at once"
    );
    assert_eq!(bench.error(one), (ErrorKind::ConnectionLost, Fate::Unknown));
    bench.connect();
    bench.go();
    assert_eq!(bench.outcome(two).unwrap().unwrap().pushed().unwrap().get(), 1);
    assert_eq!(bench.outcome(asked).unwrap().unwrap().counted().unwrap(), 1);
}

#[test]
fn a_pull_that_was_given_up_stays_under_way_and_its_message_is_the_next_callers() {
    let mut bench = Bench::open(options());
    bench.abandon_pull();
    let gone = bench.begin_pull();
    bench.link().leave(gone);
    let commands = bench.link().metrics.commands;
    bench.ask(push("x")).unwrap();
    assert_eq!(bench.link().metrics.commands, commands + 1, "no pull but the first was sent");
    let next = bench.begin(Ask::Pull(queue()));
    assert_eq!(bench.delivery(next).body(), "x", "it is here already");
    assert_eq!(bench.link().metrics.commands, commands + 1);
}

#[test]
fn an_unseen_message_goes_to_the_next_caller() {
    let mut bench = Bench::open(options());
    let (gone, waits) = (bench.begin(Ask::Pull(queue())), bench.begin(Ask::Pull(queue())));
    bench.ask(push("x")).unwrap();
    bench.link().leave(gone);
    bench.go();
    assert_eq!(bench.delivery(waits).body(), "x");
    let raw = bench.begin(Ask::Raw(Request::pull("mine".parse().unwrap(), queue())));
    bench.ask(push("y")).unwrap();
    bench.go();
    bench.link().leave(raw);
    let next = bench.pull();
    // The pull of the caller that left second has it, or that of the first.
    assert_eq!(next.body(), "y");
    bench.ask(settle(Action::Delete, &next)).unwrap().done().unwrap();
}

#[test]
fn a_caller_that_leaves_takes_nothing_from_another_one_with_the_same_id() {
    let mut bench = Bench::open(options());
    let [pull, count] =
        [Request::pull, Request::count].map(|of| of("mine".parse().unwrap(), queue()));
    let (pull, count) = (bench.begin(Ask::Raw(pull)), bench.begin(Ask::Raw(count)));
    bench.turn();
    bench.link().leave(count);
    bench.ask(push("x")).unwrap();
    let success = bench.outcome(pull).unwrap().unwrap().success().unwrap();
    assert!(matches!(success, Success::Delivered(message) if message.body == "x"));
}

#[test]
fn a_lost_race_for_a_ready_message_ends_in_time() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    let pull = bench.begin(Ask::TryPull(queue()));
    bench.turn();
    bench.write();
    bench.read();
    let other = bench.server.connect();
    bench.server.send(other, b"GET /queue/pull.bin?queue=/q&requestid=1 HTTP/1.1\r\n\r\n");
    bench.go();
    assert!(bench.outcome_is_open(pull));
    bench.hand.now += 10 * SECOND;
    bench.turn_and_look();
    assert!(matches!(bench.outcome(pull), Some(Ok(AskAnswer::Nothing))));
}

#[test]
fn a_waiter_knows_the_limit_of_its_call() {
    let mut bench = Bench::new(options());
    let (limited, endless) = (bench.begin_for(count(), SECOND), bench.begin(count()));
    let expected = [Some(bench.hand.now + SECOND), None];
    assert_eq!([limited, endless].map(|number| bench.link().limit(number)), expected);
}

#[test]
fn a_pull_with_a_chosen_id_serves_others_once_abandoned() {
    let mut bench = Bench::open(options());
    let raw = bench.begin(Ask::Raw(Request::pull("mine".parse().unwrap(), queue())));
    bench.go();
    bench.link().leave(raw);
    let commands = bench.link().metrics.commands;
    let next = bench.begin(Ask::Pull(queue()));
    bench.ask(push("x")).unwrap();
    // The push, and a count of what is ready already.
    assert_eq!(bench.link().metrics.commands, commands + 2, "his pull was taken over");
    let delivery = bench.delivery(next);
    assert_eq!((delivery.request_id().as_str(), &delivery.body()[..]), ("mine", &b"x"[..]));
}

#[test]
fn too_many_abandoned_pulls_end_the_connection() {
    let mut bench = Bench::open(options());
    let pulls: Vec<u64> = (0..=MAX_SPARE).map(|_| bench.begin(Ask::Pull(queue()))).collect();
    bench.go();
    for number in &pulls[1..] {
        bench.link().leave(*number);
    }
    bench.go();
    assert_eq!(bench.link().pulls.spare, MAX_SPARE);
    assert_eq!(bench.state(), ConnectionState::Ready);
    bench.link().leave(pulls[0]);
    assert_eq!(bench.turn(), Pulse::Close(None), "nobody wants another one");
    assert_eq!(bench.link().pulls.spare, 0);
}

#[test]
fn unclaimed_messages_are_bounded_by_bytes() {
    let mut bench = Bench::open(options().max_message_size(1000));
    let gone = [(); 3].map(|()| bench.begin(Ask::Pull(queue())));
    bench.go();
    for number in gone {
        bench.link().leave(number);
    }
    for (len, sum) in [(900, 900), (100, 1000)] {
        bench.post_elsewhere("rpush", &"x".repeat(len));
        bench.go();
        assert_eq!(bench.link().pulls.kept_bytes, sum);
    }
    bench.change_elsewhere("rpush");
    bench.read();
    assert_eq!(bench.turn(), Pulse::Close(None), "all go back to the server");
    assert_eq!(bench.link().pulls.kept_bytes, 0);
}

#[test]
fn a_json_pull_asks_first_whether_there_is_such_a_queue() {
    let server = Server::builder().queue("/q").quirks(quirks_that_kill()).offline();
    let mut bench = Bench::on(json(), server);
    bench.connect();
    let missing: QueueName = "/nope".parse().unwrap();
    let error = bench.ask(Ask::Pull(missing)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    assert_eq!(error.action(), Some(Action::Pull));
    let pull = bench.begin(Ask::Pull(queue()));
    bench.ask(push("x")).unwrap();
    assert_eq!(bench.delivery(pull).body(), "x", "the server lives");
    // A pull with an id of the caller's own is no different, and is repeated over the next connection.
    let raw =
        |queue: &str| Ask::Raw(Request::pull("mine".parse().unwrap(), queue.parse().unwrap()));
    let error = bench.ask(raw("/nope")).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused(Refusal::QueueNotFound));
    let pull = bench.begin(raw("/q"));
    bench.go();
    bench.lose_now();
    bench.server = Server::builder().quirks(quirks_that_kill()).offline();
    bench.connect();
    bench.go();
    assert_eq!(bench.error(pull).0, ErrorKind::Refused(Refusal::QueueNotFound), "it is gone");
    bench.ask(Ask::Plain(Action::CreateQueue, queue(), bytes::Bytes::new())).unwrap();
    // A caller that leaves between query and pull leaves no pull behind.
    let gone = bench.begin(Ask::Pull(queue()));
    bench.turn();
    bench.link().leave(gone);
    let commands = bench.link().metrics.commands;
    bench.go();
    assert_eq!((bench.link().metrics.commands, bench.link().pulls.spare), (commands, 0));
}

#[test]
fn a_message_can_be_acted_on_only_while_its_connection_lasts() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    let pulled = bench.pull();
    bench.lose_now();
    let error = bench.refused(settle(Action::Delete, &pulled));
    assert_eq!((error.kind(), error.fate()), (&ErrorKind::JobLost, Fate::NotSent));
    assert_eq!(error.action(), Some(Action::Delete));
    bench.begin(Ask::Ready);
    bench.connect();
    let commands = bench.link().metrics.commands;
    let error = bench.refused(settle(Action::Lcancel, &pulled));
    assert_eq!(*error.kind(), ErrorKind::JobLost);
    assert_eq!(bench.link().metrics.commands, commands, "nothing is sent");
    let again = bench.pull();
    assert_eq!((&again.body()[..], again.duplications()), (&b"x"[..], 2));
}

#[test]
fn a_delete_that_did_not_go_out_with_its_connection_is_void() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    let pulled = bench.pull();
    let deleted = bench.begin(settle(Action::Delete, &pulled));
    bench.turn();
    bench.lose_now();
    assert_eq!(bench.error(deleted), (ErrorKind::JobLost, Fate::NotSent));
}

#[test]
fn a_pull_that_waits_is_sent_again_over_the_next_connection() {
    let mut bench = Bench::open(options());
    let pull = bench.begin_pull();
    for _ in 0..10 {
        bench.lose();
        assert!(matches!(bench.turn(), Pulse::Dial { .. } | Pulse::Close(Some(_))));
        bench.hand.now += SECOND;
        bench.turn();
        bench.connect();
        bench.ask(count()).unwrap();
    }
    bench.ask(push("x")).unwrap();
    assert_eq!(bench.delivery(pull).body(), "x");
}

#[test]
fn a_silent_server_is_pinged_and_given_up() {
    let mut bench = Bench::open(options().ping_interval(Some(30 * SECOND)));
    let pull = bench.begin(Ask::Pull(queue()));
    let at = bench.hand.now + 30 * SECOND;
    assert_eq!(bench.go(), Pulse::Go(Some(at)));
    bench.hand.now = at;
    bench.turn();
    assert_eq!(bench.hand.unsent()[0], 0x89, "a ping");
    bench.write();
    // The server's pong has none of the ping's data, but is still a sign of life.
    bench.read();
    assert_eq!(bench.turn(), Pulse::Go(Some(bench.hand.now + 30 * SECOND)));
    bench.hand.now += 30 * SECOND;
    bench.turn();
    let bytes = bench.hand.unsent().len();
    bench.hand.takes(bytes);
    assert_eq!(bench.turn(), Pulse::Go(Some(bench.hand.now + 10 * SECOND)));
    bench.hand.now += 10 * SECOND;
    assert_eq!(bench.turn(), Pulse::Look);
    bench.hand.looked();
    assert!(matches!(bench.turn(), Pulse::Dial { .. }), "the pull goes over another connection");
    assert!(bench.outcome_is_open(pull));
}

#[test]
fn an_unanswered_request_is_late_despite_other_traffic() {
    let mut bench = Bench::open(options());
    // The real server does not answer such a request; this one stands for all requests that it ignores.
    let lost = bench.begin(push("lost"));
    bench.turn();
    let bytes = bench.hand.unsent().len();
    bench.hand.takes(bytes);
    for _ in 0..9 {
        bench.hand.now += SECOND;
        bench.ask(count()).unwrap();
        assert!(bench.outcome_is_open(lost));
    }
    bench.hand.now += SECOND;
    bench.turn_and_look();
    assert_eq!(bench.error(lost), (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
}

#[test]
fn an_unsolicited_answer_ends_the_connection() {
    let mut bench = Bench::open(options());
    let pushed = bench.begin(push("x"));
    bench.turn();
    bench.write();
    bench.comes(b"\x82\x10\x06\0\x0299\0\x02/q\0\x02ok\0\0\0\0");
    bench.turn();
    assert_eq!(bench.error(pushed), (ErrorKind::Protocol, Fate::Unknown));
    assert_ne!(bench.state(), ConnectionState::Ready);
}

#[test]
fn an_unrepresentable_request_is_not_sent() {
    let mut bench = Bench::open(options());
    let umlaut: QueueName = "/ü".parse().unwrap();
    for ask in [
        Ask::Pull(umlaut.clone()),
        Ask::TryPull(umlaut.clone()),
        Ask::Plain(Action::Count, umlaut, bytes::Bytes::new()),
        push(&"x".repeat(65_536)),
    ] {
        let error = bench.refused(ask);
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::InvalidInput, Fate::NotSent));
    }
    let invalid = bench.link().metrics.errors_of(ErrorKind::InvalidInput);
    assert_eq!((invalid, bench.link().metrics.commands), (4, 0));
    let mut bench = Bench::open(json());
    let bytes = Ask::Plain(Action::Rpush, queue(), bytes::Bytes::from_static(b"\xff"));
    assert_eq!(*bench.refused(bytes).kind(), ErrorKind::InvalidInput);
    bench.ask(push(&"x".repeat(65_536))).unwrap();
}

#[test]
fn an_id_of_a_caller_is_not_taken_for_another() {
    let mut bench = Bench::open(options());
    let pull = |id: &str| Ask::Raw(Request::pull(id.parse().unwrap(), queue()));
    let first = bench.begin(pull("mine"));
    assert_eq!(*bench.refused(pull("mine")).kind(), ErrorKind::InvalidInput, "it is queued");
    bench.go();
    assert_eq!(*bench.refused(pull("mine")).kind(), ErrorKind::InvalidInput, "it is under way");
    bench.ask(push("x")).unwrap();
    let success = bench.outcome(first).unwrap().unwrap().success().unwrap();
    assert!(matches!(success, Success::Delivered(message) if message.body == "x"));
    // Numbers are this client's own names: one used by a caller is skipped from then on.
    bench.begin(pull("1000"));
    bench.ask(count()).unwrap();
    assert_eq!(*bench.refused(pull("1001")).kind(), ErrorKind::InvalidInput);
    bench.begin(pull("1002"));
    let twice = Ask::Settle(Action::Delete, queue(), "mine".parse().unwrap(), bench.link().epoch);
    let deleted = bench.begin(twice.clone());
    assert_eq!(*bench.refused(twice).kind(), ErrorKind::InvalidInput, "it is being deleted");
    bench.go();
    bench.outcome(deleted).unwrap().unwrap().done().unwrap();
}

#[test]
fn an_id_of_a_caller_is_taken_while_its_request_waits_for_a_connection() {
    let mine = || Ask::Raw(Request::count("mine".parse().unwrap(), queue()));
    let mut bench = Bench::new(options());
    let gone = bench.begin(mine());
    bench.link().leave(gone);
    let waits = bench.begin(mine());
    bench.connect();
    bench.outcome(waits).unwrap().unwrap();
    // One that was in flight on a lost connection waits for the next.
    bench.begin(mine());
    bench.go_unanswered();
    bench.lose_now();
    assert_eq!(*bench.refused(mine()).kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_delete_whose_caller_has_gone_is_the_next_callers() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    let pulled = bench.pull();
    let gone = bench.begin(settle(Action::Delete, &pulled));
    bench.turn();
    bench.link().leave(gone);
    let commands = bench.link().metrics.commands;
    let next = bench.begin(settle(Action::Delete, &pulled));
    bench.go();
    bench.outcome(next).unwrap().unwrap().done().unwrap();
    assert_eq!(bench.link().metrics.commands, commands, "it was sent once");
}

#[test]
fn an_idle_connection_is_checked_before_writing() {
    let mut bench = Bench::open(options());
    bench.hand.now += 2 * SECOND;
    assert_eq!(bench.turn(), Pulse::Rest(None));
    let pushed = bench.begin(push("x"));
    assert_eq!(bench.turn(), Pulse::Peek);
    assert!(bench.hand.io().is_drained());
    bench.lose_now();
    assert!(bench.outcome_is_open(pushed), "nothing was sent");
    bench.connect();
    bench.go();
    bench.outcome(pushed).unwrap().unwrap();
}

#[test]
fn a_closing_client_sends_close_without_waiting() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    bench.pull();
    bench.link().close();
    assert!(matches!(bench.turn(), Pulse::HalfClose(Some(_))));
    assert_eq!((bench.hand.unsent()[0], bench.hand.unsent().len()), (0x88, 8), "a close");
    bench.write();
    assert_eq!(bench.turn(), Pulse::Over);
    // One that cannot be notified is not waited for.
    let mut bench = Bench::open(options());
    bench.link().close();
    bench.turn();
    bench.hand.now += SECOND;
    assert_eq!(bench.turn(), Pulse::Over);
}

#[test]
fn a_connection_due_for_replacement_serves_no_caller() {
    let mut bench = Bench::open(options());
    let before = bench.link().epoch;
    bench.link().disconnect();
    let ready = bench.begin(Ask::Ready);
    assert!(matches!(bench.turn(), Pulse::Dial { .. }));
    assert!(bench.outcome_is_open(ready));
    bench.connect();
    assert!(matches!(bench.outcome(ready), Some(Ok(AskAnswer::Yes))));
    assert_ne!(bench.link().epoch, before);
}

/// It was ended, and all who waited for it failed, although it had brought nothing yet.
#[test]
fn a_connection_that_is_being_made_is_the_new_one() {
    let mut bench = Bench::new(options());
    let first = bench.begin(Ask::Ready);
    bench.turn();
    bench.attach();
    bench.turn();
    bench.link().disconnect();
    let second = bench.begin(Ask::Ready);
    bench.go();
    for ready in [first, second] {
        assert!(matches!(bench.outcome(ready), Some(Ok(AskAnswer::Yes))));
    }
}

#[test]
fn a_flood_of_pings_is_answered_one_at_a_time() {
    let mut bench = Bench::open(options());
    for _ in 0..1000 {
        bench.comes(b"\x89\x04ping");
    }
    bench.turn();
    assert_eq!((bench.hand.unsent()[0], bench.hand.unsent().len()), (0x8a, 10), "one pong");
    for _ in 0..1000 {
        bench.comes(b"\x89\x04ping");
    }
    bench.turn();
    assert_eq!(bench.hand.unsent().len(), 10, "the first was not taken");
}

fn pushes(bodies: &[&str]) -> Ask {
    let push = |body: &&str| Push::right(queue(), *body);
    Ask::Pushes(bodies.iter().map(push).collect())
}

/// The outcome of each push of a batch: the number of its message, or the fate of the failure.
fn all_pushed(outcome: crate::Result<AskAnswer>) -> Vec<Result<u64, (ErrorKind, Fate)>> {
    let described = |outcome: crate::Result<MessageId>| match outcome {
        Ok(id) => Ok(id.get()),
        Err(error) => Err((error.kind().clone(), error.fate())),
    };
    outcome.unwrap().all_pushed().unwrap().into_iter().map(described).collect()
}

#[test]
fn pushes_that_go_together_have_each_their_own_outcome() {
    for options in [options(), json()] {
        let mut bench = Bench::open(options);
        let unfit = match bench.link().encoding {
            Encoding::Binary => vec![b'x'; 65_536],
            Encoding::Json => vec![0xff],
        };
        let missing: QueueName = "/missing".parse().unwrap();
        let batch = bench.begin(Ask::Pushes(vec![
            Push::right(queue(), "one"),
            Push::right(queue(), unfit.clone()),
            Push::right(missing, "nowhere"),
            Push::left(queue(), "first"),
        ]));
        bench.go();
        let outcomes = bench.outcome(batch).unwrap().unwrap().all_pushed().unwrap();
        let errors = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        for (error, id) in errors.zip(["2", "3"]) {
            assert_eq!(error.request_id().unwrap().as_str(), id);
            assert!(error.to_string().contains("rpush"), "{error}");
        }
        let refused = (ErrorKind::Refused(Refusal::QueueNotFound), Fate::Refused);
        let invalid = (ErrorKind::InvalidInput, Fate::NotSent);
        let expected = vec![Ok(1), Err(invalid.clone()), Err(refused), Ok(2)];
        assert_eq!(all_pushed(Ok(AskAnswer::Pushed(outcomes))), expected);
        assert_eq!(bench.pull().body(), "first");
        let metrics = bench.link().metrics.clone();
        assert_eq!(metrics.errors.iter().map(|(_, times)| times).sum::<u64>(), 2, "{metrics:?}");
        // Nothing of this one is sent.
        let batch = bench.begin(Ask::Pushes(vec![Push::right(queue(), unfit)]));
        assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [Err(invalid)]);
    }
}

#[test]
fn of_pushes_that_go_together_those_that_were_not_sent_go_over_the_next_connection() {
    let mut bench = Bench::open(options());
    let batch = bench.begin(pushes(&["one", "two", "three"]));
    bench.turn();
    let half = bench.hand.unsent().len() / 2;
    let written = bench.hand.unsent()[..half].to_vec();
    let connection = bench.connection.unwrap();
    bench.server.send(connection, &written);
    bench.hand.takes(half);
    bench.lose_now();
    assert!(bench.outcome(batch).is_none(), "two of them go on");
    bench.connect();
    bench.go();
    let unknown = Err((ErrorKind::ConnectionLost, Fate::Unknown));
    assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [unknown, Ok(2), Ok(3)]);
    let bodies = [(); 3].map(|()| bench.pull().body().clone());
    assert_eq!(bodies, ["one", "two", "three"], "the first was taken, and in order");
}

#[test]
fn pushes_that_go_together_are_tried_as_often_as_one_alone() {
    let mut bench = Bench::open(options().retry(RetryPolicy::never()));
    let batch = bench.begin(pushes(&["one", "two"]));
    bench.turn();
    let half = bench.hand.unsent().len() / 2;
    bench.hand.takes(half);
    let queued = bench.begin(pushes(&["queued"]));
    bench.lose_now();
    let [unknown, not_sent] =
        [Fate::Unknown, Fate::NotSent].map(|fate| Err((ErrorKind::ConnectionLost, fate)));
    assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [unknown, not_sent.clone()]);
    assert_eq!(all_pushed(bench.outcome(queued).unwrap()), [not_sent]);
}

#[test]
fn a_batch_ends_at_its_limit_and_later_answers_are_ignored() {
    let mut bench = Bench::open(options());
    let batch = bench.begin_for(pushes(&["one", "two"]), SECOND);
    bench.turn();
    let queued = bench.begin_for(pushes(&["queued"]), Duration::ZERO);
    bench.hand.now += SECOND;
    bench.turn_and_look();
    let [unknown, not_sent] =
        [Fate::Unknown, Fate::NotSent].map(|fate| Err((ErrorKind::Timeout(Deadline::Total), fate)));
    assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [unknown.clone(), unknown]);
    assert_eq!(all_pushed(bench.outcome(queued).unwrap()), [not_sent]);
    bench.go();
    assert_eq!(bench.ask(count()).unwrap().counted().unwrap(), 2);
}

/// The blocking face reads only within calls.
#[test]
fn an_answer_that_came_within_the_limit_is_taken_however_late_it_is_read() {
    let mut bench = Bench::open(options());
    let late = bench.begin_for(push("x"), SECOND);
    let batch = bench.begin_for(pushes(&["one", "two"]), SECOND);
    bench.turn();
    bench.write();
    bench.hand.now += 2 * SECOND;
    assert_eq!(bench.turn(), Pulse::Look);
    bench.go();
    bench.outcome(late).unwrap().unwrap();
    assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [Ok(2), Ok(3)]);
}

#[test]
fn pushes_whose_caller_goes_before_they_are_sent_are_not_sent() {
    let mut bench = Bench::open(options());
    let batch = bench.begin(pushes(&["one", "two"]));
    bench.link().leave(batch);
    assert_eq!(bench.ask(count()).unwrap().counted().unwrap(), 0);
    let (first, second) = (bench.begin(pushes(&["one"])), bench.begin(pushes(&["two"])));
    bench.turn();
    bench.link().leave(first);
    bench.go();
    assert_eq!(all_pushed(bench.outcome(second).unwrap()), [Ok(2)]);
}

/// A server that leaves one request unanswered, and continues with those after it.
#[test]
fn answers_to_pushes_that_go_together_are_found_in_any_order() {
    let mut bench = Bench::open(options());
    let (one, two) = (bench.begin(pushes(&["a", "b"])), bench.begin(pushes(&["c", "d"])));
    bench.go_unanswered();
    for (id, message) in [(4, 40), (1, 10), (3, 30), (2, 20)] {
        bench.comes(&pushed(id, message));
        bench.turn();
    }
    assert_eq!(all_pushed(bench.outcome(one).unwrap()), [Ok(10), Ok(20)]);
    assert_eq!(all_pushed(bench.outcome(two).unwrap()), [Ok(30), Ok(40)]);
    // It has no caller any more.
    let counted = bench.begin(count());
    bench.go_unanswered();
    bench.comes(&pushed(4, 40));
    bench.turn();
    let error = bench.outcome(counted).unwrap().unwrap_err();
    assert!(error.to_string().contains("the request id 4, which is not in flight"), "{error}");
}

#[test]
fn a_request_with_an_id_that_pushes_have_is_refused() {
    let raw = |id: &str| Request::rpush(id.parse().unwrap(), queue(), "x");
    let mut bench = Bench::open(options());
    let batch = bench.begin(pushes(&["one", "two"]));
    let taken = bench.refused(Ask::Raw(raw("2")));
    assert!(taken.to_string().contains("already in flight"), "{taken}");
    bench.turn();
    let taken = bench.refused(Ask::Raw(raw("2")));
    assert!(taken.to_string().contains("already in flight"), "{taken}");
    let free = bench.begin(Ask::Raw(raw("02")));
    let other = bench.begin(Ask::Raw(raw("3")));
    bench.go();
    assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [Ok(1), Ok(2)]);
    for number in [free, other] {
        bench.outcome(number).unwrap().unwrap();
    }
    bench.ask(Ask::Raw(raw("2"))).unwrap();
}

#[test]
fn an_id_of_pushes_whose_caller_has_gone_is_free_when_they_are_answered() {
    let raw = || Ask::Raw(Request::rpush("2".parse().unwrap(), queue(), "x"));
    let mut bench = Bench::open(options());
    let gone = bench.begin(pushes(&["one", "two"]));
    bench.turn();
    bench.link().leave(gone);
    assert!(bench.refused(raw()).to_string().contains("already in flight"));
    bench.go();
    bench.ask(raw()).unwrap();
}

#[test]
fn a_server_that_closes_on_goodbye_is_not_a_loss() {
    let mut bench = Bench::open(options());
    bench.link().close();
    assert!(matches!(bench.turn(), Pulse::HalfClose(_)));
    bench.lose();
    assert_eq!(bench.turn(), Pulse::Over);
    assert!(bench.link().failure.is_none());
    // A task that ended before was lost.
    let mut bench = Bench::open(options());
    bench.lose();
    bench.link().close();
    assert_eq!(bench.turn(), Pulse::Over);
    assert!(bench.link().failure.is_some());
}

#[test]
fn a_message_that_is_ready_is_pulled_although_an_abandoned_pull_waits() {
    let mut bench = Bench::open(options());
    bench.return_unseen();
    assert_eq!(bench.ask(count()).unwrap().counted().unwrap(), 1);
    bench.try_pull();
}

#[test]
fn a_queue_made_again_can_be_pulled_from_although_an_abandoned_pull_is_dead() {
    let mut bench = Bench::open(options());
    bench.abandon_pull();
    bench.change(Action::DeleteQueue);
    bench.change(Action::CreateQueue);
    bench.ask(push("x")).unwrap();
    bench.try_pull();
}

/// A pull joined the dead one while nothing was ready, and waited forever.
#[test]
fn a_recreated_queue_is_served_despite_a_dead_joined_pull() {
    for callers in [1, 2] {
        let mut bench = Bench::open(options());
        bench.abandon_pull();
        bench.change(Action::DeleteQueue);
        bench.change(Action::CreateQueue);
        let pulls: Vec<u64> = (0..callers).map(|_| bench.begin(Ask::Pull(queue()))).collect();
        bench.go();
        for pull in pulls {
            let pushed = bench.ask(push("x")).unwrap().pushed().unwrap();
            // It wakes the pull of the second caller, if there is one, and the first caller has it.
            if let Pulse::Go(Some(at)) = bench.go() {
                bench.hand.now = at;
                bench.go();
            }
            assert_eq!(bench.delivery(pull).message_id(), pushed, "{callers} callers");
        }
    }
}

/// The message came for the second pull and was the first caller's, and the second caller waited forever.
#[test]
fn a_recreated_queue_is_served_despite_a_dead_earlier_pull() {
    for options in [options(), json()] {
        let mut bench = Bench::open(options);
        let first = bench.begin_pull();
        bench.change_elsewhere("deletequeue");
        bench.change_elsewhere("createqueue");
        let second = bench.begin_pull();
        for pull in [first, second] {
            bench.change_elsewhere("rpush");
            bench.go();
            bench.delivery(pull);
        }
        assert_eq!(bench.link().pulls.spare, 0, "no pull waits for nobody");
        bench.change_elsewhere("rpush");
        assert_eq!(bench.ask(count()).unwrap().counted().unwrap(), 1);
    }
}

/// The dead pull seemed to wait for the second caller.
#[test]
fn a_missing_queue_is_reported_despite_a_dead_earlier_pull() {
    for options in [options(), json()] {
        let mut bench = Bench::open(options);
        let first = bench.begin_pull();
        bench.change_elsewhere("deletequeue");
        let second = bench.begin_pull();
        for pull in [first, second] {
            assert_eq!(bench.error(pull).0, ErrorKind::Refused(Refusal::QueueNotFound));
        }
    }
}

/// A pull with an id of its caller, and any request that finds no queue.
#[test]
fn a_dead_pull_is_sent_again_whatever_request_shows_it() {
    let mut bench = Bench::open(options());
    let first = bench.begin_pull();
    bench.change_elsewhere("deletequeue");
    bench.change_elsewhere("createqueue");
    let raw = Ask::Raw(Request::pull("mine".parse().unwrap(), queue()));
    let raw = bench.begin(raw);
    bench.ask(push("x")).unwrap();
    assert!(bench.outcome(raw).unwrap().is_ok());
    bench.go();
    bench.change_elsewhere("rpush");
    bench.go();
    bench.delivery(first);
    let next = bench.begin_pull();
    bench.change_elsewhere("deletequeue");
    assert!(bench.ask(count()).is_err());
    bench.go();
    assert_eq!(bench.error(next).0, ErrorKind::Refused(Refusal::QueueNotFound));
}

/// The server gives a returned message to the oldest pull, and no pull overtakes another one.
#[test]
fn pulls_of_a_queue_that_stays_are_sent_once() {
    let mut bench = Bench::open(options());
    bench.ask(push("x")).unwrap();
    let pulled = bench.pull();
    let first = bench.begin_pull();
    bench.ask(settle(Action::Lcancel, &pulled)).unwrap().done().unwrap();
    let raw = bench.begin(Ask::Raw(Request::pull("mine".parse().unwrap(), queue())));
    bench.go();
    bench.delivery(first);
    let commands = bench.link().metrics.commands;
    bench.link().leave(raw);
    let second = bench.begin(Ask::Pull(queue()));
    bench.ask(push("y")).unwrap();
    assert_eq!(bench.delivery(second).request_id().as_str(), "mine");
    assert_eq!(bench.link().metrics.commands, commands + 2, "a count and the push");
}

#[test]
fn ready_messages_are_not_pulled_for_a_caller_who_has_gone() {
    let mut bench = Bench::open(options());
    bench.return_unseen();
    let gone = bench.begin(Ask::Pull(queue()));
    bench.turn();
    bench.link().leave(gone);
    let commands = bench.link().metrics.commands;
    bench.go();
    assert_eq!(bench.link().metrics.commands, commands);
}

/// A plain pull joined the abandoned one, and waited for the next push.
#[test]
fn a_plain_pull_takes_ready_messages_despite_an_abandoned_pull() {
    let mut bench = Bench::open(options());
    let pulled = bench.return_unseen();
    let again = bench.pull();
    assert_eq!(again.message_id(), pulled.message_id());
    bench.ask(settle(Action::Delete, &again)).unwrap().done().unwrap();
    // Both abandoned pulls wait; a push wakes one, and no more are sent.
    for _ in 0..3 {
        let next = bench.begin_pull();
        assert!(bench.outcome(next).is_none());
        bench.ask(push("y")).unwrap();
        let delivery = bench.delivery(next);
        bench.ask(settle(Action::Delete, &delivery)).unwrap().done().unwrap();
        bench.abandon_pull();
    }
    // The refusal that its own pull would have had.
    bench.abandon_pull();
    bench.ask(Ask::Plain(Action::DeleteQueue, queue(), bytes::Bytes::new())).unwrap();
    let next = bench.begin_pull();
    assert_eq!(bench.error(next).0, ErrorKind::Refused(Refusal::QueueNotFound));
}

#[test]
fn a_message_of_a_lost_connection_is_not_the_next_callers() {
    let raw = Ask::Raw(Request::pull("mine".parse().unwrap(), queue()));
    for ask in [raw, Ask::Pull(queue())] {
        let mut bench = Bench::open(options());
        let gone = bench.begin(ask);
        bench.ask(push("x")).unwrap();
        bench.go();
        // It is here; its caller has not seen it yet. The connection is replaced meanwhile.
        bench.lose_now();
        bench.begin(Ask::Ready);
        bench.connect();
        bench.link().leave(gone);
        let ready = bench.ask(count()).unwrap().counted().unwrap();
        assert_eq!(ready, 1, "the server has it again");
        let next = bench.pull();
        assert_eq!(next.duplications(), 2, "request id {}", next.request_id());
        bench.ask(settle(Action::Delete, &next)).unwrap().done().unwrap();
    }
}

/// A line that carries less than callers push.
#[test]
fn a_pull_is_sent_while_many_others_push() {
    let mut bench = Bench::open(options());
    let body = "x".repeat(60_000);
    let mut pushes: Vec<u64> = (0..60).map(|_| bench.begin(push(&body))).collect();
    bench.turn();
    let pull = bench.begin(Ask::Pull(queue()));
    let connection = bench.connection.unwrap();
    let mut pushed = 0;
    for _ in 0..2000 {
        bench.turn();
        let n = bench.hand.unsent().len().min(100_000);
        let bytes = bench.hand.unsent()[..n].to_vec();
        bench.server.send(connection, &bytes);
        bench.hand.takes(n);
        bench.hand.now += SECOND / 100;
        bench.read();
        bench.turn();
        for task in &mut pushes {
            if let Some(outcome) = bench.outcome(*task) {
                outcome.unwrap();
                pushed += 1;
                *task = bench.begin(push(&body));
            }
        }
        if bench.outcome(pull).is_some() {
            return;
        }
    }
    panic!("{pushed} pushes later, the pull that began before them is not sent");
}

#[test]
fn try_pull_returns_a_received_message() {
    let mut bench = Bench::open(options());
    bench.abandon_pull();
    let next = bench.begin(Ask::TryPull(queue()));
    bench.turn();
    bench.change_elsewhere("rpush");
    bench.go();
    let outcome = bench.outcome(next).unwrap();
    assert!(matches!(outcome, Ok(AskAnswer::Delivery(_))), "{outcome:?}");
}

#[test]
fn the_state_of_the_connection_is_reported_at_every_step() {
    let mut bench = Bench::new(options());
    assert_eq!(bench.state(), ConnectionState::Idle);
    let first = bench.begin(count());
    assert_eq!(bench.state(), ConnectionState::Connecting);
    bench.turn();
    bench.hand.ends(End::NotConnected(refused()));
    bench.turn();
    assert_eq!(bench.state(), ConnectionState::Backoff);
    bench.hand.now += SECOND;
    assert_eq!(bench.state(), ConnectionState::Connecting);
    bench.attach();
    bench.turn();
    assert_eq!(bench.state(), ConnectionState::Connecting, "it is not upgraded");
    bench.go();
    bench.outcome(first).unwrap().unwrap();
    assert_eq!(bench.state(), ConnectionState::Ready);
    bench.link().disconnect();
    assert_eq!(bench.state(), ConnectionState::Connecting, "it is ending");
    bench.turn();
    assert_eq!(bench.state(), ConnectionState::Idle);
    bench.link().close();
    assert_eq!(bench.state(), ConnectionState::Closed);
}

#[test]
fn a_call_ends_the_wait_for_a_failed_server_unless_its_caller_is_patient() {
    let retry = RetryPolicy::new(u32::MAX).seed(7).backoff(SECOND / 100, 1000 * SECOND);
    for is_patient in [false, true] {
        let link = Link::new(options().retry(retry));
        let link = if is_patient { link.patient() } else { link };
        let mut bench = Bench::of(link, Server::builder().offline());
        bench.begin(count());
        let at = loop {
            match bench.turn() {
                Pulse::Dial { .. } => bench.hand.ends(End::NotConnected(refused())),
                Pulse::Close(Some(at)) if at > bench.hand.now + 60 * SECOND => break at,
                Pulse::Close(Some(at)) => bench.hand.now = at,
                other => panic!("{other:?}"),
            }
        };
        bench.begin(count());
        let Pulse::Close(Some(then)) = bench.turn() else { panic!("it is tried at once") };
        assert_eq!(then == at, is_patient);
        assert!(is_patient || then < bench.hand.now + SECOND);
    }
}

#[test]
fn a_pull_in_json_is_sent_when_its_count_was_answered() {
    for (options, is_at_once) in [(options(), true), (json(), false)] {
        let mut bench = Bench::open(options);
        assert!(bench.link().has_pulled(&queue()));
        bench.begin(Ask::Pull(queue()));
        assert!(!bench.link().has_pulled(&queue()));
        bench.turn();
        assert_eq!(bench.link().has_pulled(&queue()), is_at_once);
        bench.go();
        assert!(bench.link().has_pulled(&queue()));
    }
}

#[test]
fn received_data_is_read_on_request() {
    let mut bench = Bench::open(options());
    bench.go();
    assert!(!bench.link().is_looking());
    bench.hand.now += SECOND;
    let now = bench.hand.now;
    bench.link().idle_check.look(now);
    assert!(bench.link().is_looking());
    bench.turn_and_look();
    assert!(!bench.link().is_looking());
    bench.link().idle_check.look(now + SECOND);
    bench.lose_now();
    assert!(!bench.link().is_looking(), "there is no connection");
}

/// The server may close a connection at each pull.
#[test]
fn a_count_before_a_pull_does_not_prove_the_server() {
    for is_patient in [false, true] {
        let link = if is_patient { Link::new(options()).patient() } else { Link::new(json()) };
        let mut bench = Bench::of(link, Server::builder().queue("/q").offline());
        bench.begin(Ask::Pull(queue()));
        for times in 1..=2 {
            bench.connect();
            if is_patient {
                bench.ask(count()).unwrap();
            }
            bench.lose();
            let pulse = bench.turn();
            assert_eq!(matches!(pulse, Pulse::Close(Some(_))), times == 2, "{pulse:?}");
        }
    }
}

/// The server may close a connection at each settlement.
#[test]
fn a_message_to_a_worker_does_not_prove_the_server() {
    for is_long in [false, true] {
        let link = Link::new(options()).patient();
        let mut bench = Bench::of(link, Server::builder().queue("/q").offline());
        let mut pull = bench.begin(Ask::Pull(queue()));
        bench.connect();
        bench.ask(push("x")).unwrap();
        for times in 1..=2 {
            if times > 1 {
                bench.connect();
            }
            assert!(matches!(bench.outcome(pull), Some(Ok(_))));
            // Its copy as a dead letter.
            bench.ask(push("y")).unwrap();
            pull = bench.begin(Ask::Pull(queue()));
            if is_long {
                bench.hand.now += SECOND;
            }
            bench.lose();
            let pulse = bench.turn();
            let is_late = matches!(pulse, Pulse::Close(Some(_)));
            assert_eq!(is_late, times == 2 && !is_long, "{pulse:?}");
        }
    }
}

#[test]
fn a_pull_without_a_connection_states_the_reason() {
    let mut bench = Bench::new(options());
    let pull = bench.begin_for(Ask::Pull(queue()), SECOND);
    bench.turn();
    bench.hand.now += SECOND;
    bench.turn();
    assert_eq!(bench.error(pull), (ErrorKind::Timeout(Deadline::Connect), Fate::NotSent));
    let pull = bench.begin_for(Ask::Pull(queue()), SECOND);
    bench.turn();
    bench.hand.ends(End::NotConnected(refused()));
    bench.turn();
    bench.hand.now += SECOND;
    bench.turn();
    assert_eq!(bench.error(pull), (ErrorKind::Connect, Fate::NotSent));
}

#[test]
fn requests_and_pulls_go_out_in_the_order_of_their_callers() {
    let body = "x".repeat(60_000);
    let many = || pushes(&[body.as_str(); 20]);
    for pulls_first in [false, true] {
        let mut bench = Bench::open(options());
        let asks =
            if pulls_first { [Ask::Pull(queue()), many()] } else { [many(), Ask::Pull(queue())] };
        for ask in asks {
            bench.begin(ask);
        }
        bench.turn();
        // The pushes are more than wait to be written at once.
        assert_eq!(bench.link().metrics.commands, 20 + u64::from(pulls_first));
    }
}

#[test]
fn counts_and_pings_are_resent_within_the_policy() {
    for ask in [count(), Ask::Ping] {
        let mut bench = Bench::new(options());
        let asked = bench.begin(ask);
        for times in 1..=4 {
            bench.hand.now += SECOND;
            assert!(matches!(bench.turn(), Pulse::Dial { .. }));
            bench.attach();
            bench.turn();
            bench.write();
            bench.read();
            bench.go_unanswered();
            bench.lose_now();
            assert_eq!(bench.outcome_is_open(asked), times < 4, "after {times} attempts");
        }
    }
}

#[test]
fn the_answer_to_a_later_push_does_not_extend_the_time_of_an_earlier_one() {
    let mut bench = Bench::open(options());
    let batch = bench.begin(pushes(&["one", "two"]));
    bench.go_unanswered();
    bench.turn();
    bench.hand.now += 8 * SECOND;
    bench.comes(&pushed(2, 7));
    bench.turn();
    bench.hand.now += 2 * SECOND;
    bench.turn_and_look();
    let late = Err((ErrorKind::Timeout(Deadline::Reply), Fate::Unknown));
    assert_eq!(all_pushed(bench.outcome(batch).unwrap()), [late, Ok(7)]);
}

#[test]
fn an_answer_of_another_kind_is_not_taken_for_success() {
    let kind = |error: Error| error.kind().clone();
    assert_eq!(AskAnswer::Nothing.done().map_err(kind), Err(ErrorKind::Protocol));
    assert_eq!(
        AskAnswer::Success(Success::Counted(1)).done().map_err(kind),
        Err(ErrorKind::Protocol)
    );
}

#[test]
fn a_ping_that_contains_an_answer_is_ignored() {
    let mut bench = Bench::open(options());
    let batch = bench.begin(pushes(&["one"]));
    bench.go_unanswered();
    let mut ping = pushed(1, 7);
    ping[0] = 0x89;
    bench.comes(&ping);
    bench.turn();
    assert!(bench.outcome_is_open(batch));
    assert_eq!(bench.hand.unsent()[0], 0x8a, "a pong");
}

#[test]
fn an_answer_is_waited_for_when_its_caller_has_gone() {
    let mut bench = Bench::open(options());
    let gone = bench.begin(push("x"));
    bench.go_unanswered();
    bench.link().leave(gone);
    let late = bench.hand.now + 10 * SECOND;
    assert_eq!(bench.turn(), Pulse::Go(Some(late)));
}
