//! A worker that has a thread beside its own at first, and none for its slots.

use ctl_contract::shortage::{WAITING, Worker};

use crate::harness::*;

#[test]
fn a_worker_waits_for_threads_or_a_signal() {
    for is_signalled in [false, true] {
        on_both(|address| {
            let id = put(address, "default", "x");
            let line = ["-c", "1", "--exec", "true"];
            let mut worker = Worker::start(&PROGRAM, address, (4, Some(2)), &line);
            worker.says(WAITING);
            assert_eq!(state(address, id), "ready");
            if is_signalled {
                assert_eq!(worker.terminated(), Some(143));
            } else {
                worker.limit("nproc", None);
                worker.ends();
            }
            assert_eq!(state(address, id), if is_signalled { "ready" } else { "gone" });
        });
    }
}
