//! Connections of workers that break at any byte from the server: no job is lost, and each is accounted for.

use std::time::Duration;

use fixtures::{fault::Fault, gearmand::Server};
use gearman_client::{ConnectOptions, RetryPolicy, WorkerOptions};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{LATE, options},
};

both_faces!(a_grab_whose_answer_breaks_at_any_byte_loses_no_job,);

/// The longest answer that is cut here, and more.
const BYTES: usize = 60;

fn quick(server: &Server) -> ConnectOptions {
    let options: ConnectOptions = server.address().parse().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(1), Duration::from_millis(2));
    // Only silence is waited for.
    options.reply_timeout(LATE).retry(retry)
}

/// How a connection breaks.
fn breaks(fault: Fault, at: usize) -> [Fault; 2] {
    [fault.clone().cut_after(at), fault.reset_after(at)]
}

/// C9, G5: the server has given the job to a connection that breaks before the worker has it.
fn a_grab_whose_answer_breaks_at_any_byte_loses_no_job<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    let mut worker = F::Worker::of("f", WorkerOptions::from(quick(&server)));
    let mut faults: Vec<Fault> =
        (0..BYTES).flat_map(|at| breaks(Fault::nth(1).of("GRAB_JOB_ALL"), at)).collect();
    faults.push(Fault::nth(1).of("GRAB_JOB_ALL").hang());
    let rounds = faults.len();
    for (n, fault) in faults.into_iter().enumerate() {
        // The grab that brings a job, not the one before the worker sleeps.
        server.faults().add(fault);
        let handle = client.submit_background("f", b"work", options()).unwrap().handle;
        let job = worker.next();
        assert_eq!(F::Worker::assignment(&job).handle.name(), handle.name(), "round {n}");
        worker.complete(job, "").unwrap();
        server.faults().clear();
        // So that the next fault hits the next job, not the end of this one.
        worker.barrier().unwrap();
    }
    let report = worker.stop();
    assert_eq!((report.completed, report.unknown), (rounds as u64, 0), "{report}");
    assert_eq!(server.view().jobs, 0);
}
