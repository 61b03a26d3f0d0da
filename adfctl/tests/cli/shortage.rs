//! A worker on a system that temporarily has no descriptors or threads left.

use ctl_contract::shortage::{WAITING, Worker};

use crate::harness::*;

/// Starts a worker for one message.
fn start(site: &Site, queue: &Queue, processes: Option<u32>, number: u32) -> Worker {
    let line = ["-Q", &queue.name, "--once", "--exec", "true"];
    Worker::start(&PROGRAM, site.address(), (number, processes), &line)
}

/// The status page's entry for a queue.
fn counts(site: &Site, queue: &Queue) -> [u64; 3] {
    let ran = adfctl(site.address(), &["queues", &queue.name, "-o", "json"]).exits(0);
    ["waiting", "pulled", "ready"].map(|key| ran.json()[0][key].as_u64().unwrap())
}

fn push(site: &Site, queue: &Queue) {
    adfctl(site.address(), &["push", &queue.name, "x"]).exits(0);
}

#[test]
fn a_worker_without_a_descriptor_or_thread_waits_for_one_and_says_so_once() {
    for (number, resource, left) in [(0, "nofile", 3), (1, "nproc", 1)] {
        on_both(|site| {
            let queue = site.queue("short");
            let mut worker = start(site, &queue, None, number);
            let line = ["wait", "--for", "waiting>=1", &queue.name, "--interval", "10ms"];
            adfctl(site.address(), &line).exits(0);
            worker.limit(resource, Some(left));
            push(site, &queue);
            worker.says(WAITING);
            assert_eq!(counts(site, &queue), [0, 1, 0], "{resource}");
            worker.limit(resource, None);
            worker.ends();
            assert_eq!(counts(site, &queue), [0, 0, 0], "{resource}");
        });
    }
}

#[test]
fn a_worker_that_gets_no_thread_at_first_starts_later() {
    on_both(|site| {
        let queue = site.queue("late");
        push(site, &queue);
        let mut worker = start(site, &queue, Some(1), 2);
        worker.says(WAITING);
        worker.limit("nproc", None);
        worker.ends();
        assert_eq!(counts(site, &queue), [0, 0, 0]);
    });
}

#[test]
fn a_signal_ends_a_worker_that_gets_no_thread_as_any_other() {
    on_both(|site| {
        let queue = site.queue("ended");
        push(site, &queue);
        let mut worker = start(site, &queue, Some(1), 3);
        worker.says(WAITING);
        assert_eq!(worker.terminated(), Some(143));
        let line = ["wait", "--for", "ready==1", &queue.name, "--interval", "10ms"];
        adfctl(site.address(), &line).exits(0);
    });
}
