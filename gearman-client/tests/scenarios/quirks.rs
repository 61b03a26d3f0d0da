//! Undocumented behaviour of servers, which users do not notice.

use std::time::Duration;

use gearman_client::{
    ConnectOptions, ErrorKind, Fate, JobEvent, JobHandle, Outcome, RetryPolicy, Unique, UniqueId,
    blocking::Admin,
    protocol::{GetStatus, Submit},
};

use super::{
    face::{Face, WorkFace, scenarios},
    support::{function, options},
};

scenarios!(
    quirk_a_failure_by_exception_has_no_nul_without_the_option,
    quirk_a_status_request_that_is_too_long_is_never_sent,
    quirk_each_submitter_of_a_coalesced_job_gets_it_once,
    quirk_a_cancelled_running_job_ends_twice,
    quirk_a_result_of_a_job_that_went_to_another_is_refused_before_the_next_job,
    quirk_a_unique_id_of_63_bytes_coalesces,
    quirk_a_job_joined_to_one_without_clients_does_not_hang,
);

/// On the wire a worker's exception becomes handle + NUL for a client that did not ask for exceptions.
fn quirk_a_failure_by_exception_has_no_nul_without_the_option<F: Face>(address: &str) {
    let without: ConnectOptions = address.parse().unwrap();
    let submitted = std::thread::spawn(move || {
        let mut client = F::connect(without.exceptions(false)).unwrap();
        [(); 2].map(|()| client.run("raise", b"", options()).unwrap())
    });
    let mut worker = F::Worker::of("raise", address);
    let job = worker.next();
    worker.exception(job, "why").unwrap();
    let job = worker.next();
    worker.fail(job).unwrap();
    assert_eq!(submitted.join().unwrap(), [Outcome::Fail, Outcome::Fail]);
    assert_eq!(worker.stop().failed, 2);
}

/// 64 bytes would be left without any answer (and the connection out of step), so at most 63 are sent.
fn quirk_a_status_request_that_is_too_long_is_never_sent<F: Face>(address: &str) {
    let error = "h".repeat(64).parse::<JobHandle>().unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
    assert!(UniqueId::try_from("u".repeat(64)).is_err());
    let mut client = F::to(address);
    let longest: JobHandle = "h".repeat(63).parse().unwrap();
    assert!(!client.call(&GetStatus(longest)).unwrap().is_known);
    let unique = UniqueId::try_from("u".repeat(63)).unwrap();
    let status = client.call(&gearman_client::protocol::GetStatusUnique(unique)).unwrap();
    assert!(!status.is_known);
}

/// G14: the server sends each packet once for each registration.
fn quirk_each_submitter_of_a_coalesced_job_gets_it_once<F: Face>(address: &str) {
    let at = address.to_owned();
    let submitting = std::thread::spawn(move || {
        let mut client = F::to(&at);
        let same = options().unique(UniqueId::try_from("same").unwrap());
        let submit = |n: u8| Submit::foreground(function("joined"), vec![n], same).unwrap();
        client.submit_many((0..3).map(submit).collect())
    });
    let mut admin = Admin::connect(address).unwrap();
    while !admin.status().unwrap().iter().any(|row| row.total == 1) {
        std::thread::yield_now();
    }
    // All three have joined when a fourth, on its own connection, is answered: the server works in order of
    // arrival, so wait until the handle is known to have three waiting clients.
    let mut other = F::to(address);
    let unique = UniqueId::try_from("same").unwrap();
    let ask = gearman_client::protocol::GetStatusUnique(unique);
    while other.call(&ask).unwrap().waiting != Some(3) {
        std::thread::yield_now();
    }
    let mut worker = F::Worker::of("joined", address);
    let job = worker.next();
    worker.data(&job, "piece").unwrap();
    worker.warning(&job, "careful").unwrap();
    worker.status(&job, 1, 2).unwrap();
    worker.complete(job, "r").unwrap();
    let events = submitting.join().unwrap();
    for number in 0..3 {
        let own: Vec<_> = events
            .iter()
            .filter(|(of, _)| *of == number)
            .map(|(_, event)| event.as_ref().unwrap())
            .collect();
        assert_eq!(own.len(), 5, "{own:?}");
        assert_eq!(own[1], &JobEvent::Data("piece".into()));
        assert_eq!(own[4], &JobEvent::Complete("r".into()));
    }
    assert_eq!(worker.stop().completed, 1);
}

