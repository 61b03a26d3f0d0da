//! Submissions whose answers are lost, and servers that are away.

use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

use fixtures::{
    Dark, Port,
    fault::Fault,
    gearmand::{Listen, Server},
    proxy::{Proxy, Toxics},
};
use gearman_client::{
    ConnectOptions, Deadline, ErrorKind, Fate, Outcome, RetryPolicy, Selection, Servers, Unique,
    UniqueId,
    protocol::{GetStatus, Submit},
};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{LATE, PATIENCE, function, options, real},
};

fn quick(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(5), Duration::from_millis(50));
    options.reply_timeout(PATIENCE).connect_timeout(PATIENCE).retry(retry)
}

fn all<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Servers {
    Servers::new(servers.into_iter().map(|server| quick(server.address()))).unwrap()
}

both_faces!(
    an_idempotent_submission_is_repeated_under_the_same_id_and_is_one_job,
    an_unknown_fate_is_reported_and_not_repeated,
    a_refusal_is_final_and_leaves_the_connection,
    one_of_three_servers_dies_and_no_call_fails,
    a_server_that_comes_back_is_used_again,
    idempotent_jobs_are_seen_to_their_end_through_lost_connections,
    an_idempotent_job_outlives_a_server_that_is_away_for_a_while,
    a_batch_is_answered_to_the_last_whatever_breaks,
    a_connection_that_is_lost_while_idle_is_replaced_before_it_is_used,
    a_new_call_does_not_wait_for_the_delays_of_earlier_attempts,
    a_refused_connection_names_every_address,
    no_call_waits_long_for_a_connection_while_another_server_is_there,
    a_server_that_falls_silent_is_left_by_the_next_call,
    a_frozen_server_costs_one_call_and_is_used_again_when_it_answers,
    a_handle_goes_to_its_own_server_or_nowhere,
    the_deadline_of_a_job_bounds_its_repetitions,
    a_slow_network_changes_nothing,
);

/// G1: the same server names the same job for the same unique id.
fn an_idempotent_submission_is_repeated_under_the_same_id_and_is_one_job<F: Face>() {
    let server = Server::start().unwrap();
    for (n, (fault, limit)) in [
        (Fault::nth(1).of("SUBMIT_JOB_BG").executed().reset_after(0), PATIENCE),
        (Fault::nth(1).of("SUBMIT_JOB_BG").executed().cut_after(7), PATIENCE),
        (Fault::nth(1).of("SUBMIT_JOB_BG").executed().hang(), LATE),
        (Fault::nth(1).of("SUBMIT_JOB_BG").unexecuted().reset_after(0), PATIENCE),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = F::connect(quick(server.address()).reply_timeout(limit)).unwrap();
        server.faults().add(fault);
        let submitted = client.submit_background("f", b"w", options().idempotent(true)).unwrap();
        assert_eq!(server.view().jobs, n + 1, "one job for each submission");
        assert!(client.status(&submitted.handle).unwrap().is_known);
    }
    let uniques: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.text().starts_with("SUBMIT_JOB_BG"))
        .map(fixtures::gearmand::Request::text)
        .collect();
    assert_eq!(uniques.len(), 8, "each was sent twice");
    assert!(uniques.chunks(2).all(|pair| pair[0] == pair[1]), "{uniques:?}");
}

/// G1: unless the caller allows it.
fn an_unknown_fate_is_reported_and_not_repeated<F: Face>() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let mut client = F::connect(all([&one, &two])).unwrap();
    one.faults().add(Fault::nth(1).of("SUBMIT_JOB_BG").executed().reset_after(3));
    let error = client.submit_background("f", b"w", options()).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    assert_eq!(error.server(), Some(one.address()));
    let lost = format!("SUBMIT_JOB_BG to {}: the connection was lost", one.address());
    assert!(error.to_string().starts_with(&lost), "{error}");
    assert_eq!((one.view().jobs, two.view().jobs), (1, 0));
}

/// G18.
fn a_refusal_is_final_and_leaves_the_connection<F: Face>() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let mut client = F::connect(all([&one, &two])).unwrap();
    let epochs = client.epochs();
    one.faults()
        .add(Fault::nth(1).of("SUBMIT_JOB_BG").reply("ERROR QUEUE_ERROR\\0Job queue is full"));
    let error = client.submit_background("f", b"w", options().idempotent(true)).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::QueueFull, Fate::Refused));
    assert!(error.is_temporary());
    client.submit_background("f", b"w", options()).unwrap();
    assert_eq!(client.epochs(), epochs);
    assert_eq!((one.view().jobs, two.view().jobs), (1, 0));
}

