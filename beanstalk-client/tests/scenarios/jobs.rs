//! Scenarios of a job's life: put, reserve, delete, release, bury, kick, touch.

use std::{thread, time::Duration};

use beanstalk_client::{ErrorKind, Fate, JobState, PutOptions, ReleaseOptions, Released, Reserved};

use crate::support::{Environment, Face, place::PATIENCE, scenarios};

const NOW: Duration = Duration::ZERO;

fn put<F: Face>(client: &mut F, body: &str, priority: u32) -> u64 {
    let options = PutOptions::default().priority(priority);
    client.put(body.as_bytes(), options).unwrap().id().get()
}

scenarios!(
    bodies_of_every_kind_round_trip,
    a_body_that_looks_like_commands_stays_a_body,
    a_body_over_the_servers_limit_is_refused_and_the_connection_stays,
    an_empty_queue_times_out,
    a_waiting_reserve_gets_a_job_that_is_put_later,
    each_call_acts_on_the_job_that_it_names,
    commands_on_a_reserved_job_are_refused_to_others,
    kick_takes_delayed_jobs_only_when_none_is_buried,
    a_job_whose_time_to_run_is_over_goes_to_another,
    a_closed_connection_gives_its_jobs_back_unchanged,
    finishing_and_the_next_reserve_share_a_round_trip,
);

fn bodies_of_every_kind_round_trip<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let bodies: [Vec<u8>; 7] = [
        Vec::new(),
        "gr\u{fc}\u{df} \u{1f980}, with spaces".into(),
        (0..=u8::MAX).collect(),
        b"\r\n".to_vec(),
        b"\0\0\0".to_vec(),
        vec![b'\n'; 65_535],
        vec![0xff; 65_534],
    ];
    for body in bodies {
        let id = client.put(&body, PutOptions::default()).unwrap().id();
        assert_eq!(client.peek(id).unwrap().unwrap().body, body);
        let job = client.reserve_with_timeout(NOW).unwrap().job().unwrap();
        assert_eq!((job.id, &job.body), (id, &body.clone().into()));
        client.delete(&job).unwrap();
    }
}

fn a_body_that_looks_like_commands_stays_a_body<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let keep = put(&mut client, "keep", 0);
    let body = format!("\r\ndelete {keep}\r\nput 0 0 1 1\r\nx\r\nquit\r\n");
    let id = put(&mut client, &body, 5);
    let stats = client.stats().unwrap();
    assert_eq!((stats.total_jobs, stats.cmd_delete, stats.cmd_put), (2, 0, 2));
    assert_eq!(client.peek(id).unwrap().unwrap().body, body);
    assert!(client.peek(keep).unwrap().is_some());
}

fn a_body_over_the_servers_limit_is_refused_and_the_connection_stays<F: Face>(
    environment: Environment,
) {
    let place = environment.start_with_max_job_size(10);
    let mut client: F = place.connect();
    let epoch = client.epoch();
    let _ = client.put(&[b'x'; 10], PutOptions::default()).unwrap();
    for size in [11, 70_000] {
        let error = client.put(&vec![b'\n'; size], PutOptions::default()).unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::JobTooBig, Fate::Refused));
        assert_eq!(error.command(), Some("put"));
        assert!(!error.is_temporary());
        assert!(client.is_connected());
    }
    assert_eq!(client.list_tube_used().unwrap(), "default");
    assert_eq!(client.stats().unwrap().max_job_size, 10);
    assert_eq!(client.epoch(), epoch);
}

fn an_empty_queue_times_out<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    assert_eq!(client.reserve_with_timeout(NOW).unwrap(), Reserved::TimedOut);
    // Rounded up: the server, not the client, waits.
    let outcome = client.reserve_with_timeout(Duration::from_millis(1)).unwrap();
    assert_eq!(outcome, Reserved::TimedOut);
    assert!(client.is_connected());
    assert_eq!(client.stats().unwrap().cmd_reserve_with_timeout, 2);
}

fn a_waiting_reserve_gets_a_job_that_is_put_later<F: Face>(environment: Environment) {
    let place = environment.start();
    let address = place.address().to_owned();
    let mut producer: F = place.connect();
    let consumers: Vec<_> = (0..2)
        .map(|number| {
            let mut client: F = crate::support::place::connect(&address);
            thread::spawn(move || {
                let reserved = if number == 0 {
                    client.reserve()
                } else {
                    client.reserve_with_timeout(PATIENCE)
                };
                let job = reserved.unwrap().job().unwrap();
                client.delete(&job).unwrap();
                job.body
            })
        })
        .collect();
    while producer.stats().unwrap().current_waiting < 2 {
        thread::yield_now();
    }
    put(&mut producer, "x", 0);
    put(&mut producer, "y", 0);
    let mut bodies: Vec<_> = consumers.into_iter().map(|thread| thread.join().unwrap()).collect();
    bodies.sort();
    assert_eq!(bodies, ["x", "y"]);
}

