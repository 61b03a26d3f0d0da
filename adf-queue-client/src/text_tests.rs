//! What people write in configuration is read, and written the same way; events are one line.

use std::time::Duration;

use crate::*;

#[test]
fn outcomes_round_trip() {
    for (outcome, text) in [
        (Outcome::Delete, "delete"),
        (Outcome::ReturnLeft, "return-left"),
        (Outcome::ReturnRight, "return-right"),
        (Outcome::DeadLetter, "dead-letter"),
        (Outcome::Retry, "retry"),
    ] {
        assert_eq!(outcome.to_string(), text);
        assert_eq!(text.parse::<Outcome>().unwrap(), outcome);
    }
    let error = "drop".parse::<Outcome>().unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("dead-letter or retry"), "{error}");
}

#[test]
fn events_of_workers_are_one_line() {
    let queue: QueueName = "/a\nb".parse().unwrap();
    let (message, error) = (MessageId::from(7), String::from("no\u{1b}[2J"));
    let refused = Error::invalid("no such queue");
    for (what, text) in [
        (WorkerEventKind::Connected, "connected"),
        (
            WorkerEventKind::Refused {
                queue: queue.clone(),
                error: refused,
                pause: Duration::from_secs(2),
            },
            r"/a\nb is refused, waiting 2s: no such queue",
        ),
        (
            WorkerEventKind::Failed { queue: queue.clone(), message, error },
            r"message 7 of /a\nb failed: no\u{1b}[2J",
        ),
        (
            WorkerEventKind::Settled { queue, message, fate: JobFate::Lost(LostReason::NotPulled) },
            r"message 7 of /a\nb lost: the server does not know that it was pulled",
        ),
    ] {
        let event = WorkerEvent { server: "h:1".parse().unwrap(), what };
        assert_eq!(event.to_string(), format!("{}: {text}", event.server));
    }
}
