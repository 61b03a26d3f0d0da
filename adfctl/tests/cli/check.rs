//! `check` and `wait`.

use crate::harness::*;

#[test]
fn check_judges_queues_by_thresholds_and_pullers() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("judged"));
        let check = |line: &[&str]| adfctl(address, &[&["check"], line].concat());
        check(&["server"]).exits(0);
        let ok = check(&["queue", &queue.name]).exits(0);
        assert!(ok.out().contains(" OK - ") && ok.out().contains("ready 0"), "{}", ok.out());
        adfctl(address, &["push", &queue.name, "x"]).exits(0);
        let lonely = check(&["queue", &queue.name]).exits(2);
        assert!(lonely.out().contains("ready messages but no workers"), "{}", lonely.out());
        check(&["queue", &queue.name, "-w", "waiting=1:", "-c", "waiting=0:"]).exits(1);
        let ok = ["queue", &queue.name, "-c", "waiting=0:"];
        check(&ok).exits(0);
        check(&[&ok[..], &["-w", "ready=0"]].concat()).exits(1);
        check(&[&ok[..], &["-c", "ready=@1:5"]].concat()).exits(2);
        check(&[&ok[..], &["-w", "nonsense=0"]].concat()).exits(3);
        check(&["queues", &queue.name, &format!("!{}", queue.name)]).exits(0);
        check(&["queues", &queue.name, "-c", "waiting=0:"]).exits(0);
        let none = site.no_queue("none");
        let empty = check(&["queue", &none.name]).exits(0);
        assert!(empty.out().contains("there is no queue"), "{}", empty.out());
        check(&["queue", &none.name, "-c", "ready=1:"]).exits(2);
        check(&["queue", &none.name, "-c", "nonsense=1"]).exits(3);
        check(&["queue", &none.name, "--must-exist"]).exits(2);
        check(&["roundtrip"]).exits(0);
    });
}

#[test]
fn wait_ends_when_conditions_hold() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.no_queue("waited"));
        let wait =
            |line: &[&str]| adfctl(address, &[&["wait", "--interval", "10ms"], line].concat());
        wait(&["--for", "server"]).exits(0);
        wait(&["--for", "empty", &queue.name]).exits(0);
        wait(&["--for", "empty", &queue.name, "--must-exist"]).exits(1);
        let wait_late =
            |limit: &str| wait(&["--for", "queue-exists", &queue.name, "--timeout", limit]);
        late("no such queue", wait_late).exits(124);
        adfctl(address, &["push", &queue.name, "--create", "x"]).exits(0);
        wait(&["--for", "queue-exists", "-Q", &queue.name]).exits(0);
        wait(&["--for", "ready>=1", &queue.name, "--stable", "2"]).exits(0);
        wait(&["--for", "empty", &queue.name, "--timeout", "2s"]).exits(124);
        wait(&["--for", "nonsense>=1", &queue.name]).exits(2);
    });
}
