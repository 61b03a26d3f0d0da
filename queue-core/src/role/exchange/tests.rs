//! Tests of the order of an exchange, on a toy protocol: what holds for every role.

use super::*;
use crate::{ConnectionState, Deadlines, ErrorKind, Replace, RetryPolicy, proof::ByHand};

const SECOND: Duration = Duration::from_secs(1);

impl ConnectionError for Error {
    fn lost(why: io::Error) -> Self {
        Error::new(ErrorKind::Connect, Fate::Unknown, "lost").with_source(why)
    }

    fn abandoned() -> Self {
        Error::new(ErrorKind::Connect, Fate::Unknown, "abandoned")
    }

    fn fate(&self) -> Fate {
        self.fate()
    }

    fn with_fate(self, fate: Fate) -> Self {
        self.with_fate(fate)
    }
}

/// Sends `?`, and waits for as many bytes.
#[derive(Debug)]
struct Toy {
    life: Life<Error>,
    /// Questions to ask.
    queued: usize,
    /// Questions without an answer.
    asked: usize,
    /// Whether a late answer is waited for no longer.
    is_forgiving: bool,
    lost: Vec<(Cause, Option<Duration>)>,
}

crate::role!(Toy, Error);

impl Protocol for Toy {
    fn life(&mut self) -> &mut Life<Error> {
        &mut self.life
    }

    fn connected(&mut self, _: &mut Io<Error>, _: Instant) {}

    fn receive(&mut self, io: &mut Io<Error>, _: Instant) -> Result<(), Error> {
        let n = io.take(usize::MAX).len();
        if n > 0 {
            self.life.ready();
            self.life.served();
            self.life.answered();
            let rest = self.asked.checked_sub(n);
            self.asked = rest.ok_or_else(|| Error::invalid("nobody has asked"))?;
        }
        Ok(())
    }

    fn lost(&mut self, loss: Loss<Error>, _: &mut Io<Error>, _: Instant) {
        self.lost.push((loss.cause, loss.delay));
        self.asked = 0;
    }

    fn needs(&mut self, _: &mut Io<Error>, _: Instant) -> Need {
        match self.queued + self.asked {
            0 if !self.life.is_wanted() => Need::Keep(None),
            _ => Need::Use(None),
        }
    }

    fn send(&mut self, io: &mut Io<Error>, _: Instant) -> Awaits {
        io.queue(&mut vec![b'?'; self.queued][..].into());
        self.asked += mem::take(&mut self.queued);
        let answer = (self.asked > 0 && io.is_drained()).then_some(Duration::ZERO);
        Awaits { answer, ..Awaits::default() }
    }

    fn forgives(&mut self, _: Instant) -> bool {
        let is_forgiving = mem::take(&mut self.is_forgiving);
        if is_forgiving {
            self.asked = 0;
        }
        is_forgiving
    }
}

/// With one question to ask.
fn toy(replace: Replace, change: fn(Life<Error>) -> Life<Error>) -> ByHand<Toy> {
    let retry = RetryPolicy::default().seed(1).backoff(SECOND, 8 * SECOND);
    let deadlines = Deadlines::new(Some(10 * SECOND), Some(5 * SECOND));
    let life = change(Life::new(retry, Some(3 * SECOND), deadlines, replace));
    let (lost, is_forgiving) = (Vec::new(), false);
    ByHand::new(Toy { life, queued: 1, asked: 0, is_forgiving, lost })
}

/// On a connection on which it was asked.
fn asked(replace: Replace, change: fn(Life<Error>) -> Life<Error>) -> ByHand<Toy> {
    let mut hand = toy(replace, change);
    assert!(dials(hand.turn()));
    hand.opens();
    assert!(matches!(hand.turn(), Pulse::Go(Some(_))));
    assert_eq!(hand.takes_all(), b"?");
    hand
}

fn answered(replace: Replace) -> ByHand<Toy> {
    let mut hand = asked(replace, |life| life);
    hand.comes(b"!");
    assert_eq!(hand.turn(), Pulse::Rest(None));
    hand
}

