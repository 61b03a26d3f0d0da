//! Packets of one connection, in every order.

use super::*;
use crate::{
    FunctionName, SubmitOptions,
    protocol::{Echo, Magic, Submit},
};

fn session() -> Session<u32> {
    Session::new(Arc::default())
}

fn packet(packet_type: PacketType, arguments: &[&str]) -> Packet {
    Packet::new(Magic::Response, packet_type, arguments).unwrap()
}

fn foreground() -> Submit<&'static str> {
    let function = FunctionName::try_from("f").unwrap();
    Submit::foreground(function, "data", SubmitOptions::default()).unwrap()
}

/// Who got it, as text.
fn accept(session: &mut Session<u32>, packet: Packet) -> Option<(u32, String)> {
    match session.accept(packet).unwrap() {
        Recipient::Answer(waiter, packet) | Recipient::Created(waiter, packet) => {
            Some((waiter, packet.packet_type.to_string()))
        }
        Recipient::Event(waiter, event) => Some((waiter, format!("{event:?}"))),
        Recipient::Nobody => None,
    }
}

fn got(waiter: u32, what: &str) -> Option<(u32, String)> {
    Some((waiter, what.to_owned()))
}

/// Submits a job, which gets this handle.
fn starts(session: &mut Session<u32>, waiter: u32, handle: &str) {
    session.send(&foreground(), waiter);
    accept(session, packet(PacketType::JobCreated, &[handle]));
}

/// With one foreground job.
fn running() -> Session<u32> {
    let mut session = session();
    starts(&mut session, 1, "H:x:1");
    session
}

fn asking() -> Session<u32> {
    let mut session = session();
    session.ask_for_exceptions();
    session.send(&foreground(), 1);
    session.send(&Echo("a"), 2);
    session
}

fn error(code: &str) -> Packet {
    packet(PacketType::Error, &[code, "text"])
}

#[test]
fn quirk_a_server_may_be_silent_about_exceptions() {
    let mut session = asking();
    let created = packet(PacketType::JobCreated, &["H:x:1"]);
    assert_eq!(accept(&mut session, created), got(1, "JOB_CREATED"));
    assert_eq!(session.has_exceptions(), Some(false));
    assert_eq!(accept(&mut session, error("INVALID_COMMAND")), got(2, "ERROR"));
    assert_eq!(session.pending(), 0);
    // So may be the answer to a request that is no submission.
    let mut plain = self::session();
    plain.ask_for_exceptions();
    plain.send(&Echo("a"), 1);
    plain.send(&Echo("b"), 2);
    assert_eq!(accept(&mut plain, packet(PacketType::EchoRes, &["a"])), got(1, "ECHO_RES"));
    assert_eq!(plain.has_exceptions(), Some(false));
    assert_eq!(accept(&mut plain, error("INVALID_COMMAND")), got(2, "ERROR"));
    // The first answer may be a refusal, too.
    let mut session = asking();
    assert_eq!(accept(&mut session, error("QUEUE_ERROR")), got(1, "ERROR"));
    assert_eq!(accept(&mut session, packet(PacketType::EchoRes, &["a"])), got(2, "ECHO_RES"));
}

#[test]
fn quirk_a_server_may_refuse_exceptions() {
    for code in ["UNKNOWN_OPTION", "unknown_option", "INVALID_COMMAND"] {
        let mut session = asking();
        assert_eq!(accept(&mut session, error(code)), None, "{code}");
        assert_eq!(session.has_exceptions(), Some(false));
        assert_eq!(accept(&mut session, error("QUEUE_ERROR")), got(1, "ERROR"));
        assert_eq!(accept(&mut session, error(code)), got(2, "ERROR"), "only one was for that");
    }
    let mut session = session();
    session.ask_for_exceptions();
    assert_eq!(accept(&mut session, error("server_error")), None);
    session.send(&Echo("a"), 1);
    assert_eq!(accept(&mut session, error("server_error")), got(1, "ERROR"));
}

#[test]
fn quirk_a_server_may_answer_late_about_exceptions() {
    for late in [packet(PacketType::OptionRes, &["exceptions"]), error("UNKNOWN_OPTION")] {
        let mut session = asking();
        let granted = late.packet_type == PacketType::OptionRes;
        let created = packet(PacketType::JobCreated, &["H:x:1"]);
        assert_eq!(accept(&mut session, created), got(1, "JOB_CREATED"));
        assert_eq!(accept(&mut session, late), None);
        assert_eq!(session.has_exceptions(), Some(granted));
        assert_eq!(accept(&mut session, packet(PacketType::EchoRes, &["a"])), got(2, "ECHO_RES"));
    }
}

#[test]
fn a_request_waits_for_its_answer_from_its_last_byte_on() {
    let mut session = session();
    session.send(&Echo("large"), 1);
    session.sent(session.outgoing().len() - 1);
    assert!(!session.is_waiting());
    session.sent(1);
    assert!(session.is_waiting());
    session.send(&Echo("behind"), 2);
    assert!(session.is_waiting(), "the first one");
    accept(&mut session, packet(PacketType::EchoRes, &["large"]));
    assert!(!session.is_waiting());
}

