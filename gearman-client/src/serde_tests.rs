//! Everything that serde writes is read as it was.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{from_str, json, to_value};

use crate::*;

/// It is written so, and read again.
fn is_written_as<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    value: T,
    shown: serde_json::Value,
) {
    assert_eq!(to_value(&value).unwrap(), shown);
    assert_eq!(from_str::<T>(&shown.to_string()).unwrap(), value, "{shown}");
}

#[test]
fn names_handles_and_addresses() {
    is_written_as("resize".parse::<FunctionName>().unwrap(), json!("resize"));
    is_written_as("one".parse::<UniqueId>().unwrap(), json!("one"));
    is_written_as("worker-1".parse::<ClientId>().unwrap(), json!("worker-1"));
    is_written_as("h:4730//H:vm:1".parse::<JobHandle>().unwrap(), json!("h:4730//H:vm:1"));
    is_written_as("gearmans://h:2".parse::<Address>().unwrap(), json!("gearmans://h:2"));
    let servers: Servers = from_str(r#""a:1,b:2""#).unwrap();
    assert_eq!(to_value(&servers).unwrap(), json!(["a:1", "b:2"]));
    for bad in [r#""a b""#, r#""""#, "7"] {
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
