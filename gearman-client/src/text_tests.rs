//! What people write in configuration is read, and written the same way.

use std::{fmt::Display, str::FromStr};

use crate::*;

fn is_text<T: Display + FromStr<Err = Error> + PartialEq + std::fmt::Debug>(value: T, text: &str) {
    assert_eq!(value.to_string(), text);
    assert_eq!(text.parse::<T>().unwrap(), value, "{text}");
}

#[test]
fn settings_round_trip() {
    is_text(Unique::Random, "random");
    is_text(Unique::ByPayload, "by-payload");
    is_text(Unique::None, "none");
    is_text(Unique::Id("none".parse().unwrap()), "id:none");
    is_text(Grab::Plain, "plain");
    is_text(Grab::Uniq, "uniq");
    is_text(Grab::All, "all");
    is_text(Schedule::new(0, 12, 1, 6, 3).unwrap(), "0 12 1 6 3");
    is_text(MaxQueue::All(100), "100");
    is_text(MaxQueue::ByPriority { high: 3, normal: 2, low: 1 }, "high 3, normal 2, low 1");
}

#[test]
fn wrong_settings_are_refused_with_the_value_and_the_rule() {
    for (error, why) in [
        ("once".parse::<Unique>().unwrap_err(), "it is random, by-payload, none or id:ID"),
        ("id:".parse::<Unique>().unwrap_err(), "unique id"),
        ("job".parse::<Grab>().unwrap_err(), "it is plain, uniq or all"),
        ("0 12 1 6".parse::<Schedule>().unwrap_err(), "it must be five numbers"),
        ("0 12 1 6 x".parse::<Schedule>().unwrap_err(), "it must be five numbers"),
        ("60 12 1 6 3".parse::<Schedule>().unwrap_err(), "minute 60"),
        (
            "high 3, normal 2".parse::<MaxQueue>().unwrap_err(),
            "of the form high 3, normal 2, low 1",
        ),
        ("3,2,1".parse::<MaxQueue>().unwrap_err(), "of the form"),
        ("4294967296".parse::<MaxQueue>().unwrap_err(), "of the form"),
        ("high 3, normal 2, low 1, x".parse::<MaxQueue>().unwrap_err(), "of the form"),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_text_of_a_failure_is_shown_up_to_a_length_and_kept_whole() {
    let long = "\u{fc}".repeat(100_000);
    let failed = Outcome::Exception(long.clone().into()).into_result().unwrap_err();
    let shown = failed.to_string();
    assert!(shown.len() < 600 && shown.ends_with("... (200000 bytes)"), "{shown}");
    assert_eq!(failed.exception().unwrap(), &long);
}

#[test]
fn events_and_outcomes_carry_reasons_but_no_payloads() {
    let secret = bytes::Bytes::from_static(b"secret");
    for (text, shown) in [
        (Outcome::Complete(secret.clone()).to_string(), "complete (6 bytes)"),
        (Outcome::Fail.to_string(), "fail"),
        (Outcome::Exception("no\nway".into()).to_string(), r"exception: no\nway"),
        (format!("{:?}", Outcome::Exception("no\nway".into())), r#"Exception("no\nway")"#),
        (Outcome::Fail.into_result().unwrap_err().to_string(), "the job failed"),
        (format!("{:?}", JobEvent::Exception("\u{1b}[2J".into())), r#"Exception("\u{1b}[2J")"#),
        (JobEvent::Created("H:vm:1".parse().unwrap()).to_string(), "created H:vm:1"),
        (JobEvent::Data(secret.clone()).to_string(), "data (6 bytes)"),
        (JobEvent::Warning(secret.clone()).to_string(), "warning (6 bytes)"),
        (JobEvent::Complete(secret).to_string(), "complete (6 bytes)"),
        (JobEvent::Fail.to_string(), "fail"),
        (JobEvent::Exception("why".into()).to_string(), "exception: why"),
        (Progress::default().to_string(), "?/?"),
    ] {
        assert_eq!(text, shown);
    }
    let status = |is_known, is_running| JobStatus {
        is_known,
        is_running,
        progress: Progress::new("3".into(), "4".into()),
        waiting: None,
    };
    assert_eq!(status(false, false).to_string(), "unknown");
    assert_eq!(status(true, false).to_string(), "queued");
    assert_eq!(status(true, true).to_string(), "running 3/4");
    assert_eq!(JobEvent::Status(status(true, true).progress).to_string(), "status 3/4");
}

#[test]
fn events_of_workers_are_one_line() {
    let failed = WorkerEventKind::Failed {
        job: "H:vm:1".parse().unwrap(),
        function: "resize".parse().unwrap(),
        error: "a\n\u{1b}[2J".into(),
    };
    let oversized = WorkerEventKind::Oversized {
        job: "H:vm:1".parse().unwrap(),
        function: "resize".parse().unwrap(),
        size: 70,
        limit: 60,
    };
    for (what, text) in [
        (failed, r"h:1: job H:vm:1 of resize failed: a\n\u{1b}[2J"),
        (
            oversized,
            "h:1: job H:vm:1 of resize failed without being run: its packet of 70 bytes is over the limit of 60 (raise max_packet_size if this is expected)",
        ),
    ] {
        let event = WorkerEvent { server: "h:1".parse().unwrap(), what };
        assert_eq!(event.to_string(), text);
    }
}

#[test]
fn events_of_clients_are_one_line() {
    let error = Error::new(ErrorKind::Connect, Fate::NotSent, "a\n\u{1b}[2J");
    for (what, text) in [
        (ClientEventKind::Connected, "h:1: connected"),
        (ClientEventKind::Disconnected(error), r"h:1: disconnected: a\n\u{1b}[2J"),
        (
            ClientEventKind::BackingOff(std::time::Duration::from_millis(250)),
            "h:1: skipped for 250ms",
        ),
        (ClientEventKind::Moved, "h:1: a request goes to another server"),
        (ClientEventKind::Resent, "h:1: a request of unknown fate is sent again"),
    ] {
        let event = ClientEvent { server: "h:1".parse().unwrap(), what };
        assert_eq!(event.to_string(), text);
    }
}
