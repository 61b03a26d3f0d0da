//! Calls that are dropped in the middle: the next call gets its own answer, and no job is lost.

use std::{collections::HashSet, fmt::Debug, time::Duration};

use beanstalk_client::{
    Client, ErrorKind, Job, JobId, JobState, PutOptions, ReleaseOptions, Reserved, TubeName,
    protocol::{Delete, Effect, ListTubeUsed, Put, ReserveWithTimeout, Touch},
};
use fixtures::{
    beanstalkd::{Seed, Server},
    fault::Fault,
};
use queue_core::proof::{drop_after, runtime};

use crate::support::{
    Async, Environment, Face, Place, both_faces,
    catalogue::{self, Sample, Visitor},
    connectors::choppy_client,
    place::{PATIENCE, connect, options, start},
    scenarios,
};

const NOW: Duration = Duration::ZERO;

fn seed(server: &Server, body: &str, priority: u32) -> u64 {
    server.seed(Seed::new(body).priority(priority)).unwrap()
}

async fn client(server: &Server) -> Client {
    Client::connect(options(server.address())).await.unwrap()
}

/// Whether the reply has arrived when the call is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reply {
    Pending,
    Arrived,
}

impl Reply {
    fn wait(self, server: &Server) {
        if self == Reply::Arrived {
            // When this returns, everything that was sent has been executed, and its replies are in flight.
            let _ = server.requests();
        }
    }
}

/// The connection is in step if a request gets exactly its own answer, twice.
async fn assert_in_step(client: &mut Client, case: &str) {
    for tube in ["check-1", "check-2"] {
        client.use_tube(tube).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        let used = client.list_tube_used().await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(used, tube, "{case}");
    }
}

struct DropEverywhere;

impl Visitor for DropEverywhere {
    fn visit<C: Sample>(&mut self, command: C, _: &[&[u8]]) {
        // Reserves have their own tests, and an abandoned one ends its connection on purpose.
        if matches!(command.effect(), Effect::Reserve | Effect::ReserveJob) {
            return;
        }
        for reply in [Reply::Pending, Reply::Arrived] {
            let server = Server::start().unwrap();
            for _ in 0..7 {
                seed(&server, "a body of some length, so that its reply is several reads", 0);
            }
            let runtime = runtime();
            let mut drops = 0;
            loop {
                let done = runtime.block_on(async {
                    let mut client = choppy_client(server.address(), 16).await;
                    let epoch = client.epoch();
                    let outcome = drop_after(drops, client.call(&command)).await;
                    reply.wait(&server);
                    let case = format!("{} dropped after {drops} polls, reply {reply:?}", C::NAME);
                    assert_in_step(&mut client, &case).await;
                    assert_eq!(client.epoch(), epoch, "{case}");
                    outcome.is_some()
                });
                if done {
                    break;
                }
                drops += 1;
            }
            assert!(drops > 2, "{} was ready after {drops} polls", C::NAME);
        }
    }
}

#[test]
fn any_call_dropped_at_any_poll_leaves_the_next_its_own_answer() {
    catalogue::each(&mut DropEverywhere);
}

#[test]
fn a_call_that_was_never_polled_has_sent_nothing() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let mut client = client(&server).await;
        drop(client.put("x", PutOptions::default()));
        drop(client.reserve());
        drop(client.call_many([ReserveWithTimeout::new(NOW).unwrap()]));
        drop_after(0, client.delete(1)).await;
        assert_eq!(server.requests(), []);
    });
}

#[test]
fn a_dropped_connect_leaves_no_connection_behind() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        for polls in 0..8 {
            drop(drop_after(polls, client(&server)).await);
        }
    });
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
}

#[test]
fn a_dropped_reconnect_is_finished_by_the_next_call() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let mut client = client(&server).await;
        client.use_tube("mine").await.unwrap();
        for polls in 0..8 {
            let _ = drop_after(polls, client.reconnect()).await;
            assert_eq!(client.list_tube_used().await.unwrap(), "mine", "after {polls} polls");
        }
    });
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
}

