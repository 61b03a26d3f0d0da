//! Undocumented behaviour of servers, which users do not notice.

use std::time::Duration;

use fixtures::gearmand::Server;
use gearman_client::{
    ConnectOptions, ErrorKind, Fate, JobEvent, JobHandle, Outcome, RetryPolicy, Unique, UniqueId,
    WorkerOptions,
    blocking::Admin,
    protocol::{GetStatus, PacketType, Submit},
};

use super::{
    face::{Face, WorkFace, both_faces, scenarios},
    support::{LATE, Peer, function, options, wire},
};

fn to_peer(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    options.reply_timeout(LATE).retry(RetryPolicy::never())
}

both_faces!(
    quirk_a_nul_behind_the_handle_of_a_failure_is_no_part_of_it,
    quirk_an_option_is_echoed_in_another_case_or_with_a_nul,
    quirk_a_refused_option_leaves_the_server_usable,
    quirk_an_unknown_job_has_empty_numbers_on_other_servers,
    quirk_noop_comes_anywhere,
    quirk_an_error_that_is_not_the_answer_to_a_grab,
    quirk_servers_without_newer_grabs_are_asked_with_older_ones,
    quirk_a_server_that_leaves_unknown_grabs_unanswered_is_asked_with_older_ones,
    quirk_an_end_for_a_job_that_has_ended_is_passed_over,
    quirk_counters_that_wrapped_below_zero_are_negative,
    quirk_progress_that_is_no_number_is_kept_as_it_came,
);

scenarios!(
    quirk_a_failure_by_exception_has_no_nul_without_the_option,
    quirk_a_status_request_that_is_too_long_is_never_sent,
    quirk_a_coalesced_job_is_told_to_each_of_its_submitters_once,
    quirk_a_cancelled_running_job_ends_twice,
    quirk_a_result_of_a_job_that_went_to_another_is_refused_before_the_next_job,
    quirk_a_unique_id_of_63_bytes_coalesces,
    quirk_a_job_joined_to_one_without_submitters_is_not_waited_for_in_vain,
);

fn quirk_a_nul_behind_the_handle_of_a_failure_is_no_part_of_it<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:1"]);
        peer.write(PacketType::WorkFail, &["H:x:1\0"]);
        peer.wait_for_end();
    })]);
    let mut client = F::connect(to_peer(&address)).unwrap();
    let (_, events) = client.submit("f", b"", options()).unwrap();
    assert!(matches!(events[..], [Ok(JobEvent::Fail)]), "{events:?}");
    drop(client);
    server.join().unwrap();
}

/// On the wire a worker's exception becomes handle + NUL for a client that did not ask for exceptions.
fn quirk_a_failure_by_exception_has_no_nul_without_the_option<F: Face>(address: &str) {
    let without: ConnectOptions = address.parse().unwrap();
    let submitted = std::thread::spawn(move || {
        let mut client = F::connect(without.exceptions(false)).unwrap();
        client.run("raise", b"", options()).unwrap()
    });
    let mut worker = F::Worker::connect(address).unwrap();
    worker.can_do("raise");
    let job = worker.next();
    worker.exception(job, "why").unwrap();
    assert_eq!(submitted.join().unwrap(), Outcome::Fail);
    assert_eq!(worker.stop().failed, 1);
}

fn quirk_an_option_is_echoed_in_another_case_or_with_a_nul<F: Face>() {
    for echoed in ["exceptions", "EXCEPTIONS", "exceptions\0"] {
        let (address, server) = Peer::serve(vec![Box::new(move |mut peer: Peer| {
            peer.expect(PacketType::OptionReq);
            peer.write(PacketType::OptionRes, &[echoed]);
            peer.expect(PacketType::EchoReq);
            peer.write(PacketType::EchoRes, &["x"]);
            peer.wait_for_end();
        })]);
        let mut client = F::connect(to_peer(&address)).unwrap();
        assert_eq!(client.echo("x").unwrap(), "x");
        drop(client);
        server.join().unwrap();
    }
}