/// G3.
fn one_of_three_servers_dies_and_no_call_fails<F: Face>() {
    for selection in [Selection::InOrder, Selection::RoundRobin, Selection::ByKey] {
        let mut servers: Vec<Server> = (0..3).map(|_| Server::start().unwrap()).collect();
        let mut client = F::connect(all(&servers).selection(selection)).unwrap();
        let mut handles = HashSet::new();
        let mut submit = |client: &mut F| {
            let again = options().idempotent(true);
            let job = client.submit_background("f", b"w", again).unwrap();
            handles.insert(job.handle.to_string());
        };
        (0..30).for_each(|_| submit(&mut client));
        drop(servers.remove(0));
        (0..30).for_each(|_| submit(&mut client));
        drop(servers.remove(0));
        (0..30).for_each(|_| submit(&mut client));
        assert_eq!(handles.len(), 90, "{selection:?}");
        assert!(servers[0].view().jobs >= 30, "{selection:?}");
    }
}

fn a_server_that_comes_back_is_used_again<F: Face>() {
    let Some(mut first) = real() else { return };
    let second = Server::start().unwrap();
    let list = [quick(first.address()), quick(second.address())];
    let mut client = F::connect(Servers::new(list).unwrap()).unwrap();
    let used = |client: &mut F| {
        let job = client.submit_background("f", b"w", options().idempotent(true)).unwrap();
        job.handle.server().unwrap().to_string()
    };
    assert_eq!(used(&mut client), first.address());
    first.kill();
    assert_eq!(used(&mut client), second.address());
    first.restart().unwrap();
    let started = Instant::now();
    while used(&mut client) != first.address() {
        assert!(started.elapsed() < PATIENCE, "it is never used again");
        thread::sleep(Duration::from_millis(5));
    }
}

/// G2: with the same id, on the same server or another.
fn idempotent_jobs_are_seen_to_their_end_through_lost_connections<F: Face>() {
    let server = Server::start().unwrap();
    let address = server.address().to_owned();
    let mut client = F::connect(quick(&address).retry(RetryPolicy::new(50))).unwrap();
    let waits = thread::spawn(move || {
        (0..20)
            .map(|n: u32| {
                let again = options().idempotent(true);
                client.run("f", n.to_string().as_bytes(), again).unwrap()
            })
            .collect::<Vec<_>>()
    });
    let mut worker = F::Worker::of("f", quick(&address));
    let mut ends = 0;
    while !waits.is_finished() {
        let Some(job) = worker.next_within(Duration::from_millis(20)) else { continue };
        ends += 1;
        if ends % 3 == 1 {
            // Submitter and worker lose their connections in the middle of the job.
            server.reset_connections();
        }
        let result = F::Worker::assignment(&job).workload.to_vec();
        let _ = worker.complete(job, std::str::from_utf8(&result).unwrap());
    }
    for (n, outcome) in waits.join().unwrap().into_iter().enumerate() {
        assert_eq!(outcome, Outcome::Complete(n.to_string().into()));
    }
    assert!(ends >= 20);
}

/// Failed attempts to connect took the place of the new submission, and its end was not awaited.
fn an_idempotent_job_outlives_a_server_that_is_away_for_a_while<F: Face>() {
    let port = Port::take().unwrap();
    let start = || Server::builder().listen(Listen::Tcp(port.address())).start().unwrap();
    let first = start();
    let retry = RetryPolicy::new(1000).backoff(Duration::from_millis(5), Duration::from_millis(20));
    let patient = quick(first.address()).retry(retry);
    let mut client = F::connect(patient.clone()).unwrap();
    let waits = thread::spawn(move || client.run("f", b"w", options().idempotent(true)).unwrap());
    let mut server = first;
    for _ in 0..3 {
        assert!(server.wait_for(Duration::from_secs(30), |view| view.jobs == 1));
        server.stop();
        // Some attempts are refused meanwhile.
        thread::sleep(Duration::from_millis(60));
        server = start();
    }
    let mut worker = F::Worker::of("f", patient);
    let job = worker.next_within(Duration::from_secs(30)).unwrap();
    worker.complete(job, "done").unwrap();
    assert_eq!(waits.join().unwrap(), Outcome::Complete("done".into()));
    server.stop();
}

