//! `Client::jobs`: what is listed, and what stays as it was.

use beanstalk_client::{
    Client, Error, ErrorKind, JobFilter, JobState, JobStats, PutOptions, ReleaseOptions, TubeName,
    protocol::{Delete, Put},
};
use fixtures::{fault::Fault, real::Beanstalkd};
use queue_core::proof::{drop_after, runtime};

use crate::support::{
    Environment, Face, both_faces,
    connectors::choppy_client,
    each_server,
    place::{connect, options, start},
    scenarios,
};

scenarios!(
    jobs_are_listed_by_state_tube_and_id_without_being_taken,
    a_listing_that_is_dropped_leaves_the_connection_in_step,
);

/// Gives a job's id to this many jobs that are gone.
fn use_up_ids(client: &mut impl Face, count: u64) {
    let next = client.put(b"", PutOptions::default()).unwrap().id().get();
    client.delete(next).unwrap();
    let puts = (1..count).map(|_| Put::new("", PutOptions::default()).unwrap());
    assert!(client.call_many(puts).iter().all(Result::is_ok));
    let deletes = (next + 1..next + count).map(Delete::new);
    assert!(client.call_many(deletes).iter().all(Result::is_ok));
}

fn put(client: &mut impl Face, tube: &str, options: PutOptions) -> u64 {
    client.use_tube(tube).unwrap();
    client.put(b"body", options).unwrap().id().get()
}

fn ids(jobs: Vec<Result<JobStats, Error>>) -> Vec<u64> {
    jobs.into_iter().map(|job| job.unwrap().id.get()).collect()
}

fn all(client: &mut impl Face, filter: impl Into<JobFilter>) -> Vec<u64> {
    let (jobs, missing) = client.jobs(filter, usize::MAX);
    assert_eq!(missing, 0);
    ids(jobs)
}

fn jobs_are_listed_by_state_tube_and_id_without_being_taken<F: Face>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    assert_eq!(all(&mut client, JobFilter::default()), [0; 0]);
    let delay = PutOptions::default().delay(std::time::Duration::from_secs(3600));
    let long = PutOptions::default().ttr(std::time::Duration::from_secs(3600));
    let ready = put(&mut client, "a", long);
    let delayed = put(&mut client, "b", delay);
    let buried = put(&mut client, "b", long);
    let job = client.reserve_job(buried).unwrap();
    let is_known = job.is_some();
    if let Some(job) = job {
        client.bury(&job, 5).unwrap();
    }
    let mut holder: F = place.connect();
    holder.watch_only(vec!["c"]).unwrap();
    let reserved = put(&mut client, "c", long);
    let held = holder.reserve().unwrap().job().unwrap();

    client.use_tube("mine").unwrap();
    assert_eq!(all(&mut client, JobFilter::default()), [reserved, buried, delayed, ready]);
    assert_eq!(all(&mut client, JobState::Ready), [ready]);
    assert_eq!(all(&mut client, JobState::Delayed), [delayed]);
    assert_eq!(all(&mut client, JobState::Reserved), [reserved]);
    assert_eq!(all(&mut client, JobState::Buried), [buried]);
    assert!(is_known);
    let both = JobFilter::from(JobState::Buried).state(JobState::Ready);
    assert_eq!(all(&mut client, both), [buried, ready]);
    let of_b = || JobFilter::default().tube("b").unwrap();
    assert_eq!(all(&mut client, of_b()), [buried, delayed]);
    assert_eq!(all(&mut client, of_b().state(JobState::Delayed)), [delayed]);
    assert_eq!(all(&mut client, of_b().newest(1)), [buried]);
    assert_eq!(all(&mut client, JobFilter::default().tube("none").unwrap()), [0; 0]);
    assert_eq!(all(&mut client, JobFilter::default().ids(delayed..=buried)), [buried, delayed]);
    assert_eq!(JobFilter::default().tube("a b").unwrap_err().kind(), ErrorKind::InvalidInput);

    // A few among many ids are found by the first ones of tubes.
    use_up_ids(&mut client, 1500);
    let (jobs, _) = client.jobs(JobState::Buried, usize::MAX);
    let job = jobs.into_iter().next().unwrap().unwrap();
    assert_eq!((job.id.get(), job.tube, job.pri.get()), (buried, "b".try_into().unwrap(), 5));
    assert_eq!((job.reserves, job.buries), (1, 1));
    assert_eq!(*client.used_tube(), "mine");
    assert_eq!(client.list_tube_used().unwrap(), "mine");
    holder.release(&held, ReleaseOptions::new(0)).unwrap();
}

fn a_listing_that_is_dropped_leaves_the_connection_in_step<F: Face>(environment: Environment) {
    let (_place, mut client) = environment.with_client::<F>();
    use_up_ids(&mut client, 1100);
    let jobs: Vec<u64> =
        (0..120).map(|n| put(&mut client, &format!("t{n}"), PutOptions::default())).collect();
    client.use_tube("mine").unwrap();
    for take in [0, 1, 119, 120, usize::MAX] {
        let (listed, _) = client.jobs(JobFilter::default(), take);
        assert_eq!(listed.len(), take.min(jobs.len()));
        assert_eq!(client.list_tube_used().unwrap(), "mine", "after {take}");
        let inserted = client.put(b"", PutOptions::default()).unwrap();
        assert_eq!(client.stats_job(inserted.id()).unwrap().unwrap().tube, "mine");
        client.delete(inserted.id()).unwrap();
    }
}

