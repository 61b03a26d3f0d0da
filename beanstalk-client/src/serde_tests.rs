//! Everything that serde writes is read back unchanged, and an unknown key is refused.

use std::time::Duration;

use serde_json::{from_str, json, to_value};

use crate::*;

queue_core::written_by_serde!();

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
fn invalid_names_and_addresses_error_with_the_rule() {
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
    options_are_written_as(&options, &json!({"priority": 7, "delay": 0, "ttr": 300}));
    assert_eq!(from_str::<PutOptions>("{}").unwrap(), PutOptions::default());
    options_are_written_as(&ReleaseOptions::new(7), &json!({"priority": 7, "delay": 0}));
}

#[test]
fn reports_and_metrics() {
    is_written_as(JobFate::Released(Duration::from_secs(2)), json!({"released": 2}));
    is_written_as(JobFate::Lost(LostReason::TimeToRun), json!({"lost": "time-to-run"}));
    is_written_as(Poison::Reserves(3), json!({"reserves": 3}));
    is_written_as(SlotState::Busy(2), json!({"busy": 2}));
    let status = SlotStatus {
        server: "h:1".parse().unwrap(),
        state: SlotState::Waiting,
        never_connected: false,
    };
    is_written_as(status, json!({"server": "h:1", "state": "waiting", "never_connected": false}));
    let report = WorkerReport { finished: 3, lost: 1, ..WorkerReport::default() };
    assert_eq!(from_str::<WorkerReport>(&to_value(report).unwrap().to_string()).unwrap(), report);
    let server = ServerReport {
        address: "h:1".into(),
        state: ConnectionState::Backoff,
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

#[test]
fn server_options_serialize_the_address_and_changes() {
    let options: ConnectOptions = "h:1".parse().unwrap();
    options_are_written_as(&options, &json!("h:1"));
    let options = options
        .connect_timeout(Duration::from_secs(1))
        .write_timeout(Duration::from_secs(2))
        .reply_timeout(Duration::from_millis(2500))
        .total_timeout(Some(Duration::from_secs(60)))
        .max_body_size(1 << 20)
        .retry(RetryPolicy::never())
        .require_tls(true)
        .dead_peer_after(Duration::from_secs(9));
    let retry = json!({"attempts": 0, "base": 0.1, "cap": 10});
    options_are_written_as(
        &options,
        &json!({
            "address": "h:1", "connect_timeout": 1, "write_timeout": 2, "reply_timeout": 2.5, "total_timeout": 60,
            "retry": retry, "require_tls": true, "dead_peer_after": 9, "max_body_size": 1 << 20
        }),
    );
    let text = r#"{"address": "h:1", "reply_timeout": "250ms", "total_timeout": "never"}"#;
    let read: ConnectOptions = from_str(text).unwrap();
    assert_eq!((read.reply_timeout, read.total_timeout), (Duration::from_millis(250), None));
    for (bad, why) in [
        (r#"{"address": "h:1", "reply_timout": 1}"#, "unknown field `reply_timout`"),
        (r#"{"reply_timeout": 1}"#, "missing field `address`"),
        (r#"{"address": "h:0"}"#, "h:0"),
        (r#"{"address": "h:1", "reply_timeout": -1}"#, "not a usable number of seconds"),
        (r#"{"address": "h:1", "reply_timeout": "soon"}"#, "such as 250ms or 1.5s"),
        (r#"["h:1"]"#, "expected"),
        ("7", "an address, or a map of options"),
    ] {
        let error = from_str::<ConnectOptions>(bad).unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

#[test]
fn servers_keep_their_options_in_a_list() {
    let shown = json!(["a:1", {"address": "b:2", "reply_timeout": 3}]);
    let servers: Servers = from_str(&shown.to_string()).unwrap();
    assert_eq!(servers.options()[1].reply_timeout, Duration::from_secs(3));
    options_are_written_as(&servers, &shown);
    let shown = json!({"servers": shown, "selection": "round-robin"});
    options_are_written_as(&from_str::<Servers>(&shown.to_string()).unwrap(), &shown);
}

#[test]
fn options_of_producers() {
    let options: ProducerOptions = "a:1,b:2".parse().unwrap();
    options_are_written_as(&options, &json!(["a:1", "b:2"]));
    let servers: Servers = "a:1".parse().unwrap();
    let options = ProducerOptions::from(servers.selection(Selection::RoundRobin))
        .delivery(Delivery::AtLeastOnce)
        .retries(false)
        .timeout(Duration::from_secs(5))
        .max_jobs(7)
        .max_bytes(1000)
        .reconnect_backoff(Duration::from_millis(50), Duration::from_secs(1))
        .seed(9);
    options_are_written_as(
        &options,
        &json!({
            "servers": ["a:1"], "selection": "round-robin", "delivery": "at-least-once", "retries": false,
            "timeout": 5, "max_jobs": 7, "max_bytes": 1000,
            "reconnect_backoff": {"base": 0.05, "cap": 1}, "seed": 9
        }),
    );
    let read: ProducerOptions = from_str(r#"{"servers": "a:1,b:2", "timeout": "2m"}"#).unwrap();
    assert_eq!(read.timeout, Duration::from_secs(120));
    assert!(from_str::<ProducerOptions>(r#"{"servers": "a:1", "max": 1}"#).is_err());
}

#[test]
fn options_of_workers() {
    let options: WorkerOptions = "a:1".parse().unwrap();
    options_are_written_as(&options, &json!(["a:1"]));
    let retries = Retries::default().releases(3).timeouts(2);
    let options = options
        .slots(4)
        .slots_for("sms", 2)
        .unwrap()
        .dead_letter("dead".parse().unwrap())
        .prefetch(8)
        .inspect(Inspect::Before)
        .heartbeat(Heartbeat::Never)
        .retries(retries)
        .reserve_wait(Duration::from_secs(20))
        .grace(Duration::from_secs(5))
        .until_empty()
        .reconnect_backoff(Duration::from_secs(1), Duration::from_secs(2))
        .seed(3)
        .log_errors(true);
    let retries =
        json!({"base": 1, "factor": 2, "cap": 3600, "releases": 3, "reserves": 25, "timeouts": 2});
    let shown = json!({
        "servers": ["a:1"], "slots": 4, "slots_for": {"sms": 2}, "dead_letter": "dead", "prefetch": 8, "inspect": "before",
        "heartbeat": "never", "retries": retries, "reserve_wait": 20, "grace": 5, "until_empty": true,
        "reconnect_backoff": {"base": 1, "cap": 2}, "seed": 3, "log_errors": true
    });
    options_are_written_as(&options, &shown);
    let again: WorkerOptions = from_str(&shown.to_string()).unwrap();
    assert_eq!((again.heartbeat, again.retries), (options.heartbeat, options.retries));
    // The bounds of the setters hold.
    let read: WorkerOptions =
        from_str(r#"{"servers": "a:1", "slots": 0, "prefetch": 9999}"#).unwrap();
    assert_eq!((read.slots, read.prefetch), (1, 500));
    let error = r#"{"servers": "a:1", "slots_for": {"no tube": 1}}"#;
    let error = from_str::<WorkerOptions>(error).unwrap_err();
    assert!(error.to_string().contains("tube"), "{error}");
}

#[test]
fn outcomes_and_decisions() {
    is_written_as(Outcome::Delete, json!("delete"));
    is_written_as(Outcome::defer(Duration::from_secs(5)), json!({"release": {"delay": 5}}));
    is_written_as(Outcome::retry_after(Duration::from_secs(5)), json!({"retry-after": 5}));
    is_written_as(Outcome::Bury { priority: Some(7.into()) }, json!({"bury": {"priority": 7}}));
    let decision = Outcome::bury().because("no such address");
    is_written_as(decision, json!({"outcome": {"bury": {}}, "reason": "no such address"}));
    let shown = json!({"outcome": {"release": {"delay": 5, "priority": 1}}, "reason": "so"});
    options_are_written_as(&from_str::<Decision>(&shown.to_string()).unwrap(), &shown);
    assert_eq!(from_str::<Retries>(r#"{"releases": 3}"#).unwrap(), Retries::default().releases(3));
    assert!(from_str::<Retries>(r#"{"release": 3}"#).is_err());
}

#[test]
fn events_are_written() {
    let event = WorkerEvent {
        server: "h:1".parse().unwrap(),
        slot: 2,
        what: WorkerEventKind::Disconnected(Error::new(ErrorKind::Connect, Fate::NotSent, "gone")),
    };
    let error = json!({"kind": "connect", "fate": "not sent", "message": "gone"});
    assert_eq!(
        to_value(&event).unwrap(),
        json!({"server": "h:1", "slot": 2, "what": {"disconnected": error}})
    );
    assert_eq!(event.to_string(), "h:1, slot 2: disconnected: gone");
    let error = Error::new(ErrorKind::Draining, Fate::Refused, "a\n");
    let refused = ProducerEventKind::Refused { error, puts: 3 };
    let event = ProducerEvent { server: "h:1".parse().unwrap(), what: refused };
    let error = json!({"kind": "draining", "fate": "refused", "message": "a\n"});
    assert_eq!(
        to_value(&event).unwrap(),
        json!({"server": "h:1", "what": {"refused": {"error": error, "puts": 3}}})
    );
    assert_eq!(event.to_string(), r"h:1: 3 puts were refused: a\n");
    let waiting = ProducerEventKind::BackingOff(Duration::from_millis(1500));
    assert_eq!(to_value(&waiting).unwrap(), json!({"backing-off": 1.5}));
    assert_eq!(waiting.to_string(), "skipped for 1500ms");
    let what =
        WorkerEventKind::Settled { job: 7.into(), fate: JobFate::Lost(LostReason::NotFound) };
    assert_eq!(
        to_value(&what).unwrap(),
        json!({"settled": {"job": 7, "fate": {"lost": "not-found"}}})
    );
    assert_eq!(what.to_string(), "job 7 lost: the server has deleted it or given it to others");
    let failed = WorkerEventKind::Failed { job: 7.into(), error: "a\n\u{1b}[2J".into() };
    assert_eq!(failed.to_string(), r"job 7 failed: a\n\u{1b}[2J");
}
