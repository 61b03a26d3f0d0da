//! A worker on a system that temporarily has no descriptors or threads left.

use ctl_contract::shortage::{WAITING, Worker};

use crate::harness::*;

/// Starts a worker for one job.
fn start(address: &str, processes: Option<u32>, number: u32) -> Worker {
    Worker::start(&PROGRAM, address, (number, processes), &["--once", "--exec", "true"])
}

/// Waits until it waits for a job.
fn waits(worker: &mut Worker, address: &str) {
    worker.says("taking jobs");
    while client(address).stats().unwrap().current_waiting == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_worker_without_a_descriptor_waits_for_one_and_says_so_once() {
    on_both(|address| {
        let mut worker = start(address, None, 0);
        waits(&mut worker, address);
        worker.limit("nofile", Some(3));
        let id = put(address, "default", "x");
        worker.says(WAITING);
        assert_eq!(state(address, id), "reserved");
        worker.limit("nofile", None);
        worker.ends();
        assert_eq!(state(address, id), "gone");
    });
}

#[test]
fn a_worker_without_a_thread_waits_for_one_and_says_so_once() {
    on_both(|address| {
        let mut worker = start(address, None, 1);
        waits(&mut worker, address);
        worker.limit("nproc", Some(1));
        let id = put(address, "default", "x");
        worker.says(WAITING);
        assert_eq!(state(address, id), "reserved");
        worker.limit("nproc", None);
        worker.ends();
        assert_eq!(state(address, id), "gone");
    });
}

#[test]
fn a_worker_that_gets_no_threads_at_first_starts_later() {
    // One for the process; then one more, for what runs the slots.
    for limit in [1, 2] {
        on_both(|address| {
            let id = put(address, "default", "x");
            let mut worker = start(address, Some(limit), 1 + limit);
            worker.says(WAITING);
            assert_eq!(state(address, id), "ready");
            worker.limit("nproc", None);
            worker.ends();
            assert_eq!(state(address, id), "gone");
        });
    }
}

#[test]
fn a_signal_ends_a_worker_that_gets_no_threads_as_any_other() {
    for limit in [1, 2] {
        on_both(|address| {
            let id = put(address, "default", "x");
            let mut worker = start(address, Some(limit), 4);
            worker.says(WAITING);
            assert_eq!(worker.terminated(), Some(143));
            assert_eq!(state(address, id), "ready");
        });
    }
}
