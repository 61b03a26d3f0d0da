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

#[test]
fn the_two_clients_have_the_same_methods() {
    let faces = [include_str!("../../src/client.rs"), include_str!("../../src/blocking/client.rs")];
    let [tokio, blocking] = faces.map(methods);
    assert!(tokio.len() > 25, "{tokio:?}");
    assert_eq!(tokio, blocking);
}
