//! Queues by position and by flag.

use crate::harness::*;

#[test]
fn accepts_a_queue_by_position_or_by_flag() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("named"));
        let name = queue.name.as_str();
        adfctl(address, &["push", name, "a"]).exits(0);
        adfctl(address, &["push", "-Q", name, "b"]).exits(0);
        adfctl(address, &["raw", "rpush", "c", "-Q", name]).exits(0);
        // With -q quietly, whatever was meant.
        for line in [&["queues", name][..], &["queues", "-Q", name], &["count", "-q", name]] {
            let row = format!("{name}\t0\t0\t3\n");
            assert_eq!(adfctl(address, line).exits(0).out(), row, "{line:?}");
        }
        adfctl(address, &["check", "queue", "-Q", name, "-c", "waiting=0:"]).exits(0);
        let worked = ["--max-idle", "0", "--", "true"];
        adfctl(address, &[&["work", name], &worked[..]].concat()).exits(0);
        assert_eq!(ready(address, name), 0);
        adfctl(address, &[&["work", "-Q", name, "-Q", name], &worked[..]].concat()).exits(0);
        adfctl(address, &["wait", name, "-Q", "/other", "--for", "ready==0"]).exits(2);
        adfctl(address, &["work", "--exec", "true"]).exits(2);
        adfctl(address, &["queue", "delete", "-Q", name, "-y"]).exits(0);
    });
}

#[test]
fn suggests_a_name_in_the_right_case() {
    on_both(|site| {
        let ran = adfctl(site.address(), &["import", "-q", "/mail"]).exits(66);
        assert!(ran.err.contains("-Q QUEUE"), "{}", ran.err);
        let ran = adfctl(site.address(), &["ping", "-q", "/mail"]).exits(2);
        assert!(ran.err.contains("-Q takes a name"), "{}", ran.err);
    });
}

#[test]
fn notes_a_body_that_names_a_queue() {
    on_both(|site| {
        let (address, one, two) = (site.address(), site.queue("one"), site.queue("two"));
        let ran = adfctl(address, &["push", "-Q", &one.name, &two.name, "hello"]).exits(0);
        assert!(ran.err.contains("to select the queue of that name, use -Q"), "{}", ran.err);
        assert_eq!(ready(address, &one.name), 2);
    });
}
