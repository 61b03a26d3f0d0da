//! `tap`, beyond the contract of every tool.

use ctl_contract::tap::Tap;

use crate::harness::*;

#[test]
fn tap_decodes_both_transports() {
    on_both(|site| {
        let queue = site.queue("tapped");
        let name = queue.name.as_str();
        for scheme in ["", "http://"] {
            let mut tap = Tap::start(&PROGRAM, site.address(), &[]);
            let through = format!("{scheme}{}", tap.address);
            adfctl(&through, &["push", name, "hello"]).exits(0);
            let push = tap.line(|line| line["verb"] == "rpush");
            assert_eq!((&push["size"], &push["body"]), (&5.into(), &"hello".into()), "{push}");
            let done = tap.line(|line| line["from"] == "server" && line["verb"] == "ok");
            assert!(done["to"].as_str().unwrap().starts_with("rpush "), "{done}");
            adfctl(&through, &["pop", name]).exits(0);
            let pull = tap.line(|line| line["verb"] == "pull");
            assert!(pull["args"].as_str().unwrap().contains("tapped"), "{pull}");
            let missing = site.no_queue("nowhere");
            adfctl(&through, &["push", &missing.name, "x"]).exits(1);
            let refused = tap.line(|line| line["error"] == true);
            assert_eq!(refused["verb"], "queue not exists.", "{refused}");
            let (_, ran) = tap.end();
            assert!(!ran.err.contains("undecoded"), "{}", ran.err);
        }
    });
}