/// G15.
fn quirk_a_refused_option_leaves_the_server_usable<F: Face>() {
    for (code, text) in [
        ("UNKNOWN_OPTION", "Server does not recognize given option"),
        ("unknown_option", "unknown option\nand more text"),
    ] {
        let (address, server) = Peer::serve(vec![Box::new(move |mut peer: Peer| {
            peer.expect(PacketType::OptionReq);
            peer.write(PacketType::Error, &[code, text]);
            peer.expect(PacketType::EchoReq);
            peer.write(PacketType::EchoRes, &["x"]);
            peer.wait_for_end();
        })]);
        let mut client = F::connect(to_peer(&address)).unwrap();
        assert_eq!(client.echo("x").unwrap(), "x");
        drop(client);
        server.join().unwrap();
    }
}

fn quirk_an_unknown_job_has_empty_numbers_on_other_servers<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::GetStatus);
        peer.write(PacketType::StatusRes, &["H:x:1", "0", "0", "", ""]);
        peer.wait_for_end();
    })]);
    let mut client = F::connect(to_peer(&address)).unwrap();
    let status = client.status(&"H:x:1".parse().unwrap()).unwrap();
    assert!(!status.is_known && status.progress.share().is_none());
    drop(client);
    server.join().unwrap();
}

/// F10: also before and after every answer.
fn quirk_noop_comes_anywhere<F: Face>() {
    let noop = || wire(PacketType::Noop, &[]);
    let (address, server) = Peer::serve(vec![Box::new(move |mut peer: Peer| {
        peer.write_bytes(&noop());
        peer.greet();
        peer.write_bytes(&noop());
        peer.expect(PacketType::SubmitJob);
        for packet in [
            noop(),
            wire(PacketType::JobCreated, &["H:x:1"]),
            noop(),
            noop(),
            wire(PacketType::WorkComplete, &["H:x:1", "r"]),
            noop(),
        ] {
            peer.write_bytes(&packet);
        }
        peer.expect(PacketType::EchoReq);
        peer.write_bytes(&noop());
        peer.write(PacketType::EchoRes, &["x"]);
        peer.wait_for_end();
    })]);
    let mut client = F::connect(to_peer(&address)).unwrap();
    assert_eq!(client.run("f", b"", options()).unwrap(), Outcome::Complete("r".into()));
    assert_eq!(client.echo("x").unwrap(), "x");
    drop(client);
    server.join().unwrap();
}

fn expect_grab(peer: &mut Peer) {
    peer.expect(PacketType::CanDo);
    peer.expect(PacketType::GrabJobAll);
}

/// F9, G8: the job after an ERROR is not lost, and the ERROR concerns the oldest result.
fn quirk_an_error_that_is_not_the_answer_to_a_grab<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        expect_grab(&mut peer);
        let error = ["JOB_NOT_FOUND", "Job given in work result not found"];
        peer.write(PacketType::JobAssignUniq, &["H:x:1", "f", "u", "first"]);
        peer.expect(PacketType::WorkComplete);
        peer.expect(PacketType::GrabJobAll);
        peer.write_bytes(&wire(PacketType::Noop, &[]));
        peer.write(PacketType::Error, &error);
        peer.write(PacketType::JobAssignUniq, &["H:x:2", "f", "u", "second"]);
        peer.expect(PacketType::WorkComplete);
        peer.expect(PacketType::GrabJobAll);
        peer.write(PacketType::NoJob, &[]);
        peer.expect(PacketType::PreSleep);
        // An ERROR about nothing does no harm.
        peer.write(PacketType::Error, &error);
        peer.write(PacketType::Error, &["SOMETHING", "else"]);
        peer.write(PacketType::Noop, &[]);
        peer.expect(PacketType::GrabJobAll);
        peer.write(PacketType::JobAssign, &["H:x:3", "f", "third"]);
        peer.expect(PacketType::WorkFail);
        peer.wait_for_end();
    })]);
    let mut worker =
        F::Worker::connect(WorkerOptions::from(to_peer(&address)).barrier(false)).unwrap();
    worker.can_do("f");
    for expected in ["first", "second"] {
        let job = worker.next();
        assert_eq!(F::Worker::assignment(&job).workload, expected);
        worker.complete(job, "r").unwrap();
    }
    let job = worker.next();
    assert_eq!(F::Worker::assignment(&job).workload, "third");
    worker.fail(job).unwrap();
    let report = worker.stop();
    assert_eq!((report.completed, report.rejected), (1, 1), "{report}");
    server.join().unwrap();
}

