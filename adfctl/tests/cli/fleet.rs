//! Several servers, one of which may be dead.

use fixtures::adf_queue::Server;

use crate::harness::*;

#[test]
fn queues_are_made_counted_cleared_and_deleted_on_every_server() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let (one, two) = (one.address(), two.address());
    let both = format!("{one},{two}");
    let report = adfctl(&both, &["queue", "create", "/q", "-o", "json"]).exits(0).json();
    assert_eq!(report.as_array().unwrap().len(), 2, "{report}");
    adfctl(one, &["push", "/q", "x"]).exits(0);
    adfctl(two, &["push", "/q", "x", "y"]).exits(0);
    let counts = adfctl(&both, &["count", "/q", "-o", "json"]).exits(0).json();
    let of = |at: usize| (counts[at]["ready"].clone(), counts[at]["queue"].clone());
    assert_eq!((of(0), of(1)), ((1.into(), "/q".into()), (2.into(), "/q".into())));
    assert!(counts[0]["server"].as_str().unwrap().contains(one), "{counts}");
    let dead = dead_address();
    let ran = adfctl(&format!("{dead},{both}"), &["count", "/q", "-o", "plain"]).exits(69);
    assert_eq!(ran.lines().len(), 2, "{}", ran.out());
    assert!(ran.err.contains(&dead), "{}", ran.err);
    let changed = adfctl(&both, &["count", "/q", "--diff", "--interval", "1ms"]).exits(0);
    assert_eq!(changed.bytes, b"", "nothing has changed");
    adfctl(&both, &["clear", "/q"]).exits(2);
    assert_eq!((ready(one, "/q"), ready(two, "/q")), (1, 2));
    adfctl(&format!("{one},{dead}"), &["clear", "/q", "--yes"]).exits(69);
    assert_eq!((ready(one, "/q"), ready(two, "/q")), (0, 2));
    adfctl(&both, &["queue", "delete", "/q", "--yes"]).exits(0);
    adfctl(one, &["count", "/q"]).exits(1);
}
