//! What a service keeps in its configuration: every type of options of every client, by serde.

use serde_json::{Value, from_value, json, to_value};

/// It is read and written as it was, and an unknown key, at whatever depth, is an error that names it.
macro_rules! options {
    ($($test:ident: $type:ty = $shown:expr;)+) => {$(
        #[test]
        fn $test() {
            let shown: Value = $shown;
            let read: $type = from_value(shown.clone()).unwrap();
            assert_eq!(to_value(&read).unwrap(), shown);
            for strange in with_unknown_key(&shown) {
                let error = from_value::<$type>(strange.clone()).expect_err(&strange.to_string());
                assert!(error.to_string().contains("unknown field `tries`"), "{strange}: {error}");
            }
        }
    )+};
}

/// The value with another key in it, for each map in it.
fn with_unknown_key(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    if let Value::Object(map) = value {
        let mut more = map.clone();
        more.insert("tries".to_owned(), json!(3));
        // A variant of an enum is the only key of its map.
        if !matches!(map.keys().next().map(String::as_str), Some("release" | "bury")) {
            found.push(Value::Object(more));
        }
        for (key, inner) in map {
            for strange in with_unknown_key(inner) {
                let mut whole = map.clone();
                whole.insert(key.clone(), strange);
                found.push(Value::Object(whole));
            }
        }
    }
    if let Value::Array(list) = value {
        for (at, inner) in list.iter().enumerate() {
            for strange in with_unknown_key(inner) {
                let mut whole = list.clone();
                whole[at] = strange;
                found.push(Value::Array(whole));
            }
        }
    }
    found
}

fn retry() -> Value {
    json!({"attempts": 7, "base": 1, "cap": 2, "seed": 3})
}

fn server(address: &str) -> Value {
    json!({"address": address, "reply_timeout": 2.5, "retry": retry()})
}

options! {
    retry_policy: beanstalk_client::RetryPolicy = retry();
    beanstalk_connect: beanstalk_client::ConnectOptions = server("a:1");
    beanstalk_servers: beanstalk_client::Servers =
        json!({"servers": ["a:1", server("b:2")], "selection": "round-robin"});
    beanstalk_producer: beanstalk_client::ProducerOptions = json!({
        "servers": [server("a:1"), "b:2"], "selection": "round-robin",
        "reconnect_backoff": {"base": 0.5, "cap": 1}
    });
    beanstalk_worker: beanstalk_client::WorkerOptions = json!({
        "servers": [server("a:1")],
        "retries": {"base": 1, "factor": 3, "cap": 9, "releases": 3, "reserves": 9}
    });
    beanstalk_put: beanstalk_client::PutOptions = json!({"priority": 1, "delay": 2, "ttr": 3});
    beanstalk_release: beanstalk_client::ReleaseOptions = json!({"priority": 1, "delay": 2});
    beanstalk_decision: beanstalk_client::Decision =
        json!({"outcome": {"release": {"delay": 5, "priority": 1}}, "reason": "so"});
    gearman_connect: gearman_client::ConnectOptions = server("a:1");
    gearman_servers: gearman_client::Servers =
        json!({"servers": ["a:1", server("b:2")], "selection": "by-key-on-ring"});
    gearman_worker: gearman_client::WorkerOptions = json!({"servers": [server("a:1")], "slots": 4});
    gearman_submit: gearman_client::SubmitOptions =
        json!({"priority": "low", "unique": "by-payload", "timeout": 0.5, "idempotent": true});
    adf_connect: adf_queue_client::ConnectOptions = server("adfs://a:1");
    adf_servers: adf_queue_client::Servers =
        json!({"servers": ["a:1", server("adfs://b:2")], "selection": "by-key"});
    adf_producer: adf_queue_client::ProducerOptions =
        json!({"servers": [server("adfs://a:1")], "selection": "by-key", "timeout": 5});
    adf_worker: adf_queue_client::WorkerOptions =
        json!({"servers": [server("adfs://a:1")], "slots": 4});
    adf_decision: adf_queue_client::Decision = json!({"outcome": "dead-letter", "reason": "so"});
}

/// Text and a list are the servers alone, and a worker, which works for all of them, keeps no selection.
#[test]
fn servers_are_text_a_list_or_a_map_and_underscores_are_hyphens() {
    use gearman_client::{Selection, Servers, WorkerOptions};

    let map = json!({"servers": "a:1,b:2", "selection": "round_robin"});
    let servers: Servers = from_value(map).unwrap();
    assert_eq!(
        (servers.to_string().as_str(), servers.selected()),
        ("a:1,b:2", Selection::RoundRobin)
    );
    let written = to_value(WorkerOptions::new(servers)).unwrap();
    assert_eq!(written, json!(["a:1", "b:2"]));
    for plain in [json!("a:1,b:2"), json!(["a:1", "b:2"]), json!({"servers": ["a:1", "b:2"]})] {
        let servers: Servers = from_value(plain).unwrap();
        assert_eq!(to_value(&servers).unwrap(), json!(["a:1", "b:2"]));
    }
}