fn ask(hand: &mut ByHand<Toy>) -> Pulse {
    hand.role.0.queued = 1;
    hand.turn()
}

fn dials(pulse: Pulse) -> bool {
    matches!(pulse, Pulse::Dial { server: 0, by: Some(_), ask: None })
}

fn causes(hand: &ByHand<Toy>) -> Vec<Cause> {
    hand.role.0.lost.iter().map(|(cause, _)| *cause).collect()
}

fn refused() -> End<Error> {
    End::NotConnected(Error::failed(ErrorKind::Connect, "refused"))
}

#[test]
fn a_good_connection_is_replaced_as_its_policy_says() {
    for (replace, is_at_once) in
        [(Replace::IfGood, true), (Replace::UnlessTwice, true), (Replace::Later, false)]
    {
        let mut hand = answered(replace);
        hand.loses(io::ErrorKind::ConnectionReset);
        assert_eq!(hand.turn(), Pulse::Close(None), "nobody needs another");
        assert_eq!(causes(&hand), [Cause::Ended]);
        assert_eq!(dials(ask(&mut hand)), is_at_once, "{replace:?}");
        assert_eq!(hand.role.0.life.state() == ConnectionState::Backoff, !is_at_once);
    }
}

#[test]
fn only_the_first_loss_of_an_unproven_connection_is_bad_luck() {
    let rows = [
        (Replace::UnlessTwice, [true, false]),
        (Replace::IfGood, [false; 2]),
        (Replace::Later, [false; 2]),
    ];
    for (replace, at_once) in rows {
        let mut hand = toy(replace, |life| life);
        for is_at_once in at_once {
            hand.opens();
            hand.turn();
            hand.loses(io::ErrorKind::UnexpectedEof);
            hand.turn();
            assert_eq!(dials(ask(&mut hand)), is_at_once, "{replace:?}");
        }
        // A connection that has served may be unlucky again.
        hand.opens();
        hand.turn();
        hand.takes_all();
        hand.comes(b"!");
        hand.turn();
        hand.loses(io::ErrorKind::UnexpectedEof);
        hand.turn();
        hand.opens();
        ask(&mut hand);
        hand.loses(io::ErrorKind::UnexpectedEof);
        hand.turn();
        assert_eq!(dials(ask(&mut hand)), at_once[0], "{replace:?}");
    }
}

#[test]
fn a_failed_attempt_delays_the_next() {
    let mut hand = toy(Replace::UnlessTwice, |life| life);
    for failures in 1..4 {
        hand.turn();
        hand.ends(refused());
        let Pulse::Close(Some(at)) = hand.turn() else { panic!("it does not wait") };
        let life = &hand.role.0.life;
        assert_eq!(
            (life.health.failures(), life.ends(), life.is_away()),
            (failures, failures.into(), true)
        );
        assert_eq!(life.quarantine(hand.now), Some(at - hand.now));
        assert_eq!(hand.role.0.lost.last(), Some(&(Cause::NotConnected, Some(at - hand.now))));
        hand.now = at;
    }
    // A pump that reports nothing has taken too long.
    let Pulse::Dial { by: Some(by), .. } = hand.turn() else { panic!("it waits") };
    hand.now = by;
    assert!(dials(hand.turn()), "the pump reports first");
    hand.now += SECOND;
    assert!(matches!(hand.turn(), Pulse::Close(Some(_))));
    assert_eq!(causes(&hand), [Cause::NotConnected; 4]);
    assert!(!hand.role.0.life.has_failed_for(&RetryPolicy::new(4)));
    assert!(hand.role.0.life.has_failed_for(&RetryPolicy::new(3)));
}

#[test]
fn the_first_failure_is_free_for_a_role_that_says_so() {
    let mut hand = toy(Replace::IfGood, Life::first_is_free);
    hand.turn();
    hand.ends(refused());
    assert!(dials(hand.turn()));
    hand.ends(refused());
    assert!(matches!(hand.turn(), Pulse::Close(Some(_))));
    // A good connection uses it up.
    let mut hand = asked(Replace::IfGood, Life::first_is_free);
    hand.comes(b"!");
    hand.turn();
    hand.loses(io::ErrorKind::ConnectionReset);
    assert!(dials(ask(&mut hand)));
    hand.ends(refused());
    assert!(matches!(hand.turn(), Pulse::Close(Some(_))));
}

