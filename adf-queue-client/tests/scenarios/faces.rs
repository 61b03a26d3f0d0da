//! Both faces offer the same.

/// The public methods of a source file, in order.
fn methods(source: &str) -> Vec<&str> {
    let lines = source.lines().map(str::trim_start);
    let named = lines.filter_map(|line| {
        let rest = line.strip_prefix("pub async fn ").or_else(|| line.strip_prefix("pub fn "))?;
        rest.split(['(', '<']).next()
    });
    named.collect()
}

/// What only the blocking client needs: the task of the other one looks all the time, and whoever waits for a future bounds it.
const ALONE: [&str; 2] = ["check_connection", "set_total_timeout"];

#[test]
fn the_two_clients_have_the_same_methods() {
    let tokio = [include_str!("../../src/client.rs"), include_str!("../../src/client/requests.rs")];
    let blocking = [
        include_str!("../../src/blocking/client.rs"),
        include_str!("../../src/blocking/client/requests.rs"),
    ];
    let [tokio, mut blocking] =
        [tokio, blocking].map(|files| files.into_iter().flat_map(methods).collect::<Vec<_>>());
    assert!(tokio.len() > 25, "{tokio:?}");
    blocking.retain(|method| !ALONE.contains(method));
    assert_eq!(tokio, blocking);
}

/// What only the async worker needs: handlers that block elsewhere, and a stop that is a future.
const ASYNC: [&str; 2] = ["register_blocking", "run_until"];

#[test]
fn the_two_producers_have_the_same_methods() {
    let faces =
        [include_str!("../../src/producer.rs"), include_str!("../../src/blocking/producer.rs")];
    let [tokio, blocking] = faces.map(methods);
    assert!(tokio.len() >= 6, "{tokio:?}");
    assert_eq!(tokio, blocking);
}

#[test]
fn the_two_workers_have_the_same_methods() {
    let faces = [include_str!("../../src/worker.rs"), include_str!("../../src/blocking/worker.rs")];
    let [mut tokio, blocking] = faces.map(methods);
    tokio.retain(|method| !ASYNC.contains(method));
    assert_eq!(tokio, ["new", "register", "handle", "run"]);
    assert_eq!(tokio, blocking);
}