fn each_call_acts_on_the_job_that_it_names<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    client.use_tube("a").unwrap();
    let id = put(&mut client, "x", 7);
    let found = client.peek_ready().unwrap().unwrap();
    assert_eq!((found.id.get(), &*found.body, found.is_reserved()), (id, &b"x"[..], false));
    let job = client.reserve_job(id).unwrap().unwrap();
    assert_eq!((job.id.get(), &*job.body, job.is_reserved()), (id, &b"x"[..], true));
    let later = ReleaseOptions::new(3).delay(Duration::from_secs(100));
    assert_eq!(client.release(&job, later).unwrap(), Released::Queued);
    let stats = client.stats_job(id).unwrap().unwrap();
    assert_eq!((stats.state, stats.pri.get(), stats.delay), (JobState::Delayed, 3, 100));
    assert_eq!(client.peek_delayed().unwrap().unwrap().id.get(), id);
    let job = client.reserve_job(id).unwrap().unwrap();
    client.bury(&job, 0).unwrap();
    assert_eq!(client.peek_buried().unwrap().unwrap().id.get(), id);
    client.use_tube("b").unwrap();
    assert_eq!(client.peek_ready().unwrap(), None);
    assert_eq!(client.peek_delayed().unwrap(), None);
    assert_eq!(client.peek_buried().unwrap(), None);
    // An id names the job wherever it is, also without the reservation.
    assert_eq!(client.peek(id).unwrap().unwrap().body, "x");
    client.delete(id).unwrap();
    assert_eq!(client.peek(id).unwrap(), None);
    assert_eq!(client.reserve_job(id).unwrap(), None);
}

fn commands_on_a_reserved_job_are_refused_to_others<F: Face>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let mut other: F = place.connect();
    let id = put(&mut client, "a", 0);
    let job = client.reserve().unwrap().job().unwrap();
    client.touch(&job).unwrap();
    for (command, error) in [
        ("touch", other.touch(id).unwrap_err()),
        ("release", other.release(id, ReleaseOptions::new(0)).unwrap_err()),
        ("bury", other.bury(id, 0).unwrap_err()),
        ("delete", other.delete(id).unwrap_err()),
    ] {
        assert_eq!((error.kind(), error.fate()), (ErrorKind::NotFound, Fate::Refused));
        assert_eq!(error.command(), Some(command));
    }
    assert_eq!(other.reserve_job(id).unwrap(), None);
    client.touch(id).unwrap();
}

fn kick_takes_delayed_jobs_only_when_none_is_buried<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    let hour = PutOptions::default().delay(Duration::from_secs(3600));
    let late = client.put(b"late", hour.delay(Duration::from_secs(7200))).unwrap().id();
    let soon = client.put(b"soon", hour).unwrap().id();
    let buried = put(&mut client, "buried", 0);
    let job = client.reserve_job(buried).unwrap().unwrap();
    client.bury(&job, 0).unwrap();
    assert_eq!(client.kick(10).unwrap(), 1);
    assert_eq!(client.peek_ready().unwrap().unwrap().id.get(), buried);
    assert_eq!(client.peek_delayed().unwrap().unwrap().id, soon);
    assert_eq!(client.kick(1).unwrap(), 1);
    assert_eq!(client.peek_delayed().unwrap().unwrap().id, late);
    client.kick_job(late).unwrap();
    assert_eq!(client.peek_delayed().unwrap(), None);
    let error = client.kick_job(late).unwrap_err();
    assert_eq!((error.kind(), error.command()), (ErrorKind::NotFound, Some("kick-job")));
}

fn a_job_whose_time_to_run_is_over_goes_to_another<F: Face>(environment: Environment) {
    let (place, mut first) = environment.with_client::<F>();
    let mut second: F = place.connect();
    let options = PutOptions::default().ttr(Duration::from_secs(1)).priority(7);
    let id = first.put(b"x", options).unwrap().id();
    let job = first.reserve().unwrap().job().unwrap();
    let again = (0..PATIENCE.as_secs())
        .find_map(|_| {
            // The real server sometimes forgets the timer of a connection until that connection speaks again
            // (beanstalkd/beanstalkd#262, #380), so it is made to.
            first.list_tube_used().unwrap();
            second.reserve_with_timeout(Duration::from_secs(1)).unwrap().job()
        })
        .expect("the job becomes ready");
    assert_eq!((job.id, again.id), (id, id));
    let error = first.delete(&job).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let stats = second.stats_job(id).unwrap().unwrap();
    assert_eq!((stats.timeouts, stats.reserves, stats.pri.get()), (1, 2, 7));
    second.delete(&again).unwrap();
}

fn a_closed_connection_gives_its_jobs_back_unchanged<F: Face>(environment: Environment) {
    let (place, mut holder) = environment.with_client::<F>();
    let mut other: F = place.connect();
    let id = put(&mut holder, "x", 77);
    let _ = holder.reserve().unwrap().job().unwrap();
    drop(holder);
    let job = other.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
    let stats = other.stats_job(id).unwrap().unwrap();
    assert_eq!(job.id.get(), id);
    assert_eq!((stats.pri.get(), stats.reserves, stats.timeouts, stats.releases), (77, 2, 0, 0));
}

fn finishing_and_the_next_reserve_share_a_round_trip<F: Face>(environment: Environment) {
    use beanstalk_client::protocol::{Delete, ReserveWithTimeout};

    let (_place, mut client) = environment.with_client::<F>();
    let ids: Vec<u64> = (0..3).map(|_| put(&mut client, "x", 0)).collect();
    let next = ReserveWithTimeout::new(NOW).unwrap();
    let mut job = client.call(&next).unwrap().job();
    let mut seen = Vec::new();
    while let Some(held) = job {
        seen.push(held.id.get());
        let (deleted, reserved) = client.call_pair(&Delete::new(&held), &next).unwrap();
        deleted.unwrap();
        job = reserved.unwrap().job();
    }
    assert_eq!(seen, ids);
    // Each of the two has its own result.
    let id = put(&mut client, "y", 0);
    let (deleted, reserved) = client.call_pair(&Delete::new(999), &next).unwrap();
    assert_eq!(deleted.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(reserved.unwrap().job().unwrap().id.get(), id);
}