#[test]
fn an_attempt_for_a_caller_who_has_gone_is_not_charged_to_the_next() {
    let mut hand = toy(Replace::IfGood, |life| life);
    hand.turn();
    hand.now += SECOND;
    hand.role.0.life.asked(hand.now);
    hand.ends(refused());
    assert!(dials(hand.turn()));
    assert_eq!(causes(&hand), []);
    hand.ends(refused());
    hand.turn();
    assert_eq!(causes(&hand), [Cause::NotConnected], "this one was for the caller");
}

#[test]
fn reads_once_more_for_a_late_answer() {
    for is_unread in [false, true] {
        let mut hand = match is_unread {
            true => asked(Replace::IfGood, Life::left_unread),
            false => asked(Replace::IfGood, |life| life),
        };
        let Pulse::Go(Some(due)) = hand.turn() else { panic!("it has no deadline") };
        assert_eq!(due, hand.now + 10 * SECOND);
        hand.now = due;
        if is_unread {
            assert_eq!(hand.turn(), Pulse::Look);
            hand.looked();
        }
        hand.turn();
        assert_eq!(causes(&hand), [Cause::Late]);
    }
}

#[test]
fn an_unread_answer_is_not_late() {
    let mut hand = asked(Replace::IfGood, Life::left_unread);
    hand.now += 10 * SECOND;
    assert_eq!(hand.turn(), Pulse::Look);
    hand.comes(b"!");
    hand.looked();
    assert_eq!(hand.turn(), Pulse::Rest(None));
    // The next late answer is looked for again.
    ask(&mut hand);
    hand.takes_all();
    hand.turn();
    hand.now += 10 * SECOND;
    assert_eq!(hand.turn(), Pulse::Look);
}

#[test]
fn each_connection_has_the_whole_time_for_a_write() {
    let mut hand = toy(Replace::UnlessTwice, |life| life);
    for _ in 0..2 {
        hand.turn();
        hand.opens();
        assert_eq!(hand.turn(), Pulse::Go(Some(hand.now + 5 * SECOND)));
        hand.now += 4 * SECOND;
        hand.loses(io::ErrorKind::ConnectionReset);
        ask(&mut hand);
    }
    assert_eq!(causes(&hand), [Cause::Ended; 2]);
}

#[test]
fn a_role_may_forgive_a_late_answer_but_not_a_late_write() {
    let mut hand = asked(Replace::IfGood, |life| life);
    hand.role.0.is_forgiving = true;
    hand.turn();
    hand.now += 10 * SECOND;
    assert_eq!(hand.turn(), Pulse::Rest(None));
    let Pulse::Go(Some(until)) = ask(&mut hand) else { panic!("it has no deadline") };
    assert_eq!(until, hand.now + 5 * SECOND);
    hand.now = until;
    hand.role.0.is_forgiving = true;
    hand.turn();
    assert_eq!(causes(&hand), [Cause::Late]);
}

#[test]
fn a_greeting_is_part_of_the_attempt() {
    let mut hand = toy(Replace::UnlessTwice, Life::greets);
    hand.turn();
    hand.now += 2 * SECOND;
    hand.opens();
    assert_eq!(hand.turn(), Pulse::Go(Some(hand.now + SECOND)));
    hand.now += SECOND;
    hand.turn();
    assert_eq!(causes(&hand), [Cause::Late]);
    let Pulse::Close(Some(at)) = ask(&mut hand) else { panic!("that was no bad luck") };
    hand.now = at;
    hand.turn();
    hand.opens();
    hand.turn();
    hand.takes_all();
    hand.comes(b"!");
    hand.turn();
    hand.now += 9 * SECOND;
    assert_eq!(hand.turn(), Pulse::Rest(None), "it has greeted");
}