#[test]
fn a_pipeline_dropped_at_any_poll_leaves_the_connection_in_step() {
    let server = Server::start().unwrap();
    let runtime = runtime();
    for polls in 0..60 {
        runtime.block_on(async {
            let mut client = choppy_client(server.address(), 16).await;
            let puts = (0..50).map(|n| Put::new(n.to_string(), PutOptions::default()).unwrap());
            let whole = async {
                let mut replies = client.call_many(puts).window(7);
                while let Some(reply) = replies.next().await {
                    let _ = reply.unwrap();
                }
            };
            drop_after(polls * 7, whole).await;
            assert_in_step(&mut client, &format!("dropped after {} polls", polls * 7)).await;
        });
    }
}

/// The command after a dropped reserve.
#[derive(Clone, Copy, Debug)]
enum Then {
    Reserve,
    Put,
    Touch,
    Watch,
    Look,
    Pair,
}

const THENS: [Then; 6] =
    [Then::Reserve, Then::Put, Then::Touch, Then::Watch, Then::Look, Then::Pair];

/// Counts what is delivered, as the checker of a queue does: everything put is delivered exactly once.
#[derive(Default)]
struct Delivered(HashSet<JobId>);

impl Delivered {
    async fn take(&mut self, client: &mut Client, job: Job) {
        let stats = client.stats_job(job.id).await.unwrap().unwrap();
        assert_eq!((stats.pri.get(), stats.releases, stats.buries), (7, 0, 0), "job {}", job.id);
        assert!(self.0.insert(job.id), "job {} was delivered twice", job.id);
        client.delete(&job).await.unwrap();
    }
}

/// B5 and total-queue: reserves dropped at every poll, with every possible next command.
#[test]
fn dropped_reserves_lose_no_job_and_change_no_priority() {
    for reply in [Reply::Pending, Reply::Arrived] {
        let server = Server::start().unwrap();
        for verb in ["reserve", "reserve-with-timeout"] {
            server.faults().add(Fault::always().of(verb).chunks(2));
        }
        let mut put = 200;
        for number in 0..put {
            seed(&server, &format!("{number}"), 7);
        }
        runtime().block_on(async {
            let mut client = client(&server).await;
            let mut delivered = Delivered::default();
            let late = ReserveWithTimeout::new(Duration::from_secs(30)).unwrap();
            for polls in 1..25 {
                for then in THENS {
                    let dropped = match polls % 3 {
                        0 => drop_after(polls, client.reserve()).await,
                        1 => drop_after(polls, client.call(&late)).await,
                        _ => drop_after(polls, client.reserve_with_timeout(NOW)).await,
                    };
                    reply.wait(&server);
                    if let Some(reserved) = dropped {
                        delivered.take(&mut client, reserved.unwrap().job().unwrap()).await;
                        continue;
                    }
                    let next = match then {
                        Then::Reserve => client.reserve_with_timeout(NOW).await.unwrap().job(),
                        Then::Pair => {
                            let gone = Delete::new(u64::MAX);
                            let (deleted, reserved) = client.call_pair(&gone, &late).await.unwrap();
                            assert_eq!(deleted.unwrap_err().kind(), ErrorKind::NotFound);
                            reserved.unwrap().job()
                        }
                        Then::Put => {
                            let options = PutOptions::default().priority(7);
                            let _ = client.put("more", options).await.unwrap();
                            put += 1;
                            None
                        }
                        Then::Touch => {
                            assert_eq!(
                                client.touch(u64::MAX).await.unwrap_err().kind(),
                                ErrorKind::NotFound
                            );
                            None
                        }
                        Then::Watch => {
                            client.watch(format!("tube-{polls}")).await.unwrap();
                            None
                        }
                        Then::Look => {
                            assert_eq!(client.list_tube_used().await.unwrap(), "default");
                            None
                        }
                    };
                    if let Some(job) = next {
                        delivered.take(&mut client, job).await;
                    }
                }
            }
            while let Some(job) = client.reserve_with_timeout(NOW).await.unwrap().job() {
                delivered.take(&mut client, job).await;
            }
            assert_eq!(delivered.0.len(), put, "reply {reply:?}");
        });
        assert_eq!(server.view().jobs, 0, "a job is still reserved by nobody, reply {reply:?}");
    }
}

