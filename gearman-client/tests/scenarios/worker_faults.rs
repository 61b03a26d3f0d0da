//! Workers whose connections, servers and jobs go wrong.

use std::{
    thread,
    time::{Duration, Instant},
};

use fixtures::{
    Dark,
    gearmand::Server,
    proxy::{Ending, Proxy, Toxics},
    real::{Gearmand, RealServer},
};
use gearman_client::{
    ClientId, ConnectOptions, ErrorKind, Fate, LostReason, Outcome, RetryPolicy, Servers,
    WorkerOptions, blocking,
    protocol::{PacketType, Submit},
};

use super::support::each_server_async;
use super::{
    face::{Face, WorkFace, both_faces, scenarios},
    handlers::HandlerFace,
    support::{LATE, PATIENCE, function, options, real, wire, worker_of},
};

each_server_async!(a_job_that_outlasts_the_grace_goes_back_to_the_server,);

fn quick(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(50));
    options.reply_timeout(LATE).retry(retry)
}

fn worker<F: Face>(address: &str) -> F::Worker {
    let mut worker = F::Worker::new(WorkerOptions::from(quick(address)));
    worker.can_do("f");
    worker
}

both_faces!(
    every_server_is_served_though_each_is_lost_in_turn,
    a_result_cut_at_any_byte_is_accounted_for_and_its_job_runs_again,
    a_job_that_lost_too_many_workers_fails_at_its_submitter,
    a_stale_result_is_never_sent_over_a_new_connection,
    a_job_lost_before_it_was_taken_is_not_handed_out,
    an_error_before_and_behind_every_answer_does_no_harm,
    all_servers_are_served_fairly,
    a_worker_that_sleeps_everywhere_is_woken_from_anywhere,
    a_server_that_takes_no_connection_holds_up_no_job_of_another,
    a_stop_waits_for_no_attempt_to_connect,
    a_frozen_server_is_used_again_when_it_thaws,
);

scenarios!(
    a_job_of_a_lost_worker_is_run_by_another_under_the_same_handle,
    a_stop_at_once_gives_running_jobs_back,
    nothing_invalid_is_sent,
);

/// G4, D of the reports: with all functions and the client id registered again.
fn every_server_is_served_though_each_is_lost_in_turn<F: Face>() {
    let servers = [(); 3].map(|()| Server::start().unwrap());
    let list = servers.iter().map(|server| quick(server.address()));
    let options_ = WorkerOptions::from(Servers::new(list).unwrap());
    let id = ClientId::try_from("bounced").unwrap();
    let mut worker = F::Worker::of("f", options_.client_id(id));
    for round in 0..9 {
        servers[round % 3].reset_connections();
        for server in &servers {
            F::to(server.address()).submit_background("f", b"", options()).unwrap();
        }
        for _ in &servers {
            worker.completes_next("");
        }
        worker.barrier().unwrap();
    }
    for server in &servers {
        let mut admin = blocking::Admin::connect(server.address()).unwrap();
        let workers = admin.workers().unwrap();
        let rows: Vec<_> =
            workers.iter().filter(|row| row.id.as_deref() == Some("bounced")).collect();
        assert_eq!(rows.len(), 1, "{workers:?}");
        assert_eq!(rows[0].functions, ["f"]);
    }
    assert_eq!(worker.stop().completed, 27);
}

/// G5.
fn a_job_of_a_lost_worker_is_run_by_another_under_the_same_handle<F: Face>(address: &str) {
    let submitted = F::to(address).submit_background("f", b"w", options()).unwrap();
    for _ in 0..3 {
        let mut lost = worker::<F>(address);
        let job = lost.next();
        assert_eq!(F::Worker::assignment(&job).handle.name(), submitted.handle.name());
        drop(lost);
        drop(job);
    }
    let mut last = worker::<F>(address);
    let job = last.next();
    assert_eq!(F::Worker::assignment(&job).handle.name(), submitted.handle.name());
    last.complete(job, "").unwrap();
    assert_eq!(last.stop().completed, 1);
}

/// G5 with `--job-retries`.
fn a_job_that_lost_too_many_workers_fails_at_its_submitter<F: Face>() {
    let retries = || Gearmand::builder().arg("--job-retries=2").start();
    let in_memory = Server::builder().job_retries(2).start().unwrap();
    let real = retries();
    for address in
        std::iter::once(in_memory.address()).chain(real.as_ref().map(RealServer::address))
    {
        let at = address.to_owned();
        let waits = thread::spawn(move || F::to(&at).run("f", b"", options()).unwrap());
        for _ in 0..2 {
            let mut lost = worker::<F>(address);
            let job = lost.next();
            drop(lost);
            drop(job);
        }
        assert_eq!(waits.join().unwrap(), Outcome::Fail);
    }
}