#[test]
fn quirk_noop_and_error_may_come_at_any_time() {
    let mut session = session();
    assert_eq!(accept(&mut session, packet(PacketType::Noop, &[])), None);
    assert_eq!(accept(&mut session, packet(PacketType::Error, &["JOB_NOT_FOUND", ""])), None);
    session.send(&Echo("a"), 1);
    assert_eq!(accept(&mut session, packet(PacketType::Noop, &[])), None);
    assert_eq!(accept(&mut session, packet(PacketType::EchoRes, &["a"])), got(1, "ECHO_RES"));
}

#[test]
fn events_find_their_job_in_any_order() {
    let mut session = session();
    session.send(&foreground(), 1);
    session.send(&foreground(), 2);
    accept(&mut session, packet(PacketType::JobCreated, &["H:x:1"]));
    accept(&mut session, packet(PacketType::JobCreated, &["H:x:2"]));
    starts(&mut session, 3, "H:x:3");
    for (packet_type, arguments, waiter, event) in [
        (PacketType::WorkData, &["H:x:2", "ab"][..], 2, "Data(2 bytes)"),
        (PacketType::WorkWarning, &["H:x:2", "abc"], 2, "Warning(3 bytes)"),
        (PacketType::WorkComplete, &["H:x:2", ""], 2, "Complete(0 bytes)"),
        (PacketType::WorkFail, &["H:x:1"], 1, "Fail"),
        (PacketType::WorkException, &["H:x:3", "no"], 3, r#"Exception("no")"#),
    ] {
        assert_eq!(accept(&mut session, packet(packet_type, arguments)), got(waiter, event));
    }
    assert_eq!(session.running(), 0);
}

#[test]
fn quirk_the_handle_of_work_fail_may_end_with_a_nul() {
    let mut session = running();
    let fail = packet(PacketType::WorkFail, &["H:x:1\0"]);
    assert_eq!(accept(&mut session, fail), got(1, "Fail"));
}

#[test]
fn quirk_joined_submissions_get_every_packet_once_each() {
    let mut session = session();
    for waiter in [1, 2] {
        starts(&mut session, waiter, "H:x:1");
    }
    let data = || packet(PacketType::WorkData, &["H:x:1", "a"]);
    assert_eq!(accept(&mut session, data()), got(1, "Data(1 bytes)"));
    assert_eq!(accept(&mut session, data()), got(2, "Data(1 bytes)"));
    starts(&mut session, 3, "H:x:1");
    let complete = || packet(PacketType::WorkComplete, &["H:x:1", "r"]);
    for waiter in [1, 2, 3] {
        assert_eq!(accept(&mut session, complete()), got(waiter, "Complete(1 bytes)"));
    }
    assert_eq!(accept(&mut session, complete()), None);
}

#[test]
fn quirk_a_result_after_a_cancelling_failure_is_ignored() {
    let mut session = running();
    assert_eq!(accept(&mut session, packet(PacketType::WorkFail, &["H:x:1"])), got(1, "Fail"));
    assert_eq!(accept(&mut session, packet(PacketType::WorkComplete, &["H:x:1", "r"])), None);
}

#[test]
fn quirk_progress_may_be_no_number() {
    let mut session = running();
    let status = packet(PacketType::WorkStatus, &["H:x:1", "half", "-1"]);
    let Recipient::Event(1, JobEvent::Status(progress)) = session.accept(status).unwrap() else {
        panic!("it is for the submitter");
    };
    assert_eq!((progress.numerator(), progress.raw()), (None, (&b"half"[..], &b"-1"[..])));
}

#[test]
fn fate_counts_the_request_for_exceptions_too() {
    let mut session = session();
    session.ask_for_exceptions();
    session.send(&Echo("one"), 1);
    session.sent(session.outgoing().len() - 1);
    assert!(!session.is_waiting());
    let lost: Vec<_> = session.close().into_iter().map(|lost| (lost.waiter, lost.fate)).collect();
    assert_eq!(lost, [(1, Fate::NotSent)]);
    assert!(session.outgoing().is_empty(), "the rest of it is not written any more");
}

/// So that simulations can be repeated.
#[test]
fn lost_jobs_are_reported_in_handle_order() {
    let mut session = session();
    for (waiter, number) in [(0, 3), (1, 1), (2, 9), (3, 2), (4, 7), (5, 4), (6, 8), (7, 5)] {
        starts(&mut session, waiter, &format!("H:x:{number}"));
    }
    let lost = session.close();
    let waiters: Vec<u32> = lost.iter().map(|lost| lost.waiter).collect();
    assert_eq!(waiters, [1, 3, 0, 5, 7, 4, 6, 2]);
    assert_eq!(lost[0].handle.as_ref().unwrap().name(), b"H:x:1");
}
