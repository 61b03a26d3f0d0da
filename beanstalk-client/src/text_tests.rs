//! What people write in configuration is read, and written the same way.

use std::{fmt::Display, str::FromStr, time::Duration};

use crate::*;

fn is_text<T: Display + FromStr<Err = Error> + PartialEq + std::fmt::Debug>(value: T, text: &str) {
    assert_eq!(value.to_string(), text);
    assert_eq!(text.parse::<T>().unwrap(), value, "{text}");
}

#[test]
fn settings_round_trip() {
    is_text(Heartbeat::Always, "always");
    is_text(Heartbeat::Never, "never");
    is_text(Heartbeat::AtMost(Duration::from_millis(1500)), "1500ms");
    is_text(Seconds::from(60), "60");
    is_text(Retries::default(), "base=1s,factor=2,cap=3600s,releases=10,reserves=25");
    is_text(
        Retries::default().timeouts(2).backoff(
            Duration::from_millis(250),
            3,
            Duration::from_secs(9),
        ),
        "base=250ms,factor=3,cap=9s,releases=10,reserves=25,timeouts=2",
    );
    assert_eq!("5m".parse::<Heartbeat>().unwrap(), Heartbeat::AtMost(Duration::from_secs(300)));
    assert_eq!("".parse::<Retries>().unwrap(), Retries::default());
}

#[test]
fn wrong_settings_are_refused_with_the_value_and_the_rule() {
    let error = "sometimes".parse::<Heartbeat>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(text.contains("heartbeat \"sometimes\"") && text.contains("always or never"), "{text}");
    for (bad, why) in [
        ("releases=many", "it needs a whole number"),
        ("releases", "it needs a whole number"),
        ("base=-1", "base \"-1\" is not valid"),
        ("relases=1", "it is base, factor, cap, releases, reserves or timeouts"),
    ] {
        let error = bad.parse::<Retries>().unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
    for bad in ["", "-1", "4294967296", "1.5"] {
        assert!(bad.parse::<Seconds>().is_err(), "{bad}");
    }
}

#[test]
fn outcomes_state_the_fate_of_the_job() {
    let release = Outcome::Release { delay: Duration::from_secs(5), priority: Some(7.into()) };
    for (outcome, text) in [
        (Outcome::Delete, "delete"),
        (Outcome::release(), "release"),
        (release, "release after 5s with priority 7"),
        (Outcome::bury(), "bury"),
        (Outcome::Retry, "retry"),
        (Outcome::retry_after(Duration::from_secs(5)), "retry after 5s"),
    ] {
        assert_eq!(outcome.to_string(), text);
    }
    assert_eq!(Outcome::bury().because("a\nb").to_string(), r"bury: a\nb");
    assert_eq!(Inserted::Ready(7.into()).to_string(), "inserted 7");
    assert_eq!(Inserted::Buried(7.into()).to_string(), "buried 7");
    assert_eq!(
        (Released::Queued.to_string(), Released::Buried.to_string()),
        ("released".into(), "buried".into())
    );
    let status = SlotStatus {
        server: "h:1".parse().unwrap(),
        state: SlotState::Busy(2),
        never_connected: false,
    };
    assert_eq!(status.to_string(), "h:1: busy with 2");
}
