//! Everything that serde writes is read back unchanged, and an unknown key is refused.

use std::time::Duration;

use serde_json::{from_str, json, to_value};

use crate::*;

queue_core::written_by_serde!();

#[test]
fn names_ids_and_addresses() {
    is_written_as("/q".parse::<QueueName>().unwrap(), json!("/q"));
    is_written_as("7".parse::<RequestId>().unwrap(), json!("7"));
    is_written_as("7".parse::<MessageId>().unwrap(), json!(7));
    is_written_as("https://h:2".parse::<Address>().unwrap(), json!("https://h:2"));
    let servers: Servers = from_str(r#""a:1,b:2""#).unwrap();
    assert_eq!(servers.to_string(), "a:1,b:2");
    for bad in [r#""a b""#, r#""""#, "7"] {
        assert!(from_str::<RequestId>(bad).is_err(), "{bad}");
    }
}

#[test]
fn settings() {
    for transport in Transport::ALL {
        is_written_as(transport, json!(transport.name()));
    }
    is_written_as(Selection::ByKey, json!("by-key"));
    is_written_as(Outcome::DeadLetter, json!("dead-letter"));
    let shown = json!({"outcome": "dead-letter", "reason": "so"});
    options_are_written_as(&from_str::<Decision>(&shown.to_string()).unwrap(), &shown);
}

#[test]
fn reports_statistics_and_metrics() {
    is_written_as(JobFate::Lost(LostReason::NotPulled), json!({"lost": "not-pulled"}));
    let report = ProducerReport { pushed: 3, moved: 1, ..ProducerReport::default() };
    assert_eq!(from_str::<ProducerReport>(&to_value(report).unwrap().to_string()).unwrap(), report);
    let report = WorkerReport { deleted: 3, ..WorkerReport::default() };
    assert_eq!(from_str::<WorkerReport>(&to_value(report).unwrap().to_string()).unwrap(), report);
    let queue = json!({"name": "/q", "waiting": 1, "pulled": -2, "ready": 3});
    let read: QueueStats = from_str(&queue.to_string()).unwrap();
    is_written_as(read, queue);
    let mut metrics = Metrics::default();
    metrics.failed(ErrorKind::Refused(Refusal::QueueNotFound));
    let shown = to_value(&metrics).unwrap();
    assert_eq!(shown["errors"], json!({"queue_not_found": 1}));
    assert_eq!(from_str::<Metrics>(&shown.to_string()).unwrap(), metrics);
}

#[test]
fn server_options_serialize_the_address_and_changes() {
    let options: ConnectOptions = "adf://h:1".parse().unwrap();
    let address = options.address().to_string();
    options_are_written_as(&options, &json!(address));
    let options = options
        .reply_timeout(Duration::from_millis(2500))
        .max_message_size(1 << 20)
        .max_connections(3)
        .ping_interval(None)
        .seed(7);
    options_are_written_as(
        &options,
        &json!({
            "address": address, "reply_timeout": 2.5, "max_message_size": 1 << 20, "max_connections": 3,
            "ping_interval": "never", "seed": 7
        }),
    );
    let read: ConnectOptions = from_str(r#"{"address": "h:1", "ping_interval": "1m"}"#).unwrap();
    assert_eq!(read.ping_interval, Some(Duration::from_secs(60)));
    assert!(from_str::<ConnectOptions>(r#"{"address": "h:1", "ping": 1}"#).is_err());
    let shown = json!([address, {"address": "https://b:2", "max_connections": 1}]);
    options_are_written_as(&from_str::<Servers>(&shown.to_string()).unwrap(), &shown);
    let shown = json!({"servers": shown, "selection": "by-key"});
    options_are_written_as(&from_str::<Servers>(&shown.to_string()).unwrap(), &shown);
}

#[test]
fn options_of_producers_and_workers() {
    let options: ProducerOptions = "adf://a:1".parse().unwrap();
    let server = options.servers().to_string();
    options_are_written_as(&options, &json!([server]));
    let options = options
        .selection(Selection::ByKey)
        .at_least_once(true)
        .create_queues(true)
        .timeout(Duration::from_secs(5))
        .max_messages(100);
    options_are_written_as(
        &options,
        &json!({
            "servers": [server], "selection": "by-key", "at_least_once": true, "create_queues": true, "timeout": 5,
            "max_messages": 100
        }),
    );
    let options: WorkerOptions = "adf://a:1".parse().unwrap();
    options_are_written_as(&options, &json!([server]));
    let options = options
        .slots(4)
        .prefetch(2)
        .max_duplications(std::num::NonZeroU16::new(9).unwrap())
        .dead_letter("/dead".parse().unwrap())
        .grace(Duration::from_secs(5))
        .recheck(Duration::from_secs(1))
        .until_empty()
        .log_errors(true);
    options_are_written_as(
        &options,
        &json!({
            "servers": [server], "slots": 4, "prefetch": 2, "max_duplications": 9, "dead_letter": "/dead", "grace": 5,
            "recheck": 1, "until_empty": true, "log_errors": true
        }),
    );
    let slots_for = json!({"servers": [server], "slots_for": {"/slow": 1}});
    let options: WorkerOptions = from_str(&slots_for.to_string()).unwrap();
    assert_eq!(to_value(&options).unwrap(), slots_for);
    let error =
        from_str::<WorkerOptions>(r#"{"servers": "a", "max_duplications": 0}"#).unwrap_err();
    assert!(error.to_string().contains("it must be 1 or more"), "{error}");
    assert!(from_str::<WorkerOptions>(r#"{"servers": "a", "slot": 1}"#).is_err());
}

#[test]
fn refusals_and_events() {
    for refusal in [Refusal::QueueNotFound, Refusal::NotPulled, Refusal::Other("so".into())] {
        let text = refusal.text().to_owned();
        is_written_as(refusal, json!(text));
    }
    let what = WorkerEventKind::Poisoned {
        queue: "/q".parse().unwrap(),
        message: MessageId::from(7),
        duplications: 6,
    };
    let event = WorkerEvent { server: "adf://h:1".parse().unwrap(), what };
    let poisoned = json!({"queue": "/q", "message": 7, "duplications": 6});
    let server = event.server.to_string();
    assert_eq!(
        to_value(&event).unwrap(),
        json!({"server": server, "what": {"poisoned": poisoned}})
    );
    let created = ProducerEventKind::Created("/a\nb".parse().unwrap());
    let event = ProducerEvent { server: event.server, what: created };
    assert_eq!(to_value(&event).unwrap(), json!({"server": server, "what": {"created": "/a\nb"}}));
    assert_eq!(event.to_string(), format!(r"{}: queue /a\nb was created", event.server));
    let waiting = ProducerEventKind::BackingOff(Duration::from_millis(1500));
    assert_eq!(to_value(&waiting).unwrap(), json!({"backing-off": 1.5}));
}
