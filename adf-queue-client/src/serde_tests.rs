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
    is_written_as(Decision::DeadLetter, json!("dead-letter"));
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