/// C9 for many requests in flight: exactly one answer each, in order, and no job twice.
fn a_batch_is_answered_to_the_last_whatever_breaks<F: Face>() {
    const JOBS: usize = 300;
    let breaks = |at: u64, fault: Fault| {
        let server = Server::start().unwrap();
        server.faults().add(fault);
        let mut client = F::connect(quick(server.address()).reply_timeout(LATE)).unwrap();
        let submits =
            (0..JOBS).map(|n| Submit::background(function("f"), n.to_string(), options()).unwrap());
        let answers = client.call_many(submits.collect());
        assert_eq!(answers.len(), JOBS);
        let (good, bad): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        let handles: HashSet<_> =
            good.into_iter().map(|job| job.unwrap().handle.name().to_vec()).collect();
        for error in &bad {
            let error = error.as_ref().unwrap_err();
            assert_eq!(error.fate(), Fate::Unknown, "at {at}: {error}");
        }
        assert!(handles.len() >= JOBS - 256 && handles.len() + bad.len() == JOBS);
        // Each successful one is a job, and some of the others may be.
        let jobs = server.view().jobs;
        assert!((handles.len()..=JOBS).contains(&jobs), "at {at}: {jobs} jobs");
    };
    thread::scope(|scope| {
        for at in [1, 2, 57, 128, 255] {
            let fault = || Fault::nth(at).of("SUBMIT_JOB_BG");
            for fault in [fault().reset_after(5), fault().cut_after(0), fault().unexecuted().hang()]
            {
                scope.spawn(move || breaks(at, fault));
            }
        }
    });
}

/// C22.
fn a_connection_that_is_lost_while_idle_is_replaced_before_it_is_used<F: Face>() {
    let server = Server::start().unwrap();
    let mut client = F::connect(quick(server.address())).unwrap();
    assert_eq!(client.echo("x").unwrap(), "x");
    server.reset_connections();
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
    // After an idle second, both faces check before they send.
    thread::sleep(Duration::from_millis(1100));
    let submitted = client.submit_background("f", b"w", options());
    assert!(submitted.is_ok(), "{submitted:?}");
    assert_eq!(server.view().jobs, 1);
}

/// C1.
/// Each failure doubles the delay, up to one that the call would not outlast.
fn a_new_call_does_not_wait_for_the_delays_of_earlier_attempts<F: Face>() {
    let port = Port::take().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(5), 10_000 * PATIENCE).seed(3);
    let address = port.address().to_string();
    let patient = quick(&address).retry(retry).total_timeout(Some(PATIENCE));
    let mut client = F::new(patient).unwrap();
    for _ in 0..64 {
        client.reconnect().unwrap_err();
    }
    let _server = Server::builder().listen(Listen::Tcp(port.address())).start().unwrap();
    client.submit_background("f", b"w", options()).unwrap();
}

fn a_refused_connection_names_every_address<F: Face>() {
    let (free, other) = (Port::take().unwrap(), Port::take().unwrap());
    let (free, other) = (free.address().port(), other.address().port());
    // Each of them once: a time limit may end repetitions at either.
    let once = |address: String| quick(&address).retry(RetryPolicy::never());
    let both = [format!("localhost:{free}"), format!("127.0.0.1:{other}")];
    let error = F::connect(Servers::new(both.map(once)).unwrap()).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert!(error.to_string().contains(&other.to_string()), "the last one: {error}");
    let localhost: ConnectOptions = format!("localhost:{free}").parse().unwrap();
    let error = F::connect(localhost.clone()).err().unwrap();
    assert!(error.to_string().contains(&format!("127.0.0.1:{free}")), "{error}");
    let error = F::Worker::connect(localhost).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Connect);
    let nowhere: ConnectOptions = "no-such-host.invalid:1".parse().unwrap();
    let error = F::connect(nowhere).err().unwrap();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent));
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}

/// G3: a host that is switched off answers nothing for as long as it is asked.
fn no_call_waits_long_for_a_connection_while_another_server_is_there<F: Face>() {
    let black_hole = Dark::start().unwrap();
    let dark = black_hole.address().to_string();
    let good = Server::start().unwrap();
    let servers = || {
        let list = [dark.as_str(), good.address()].map(|address| {
            let options: ConnectOptions = address.parse().unwrap();
            options.connect_timeout(10 * PATIENCE)
        });
        Servers::new(list).unwrap()
    };
    let started = Instant::now();
    let mut client = F::connect(servers()).unwrap();
    // Only the first call waits for the attempt, which goes on: with all others, the test would fail.
    for _ in 0..30 {
        client.submit_background("f", b"w", options()).unwrap();
    }
    let job = client.submit_background("f", b"w", options()).unwrap();
    // The name alone does not say which server has it.
    let name = std::str::from_utf8(job.handle.name()).unwrap();
    let handle: gearman_client::JobHandle = name.parse().unwrap();
    for _ in 0..2 {
        assert!(client.status(&handle).unwrap().is_known);
    }
    let mut fresh = F::new(servers()).unwrap();
    assert!(fresh.status(&handle).unwrap().is_known);
    let mut fresh = F::new(servers()).unwrap();
    fresh.submit_background("f", b"w", options()).unwrap();
    let took = started.elapsed();
    assert!(took < PATIENCE, "{took:?}");
}