#[test]
fn unusable_input_ends_the_connection_once() {
    for end in [None, Some(io::ErrorKind::ConnectionReset)] {
        let mut hand = answered(Replace::IfGood);
        hand.comes(b"?!");
        end.into_iter().for_each(|end| hand.loses(end));
        assert_eq!(hand.turn(), Pulse::Close(None));
        assert_eq!(causes(&hand), [Cause::Unusable]);
        assert!(dials(ask(&mut hand)), "it was good");
    }
}

#[test]
fn a_caller_can_have_the_connection_closed_and_counted_once() {
    for end in [None, Some(io::ErrorKind::ConnectionReset)] {
        let mut hand = asked(Replace::IfGood, |life| life);
        let life = &mut hand.role.0.life;
        life.close_with(Error::invalid("enough"));
        assert_eq!((life.is_open(), life.is_connected(), life.ends()), (false, true, 1));
        if let Some(end) = end {
            hand.loses(end);
        }
        assert_eq!(hand.turn(), Pulse::Close(None));
        assert_eq!((causes(&hand), hand.role.0.life.ends()), (vec![Cause::Unusable], 1));
        // Without a connection there is nothing to close.
        hand.role.0.life.close_with(Error::invalid("enough"));
        assert_eq!(hand.role.0.life.ends(), 1);
        hand.opens();
        assert_eq!(hand.turn(), Pulse::Rest(None));
        // Another connection is not meant.
        hand.role.0.life.close_with(Error::invalid("enough"));
        hand.opens();
        assert_eq!(hand.turn(), Pulse::Rest(None));
    }
}

#[test]
fn waiters_learn_that_the_pump_is_gone_and_claim_the_next() {
    let mut hand = toy(Replace::IfGood, |life| life);
    hand.turn();
    assert!(hand.role.0.life.claim());
    hand.abandoned();
    hand.turn();
    assert_eq!(causes(&hand), [Cause::Abandoned]);
    let life = &mut hand.role.0.life;
    assert!(life.claim() && !life.claim());
    // So is a role with a connection.
    let mut hand = asked(Replace::IfGood, |life| life);
    hand.abandoned();
    assert_eq!(hand.turn(), Pulse::Close(None));
    assert_eq!(causes(&hand), [Cause::Abandoned]);
    hand.pump_anew();
    hand.opens();
    ask(&mut hand);
    assert_eq!(hand.takes_all(), b"?", "the next pump begins to count anew");
    // Without waiters, there is nothing to report.
    let mut hand = answered(Replace::IfGood);
    hand.closes();
    hand.role.0.life.close();
    hand.abandoned();
    assert_eq!(hand.turn(), Pulse::Close(None));
    assert_eq!(causes(&hand), []);
}

#[test]
fn a_need_triggers_attempts_until_withdrawn() {
    let mut hand = toy(Replace::IfGood, |life| life);
    hand.role.0.queued = 0;
    hand.role.0.life.unwant();
    assert!(!hand.role.0.life.claim(), "nobody wants one");
    for is_lacking in [true, false] {
        hand.role.0.life.want();
        assert_eq!(hand.role.0.life.claim(), is_lacking, "its pump is there since");
        let by = hand.now + 3 * SECOND;
        assert_eq!(hand.turn(), Pulse::Dial { server: 0, by: Some(by), ask: None });
        hand.now += 2 * SECOND;
        hand.role.0.life.unwant();
        assert_eq!(hand.turn(), Pulse::Close(None));
    }
    hand.role.0.life.want();
    hand.opens();
    assert_eq!(hand.turn(), Pulse::Rest(None));
    assert!(!hand.role.0.life.is_wanted());
    hand.role.0.life.unwant();
    assert!(hand.role.0.life.is_open(), "it was made");
    hand.role.0.life.close();
    hand.closes();
    hand.role.0.life.want();
    assert!(dials(hand.turn()));
    hand.ends(refused());
    assert_eq!(hand.turn(), Pulse::Close(None), "one attempt for each wish");
}