/// G6: the server accepts whole packets only, and does not acknowledge them.
fn a_result_cut_at_any_byte_is_accounted_for_and_its_job_runs_again<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
    let before = "CAN_DO f".len() + 5 + 12;
    let complete = 12 + "H:localhost:1".len() + 1 + "result".len();
    for ending in [Ending::Close, Ending::Reset] {
        // The first byte of the result has to be in flight, or the job may not have arrived before the end.
        for cut in 1..=complete {
            let handle = client.submit_background("f", b"w", options()).unwrap().handle;
            let bytes = u64::try_from(before + cut).unwrap();
            proxy.spoil_requests(Toxics::new().end_after(bytes, ending));
            let mut cut_worker = worker::<F>(&proxy.address().to_string());
            let job = cut_worker.next();
            assert_eq!(F::Worker::assignment(&job).handle.name(), handle.name());
            // This only shows whether it was written.
            let _ = cut_worker.complete(job, "result");
            let _ = cut_worker.barrier();
            proxy.heal();
            let report = cut_worker.stop();
            assert_eq!(report.completed, 0, "cut after {cut}: {report}");
            // A face that reconnects on its own may have had it twice.
            assert!(report.unknown + report.abandoned >= 1, "cut after {cut}: {report}");
            // The server has what came before the end: only the client is left.
            assert!(server.wait_for(PATIENCE, |view| view.connections == 1));
            // Long handles are longer packets: this one may be cut there, too.
            if server.view().jobs == 1 {
                let mut second = worker::<F>(server.address());
                let job = second.next();
                assert_eq!(F::Worker::assignment(&job).handle.name(), handle.name());
                second.complete(job, "result").unwrap();
                assert_eq!(second.stop().completed, 1);
            } else {
                assert_eq!(cut, complete, "the whole result was taken");
            }
            assert_eq!(server.view().jobs, 0);
        }
    }
}

/// G7: handles start again with a server, so the new `H:…:1` is another job.
fn a_stale_result_is_never_sent_over_a_new_connection<F: Face>() {
    let Some(mut server) = real() else { return };
    let address = server.address().to_owned();
    let old = F::connect(quick(&address)).unwrap();
    let mut client = old;
    let first = client.submit_background("f", b"old", options()).unwrap().handle;
    let mut worker = worker::<F>(&address);
    let stale = worker.next();
    server.restart().unwrap();
    client.reconnect().unwrap();
    let second = client.submit_background("f", b"new", options()).unwrap().handle;
    assert_eq!(first.name(), second.name(), "the real server counts from 1 again");
    // G23, which is its only visible effect.
    assert!(second.shows_restart_since(&first) && !first.shows_restart_since(&second));
    let third = client.submit_background("g", b"", options()).unwrap().handle;
    assert!(!third.shows_restart_since(&second) && !second.shows_restart_since(&second));
    // Whether or not the worker has noticed, the new job is not touched.
    let _ = worker.status(&stale, 1, 2);
    let ended = worker.complete(stale, "stale");
    if let Err(error) = &ended {
        let kinds = [ErrorKind::JobLost, ErrorKind::ConnectionLost];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    let fresh = worker.next();
    assert_eq!(F::Worker::assignment(&fresh).workload, "new");
    let status = client.status(&second).unwrap();
    assert!(status.is_running && status.progress.share().is_none(), "{status:?}");
    worker.complete(fresh, "").unwrap();
    let report = worker.stop();
    assert_eq!(report.completed, 1, "{report}");
    assert_eq!(report.unknown + report.abandoned, 1, "{report}");
}

/// G5: others have run it by then.
fn a_job_lost_before_it_was_taken_is_not_handed_out<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    for _ in 0..8 {
        client.submit_background("f", b"old", options()).unwrap();
    }
    let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
    let several = WorkerOptions::from(quick(&proxy.address().to_string())).slots(4);
    let mut lost = F::Worker::of("f", several);
    for _ in 0..3 {
        // More is requested than is taken.
        lost.completes_next("");
    }
    lost.barrier().unwrap();
    let held = lost.next();
    proxy.refuse_connections();
    proxy.reset_connections();
    let mut other = worker::<F>(server.address());
    for _ in 0..5 {
        other.completes_next("");
    }
    assert_eq!(other.stop().completed, 5);
    // It notices.
    let _ = lost.barrier();
    proxy.accept_connections();
    client.submit_background("f", b"new", options()).unwrap();
    let job = lost.next();
    assert_eq!(F::Worker::assignment(&job).workload, b"new"[..]);
    lost.complete(job, "").unwrap();
    assert!(lost.complete(held, "").is_err());
    assert_eq!(lost.stop().completed, 4);
}