/// Its connection stays until the reply timeout.
fn a_server_that_falls_silent_is_left_by_the_next_call<F: Face>() {
    // On a busy machine, a short time may end before the other server has answered.
    let mut limits = [1, 4, 16].into_iter().map(Duration::from_secs);
    assert!(limits.any(leaves_a_silent_server::<F>), "it is asked again");
}

/// Whether each call but the one that the server leaves unanswered ends within this total timeout.
fn leaves_a_silent_server<F: Face>(limit: Duration) -> bool {
    let (silent, other) = (Server::start().unwrap(), Server::start().unwrap());
    let proxy = Proxy::start(silent.socket_addr().unwrap()).unwrap();
    let servers = [proxy.address().to_string(), other.address().to_owned()];
    let options_of =
        |address: String| quick(&address).reply_timeout(10 * PATIENCE).total_timeout(Some(limit));
    let Ok(mut client) = F::connect(Servers::new(servers.map(options_of)).unwrap()) else {
        return false;
    };
    if client.submit_background("f", b"before", options()).is_err() {
        return false;
    }
    proxy.spoil_replies(Toxics::new().silence());
    let error = client.submit_background("f", b"late", options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Total), "{error}");
    let elsewhere = [(); 2].map(|()| client.submit_background("f", b"elsewhere", options()));
    if error.fate() != Fate::Unknown || elsewhere.iter().any(Result::is_err) {
        return false;
    }
    assert_eq!((silent.view().jobs, other.view().jobs), (2, 2));
    true
}