/// Perl's gearmand knows GRAB_JOB only.
fn quirk_servers_without_newer_grabs_are_asked_with_older_ones<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        expect_grab(&mut peer);
        peer.write(PacketType::Error, &["server_error", "Unknown command: 39\n"]);
        peer.expect(PacketType::GrabJobUniq);
        peer.write(PacketType::Error, &["INVALID_COMMAND", "Command not expected"]);
        peer.expect(PacketType::GrabJob);
        peer.write(PacketType::JobAssign, &["H:x:1", "f", "w"]);
        peer.expect(PacketType::WorkComplete);
        peer.expect(PacketType::GrabJob);
        peer.write(PacketType::NoJob, &[]);
        peer.wait_for_end();
    })]);
    let mut worker = F::Worker::connect(WorkerOptions::from(to_peer(&address))).unwrap();
    worker.can_do("f");
    let job = worker.next();
    worker.complete(job, "r").unwrap();
    assert!(worker.next_within(Duration::from_millis(50)).is_none());
    assert_eq!(worker.stop().completed, 1);
    server.join().unwrap();
}

/// Python's gear drops packets that it does not know.
fn quirk_a_server_that_leaves_unknown_grabs_unanswered_is_asked_with_older_ones<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        expect_grab(&mut peer);
        peer.expect(PacketType::GrabJobUniq);
        peer.write(PacketType::JobAssignUniq, &["H:x:1", "f", "u", "w"]);
        peer.expect(PacketType::WorkComplete);
        peer.expect(PacketType::GrabJobUniq);
        peer.write(PacketType::NoJob, &[]);
        peer.wait_for_end();
    })]);
    let mut worker = F::Worker::connect(WorkerOptions::from(to_peer(&address))).unwrap();
    worker.can_do("f");
    let job = worker.next();
    worker.complete(job, "r").unwrap();
    assert!(worker.next_within(Duration::from_millis(50)).is_none());
    assert_eq!(worker.stop().completed, 1);
    server.join().unwrap();
}

/// G13: for a handle that nobody waits for, among others.
fn quirk_an_end_for_a_job_that_has_ended_is_passed_over<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:1"]);
        peer.write(PacketType::WorkFail, &["H:x:1"]);
        peer.write(PacketType::WorkComplete, &["H:x:1", "late"]);
        peer.write(PacketType::WorkData, &["H:x:1", "later still"]);
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::WorkComplete, &["H:x:7", "never heard of"]);
        peer.write(PacketType::JobCreated, &["H:x:2"]);
        peer.write(PacketType::WorkComplete, &["H:x:2", "own"]);
        peer.wait_for_end();
    })]);
    let mut client = F::connect(to_peer(&address)).unwrap();
    assert_eq!(client.run("f", b"", options()).unwrap(), Outcome::Fail);
    assert_eq!(client.run("f", b"", options()).unwrap(), Outcome::Complete("own".into()));
    drop(client);
    server.join().unwrap();
}

fn quirk_counters_that_wrapped_below_zero_are_negative<F: Face>() {
    let (address, server) = Peer::text(vec![
        ("status\r\n", "sleep_three\t4294967295\t4294967294\t0\n.\n"),
        ("prioritystatus\r\n", "f\t4294967295\t0\t1\t2\n.\n"),
    ]);
    let mut admin = Admin::connect(to_peer(&address)).unwrap();
    let status = admin.status().unwrap();
    assert_eq!((status[0].total, status[0].running, status[0].workers), (-1, -2, 0));
    let status = admin.prioritystatus().unwrap();
    assert_eq!((status[0].high, status[0].normal, status[0].low), (-1, 0, 1));
    drop(admin);
    server.join().unwrap();
}