/// G8.
fn an_error_before_and_behind_every_answer_does_no_harm<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::to(server.address());
    let mut worker = worker::<F>(server.address());
    let errors = [
        wire(PacketType::Error, &["JOB_NOT_FOUND", "Job given in work result not found"]),
        wire(PacketType::Error, &["JOB_NOT_FOUND", "Job does not exist on server"]),
        wire(PacketType::Error, &["QUEUE_ERROR", "what"]),
        wire(PacketType::Error, &["", ""]),
    ];
    worker.fall_asleep(&server);
    for n in 0..20 {
        let error = &errors[n % errors.len()];
        // The worker's connection is the second.
        server.send(2, error.clone());
        client.submit_background("f", b"", options()).unwrap();
        let job = worker.next();
        server.send(2, error.clone());
        worker.complete(job, "").unwrap();
        server.send(2, error.clone());
    }
    worker.barrier().unwrap();
    let report = worker.stop();
    // An ERROR about a job may be mistaken for the answer to a result, but never for that to a grab.
    assert_eq!(report.completed + report.rejected, 20, "{report}");
    assert_eq!(server.view().jobs, 0);
}

/// G4: none is starved by one that has much more.
fn all_servers_are_served_fairly<F: Face>() {
    const FEW: usize = 30;
    const MANY: usize = 1000;
    let servers = [(); 3].map(|()| Server::start().unwrap());
    for (server, jobs) in servers.iter().zip([MANY, FEW, FEW]) {
        let mut client = F::to(server.address());
        let address = server.address();
        let submit = |_| Submit::background(function("f"), address, options()).unwrap();
        let submitted = client.call_many((0..jobs).map(submit).collect());
        assert!(submitted.iter().all(Result::is_ok));
    }
    let list = servers.iter().map(|server| quick(server.address()));
    let mut worker = F::Worker::of("f", WorkerOptions::from(Servers::new(list).unwrap()));
    let (mut few, mut many) = (0, 0);
    while few < 2 * FEW {
        let job = worker.next();
        let is_of_many = F::Worker::assignment(&job).workload == servers[0].address();
        *(if is_of_many { &mut many } else { &mut few }) += 1;
        worker.complete(job, "").unwrap();
    }
    assert!(many < MANY, "the others had to wait for the end of the long queue");
    let _ = worker.stop();
}

/// G10.
fn a_worker_that_sleeps_everywhere_is_woken_from_anywhere<F: Face>() {
    let servers = [(); 3].map(|()| Server::start().unwrap());
    let list = servers.iter().map(|server| quick(server.address()));
    // It does not poll again on its own within this test.
    let options_ = WorkerOptions::from(Servers::new(list).unwrap()).regrab(PATIENCE * 10);
    let mut worker = F::Worker::of("f", options_);
    for server in servers.iter().chain(&servers) {
        let asleep = Instant::now();
        while servers.iter().any(|server| server.view().sleeping == 0) {
            assert!(worker.next_within(Duration::from_millis(1)).is_none());
            assert!(asleep.elapsed() < PATIENCE, "it does not sleep on every server");
        }
        F::to(server.address()).submit_background("f", b"", options()).unwrap();
        worker.completes_next("");
    }
    assert_eq!(worker.stop().completed, 6);
}

/// G4, like a black hole. A blocking worker that takes jobs by hand served the other server for a twentieth of the time.
fn a_server_that_takes_no_connection_holds_up_no_job_of_another<F: Face>() {
    let (dark, server) = (Dark::start().unwrap(), Server::start().unwrap());
    let servers = [&*dark.address().to_string(), server.address()].map(|address| {
        let options: ConnectOptions = address.parse().unwrap();
        options.connect_timeout(Duration::from_secs(2))
    });
    let both = WorkerOptions::from(Servers::new(servers).unwrap());
    let mut worker = F::Worker::of("f", both);
    let mut client = F::to(server.address());
    let began = Instant::now();
    for _ in 0..40 {
        client.submit_background("f", b"", options()).unwrap();
        worker.completes_next("");
        thread::sleep(Duration::from_millis(10));
    }
    // One attempt for each job would take longer.
    assert!(began.elapsed() < 2 * PATIENCE, "{:?}", began.elapsed());
}