/// While its first jobs are asked for, the server uses other tubes for this connection.
fn a_listing_dropped_at_any_poll_restores_the_used_tube(environment: Environment) {
    let place = environment.start();
    runtime().block_on(async {
        let mut setup = Client::connect(options(place.address())).await.unwrap();
        for _ in 0..1100 {
            let id = setup.put("", PutOptions::default()).await.unwrap().id();
            setup.delete(id).await.unwrap();
        }
        for tube in ["a", "b"] {
            setup.use_tube(tube).await.unwrap();
            let _ = setup.put("", PutOptions::default()).await.unwrap();
        }
        let mut were_others = false;
        for polls in 0.. {
            let mut client = choppy_client(place.address(), 3).await;
            client.use_tube("mine").await.unwrap();
            let mut jobs = client.jobs(JobFilter::default());
            let first = drop_after(polls, jobs.next()).await;
            were_others |= first.is_none();
            let using = client.list_tube_used().await.unwrap();
            assert_eq!(using, TubeName::try_from("mine").unwrap(), "after {polls} polls");
            if let Some(first) = first {
                assert_eq!(first.unwrap().unwrap().state, JobState::Ready);
                break;
            }
        }
        assert!(were_others);
    });
}

each_server!(a_listing_dropped_at_any_poll_restores_the_used_tube);

/// The server starts to count puts anew, and keeps the ids.
fn jobs_above_the_count_of_puts_are_listed_after_a_restart<F: Face>() {
    let directory = tempfile::tempdir().unwrap();
    let builder = Beanstalkd::builder().arg("-b").arg(directory.path());
    let Some(mut real) = builder.start() else { return };
    let mut client: F = connect(real.address());
    let first = put(&mut client, "default", PutOptions::default());
    use_up_ids(&mut client, 1500);
    let last = put(&mut client, "default", PutOptions::default());
    real.kill();
    real.restart().unwrap();
    let mut client: F = connect(real.address());
    let mut found = all(&mut client, JobFilter::default());
    found.sort_unstable();
    assert_eq!(found, [first, last]);
}

/// The search believes it when a job that it has just seen is gone, and looks for another.
fn a_job_that_goes_meanwhile_is_searched_for_elsewhere<F: Face>() {
    let (server, mut client) = start::<F>();
    use_up_ids(&mut client, 1500);
    let mut jobs: Vec<u64> =
        ["a", "b", "c"].map(|tube| put(&mut client, tube, PutOptions::default())).to_vec();
    jobs.reverse();
    server.faults().add(Fault::nth(2).of("stats-job").reply("NOT_FOUND"));
    assert_eq!(all(&mut client, JobFilter::default()), jobs);
    assert_eq!(server.faults().struck(), 1);
}

fn a_listing_ends_with_its_connection_and_the_next_one_is_whole<F: Face>() {
    let (server, mut client) = start::<F>();
    let mut jobs: Vec<u64> = (0..5).map(|_| put(&mut client, "t", PutOptions::default())).collect();
    jobs.reverse();
    server.faults().add(Fault::nth(3).of("stats-job").cut_after(4));
    let (mut listed, missing) = client.jobs(JobFilter::default(), usize::MAX);
    let error = listed.pop().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.command()), (ErrorKind::ConnectionLost, Some("stats-job")));
    assert_eq!((ids(listed).as_slice(), missing), (&jobs[..2], 0));
    assert_eq!(all(&mut client, JobFilter::default()), jobs);
    assert_eq!(client.list_tube_used().unwrap(), "t");
}

/// While the first jobs of tubes are asked for, the server uses these tubes for the connection.
fn a_listing_that_cannot_restore_the_used_tube_ends_its_connection<F: Face>() {
    let (server, mut client) = start::<F>();
    use_up_ids(&mut client, 1500);
    put(&mut client, "other", PutOptions::default());
    client.use_tube("mine").unwrap();
    let tubes = client.list_tubes().unwrap().len() as u64;
    server.faults().add(Fault::nth(tubes + 1).of("use").reply("OUT_OF_MEMORY"));
    let (mut listed, _) = client.jobs(JobFilter::default(), usize::MAX);
    let error = listed.pop().unwrap().unwrap_err();
    assert_eq!((error.kind(), server.faults().struck()), (ErrorKind::Protocol, 1), "{error}");
    let inserted = client.put(b"", PutOptions::default()).unwrap();
    assert_eq!(client.stats_job(inserted.id()).unwrap().unwrap().tube, "mine");
}

/// Whatever other tubes there are.
fn only_the_given_tubes_are_searched<F: Face>() {
    let (_server, mut client) = start::<F>();
    use_up_ids(&mut client, 1500);
    let jobs = ["a", "b"].map(|tube| put(&mut client, tube, PutOptions::default()));
    let before = client.stats().unwrap().cmd_use;
    assert_eq!(all(&mut client, JobFilter::default().tube("a").unwrap()), jobs[..1]);
    assert_eq!(all(&mut client, JobState::Buried), [0; 0]);
    assert_eq!(client.stats().unwrap().cmd_use - before, 2, "for the first ones of a, and back");
}

both_faces!(
    a_listing_that_cannot_restore_the_used_tube_ends_its_connection,
    only_the_given_tubes_are_searched,
    jobs_above_the_count_of_puts_are_listed_after_a_restart,
    a_job_that_goes_meanwhile_is_searched_for_elsewhere,
    a_listing_ends_with_its_connection_and_the_next_one_is_whole,
);