/// WORK_STATUS is passed on as the worker wrote it.
fn quirk_progress_that_is_no_number_is_kept_as_it_came<F: Face>() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:1"]);
        for (numerator, denominator) in [("half", "0"), ("-5", "10"), ("1", "4294967296"), ("", "")]
        {
            peer.write(PacketType::WorkStatus, &["H:x:1", numerator, denominator]);
            // Of two consecutive unread ones, the later one is enough.
            peer.write(PacketType::WorkData, &["H:x:1", ""]);
        }
        peer.write(PacketType::WorkComplete, &["H:x:1", ""]);
        peer.wait_for_end();
    })]);
    let mut client = F::connect(to_peer(&address)).unwrap();
    let (_, events) = client.submit("f", b"", options()).unwrap();
    let raw: Vec<_> = events
        .iter()
        .filter_map(|event| match event.as_ref().unwrap() {
            JobEvent::Status(progress) => Some((progress.raw(), progress.share())),
            _ => None,
        })
        .map(|((numerator, denominator), share)| {
            (numerator.to_vec(), denominator.to_vec(), share.is_some())
        })
        .collect();
    assert_eq!(
        raw,
        [
            (b"half".to_vec(), b"0".to_vec(), false),
            (b"-5".to_vec(), b"10".to_vec(), false),
            (b"1".to_vec(), b"4294967296".to_vec(), true),
            (b"".to_vec(), b"".to_vec(), false),
        ]
    );
    drop(client);
    server.join().unwrap();
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
fn quirk_a_coalesced_job_is_told_to_each_of_its_submitters_once<F: Face>(address: &str) {
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
    // All three have joined when a fourth, on a connection of its own, is answered: the server works in order of
    // arrival, so wait until the handle is known to have three waiting clients.
    let mut other = F::to(address);
    let unique = UniqueId::try_from("same").unwrap();
    let ask = gearman_client::protocol::GetStatusUnique(unique);
    while other.call(&ask).unwrap().waiting != Some(3) {
        std::thread::yield_now();
    }
    let mut worker = F::Worker::connect(address).unwrap();
    worker.can_do("joined");
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
    let mut worker = F::Worker::connect(address).unwrap();
    worker.can_do("cancelled");
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

/// F9 and G8 by a server of its own: RESET_ABILITIES on the wire would give the job to another, and so does a timeout.
fn quirk_a_result_of_a_job_that_went_to_another_is_refused_before_the_next_job<F: Face>(
    address: &str,
) {
    let mut client = F::to(address);
    client.submit_background("shared", b"one", options()).unwrap();
    let mut slow = gearman_client::blocking::Worker::connect(address).unwrap();
    // The server rounds less up to a second.
    slow.can_do("shared", Some(Duration::from_millis(1))).unwrap();
    let late = slow.next_job(super::support::PATIENCE).unwrap().unwrap();
    let mut other = F::Worker::connect(address).unwrap();
    other.can_do("shared");
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
    let mut worker = F::Worker::connect(address).unwrap();
    worker.can_do("long");
    let job = worker.next();
    let assignment = F::Worker::assignment(&job);
    assert_eq!((&assignment.unique[..], &assignment.workload[..]), (unique.as_bytes(), &b"w"[..]));
    worker.complete(job, "").unwrap();
    assert_eq!(worker.stop().completed, 1);
}

/// Lists of the text protocol with names that break them; the row after it is still read.
#[test]
fn quirk_an_empty_line_in_show_unique_jobs_is_a_job_without_an_id() {
    let server = Server::start().unwrap();
    let mut client = gearman_client::blocking::Client::connect(server.address()).unwrap();
    client.submit_background("f", "x", options().unique(Unique::None)).unwrap();
    client.submit_background("f", "y", options()).unwrap();
    let mut admin = Admin::connect(server.address()).unwrap();
    let rows = admin.show_unique_jobs().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows.iter().filter(|row| row.unique.is_none()).count(), 1);
}

/// The server joins a submission to a queued job that it is going to skip because its submitter has gone, so it would
/// never run.
fn quirk_a_job_joined_to_one_without_submitters_is_not_waited_for_in_vain<F: Face>(address: &str) {
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
        // Nobody works yet, so the job is queued when its submitter's connection is lost.
        proxy.reset_connections();
        let mut worker = F::Worker::connect(address).unwrap();
        worker.can_do("passed");
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