/// A reserve that was not even written when its caller left.
#[test]
fn a_reserve_dropped_at_any_poll_hands_its_job_to_the_next() {
    for reply in [Reply::Pending, Reply::Arrived] {
        for zero in [true, false] {
            let server = Server::start().unwrap();
            let runtime = runtime();
            let mut polls = 0;
            loop {
                let id = seed(&server, "the only one", 7);
                let time = if zero { NOW } else { PATIENCE };
                let done = runtime.block_on(async {
                    let mut client = choppy_client(server.address(), 3).await;
                    let dropped = drop_after(polls, client.reserve_with_timeout(time)).await;
                    reply.wait(&server);
                    let done = dropped.is_some();
                    let reserved = match dropped {
                        Some(reserved) => reserved.unwrap(),
                        None => client.reserve_with_timeout(NOW).await.unwrap(),
                    };
                    // An earlier reserve that the server may hold back is only waited for as long as this one may wait.
                    let job = match reserved.job() {
                        Some(job) => job,
                        None => client.reserve().await.unwrap().job().unwrap(),
                    };
                    assert_eq!(job.id.get(), id, "dropped after {polls} polls");
                    client.delete(&job).await.unwrap();
                    done
                });
                assert_eq!(server.view().jobs, 0);
                if done {
                    break;
                }
                polls += 1;
            }
            assert!(polls > 10);
        }
    }
}

/// B5 over a pair: the delete may be executed or not, but the reserved job is not lost.
#[test]
fn dropped_pairs_lose_no_job() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("reserve-with-timeout").chunks(2));
    for number in 0..60 {
        seed(&server, &number.to_string(), 7);
    }
    runtime().block_on(async {
        let mut client = client(&server).await;
        let next = ReserveWithTimeout::new(NOW).unwrap();
        let mut polls = 0;
        let mut held: Option<Job> = None;
        let mut taken = HashSet::new();
        loop {
            polls = polls % 13 + 1;
            let Some(job) = held.take() else {
                match client.call(&next).await.unwrap() {
                    Reserved::Job(job) => held = Some(job),
                    _ => break,
                }
                continue;
            };
            taken.insert(job.id);
            if let Some(pair) = drop_after(polls, client.call_pair(&Delete::new(&job), &next)).await
            {
                let (deleted, reserved) = pair.unwrap();
                deleted.unwrap();
                held = reserved.unwrap().job();
            }
        }
        assert_eq!(taken.len(), 60);
    });
    // What the dropped deletes did not reach is reserved and deleted again.
    assert_eq!(server.view().jobs, 0);
}

fn lines(server: &Server) -> Vec<String> {
    server.requests().iter().map(|request| request.text()).collect()
}

#[test]
fn a_dropped_reserve_by_id_gives_the_job_back() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("reserve-job").chunks(1));
    let id = seed(&server, "x", 7);
    let mut other: Async = connect(server.address());
    let mut face: Async = connect(server.address());
    for polls in 1..20 {
        let Async { client, runtime } = &mut face;
        match runtime.block_on(drop_after(polls, client.reserve_job(id))) {
            Some(job) => {
                let job = job.unwrap().unwrap();
                face.release(&job, ReleaseOptions::new(7)).unwrap();
            }
            None => {
                // Closing happens once the next call has seen the reply.
                let _ = server.requests();
                assert_eq!(face.list_tube_used().unwrap(), "default");
                assert_eq!(face.list_tube_used().unwrap(), "default");
            }
        }
        let job = other.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
        assert_eq!(other.stats_job(id).unwrap().unwrap().pri.get(), 7, "after {polls} polls");
        other.release(&job, ReleaseOptions::new(7)).unwrap();
    }
}

