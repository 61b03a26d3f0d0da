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
    let faces = [include_str!("../../src/client.rs"), include_str!("../../src/blocking/client.rs")];
    let [tokio, mut blocking] = faces.map(methods);
    assert!(tokio.len() > 25, "{tokio:?}");
    blocking.retain(|method| !ALONE.contains(method));
    assert_eq!(tokio, blocking);
}
