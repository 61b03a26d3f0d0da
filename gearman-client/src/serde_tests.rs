//! Everything that serde writes is read back unchanged, and an unknown key is refused.

use std::time::Duration;

use serde_json::{from_str, json, to_value};

use crate::*;

queue_core::written_by_serde!();

#[test]
fn names_handles_and_addresses() {
    is_written_as("resize".parse::<FunctionName>().unwrap(), json!("resize"));
    is_written_as("one".parse::<UniqueId>().unwrap(), json!("one"));
    is_written_as("worker-1".parse::<ClientId>().unwrap(), json!("worker-1"));
    is_written_as("h:4730//H:vm:1".parse::<JobHandle>().unwrap(), json!("h:4730//H:vm:1"));
    is_written_as(FunctionName::try_from(b"b\xff").unwrap(), json!(r"b\xff"));
    is_written_as(UniqueId::try_from(&b"\\x41\xfe"[..]).unwrap(), json!(r"\x5cx41\xfe"));
    let handle = JobHandle::try_from(&b"H:\xff:1"[..]).unwrap();
    is_written_as(handle.clone(), json!(r"H:\xff:1"));
    is_written_as(handle.on_server("h:1".parse().unwrap()), json!(r"h:1//H:\xff:1"));
    is_written_as("gearmans://h:2".parse::<Address>().unwrap(), json!("gearmans://h:2"));
    let servers: Servers = from_str(r#""a:1,b:2""#).unwrap();
    assert_eq!(to_value(&servers).unwrap(), json!(["a:1", "b:2"]));
    for bad in [r#""a\u0000b""#, r#""""#, "7"] {
        assert!(from_str::<FunctionName>(bad).is_err(), "{bad}");
    }
}

#[test]
fn settings() {
    is_written_as(Priority::High, json!("high"));
    is_written_as(Selection::ByKeyOnRing, json!("by-key-on-ring"));
    is_written_as(Unique::ByPayload, json!("by-payload"));
    is_written_as(Unique::Id("one".parse().unwrap()), json!({"id": "one"}));
}

#[test]
fn statuses_rows_reports_and_metrics() {
    let status =
        json!({"known": true, "running": false, "numerator": 1, "denominator": 4, "waiting": 2});
    let read: JobStatus = from_str(&status.to_string()).unwrap();
    assert_eq!((read.is_known, read.progress.share(), read.waiting), (true, Some(0.25), Some(2)));
    is_written_as(read, status);
    is_written_as(
        vec![FunctionStatus { name: "f".parse().unwrap(), total: 3, running: 1, workers: -1 }],
        json!([{"name": "f", "total": 3, "running": 1, "workers": -1}]),
    );
    is_written_as(LostReason::TimedOut, json!("timed-out"));
    let report = WorkerReport { completed: 3, rejected: 1, ..WorkerReport::default() };
    assert_eq!(from_str::<WorkerReport>(&to_value(report).unwrap().to_string()).unwrap(), report);
    let mut metrics = Metrics::default();
    metrics.failed(ErrorKind::JobLost);
    let shown = to_value(&metrics).unwrap();
    assert_eq!(shown["errors"], json!({"job_lost": 1}));
    assert_eq!(from_str::<Metrics>(&shown.to_string()).unwrap(), metrics);
    is_written_as(ConnectionState::Backoff, json!("backoff"));
}

#[test]
fn server_options_serialize_the_address_and_changes() {
    let options: ConnectOptions = "h:1".parse().unwrap();
    options_are_written_as(&options, &json!("h:1"));
    let options = options
        .reply_timeout(Duration::from_millis(2500))
        .total_timeout(Some(Duration::from_secs(60)))
        .max_packet_size(1 << 20)
        .max_backlog(1000)
        .exceptions(false);
    options_are_written_as(
        &options,
        &json!({
            "address": "h:1", "reply_timeout": 2.5, "total_timeout": 60, "max_packet_size": 1 << 20,
            "max_backlog": 1000, "exceptions": false
        }),
    );
    assert!(from_str::<ConnectOptions>(r#"{"address": "h:1", "max_body_size": 1}"#).is_err());
    let shown = json!(["a:1", {"address": "b:2", "exceptions": false}]);
    options_are_written_as(&from_str::<Servers>(&shown.to_string()).unwrap(), &shown);
    let shown = json!({"servers": shown, "selection": "by-key-on-ring"});
    options_are_written_as(&from_str::<Servers>(&shown.to_string()).unwrap(), &shown);
}

/// Text and a list are the servers alone, and a worker, which works for all of them, keeps no selection.
#[test]
fn servers_are_text_a_list_or_a_map_and_underscores_are_hyphens() {
    let servers: Servers =
        from_str(r#"{"servers": "a:1,b:2", "selection": "round_robin"}"#).unwrap();
    assert_eq!(servers.to_string(), "a:1,b:2");
    assert_eq!(servers.selected(), Selection::RoundRobin);
    assert_eq!(to_value(WorkerOptions::from(servers)).unwrap(), json!(["a:1", "b:2"]));
    for plain in [r#""a:1,b:2""#, r#"["a:1", "b:2"]"#, r#"{"servers": ["a:1", "b:2"]}"#] {
        let servers: Servers = from_str(plain).unwrap();
        assert_eq!(to_value(&servers).unwrap(), json!(["a:1", "b:2"]));
    }
}

#[test]
fn options_of_workers() {
    let options: WorkerOptions = "a:1".parse().unwrap();
    options_are_written_as(&options, &json!(["a:1"]));
    let options = options
        .client_id("resizer-1".parse().unwrap())
        .slots(4)
        .connections(2)
        .grab(Grab::Uniq)
        .regrab(Duration::from_secs(1))
        .grace(Duration::from_secs(5))
        .barrier(false)
        .batch_results(true)
        .dead_letter("dead".parse().unwrap())
        .log_errors(true)
        .fail_oversized(false);
    options_are_written_as(
        &options,
        &json!({
            "servers": ["a:1"], "client_id": "resizer-1", "slots": 4, "connections": 2, "grab": "uniq", "regrab": 1,
            "grace": 5, "barrier": false, "batch_results": true, "dead_letter": "dead", "log_errors": true,
            "fail_oversized": false
        }),
    );
    let slots_for = json!({"servers": ["a:1"], "slots_for": {"slow": 1}});
    let options: WorkerOptions = from_str(&slots_for.to_string()).unwrap();
    assert_eq!(to_value(&options).unwrap(), slots_for);
    let read: WorkerOptions =
        from_str(r#"{"servers": "a:1", "slots": 0, "regrab": "1ms"}"#).unwrap();
    assert_eq!((read.slots, read.regrab), (1, Duration::from_millis(100)), "the bounds hold");
    assert!(from_str::<WorkerOptions>(r#"{"servers": "a:1", "slot": 1}"#).is_err());
}

#[test]
fn submissions() {
    is_written_as(Grab::All, json!("all"));
    is_written_as(MaxQueue::All(7), json!("7"));
    is_written_as(Schedule::new(0, 12, 1, 6, 3).unwrap(), json!("0 12 1 6 3"));
    let options =
        SubmitOptions::default().priority(Priority::Low).timeout(Duration::from_millis(500));
    let shown = json!({"priority": "low", "unique": "random", "timeout": 0.5, "idempotent": false});
    options_are_written_as(&options, &shown);
    assert_eq!(from_str::<SubmitOptions>("{}").unwrap(), SubmitOptions::default());
    assert!(from_str::<SubmitOptions>(r#"{"prio": "low"}"#).is_err());
    let submitted = json!({"handle": "h:4730//H:vm:1", "unique": "one"});
    is_written_as(from_str::<Submitted>(&submitted.to_string()).unwrap(), submitted);
}

#[test]
fn events_are_written() {
    let error = Error::new(ErrorKind::Connect, Fate::NotSent, "gone");
    let what = WorkerEventKind::Disconnected(error);
    let event = WorkerEvent { server: "h:1".parse().unwrap(), what };
    let error = json!({"kind": "connect", "fate": "not sent", "message": "gone"});
    assert_eq!(
        to_value(&event).unwrap(),
        json!({"server": "h:1", "what": {"disconnected": error}})
    );
    let what = ClientEventKind::BackingOff(Duration::from_millis(1500));
    let event = ClientEvent { server: "h:1".parse().unwrap(), what };
    assert_eq!(to_value(&event).unwrap(), json!({"server": "h:1", "what": {"backing-off": 1.5}}));
    assert_eq!(to_value(ClientEventKind::Moved).unwrap(), json!("moved"));
}