/// It still accepts connections, as a stopped process does.
fn a_frozen_server_costs_one_call_and_is_used_again_when_it_answers<F: Face>() {
    const REPLY: Duration = Duration::from_secs(2);
    let costs_one_call = |was_used: bool| {
        let (frozen, other) = (Server::start().unwrap(), Server::start().unwrap());
        let proxy = Proxy::start(frozen.socket_addr().unwrap()).unwrap();
        let servers = [proxy.address().to_string(), other.address().to_owned()];
        let [of_frozen, of_other] = servers.map(|address| quick(&address));
        let servers = Servers::new([of_frozen.reply_timeout(REPLY), of_other]).unwrap();
        let mut client = F::connect(servers).unwrap();
        if was_used {
            client.submit_background("f", b"before", options()).unwrap();
        }
        proxy.spoil_replies(Toxics::new().silence());
        let error = client.submit_background("f", b"waits", options()).unwrap_err();
        let expected = (ErrorKind::Timeout(Deadline::Reply), Fate::Unknown);
        assert_eq!((error.kind(), error.fate()), expected);
        let text = "no reply within the reply timeout of 2 s";
        assert_eq!(error.to_string(), format!("SUBMIT_JOB_BG to {}: {text}", proxy.address()));
        // Also after a question to the frozen one was left unanswered in its turn.
        let end = Instant::now() + REPLY + REPLY / 4;
        while Instant::now() < end {
            client.submit_background("f", b"elsewhere", options()).unwrap();
            thread::sleep(Duration::from_millis(50));
        }
        let taken = 1 + usize::from(was_used);
        assert_eq!(frozen.view().jobs, taken, "used before: {was_used}");
        proxy.heal();
        proxy.reset_connections();
        let end = Instant::now() + PATIENCE;
        while frozen.view().jobs == taken {
            assert!(Instant::now() < end, "it is never used again");
            client.submit_background("f", b"after", options()).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
    };
    thread::scope(|scope| {
        for was_used in [true, false] {
            scope.spawn(move || costs_one_call(was_used));
        }
    });
}

/// Servers count their jobs alike: the same name on another server is another job.
fn a_handle_goes_to_its_own_server_or_nowhere<F: Face>() {
    let (one, two, third) =
        (Server::start().unwrap(), Server::start().unwrap(), Server::start().unwrap());
    let mut of_third = F::connect(all([&third])).unwrap();
    let handle = of_third.submit_background("f", b"w", options()).unwrap().handle;
    for servers in [vec![&one], vec![&one, &two]] {
        let mut client = F::connect(all(servers.clone())).unwrap();
        let same = client.submit_background("f", b"w", options()).unwrap().handle;
        let asked = |server: &Server| server.requests().len();
        let before: Vec<_> = servers.iter().map(|server| asked(server)).collect();
        let missing = handle.clone().on_server(third.address().parse().unwrap());
        let get = GetStatus(missing.clone());
        let mut errors = vec![client.status(&missing).unwrap_err()];
        errors.push(client.call(&get).unwrap_err());
        let many = client.call_many(vec![GetStatus(same.clone()), get, GetStatus(same)]);
        assert!(many[0].is_ok() && many[2].is_ok(), "{many:?}");
        errors.extend(many.into_iter().filter_map(Result::err));
        assert_eq!(errors.len(), 3);
        for error in errors {
            assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
            let text = error.to_string();
            let names = [&missing.to_string(), third.address(), one.address()];
            assert!(names.iter().all(|name| text.contains(*name)), "{text}");
        }
        let after: Vec<_> = servers.iter().map(|server| asked(server)).collect();
        assert_eq!((after[0], &after[1..]), (before[0] + 2, &before[1..]), "nothing was sent");
    }
    let mut client = F::connect(all([&one, &third])).unwrap();
    let mut of_one = F::connect(all([&one])).unwrap();
    let other = of_one.submit_background("f", b"w", options()).unwrap().handle;
    assert!(client.status(&other).unwrap().is_known);
    let gone = other.on_server(third.address().parse().unwrap());
    assert!(!client.status(&gone).unwrap().is_known, "the job of another server was meant");
}

/// C4, C5 in front of any server: latency and pieces of a byte, within the deadlines.
fn a_slow_network_changes_nothing<F: Face>() {
    let in_memory = Server::start().unwrap();
    let real = real();
    for upstream in [in_memory.socket_addr(), real.as_ref().and_then(|real| real.socket_addr())] {
        let Some(upstream) = upstream else { continue };
        let proxy = Proxy::start(upstream).unwrap();
        let slow = Toxics::new().latency(Duration::from_millis(2)).slice(1, Duration::ZERO);
        proxy.spoil_replies(slow.clone());
        proxy.spoil_requests(slow);
        let address = proxy.address().to_string();
        let at = address.clone();
        let waits = thread::spawn(move || F::to(&at).run("f", b"w", options()).unwrap());
        let mut worker = F::Worker::of("f", &*address);
        let job = worker.next();
        worker.data(&job, "piece").unwrap();
        worker.complete(job, "result").unwrap();
        assert_eq!(waits.join().unwrap(), Outcome::Complete("result".into()));
        assert_eq!(worker.stop().completed, 1);
    }
}

/// A job that is submitted repeatedly, and queried in between, still keeps its caller's deadline.
fn the_deadline_of_a_job_bounds_its_repetitions<F: Face>() {
    const LIMIT: Duration = Duration::from_secs(2);
    let own_id = Unique::Id(UniqueId::try_from("own").unwrap());
    let bounds = |verb: &str, total: Option<Duration>, job: Option<Duration>| {
        let server = Server::start().unwrap();
        server.faults().add(Fault::always().of("SUBMIT_JOB").executed().hang());
        server.faults().add(Fault::always().of(verb).executed().hang());
        let patient = quick(server.address()).retry(RetryPolicy::new(1_000_000));
        // Several attempts fit into the time of the call.
        let patient = patient.reply_timeout(LIMIT / 4).total_timeout(total);
        let mut client = F::connect(patient).unwrap();
        let mut again = options().unique(own_id).idempotent(true);
        if let Some(job) = job {
            again = again.timeout(job);
        }
        let started = Instant::now();
        for error in [
            client.submit("f", b"w", again).map(drop).unwrap_err(),
            client.run("f", b"w", again).unwrap_err(),
        ] {
            assert_eq!(error.fate(), Fate::Unknown, "{error}");
        }
        assert!(started.elapsed() < PATIENCE, "{verb} {total:?} {job:?}");
    };
    thread::scope(|scope| {
        for verb in ["SUBMIT_JOB", "GET_STATUS_UNIQUE"] {
            for (total, job) in
                [(Some(LIMIT), None), (None, Some(LIMIT)), (Some(LIMIT), Some(1000 * LIMIT))]
            {
                scope.spawn(move || bounds(verb, total, job));
            }
        }
    });
}