/// The blocking face waited for the end of its attempt.
fn a_stop_waits_for_no_attempt_to_connect<F: HandlerFace>() {
    let (dark, server) = (Dark::start().unwrap(), Server::start().unwrap());
    let servers = [&*dark.address().to_string(), server.address()].map(|address| {
        let options: ConnectOptions = address.parse().unwrap();
        options.connect_timeout(PATIENCE * 2)
    });
    let worker =
        F::start(WorkerOptions::from(Servers::new(servers).unwrap()), |_| Ok(String::new()));
    let mut client = F::to(server.address());
    let _ = client.run("f", b"", options()).unwrap();
    let started = Instant::now();
    assert_eq!(worker.stop().completed, 1);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// G20, G22, S3, S4, and what crashes clients (a progress of 0 parts).
fn nothing_invalid_is_sent<F: Face>(address: &str) {
    let mut client = F::to(address);
    let kind = |error: gearman_client::Error| {
        assert_eq!(error.fate(), Fate::NotSent, "{error}");
        error.kind()
    };
    for function in ["", "a\0smuggled", &"f".repeat(8191)] {
        let submit = client.submit_background(function, b"", options());
        assert_eq!(kind(submit.unwrap_err()), ErrorKind::InvalidInput, "{function:?}");
    }
    for id in ["", "a b", "a\nb", "\0"] {
        assert!(ClientId::try_from(id).is_err(), "{id:?}");
    }
    for unique in ["-", "", "a\0b"] {
        assert!(gearman_client::UniqueId::try_from(unique).is_err(), "{unique:?}");
    }
    let mut admin = blocking::Admin::connect(address).unwrap();
    assert_eq!(kind(admin.create_function("f\nshutdown").unwrap_err()), ErrorKind::InvalidInput);
    for function in ["a b", "a\tb", "a\nworkers", "a\x1b[2J", "\x7f", "\u{e9}"] {
        assert_eq!(kind(admin.drop_function(function).unwrap_err()), ErrorKind::InvalidInput);
    }
    assert!(gearman_client::protocol::AdminCommand::raw("status\nshutdown").is_err());
    assert_eq!(admin.status().unwrap().len(), 0, "nothing of this reached the server");

    client.submit_background("f", b"", options()).unwrap();
    let mut worker = worker::<F>(address);
    let job = worker.next();
    assert_eq!(kind(worker.status(&job, 1, 0).unwrap_err()), ErrorKind::InvalidInput);
    worker.complete(job, "").unwrap();
    assert_eq!(worker.stop().completed, 1);
}

/// G24: a job that does not end within the grace goes back, unanswered.
async fn a_job_that_outlasts_the_grace_goes_back_to_the_server(address: String) {
    let client = gearman_client::Client::connect(&address).await.unwrap();
    client.submit_background("f", "", options()).await.unwrap();
    let options_: WorkerOptions = address.parse().unwrap();
    let graceful = options_.grace(Duration::from_millis(100));
    let mut worker = gearman_client::Worker::connect(graceful).await.unwrap();
    let started = std::sync::Arc::new(tokio::sync::Notify::new());
    worker
        .register("f", {
            let started = started.clone();
            move |_| {
                started.notify_one();
                async { std::future::pending::<()>().await }
            }
        })
        .unwrap();
    let report = worker.run_until(started.notified()).await;
    assert_eq!((report.completed, report.abandoned), (0, 1), "{report}");
    let mut second = worker_of("f", &address).await;
    second.next_job().await.complete("").await.unwrap();
    assert_eq!(second.stop().await.completed, 1);
}

fn a_stop_at_once_gives_running_jobs_back<F: HandlerFace>(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    client.submit_background("f", "", options()).unwrap();
    let patient: WorkerOptions = address.parse().unwrap();
    let patient = patient.slots(2).grace(Duration::from_secs(3600));
    let worker = F::start(patient, |job| {
        let lost = job.wait_lost();
        assert_eq!(lost, Some(LostReason::Stopped));
        Ok("late".into())
    });
    worker.until("a running job", |handle| handle.running() == 1);
    worker.handle.stop();
    worker.handle.stop_now();
    worker.handle.stop();
    let report = worker.end();
    assert_eq!((report.completed, report.abandoned), (0, 1), "{report}");
    let mut second = blocking::Worker::of("f", address);
    let job = second.next_job(PATIENCE).unwrap().unwrap();
    second.complete(job, "").unwrap();
    assert_eq!(second.stop().completed, 1);
}

/// C2 with a real server that is suspended: clients and workers continue when it resumes.
fn a_frozen_server_is_used_again_when_it_thaws<F: Face>() {
    let Some(server) = real() else { return };
    let mut client = F::connect(quick(server.address()).connect_timeout(LATE)).unwrap();
    let mut worker = worker::<F>(server.address());
    assert!(worker.next_within(Duration::from_millis(20)).is_none());
    server.freeze().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let error = client.echo("x").unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
        });
        assert!(worker.next_within(LATE + LATE / 5).is_none());
    });
    server.thaw().unwrap();
    let started = Instant::now();
    while client.echo("x").is_err() {
        assert!(started.elapsed() < PATIENCE);
    }
    client.submit_background("f", b"", options()).unwrap();
    worker.completes_next("");
    assert_eq!(worker.stop().completed, 1);
}