/// The worker is not notified, and its result is still sent after the failure.
fn quirk_a_cancelled_running_job_ends_twice<F: Face>(address: &str) {
    let at = address.to_owned();
    let submitting = std::thread::spawn(move || {
        let mut client = F::to(&at);
        let (_, events) = client.submit("cancelled", b"", options()).unwrap();
        // The second end of the first is ignored.
        (events.into_iter().map(Result::unwrap).collect::<Vec<_>>(), client)
    });
    let mut worker = F::Worker::of("cancelled", address);
    let job = worker.next();
    let mut admin = Admin::connect(address).unwrap();
    admin.cancel_job(&F::Worker::assignment(&job).handle).unwrap();
    let (events, mut client) = submitting.join().unwrap();
    assert_eq!(events, [JobEvent::Fail]);
    worker.complete(job, "too late").unwrap();
    worker.barrier().unwrap();
    assert_eq!(client.echo("in step").unwrap(), "in step");
    assert_eq!(worker.stop().completed, 1);
}

/// F9 and G8 on a separate server: RESET_ABILITIES on the wire would give the job to another, and so does a timeout.
fn quirk_a_result_of_a_job_that_went_to_another_is_refused_before_the_next_job<F: Face>(
    address: &str,
) {
    let mut client = F::to(address);
    client.submit_background("shared", b"one", options()).unwrap();
    let mut slow = gearman_client::blocking::Worker::connect(address).unwrap();
    // The server rounds less up to a second.
    slow.can_do("shared", Some(Duration::from_millis(1))).unwrap();
    let late = slow.next_job(super::support::PATIENCE).unwrap().unwrap();
    let mut other = F::Worker::of("shared", address);
    let again = other.next();
    assert_eq!(F::Worker::assignment(&again).handle.name(), late.handle.name());
    client.submit_background("shared", b"two", options()).unwrap();
    slow.complete(late, "too late").unwrap();
    let next = slow.next_job(super::support::PATIENCE).unwrap().unwrap();
    assert_eq!(next.workload, "two", "the refusal of the result did not take the place of the job");
    slow.complete(next, "").unwrap();
    other.complete(again, "").unwrap();
    let report = slow.stop();
    assert_eq!((report.completed, report.rejected), (1, 1), "{report}");
    assert_eq!(other.stop().completed, 1);
}

/// F12: with one byte more, the server cuts it, which coalesces nothing and gives the worker a stray NUL.
fn quirk_a_unique_id_of_63_bytes_coalesces<F: Face>(address: &str) {
    let mut client = F::to(address);
    let unique = UniqueId::try_from("u".repeat(63)).unwrap();
    let long = options().unique(Unique::Id(unique));
    let first = client.submit_background("long", b"w", long).unwrap();
    let second = client.submit_background("long", b"x", long).unwrap();
    assert_eq!(first.handle, second.handle);
    let mut worker = F::Worker::of("long", address);
    let job = worker.next();
    let assignment = F::Worker::assignment(&job);
    assert_eq!((&assignment.unique[..], &assignment.workload[..]), (unique.as_bytes(), &b"w"[..]));
    worker.complete(job, "").unwrap();
    assert_eq!(worker.stop().completed, 1);
}

/// The server joins a submission to a queued job that it is going to skip because its submitter has gone, so it would
/// never run.
fn quirk_a_job_joined_to_one_without_clients_does_not_hang<F: Face>(address: &str) {
    let upstream = address.parse().unwrap();
    let proxy = fixtures::proxy::Proxy::start(upstream).unwrap();
    let patient: ConnectOptions = proxy.address().to_string().parse().unwrap();
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(20));
    let own_id = Unique::Id(UniqueId::try_from("own").unwrap());
    for unique in [Unique::Random, own_id, Unique::ByPayload, Unique::None] {
        let mut client = F::connect(patient.clone().retry(retry)).unwrap();
        let again = options().unique(unique).idempotent(true);
        let waits = std::thread::spawn(move || client.run("passed", b"over", again).unwrap());
        let mut admin = Admin::connect(address).unwrap();
        let queued = |admin: &mut Admin| {
            admin.show_jobs().unwrap().iter().filter(|job| !job.is_ignored).count()
        };
        while queued(&mut admin) < 1 {
            std::thread::yield_now();
        }
        // There is no worker yet, so the job is queued when its submitter's connection is lost.
        proxy.reset_connections();
        let mut worker = F::Worker::of("passed", address);
        // Until the server has noticed the loss, it may also give out the old one.
        let mut completed = 0;
        while !waits.is_finished() {
            if let Some(job) = worker.next_within(Duration::from_millis(10)) {
                worker.complete(job, "run").unwrap();
                worker.barrier().unwrap();
                completed += 1;
            }
        }
        assert_eq!(waits.join().unwrap(), Outcome::Complete("run".into()), "{unique:?}");
        assert_eq!(worker.stop().completed, completed);
        assert_eq!(queued(&mut admin), 0, "{unique:?}");
    }
}
