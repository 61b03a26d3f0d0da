//! Everything that serde writes is read as it was.

use std::{fmt::Debug, time::Duration};

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
    is_written_as(JobId::from(7), json!(7));
    is_written_as(Priority::from(1), json!(1));
    is_written_as(Seconds::from(60), json!(60));
    is_written_as("mail".parse::<TubeName>().unwrap(), json!("mail"));
    for address in ["h:1", "beanstalks://h:2", "unix:/run/b.sock", "[::1]:3"] {
        is_written_as(address.parse::<Address>().unwrap(), json!(address));
    }
    is_written_as(Inserted::Buried(7.into()), json!({"buried": 7}));
    is_written_as(Released::Queued, json!("queued"));
}

#[test]
fn what_a_name_or_an_address_may_not_be_is_refused_with_the_rule() {
    let error = from_str::<TubeName>(r#""a b""#).unwrap_err().to_string();
    assert!(error.contains("byte 0x20") && error.contains("1 to 200 bytes"), "{error}");
    let error = from_str::<Address>(r#""h:0""#).unwrap_err().to_string();
    assert!(error.contains("h:0"), "{error}");
    let error = from_str::<Delivery>(r#""twice""#).unwrap_err().to_string();
    assert!(error.contains("it is at-most-once or at-least-once"), "{error}");
    assert!(from_str::<Heartbeat>(r#"{"at-most": -1}"#).is_err());
    assert!(from_str::<PutOptions>(r#"{"prioritty": 1}"#).is_err());
}

#[test]
fn servers_are_a_list_or_text() {
    for text in [r#"["a:1","b:2"]"#, r#""a:1, b:2""#] {
        let servers: Servers = from_str(text).unwrap();
        assert_eq!(servers.to_string(), "a:1,b:2");
        assert_eq!(to_value(&servers).unwrap(), json!(["a:1", "b:2"]));
    }
    for bad in ["[]", r#""""#, r#"["a:0"]"#, "7"] {
        assert!(from_str::<Servers>(bad).is_err(), "{bad}");
    }
}

#[test]
fn settings() {
    is_written_as(Delivery::AtLeastOnce, json!("at-least-once"));
    is_written_as(Inspect::OnDemand, json!("on-demand"));
    is_written_as(Selection::RoundRobin, json!("round-robin"));
    is_written_as(Heartbeat::Never, json!("never"));
    is_written_as(Heartbeat::AtMost(Duration::from_millis(1500)), json!({"at-most": 1.5}));
    let policy = RetryPolicy::new(3).backoff(Duration::from_millis(50), Duration::from_secs(2));
    is_written_as(policy, json!({"attempts": 3, "base": 0.05, "cap": 2}));
    let options = PutOptions::default().priority(7).ttr(Duration::from_secs(300));
    is_written_as(options, json!({"priority": 7, "delay": 0, "ttr": 300}));
    assert_eq!(from_str::<PutOptions>("{}").unwrap(), PutOptions::default());
    is_written_as(ReleaseOptions::new(7), json!({"priority": 7, "delay": 0}));
}

#[test]
fn reports_and_metrics() {
    is_written_as(JobFate::Released(Duration::from_secs(2)), json!({"released": 2}));
    is_written_as(JobFate::Lost(LostReason::TimeToRun), json!({"lost": "time-to-run"}));
    is_written_as(Poison::Reserves(3), json!({"reserves": 3}));
    is_written_as(SlotState::Busy(2), json!({"busy": 2}));
    let status = SlotStatus { server: "h:1".parse().unwrap(), state: SlotState::Waiting };
    is_written_as(status, json!({"server": "h:1", "state": "waiting"}));
    let report = WorkerReport { finished: 3, lost: 1, ..WorkerReport::default() };
    assert_eq!(from_str::<WorkerReport>(&to_value(report).unwrap().to_string()).unwrap(), report);
    let server = ServerReport {
        address: "h:1".into(),
        state: ProducerState::Backoff,
        last_error: Some("gone".into()),
    };
    let report = ProducerReport { accepted: 2, servers: vec![server], ..ProducerReport::default() };
    assert_eq!(
        from_str::<ProducerReport>(&to_value(&report).unwrap().to_string()).unwrap(),
        report
    );
    let mut metrics = Metrics::default();
    metrics.connected();
    metrics.failed(ErrorKind::Timeout(Deadline::Connect));
    metrics.failed(ErrorKind::NotFound);
    let shown = to_value(&metrics).unwrap();
    assert_eq!(shown["errors"], json!({"connect_timeout": 1, "not_found": 1}));
    assert_eq!(from_str::<Metrics>(&shown.to_string()).unwrap(), metrics);
}

#[test]
fn statistics_keep_their_keys_order_and_types() {
    let text = b"---\nid: 7\ntube: \"1e5\"\nstate: ready\npri: 1\nextra: \"say \"hi\"\"\nload: 1.10\nshards: -3\n";
    let stats = JobStats::parse(text).unwrap();
    let shown = serde_json::to_string(&stats).unwrap();
    let again: JobStats = from_str(&shown).unwrap();
    assert_eq!(again, stats);
    assert_eq!(serde_json::to_string(&again).unwrap(), shown);
    assert_eq!((again.id, again.get("extra")), (7.into(), Some(r#"say "hi""#)));
    for bad in [r#"{"a b": 1}"#, r#"{"a": "x\ny"}"#, r#"{"pri": "high"}"#, r#"{"a": {}}"#, "[]"] {
        assert!(from_str::<JobStats>(bad).is_err(), "{bad}");
    }
}