#[test]
fn a_delete_that_was_dropped_is_not_sent_twice() {
    let server = Server::start().unwrap();
    let mut face: Async = connect(server.address());
    for polls in 0..4 {
        let id = seed(&server, "x", 0);
        server.clear_requests();
        let Async { client, runtime } = &mut face;
        runtime.block_on(async { drop(drop_after(polls, client.delete(id)).await) });
        let _ = face.list_tube_used().unwrap();
        let deletes = lines(&server).iter().filter(|line| line.starts_with("delete")).count();
        assert_eq!(deletes, usize::from(polls > 0), "after {polls} polls");
    }
}

scenarios!(a_touch_behind_a_dropped_reserve_keeps_its_job,);

/// A job that the client holds while the server keeps a reserve waiting for it, whose caller has gone.
fn hold_behind_a_reserve<F: Face>(place: &Place, client: &mut F, reserve: Duration) -> Job {
    let mut other: F = place.connect();
    let _ = other.put(b"held", PutOptions::default()).unwrap();
    let commands = [NOW, reserve].map(|time| ReserveWithTimeout::new(time).unwrap());
    let held = client.call_some(2, 1, commands).remove(0).unwrap().job().unwrap();
    while other.stats().unwrap().current_waiting == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    held
}

fn a_touch_behind_a_dropped_reserve_keeps_its_job<F: Face>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let epoch = client.epoch();
    let job = hold_behind_a_reserve(&place, &mut client, Duration::from_secs(1));
    client.touch(&job).unwrap();
    assert!(client.is_connected());
    let stats = client.stats_job(job.id).unwrap().unwrap();
    assert_eq!((stats.state, client.epoch()), (JobState::Reserved, epoch));
    let (touched, used) = client.call_pair(&Touch::new(&job), &ListTubeUsed).unwrap();
    touched.unwrap();
    used.unwrap();
    client.delete(&job).unwrap();
}

both_faces!(
    unclaimed_jobs_are_released_when_the_watch_list_changes,
    an_unclaimed_job_is_forgotten_with_its_connection,
);

/// Reserves jobs with dropped calls, and makes the client read them.
fn leave_behind<F: Face>(server: &Server, client: &mut F, jobs: usize) {
    for _ in 0..jobs {
        seed(server, "x", 7);
    }
    let look = ReserveWithTimeout::new(NOW).unwrap();
    let first = client.call_some(jobs, 1, vec![look; jobs]);
    let first = first[0].as_ref().unwrap().clone().job().unwrap();
    client.delete(&first).unwrap();
}

/// B7, for jobs whose replies were read on the way to another one.
fn unclaimed_jobs_are_released_when_the_watch_list_changes<F: Face>() {
    let server = Server::start().unwrap();
    for change in ["watch", "ignore"] {
        let mut client: F = connect(server.address());
        client.watch("second").unwrap();
        leave_behind(&server, &mut client, 5);
        assert_eq!(client.list_tube_used().unwrap(), "default");
        match change {
            "watch" => client.watch("third").unwrap(),
            _ => client.ignore("default").unwrap(),
        };
        let expected: Vec<TubeName> = client.watched_tubes().to_vec();
        if change == "ignore" {
            assert_eq!(client.reserve_with_timeout(NOW).unwrap(), Reserved::TimedOut);
        }
        assert_eq!(client.list_tubes_watched().unwrap(), expected);
        let mut other: F = connect(server.address());
        for _ in 0..4 {
            let job = other.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
            assert_eq!(other.stats_job(job.id).unwrap().unwrap().pri.get(), 7);
            other.delete(&job).unwrap();
        }
    }
    assert_eq!(server.view().jobs, 0);
}

fn an_unclaimed_job_is_forgotten_with_its_connection<F: Face>() {
    let (server, mut client) = start::<F>();
    leave_behind(&server, &mut client, 3);
    server.close_connections();
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
    assert!(!client.check_connection());
    let mut seen = HashSet::new();
    while let Some(job) = client.reserve_with_timeout(NOW).unwrap().job() {
        assert!(seen.insert(job.id));
        client.delete(&job).unwrap();
    }
    assert_eq!((seen.len(), server.view().jobs), (2, 0));
}
