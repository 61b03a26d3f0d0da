//! Tests of the worker role, without sockets and clocks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Grab, JobEnd, Report, Settled, WorkerSession};
use crate::{
    ClientId, ErrorKind, FunctionName, JobHandle, JobLimit,
    protocol::{Magic, Packet, PacketType, decoder::tests::requests},
};

const REGRAB: Duration = Duration::from_secs(10);

struct Bench {
    worker: WorkerSession,
    now: Instant,
}

impl Bench {
    /// A worker of `f` that has sent nothing yet.
    fn of(places: usize, regrab: Duration, timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        let mut worker = session(places, regrab, now);
        worker.can_do(&function("f"), timeout);
        worker.start();
        Bench { worker, now }
    }

    /// A worker with this number of places that is registered and has sent its first grab.
    fn started(places: usize) -> Self {
        let mut bench = Bench::of(places, REGRAB, None);
        assert_eq!(bench.sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
        bench
    }

    /// The same with a job.
    fn with_job(places: usize) -> (Self, JobHandle) {
        let mut bench = Bench::started(places);
        let job = bench.gets_job(1);
        (bench, job)
    }

    /// The same with a job that runs.
    fn begun(places: usize) -> (Self, JobHandle) {
        let (mut bench, job) = Bench::with_job(places);
        bench.worker.begin(&job);
        (bench, job)
    }

    /// The same with a limit, before it has sent anything.
    fn limited(places: usize, limit: &JobLimit) -> Self {
        let mut bench = Bench::of(places, REGRAB, None);
        bench.worker.set_limit(limit.clone());
        bench
    }

    /// What it sends.
    fn sent(&mut self) -> Vec<String> {
        self.packets().iter().map(|packet| packet.packet_type.to_string()).collect()
    }

    fn packets(&mut self) -> Vec<Packet> {
        self.worker.poll(self.now);
        let wire = self.worker.outgoing().to_vec();
        self.worker.sent(wire.len());
        requests(&wire)
    }

    fn gets(&mut self, packet_type: PacketType, arguments: &[&str]) -> Option<JobHandle> {
        let packet = Packet::new(Magic::Response, packet_type, arguments).unwrap();
        self.worker.accept(&packet, self.now).unwrap().map(|job| job.handle)
    }

    fn gets_job(&mut self, number: u32) -> JobHandle {
        self.worker.poll(self.now);
        let handle = format!("H:x:{number}");
        self.gets(PacketType::JobAssignAll, &[&handle, "f", "u", "", "w"]).unwrap()
    }

    fn completes(&mut self, job: &JobHandle) {
        self.worker.finish(job, JobEnd::Complete(b"r"), self.now).unwrap();
    }

    /// What it sends when this has come.
    fn sent_on(&mut self, packet_type: PacketType, arguments: &[&str]) -> Vec<String> {
        self.gets(packet_type, arguments);
        self.sent()
    }

    fn sent_after(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        self.sent()
    }

    fn sent_with_end(&mut self, job: &JobHandle) -> Vec<String> {
        self.completes(job);
        self.sent()
    }

    /// What it sends first on the next connection.
    fn reopens(&mut self) -> Vec<String> {
        self.worker.close();
        self.worker.reopen(self.now);
        self.sent()
    }

    fn settled(&mut self) -> Vec<Settled> {
        self.worker.settled().collect()
    }
}

#[test]
fn a_failed_job_ends_once_its_dead_letter_is_confirmed() {
    for is_taken in [true, false] {
        let mut bench = Bench::started(1);
        bench.worker.set_dead_letter(function("dead"));
        let job = bench.gets_job(1);
        bench.sent_with_end(&job);
        let job = bench.gets_job(2);
        bench.worker.finish(&job, JobEnd::Exception(b"why"), bench.now).unwrap();
        assert_eq!(bench.sent(), ["SUBMIT_JOB_BG"]);
        assert!(bench.worker.confirmations.is_waiting(u64::MAX), "an answer is due");
        assert_eq!((bench.settled(), bench.worker.running()), (vec![Settled::Completed], 1));
        if is_taken {
            assert_eq!(
                bench.sent_on(PacketType::JobCreated, &["H:x:9"]),
                ["WORK_EXCEPTION", "GRAB_JOB_ALL"]
            );
        } else {
            bench.gets(PacketType::Error, &["QUEUE_ERROR", "Job queue is full"]);
            assert!(bench.sent().is_empty() && bench.worker.is_spent());
            assert_eq!(bench.settled(), [Settled::GivenBack]);
        }
        let posted: Vec<_> = bench.worker.posted().collect();
        let [letter] = &posted[..] else { panic!("{posted:?}") };
        assert_eq!((&*letter.reason, letter.refusal.is_none()), ("why", is_taken));
    }
}

#[test]
fn a_dead_letter_that_is_lost_with_its_connection_costs_no_place() {
    let mut bench = Bench::started(1);
    bench.worker.set_dead_letter(function("dead"));
    let job = bench.gets_job(1);
    bench.worker.begin(&job);
    bench.worker.finish(&job, JobEnd::Fail, bench.now).unwrap();
    bench.worker.reopen(bench.now);
    assert_eq!(bench.settled(), [Settled::Abandoned]);
    assert_eq!(bench.sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
    assert_eq!(bench.worker.posted().count(), 0);
}

#[test]
fn each_report_and_each_end_is_one_packet_and_its_fate_is_known() {
    let mut bench = Bench::started(1);
    for (number, end, packet, fate) in [
        (1, JobEnd::Complete(b"r"), "WORK_COMPLETE", Settled::Completed),
        (2, JobEnd::Fail, "WORK_FAIL", Settled::Failed),
        (3, JobEnd::Exception(b"why"), "WORK_EXCEPTION", Settled::Failed),
    ] {
        let job = bench.gets_job(number);
        bench.worker.report(&job, Report::Status(1, 2)).unwrap();
        bench.worker.report(&job, Report::Data(b"piece")).unwrap();
        bench.worker.report(&job, Report::Warning(b"hot")).unwrap();
        assert_eq!(bench.sent(), ["WORK_STATUS", "WORK_DATA", "WORK_WARNING"]);
        assert!(bench.worker.holds(&job));
        bench.worker.finish(&job, end, bench.now).unwrap();
        assert!(!bench.worker.holds(&job));
        assert_eq!(bench.sent(), [packet, "GRAB_JOB_ALL"]);
        bench.gets(PacketType::NoJob, &[]);
        assert_eq!(bench.settled(), [fate]);
        assert!(!bench.worker.has_unconfirmed() && bench.worker.is_asleep());
        bench.sent_on(PacketType::Noop, &[]);
    }
}

#[test]
fn the_end_of_a_job_wakes_a_sleeper() {
    let (mut bench, job) = Bench::with_job(2);
    assert_eq!(bench.sent(), ["GRAB_JOB_ALL"]);
    assert_eq!(bench.sent_on(PacketType::NoJob, &[]), ["PRE_SLEEP"]);
    assert_eq!(bench.sent_with_end(&job), ["WORK_COMPLETE", "GRAB_JOB_ALL"]);
}

#[test]
fn quirk_noop_between_a_grab_and_its_answer_changes_nothing() {
    let mut bench = Bench::started(1);
    assert!(bench.sent_on(PacketType::Noop, &[]).is_empty());
    let job = bench.gets_job(1);
    assert!(bench.sent_on(PacketType::Noop, &[]).is_empty());
    assert_eq!(bench.sent_with_end(&job), ["WORK_COMPLETE", "GRAB_JOB_ALL"]);
}

#[test]
fn grabs_under_way_double_while_they_bring_jobs() {
    let mut bench = Bench::started(8);
    bench.gets_job(1);
    assert_eq!(bench.sent().len(), 2);
    bench.gets_job(2);
    assert_eq!(bench.sent().len(), 3, "4 under way");
    bench.gets_job(3);
    assert_eq!(bench.sent().len(), 2, "5 free places, 3 grabs under way");
    assert!(bench.sent_on(PacketType::NoJob, &[]).is_empty(), "other grabs are under way");
    for _ in 0..4 {
        bench.gets(PacketType::NoJob, &[]);
    }
    assert_eq!(bench.sent(), ["PRE_SLEEP"]);
}

#[test]
fn quirk_a_sleeper_without_a_wake_up_polls_again() {
    let mut bench = Bench::started(1);
    bench.sent_on(PacketType::NoJob, &[]);
    assert_eq!(bench.worker.poll(bench.now), Some(bench.now + REGRAB));
    assert!(bench.worker.is_asleep());
    assert_eq!(bench.sent_after(REGRAB), ["GRAB_JOB_ALL"]);
    assert!(!bench.worker.is_asleep());
}

#[test]
fn quirk_endless_noop_and_no_job_do_not_spin() {
    let mut bench = Bench::started(1);
    let start = bench.now;
    let mut packets = 0;
    // A server that wakes the worker 1,000 times a second for nothing, for a minute.
    while bench.now < start + Duration::from_secs(60) {
        bench.gets(PacketType::Noop, &[]);
        let sent = bench.sent();
        packets += sent.len();
        if sent.contains(&"GRAB_JOB_ALL".to_owned()) || packets == 0 {
            bench.gets(PacketType::NoJob, &[]);
            packets += bench.sent().len();
        }
        bench.now += Duration::from_millis(1);
    }
    assert!((60..=2 * 60 + 40).contains(&packets), "{packets} packets in a minute");
    let job_after_all = bench.now + Duration::from_secs(2);
    bench.now = job_after_all;
    assert_eq!(bench.sent_on(PacketType::Noop, &[]), ["GRAB_JOB_ALL"]);
}

#[test]
fn quirk_an_error_about_a_result_is_not_the_answer_to_the_grab() {
    let (mut bench, job) = Bench::with_job(1);
    bench.sent_with_end(&job);
    bench.gets(PacketType::Error, &["JOB_NOT_FOUND", "Job given in work result not found"]);
    assert_eq!(bench.settled(), [Settled::Rejected]);
    let next = bench.gets_job(2);
    bench.sent_with_end(&next);
    bench.gets(PacketType::NoJob, &[]);
    assert_eq!(bench.settled(), [Settled::Completed]);
}

#[test]
fn an_error_is_attributed_to_the_kind_of_packet_it_names() {
    let mut bench = Bench::started(2);
    let (one, two) = (bench.gets_job(1), bench.gets_job(2));
    bench.worker.report(&one, Report::Data(b"piece")).unwrap();
    bench.completes(&two);
    bench.completes(&one);
    bench.gets(PacketType::Error, &["JOB_NOT_FOUND", "Job does not exist on server"]);
    assert!(bench.settled().is_empty(), "the piece was refused, not a result");
    let (mut other, job) = Bench::with_job(1);
    other.worker.report(&job, Report::Status(1, 2)).unwrap();
    other.sent_with_end(&job);
    other.gets(PacketType::Error, &["JOB_NOT_FOUND", "Job given in work result not found"]);
    assert!(other.settled().is_empty(), "it was the progress");
    bench.gets(PacketType::Error, &["JOB_NOT_FOUND", "Job given in work result not found"]);
    bench.worker.send_barrier(bench.now);
    bench.sent();
    for _ in 0..2 {
        bench.gets(PacketType::NoJob, &[]);
    }
    assert_eq!(bench.settled(), [Settled::Rejected, Settled::Completed]);
}

#[test]
fn a_barrier_confirms_every_result_before_it() {
    let mut bench = Bench::started(2);
    let (one, two) = (bench.gets_job(1), bench.gets_job(2));
    bench.sent();
    bench.worker.stop();
    bench.completes(&one);
    bench.worker.finish(&two, JobEnd::Exception(b"why"), bench.now).unwrap();
    bench.worker.send_barrier(bench.now);
    assert_eq!(bench.sent(), ["WORK_COMPLETE", "WORK_EXCEPTION", "ECHO_REQ"]);
    assert!(bench.worker.has_unconfirmed());
    bench.gets(PacketType::EchoRes, &[""]);
    assert!(bench.worker.is_drained() && !bench.worker.has_unconfirmed());
    assert_eq!(bench.settled(), [Settled::Completed, Settled::Failed]);
}

#[test]
fn quirk_servers_without_newer_grabs_get_the_older_ones() {
    let mut bench = Bench::started(1);
    bench.gets(PacketType::Error, &["server_error", "Unknown command"]);
    assert!(!bench.worker.outgoing().is_empty(), "it goes out at once");
    assert_eq!(bench.sent(), ["GRAB_JOB_UNIQ"]);
    assert_eq!(bench.sent_on(PacketType::Error, &["INVALID_COMMAND", ""]), ["GRAB_JOB"]);
    let job = bench.gets(PacketType::JobAssign, &["H:x:1", "f", "w"]).unwrap();
    assert_eq!(bench.sent_with_end(&job), ["WORK_COMPLETE", "GRAB_JOB"]);
}

#[test]
fn a_grab_that_is_given_up_returns_its_own_share_of_a_limit() {
    for is_silent in [false, true] {
        let limit = JobLimit::new(2);
        let [mut bench, mut other] = [(); 2].map(|()| Bench::limited(1, &limit));
        for bench in [&mut bench, &mut other] {
            assert_eq!(bench.sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
        }
        for grab in ["GRAB_JOB_UNIQ", "GRAB_JOB"] {
            match is_silent {
                true => assert!(bench.worker.give_up_waiting(bench.now)),
                false => _ = bench.gets(PacketType::Error, &["INVALID_COMMAND", ""]),
            }
            assert_eq!(bench.sent(), [grab]);
            assert_eq!(Bench::limited(1, &limit).sent(), ["CAN_DO"], "there were two shares");
        }
        bench.gets(PacketType::NoJob, &[]);
        let [mut third, mut fourth] = [(); 2].map(|()| Bench::limited(1, &limit));
        assert_eq!(third.sent(), ["CAN_DO", "GRAB_JOB_ALL"], "the share of a grab without a job");
        assert_eq!(fourth.sent(), ["CAN_DO"]);
    }
}

#[test]
fn a_worker_does_not_poll_before_its_grabs_are_answered() {
    let limit = JobLimit::new(3);
    let mut one = Bench::limited(4, &limit);
    let mut other = Bench::limited(4, &limit);
    one.sent();
    other.sent();
    one.gets_job(1);
    assert_eq!(one.sent(), ["GRAB_JOB_ALL"], "the last one of three");
    assert_eq!(one.worker.poll(one.now), None);
}

#[test]
fn quirk_a_grab_that_is_never_answered_falls_back_only_before_the_first_answer() {
    let mut bench = Bench::started(1);
    assert!(bench.worker.give_up_waiting(bench.now));
    assert!(!bench.worker.outgoing().is_empty(), "another kind goes out at once");
    assert_eq!(bench.sent(), ["GRAB_JOB_UNIQ"]);
    bench.gets(PacketType::NoJob, &[]);
    bench.sent_on(PacketType::Noop, &[]);
    assert!(!bench.worker.give_up_waiting(bench.now));
}

#[test]
fn a_job_ends_once_and_only_on_its_own_connection() {
    let (mut bench, job) = Bench::with_job(1);
    bench.completes(&job);
    let again = bench.worker.finish(&job, JobEnd::Fail, bench.now).unwrap_err();
    assert_eq!((again.kind(), again.fate()), (ErrorKind::JobLost, crate::Fate::NotSent));
    // After a restart of the server, another job has the same handle.
    let mut later = Bench::started(1);
    later.gets_job(1);
    let stale = later.worker.finish(&job, JobEnd::Complete(b""), later.now).unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::JobLost);
    assert!(later.sent().is_empty());
}

fn function(name: &str) -> FunctionName {
    FunctionName::try_from(name).unwrap()
}

/// A session before it is started.
fn session(places: usize, regrab: Duration, now: Instant) -> WorkerSession {
    WorkerSession::new(Arc::default(), places, Grab::All, regrab, now)
}

/// Wakes a worker in vain until it pauses; returns how often.
fn tire(bench: &mut Bench) -> usize {
    bench.sent_on(PacketType::NoJob, &[]);
    let mut times = 0;
    while bench.worker.is_asleep() {
        bench.gets(PacketType::Noop, &[]);
        if bench.sent().is_empty() {
            return times;
        }
        bench.sent_on(PacketType::NoJob, &[]);
        times += 1;
    }
    times
}

#[test]
fn a_job_resets_spurious_wake_ups() {
    let mut bench = Bench::started(1);
    let burst = tire(&mut bench);
    assert!(burst > 1, "{burst}");
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_ALL"]);
    let job = bench.gets_job(1);
    bench.completes(&job);
    assert_eq!(tire(&mut bench), burst);
}

#[test]
fn a_new_connection_starts_over() {
    let mut bench = Bench::started(1);
    assert_eq!(bench.worker.take_commands(), 2);
    let burst = tire(&mut bench);
    bench.worker.take_commands();
    bench.now += Duration::from_secs(9);
    bench.worker.reopen(bench.now);
    bench.worker.poll(bench.now);
    let queued = bench.worker.outgoing().len() as u64;
    assert_eq!(bench.worker.take_commands(), 2);
    assert!(
        bench.worker.confirmations.is_waiting(queued)
            && !bench.worker.confirmations.is_waiting(queued - 1)
    );
    let asked = bench.now;
    bench.now += Duration::from_millis(500);
    bench.worker.send_barrier(bench.now);
    assert!(bench.worker.confirmations.is_waiting(queued), "for the answer to the grab");
    assert_eq!(bench.worker.waiting_since(), Some(asked));
    let later = bench.now + Duration::from_secs(9);
    assert!(!bench.worker.is_proven(later), "nothing was answered on it");
    assert_eq!(bench.sent(), ["CAN_DO", "GRAB_JOB_ALL", "ECHO_REQ"]);
    bench.gets(PacketType::NoJob, &[]);
    bench.gets(PacketType::EchoRes, &[""]);
    assert!(!bench.worker.confirmations.is_waiting(u64::MAX), "everything is answered");
    bench.sent();
    bench.sent_on(PacketType::Noop, &[]);
    assert_eq!(tire(&mut bench), burst - 1);
    assert!(!bench.worker.is_proven(bench.now), "it has not lasted");
}

#[test]
fn a_request_behind_one_that_is_given_up_has_the_whole_time() {
    let mut bench = Bench::started(1);
    let barrier = bench.worker.send_barrier(bench.now);
    let steps = bench.worker.confirmations.steps;
    bench.now += Duration::from_millis(900);
    assert!(bench.worker.give_up_waiting(bench.now));
    assert_eq!(bench.worker.confirmations.steps, steps + 1);
    assert_eq!(bench.worker.waiting_since(), Some(bench.now));
    assert!(!bench.worker.is_past(barrier));
}

#[test]
fn each_grab_and_each_result_is_measured_with_its_outcome() {
    let (notify, receive) = std::sync::mpsc::channel();
    let measures = queue_core::Measures::new(move |measured: &queue_core::Measurement<'_>| {
        let function = measured.destination().unwrap_or("any");
        let outcome = measured.error_type().unwrap_or("ok");
        notify.send(format!("{} {function}: {outcome}", measured.operation())).unwrap();
    });
    let mut bench = Bench::limited(1, &JobLimit::new(100));
    bench.worker.measures = measures;
    let heard = || receive.try_iter().collect::<Vec<_>>();
    let observed = |bench: &mut Bench| {
        let mut later = queue_core::Later::default();
        bench.worker.hand_out(&mut later, &mut Vec::new());
        assert_eq!(heard(), [""; 0], "nobody is told while a lock may be held");
        later.run();
        heard()
    };
    let job = bench.gets_job(1);
    assert_eq!(observed(&mut bench), ["GRAB_JOB_ALL f: ok"]);
    bench.completes(&job);
    assert_eq!(observed(&mut bench), [""; 0], "it is not known yet");
    bench.gets(PacketType::NoJob, &[]);
    assert_eq!(observed(&mut bench), ["WORK_COMPLETE f: ok", "GRAB_JOB_ALL f: ok"]);
    bench.worker.can_do(&function("g"), None);
    bench.gets(PacketType::Noop, &[]);
    let job = bench.gets_job(2);
    assert_eq!(observed(&mut bench), ["GRAB_JOB_ALL any: ok"]);
    bench.worker.finish(&job, JobEnd::Fail, bench.now).unwrap();
    bench.gets(PacketType::Error, &["JOB_NOT_FOUND", "Job given in work result not found"]);
    assert_eq!(observed(&mut bench), [format!("WORK_FAIL any: {}", ErrorKind::JobNotFound)]);
    let job = bench.gets_job(3);
    bench.worker.finish(&job, JobEnd::Exception(b"why"), bench.now).unwrap();
    observed(&mut bench);
    bench.worker.close();
    assert_eq!(
        observed(&mut bench),
        [format!("WORK_EXCEPTION any: {}", ErrorKind::ConnectionLost)]
    );
}

#[test]
fn a_lost_connection_leaves_no_result_unaccounted() {
    let mut bench = Bench::started(4);
    let (one, _two) = (bench.gets_job(1), bench.gets_job(2));
    bench.worker.report(&one, Report::Data(b"piece")).unwrap();
    bench.completes(&one);
    bench.worker.close();
    assert_eq!(bench.worker.confirmations.unknown, 1, "the result, and not the piece");
    assert_eq!(bench.settled(), [Settled::Abandoned, Settled::Unknown]);
}

#[test]
fn running_jobs_are_not_given_away_by_a_change_of_abilities() {
    let (mut bench, job) = Bench::with_job(1);
    assert!(bench.worker.cant_do(&function("f")).is_err());
    assert!(bench.worker.reset_abilities().is_err());
    bench.worker.stop();
    bench.completes(&job);
    bench.worker.cant_do(&function("f")).unwrap();
    assert_eq!(bench.sent(), ["WORK_COMPLETE", "CANT_DO"]);
}

/// The server would give the jobs of these grabs to others, and they would run twice.
#[test]
fn functions_are_withdrawn_behind_the_answers_to_grabs() {
    let [f, g] = ["f", "g"].map(function);
    let mut bench = Bench::started(4);
    bench.worker.can_do(&g, None);
    bench.worker.cant_do(&f).unwrap();
    bench.worker.can_do(&f, None);
    assert_eq!(bench.sent(), ["CAN_DO"], "of the other");
    let job = bench.gets_job(1);
    assert!(bench.sent().is_empty(), "it asks for no more before");
    bench.completes(&job);
    let observed = ["WORK_COMPLETE", "CANT_DO", "CAN_DO", "GRAB_JOB_ALL", "GRAB_JOB_ALL"];
    assert_eq!(bench.sent(), observed);
    bench.worker.reset_abilities().unwrap();
    assert!(bench.sent_on(PacketType::NoJob, &[]).is_empty());
    assert_eq!(bench.sent_on(PacketType::NoJob, &[]), ["PRE_SLEEP", "RESET_ABILITIES"]);
    bench.worker.can_do(&f, None);
    assert_eq!(bench.sent(), ["CAN_DO"], "it sleeps on the server");
    assert_eq!(bench.sent_on(PacketType::Noop, &[]), ["GRAB_JOB_ALL"]);
    bench.worker.cant_do(&f).unwrap();
    bench.worker.close();
    assert!(bench.reopens().is_empty(), "a new connection is told of nothing that is withdrawn");
}

#[test]
fn a_function_is_registered_once_and_timeouts_are_milliseconds() {
    let now = Instant::now();
    let mut worker = session(1, REGRAB, now);
    worker.set_client_id(&ClientId::try_from("me").unwrap());
    worker.start();
    worker.can_do(&function("f"), Some(Duration::from_millis(1500)));
    worker.can_do(&function("f"), None);
    assert_eq!(worker.outgoing(), b"\0REQ\0\0\0\x16\0\0\0\x02me\0REQ\0\0\0\x17\0\0\0\x06f\x001500");
    // In whole milliseconds, rounded up, and no more than the server keeps.
    for (name, timeout, sent) in [
        ("a", Duration::from_secs(7200), "a\07200000"),
        ("b", Duration::from_nanos(1_000_001), "b\02"),
        ("c", Duration::MAX, "c\02147483647"),
        ("d", Duration::ZERO, "d\00"),
    ] {
        worker.sent(worker.outgoing().len());
        worker.can_do(&function(name), Some(timeout));
        assert_eq!(worker.outgoing()[12..], *sent.as_bytes());
    }
}

#[test]
fn grabs_of_all_connections_together_stay_within_the_limit() {
    let limit = JobLimit::new(2);
    let mut one = Bench::limited(4, &limit);
    let mut two = Bench::limited(4, &limit);
    assert_eq!(one.sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
    assert_eq!(two.sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
    let job = one.gets_job(1);
    assert!(one.sent().is_empty(), "the other has asked for the last one");
    let again = one.worker.poll(one.now).unwrap();
    assert!(again > one.now, "so it looks again later");
    assert_eq!(two.sent_on(PacketType::NoJob, &[]), ["PRE_SLEEP"]);
    assert_eq!(one.sent(), ["GRAB_JOB_ALL"], "the other got none");
    one.worker.close();
    assert_eq!(
        two.sent_on(PacketType::Noop, &[]),
        ["GRAB_JOB_ALL"],
        "a lost connection brings none"
    );
    let last = two.gets_job(2);
    assert!(limit.is_reached());
    assert_eq!(two.sent_with_end(&last), ["WORK_COMPLETE"]);
    assert_eq!(two.worker.poll(two.now), None);
    assert!(one.worker.finish(&job, JobEnd::Fail, one.now).is_err());
}

#[test]
fn a_dropped_connection_returns_its_grabs() {
    let limit = JobLimit::new(1);
    let mut one = Bench::limited(1, &limit);
    assert_eq!(one.sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
    drop(one);
    assert_eq!(Bench::limited(1, &limit).sent(), ["CAN_DO", "GRAB_JOB_ALL"]);
}

#[test]
fn a_job_that_is_left_keeps_its_place_until_the_connection_closes() {
    let (mut bench, job) = Bench::with_job(2);
    bench.sent();
    bench.worker.leave(&job);
    bench.gets(PacketType::NoJob, &[]);
    bench.sent_on(PacketType::Noop, &[]);
    bench.gets_job(2);
    assert!(bench.sent().is_empty(), "both places are taken");
    bench.reopens();
    bench.gets_job(1);
    assert_eq!(bench.sent(), ["GRAB_JOB_ALL"]);
}

#[test]
fn an_abandoned_job_does_not_keep_the_connection_open() {
    let mut bench = Bench::started(2);
    let held = bench.gets_job(1);
    let untaken = bench.gets_job(2);
    bench.worker.stop();
    bench.worker.leave(&untaken);
    assert!(!bench.worker.is_drained());
    bench.completes(&held);
    assert!(bench.worker.is_drained());
    assert!(bench.worker.finish(&untaken, JobEnd::Fail, bench.now).is_err());
    bench.worker.close();
    assert_eq!(bench.settled(), [Settled::Abandoned, Settled::Unknown]);
}

/// Refuses every grab for this long; returns how many were sent.
fn refuse(bench: &mut Bench, time: Duration) -> usize {
    let (end, mut grabs) = (bench.now + time, 0);
    while bench.now < end {
        let sent = bench.sent();
        grabs += sent.len();
        for _ in &sent {
            bench.gets(PacketType::Error, &["server_error", "no"]);
        }
        if sent.is_empty() {
            bench.now = bench.worker.poll(bench.now).unwrap();
        }
    }
    grabs
}

#[test]
fn refusals_in_a_row_are_followed_by_longer_and_longer_pauses() {
    let mut bench = Bench::started(1);
    bench.gets(PacketType::Error, &["server_error", "no"]);
    // Three kinds of grab each time.
    let first_second = refuse(&mut bench, Duration::from_secs(1));
    assert!((6..=15).contains(&first_second), "{first_second}");
    let hour = refuse(&mut bench, Duration::from_secs(3600));
    assert!((300..=3 * 370).contains(&hour), "{hour} in an hour");
    assert!(!bench.worker.is_proven(bench.now), "a refusal proves nothing");
    // Another connection does not start over.
    bench.worker.reopen(bench.now);
    let next = refuse(&mut bench, Duration::from_secs(60));
    assert!((10..=30).contains(&next), "{next} in a minute");
    bench.worker.poll(bench.now);
    bench.now += Duration::from_secs(10);
    bench.sent();
    bench.gets(PacketType::NoJob, &[]);
    assert!(bench.worker.is_proven(bench.now));
    bench.worker.reopen(bench.now);
    let after_success = refuse(&mut bench, Duration::from_secs(1));
    assert!((6..=15).contains(&after_success), "{after_success}");
}

#[test]
fn only_the_newest_grab_has_less_time_than_any_reply() {
    let mut bench = Bench::started(1);
    let due = bench.worker.poll(bench.now).unwrap();
    assert_eq!(due, bench.now + Duration::from_secs(1));
    bench.now = due - Duration::from_nanos(1);
    assert!(bench.sent().is_empty());
    bench.now = due;
    assert_eq!(bench.sent(), ["GRAB_JOB_UNIQ"]);
    assert_eq!(bench.worker.poll(bench.now), None);
    assert!(bench.worker.give_up_waiting(bench.now));
    assert_eq!(bench.sent(), ["GRAB_JOB"]);
    assert_eq!(bench.worker.poll(bench.now), None);
    assert!(!bench.worker.give_up_waiting(bench.now));
    // The kind was not the reason.
    assert_eq!(bench.reopens(), ["CAN_DO", "GRAB_JOB_ALL"]);
    bench.gets(PacketType::NoJob, &[]);
    assert_eq!(bench.reopens(), ["CAN_DO", "GRAB_JOB_ALL"]);
    bench.now += Duration::from_secs(5);
    assert!(bench.sent().is_empty(), "it has answered such a grab before");
}

#[test]
fn a_short_reply_timeout_leaves_time_to_ask_a_silent_server_otherwise() {
    let mut bench = Bench::started(1);
    bench.worker.set_reply_timeout(Duration::from_millis(600));
    let due = bench.worker.poll(bench.now).unwrap();
    assert_eq!(due, bench.now + Duration::from_millis(300));
    bench.now = due;
    assert_eq!(bench.sent(), ["GRAB_JOB_UNIQ"]);
}

#[test]
fn an_echo_overtaking_a_grab_means_it_is_unsupported() {
    let mut bench = Bench::started(1);
    let barrier = bench.worker.send_barrier(bench.now);
    bench.sent();
    bench.gets(PacketType::EchoRes, &[""]);
    assert!(bench.worker.is_past(barrier));
    assert_eq!(bench.sent(), ["GRAB_JOB_UNIQ"]);
    // This kind is known from here on, and so it is an error.
    bench.gets(PacketType::NoJob, &[]);
    bench.sent_on(PacketType::Noop, &[]);
    bench.worker.send_barrier(bench.now);
    let echo = Packet::new(Magic::Response, PacketType::EchoRes, &[""]).unwrap();
    let error = bench.worker.accept(&echo, bench.now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[test]
fn any_number_of_late_grab_answers_is_accepted() {
    let mut bench = Bench::started(1);
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    bench.gets(PacketType::NoJob, &[]);
    assert_eq!(bench.sent_on(PacketType::NoJob, &[]), ["PRE_SLEEP"]);
    assert_eq!(bench.sent_on(PacketType::Noop, &[]), ["GRAB_JOB_ALL"], "it was only slow");
}

/// A worker whose server has answered neither of its newer grabs yet.
fn of_a_silent_server(places: usize) -> Bench {
    let mut bench = Bench::started(places);
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    assert!(bench.worker.give_up_waiting(bench.now));
    assert_eq!(bench.sent(), ["GRAB_JOB"]);
    bench
}

/// gearmand answers all three, and the first two alike when the jobs have no reducer.
#[test]
fn a_slow_server_answers_every_grab_that_was_given_up() {
    let mut bench = of_a_silent_server(4);
    for handle in ["H:x:1", "H:x:2"] {
        bench.gets(PacketType::JobAssignUniq, &[handle, "f", "u", "w"]).unwrap();
    }
    bench.gets(PacketType::JobAssign, &["H:x:3", "f", "w"]).unwrap();
    assert_eq!(bench.sent(), ["GRAB_JOB_ALL"], "each has its answer");
    bench.gets(PacketType::JobAssignUniq, &["H:x:4", "f", "u", "w"]).unwrap();
}

#[test]
fn late_answers_are_those_of_the_oldest_grabs() {
    let next = |bench: &mut Bench| {
        bench.sent();
        bench.gets(PacketType::Noop, &[]);
        bench.sent()
    };
    // It has answered the last grab, and then the first.
    let mut slow = of_a_silent_server(1);
    (0..2).for_each(|_| _ = slow.gets(PacketType::NoJob, &[]));
    assert_eq!(next(&mut slow), ["GRAB_JOB_ALL"]);
    // It has refused the first, and answered both others.
    let mut older = of_a_silent_server(1);
    older.gets(PacketType::Error, &["INVALID_COMMAND", ""]);
    (0..2).for_each(|_| _ = older.gets(PacketType::NoJob, &[]));
    assert_eq!(next(&mut older), ["GRAB_JOB_UNIQ"]);
    // It may have ignored the first, and answered the second.
    let mut ignorant = of_a_silent_server(4);
    ignorant.gets(PacketType::JobAssignUniq, &["H:x:1", "f", "u", "w"]).unwrap();
    assert_eq!(ignorant.sent(), ["GRAB_JOB_UNIQ"]);
}

#[test]
fn jobs_that_have_to_wait_start_in_the_order_in_which_they_came() {
    let mut bench = of_a_silent_server(1);
    let mut job = bench.gets(PacketType::JobAssignUniq, &["H:x:1", "f", "u", "w"]).unwrap();
    assert_eq!(bench.gets(PacketType::JobAssignUniq, &["H:x:2", "f", "u", "w"]), None);
    assert_eq!(bench.gets(PacketType::JobAssign, &["H:x:3", "f", "w"]), None);
    for name in ["H:x:2", "H:x:3"] {
        bench.completes(&job);
        job = bench.worker.released().unwrap().handle;
        assert_eq!(job.name(), name.as_bytes());
        assert!(bench.worker.released().is_none());
    }
}

#[test]
fn a_grab_behind_another_request_is_not_given_up_before_that_is_answered() {
    let now = Instant::now();
    let mut worker = session(1, REGRAB, now);
    worker.send_barrier(now);
    worker.can_do(&function("f"), None);
    let mut bench = Bench { worker, now };
    assert_eq!(bench.sent(), ["ECHO_REQ", "CAN_DO"], "it is not started");
    bench.worker.start();
    assert_eq!(bench.sent(), ["GRAB_JOB_ALL"]);
    bench.now += Duration::from_secs(5);
    assert!(bench.sent().is_empty());
    assert_eq!(bench.sent_on(PacketType::EchoRes, &[""]), ["GRAB_JOB_UNIQ"]);
}

/// A server that was slow once was asked for jobs without their reducers for an hour.
#[test]
fn a_server_that_was_slow_is_asked_with_the_newest_grab_again() {
    let mut bench = Bench::started(1);
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    // What was sent on another connection has no answer here.
    assert_eq!(bench.reopens(), ["CAN_DO", "GRAB_JOB_ALL"]);
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    let first = bench.gets(PacketType::JobAssignUniq, &["H:x:1", "f", "u", "w"]).unwrap();
    // So far, it may have ignored the first grab.
    assert_eq!(bench.gets(PacketType::JobAssignUniq, &["H:x:2", "f", "u", "w"]), None);
    bench.completes(&first);
    let second = bench.worker.released().unwrap().handle;
    assert_eq!(bench.sent_with_end(&second), ["WORK_COMPLETE", "WORK_COMPLETE", "GRAB_JOB_ALL"]);
}

#[test]
fn a_job_for_a_grab_that_was_given_up_is_not_run_beside_the_next() {
    let mut bench = Bench::started(1);
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    let late = bench.gets_job(1);
    assert_eq!(bench.gets(PacketType::JobAssignUniq, &["H:x:2", "f", "u", "w"]), None);
    assert_eq!(bench.worker.running(), 1);
    assert!(bench.worker.released().is_none() && bench.sent().is_empty());
    bench.completes(&late);
    let next = bench.worker.released().unwrap().handle;
    assert_eq!((next.name(), bench.sent()), (&b"H:x:2"[..], vec!["WORK_COMPLETE".to_owned()]));
    assert_eq!(bench.sent_with_end(&next), ["WORK_COMPLETE", "GRAB_JOB_ALL"]);
}

#[test]
fn a_late_answer_brings_no_job_over_the_limit() {
    let limit = JobLimit::new(1);
    let mut bench = Bench::limited(2, &limit);
    bench.sent();
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    bench.gets_job(1);
    assert!(limit.is_reached());
    assert_eq!(bench.gets(PacketType::JobAssignUniq, &["H:x:2", "f", "u", "w"]), None);
    assert!(bench.worker.released().is_none(), "it goes back with the connection");
    bench.worker.close();
    assert_eq!(bench.settled(), [Settled::Abandoned, Settled::Abandoned]);
}

#[test]
fn a_server_that_closes_on_a_grab_gets_older_ones_from_then_on() {
    let mut bench = Bench::started(1);
    let reconnected = |bench: &mut Bench| {
        let sent = bench.reopens();
        assert_eq!((sent.len(), sent[0].as_str()), (2, "CAN_DO"));
        sent[1].clone()
    };
    assert_eq!(reconnected(&mut bench), "GRAB_JOB_ALL", "one can end for any reason");
    for _ in 0..2 {
        assert_eq!(reconnected(&mut bench), "GRAB_JOB_UNIQ");
    }
    for _ in 0..2 {
        assert_eq!(reconnected(&mut bench), "GRAB_JOB");
    }
    assert_eq!(reconnected(&mut bench), "GRAB_JOB_ALL", "it was none of them");
    for _ in 0..2 {
        reconnected(&mut bench);
    }
    bench.gets(PacketType::NoJob, &[]);
    for _ in 0..5 {
        bench.now += Duration::from_secs(600);
        assert_eq!(reconnected(&mut bench), "GRAB_JOB_UNIQ", "it has answered that");
        bench.gets(PacketType::NoJob, &[]);
    }
    bench.now += Duration::from_secs(600);
    assert_eq!(reconnected(&mut bench), "GRAB_JOB_ALL", "by now it may be another version");
}

#[test]
fn a_server_that_has_answered_between_is_asked_as_before() {
    let mut bench = Bench::started(1);
    for is_answered in [false, true, false, true, false] {
        if is_answered {
            bench.gets(PacketType::NoJob, &[]);
        }
        assert_eq!(bench.reopens(), ["CAN_DO", "GRAB_JOB_ALL"]);
    }
}

#[test]
fn a_new_connection_registers_everything_again() {
    let mut bench = Bench::started(1);
    bench.worker.set_client_id(&ClientId::try_from("me").unwrap());
    let second = function("g");
    bench.worker.can_do(&second, Some(Duration::from_secs(1)));
    bench.sent();
    bench.gets(PacketType::NoJob, &[]);
    assert_eq!(bench.reopens(), ["SET_CLIENT_ID", "CAN_DO_TIMEOUT", "CAN_DO", "GRAB_JOB_ALL"]);
    // The latest time counts, once for each function.
    bench.worker.can_do(&second, None);
    assert_eq!(bench.reopens(), ["SET_CLIENT_ID", "CAN_DO", "CAN_DO", "GRAB_JOB_ALL"]);
    bench.gets(PacketType::NoJob, &[]);
    bench.worker.cant_do(&second).unwrap();
    assert_eq!(bench.reopens(), ["SET_CLIENT_ID", "CAN_DO", "GRAB_JOB_ALL"]);
}

#[test]
fn a_handler_that_outlives_its_connection_keeps_its_place() {
    let (mut bench, job) = Bench::begun(1);
    assert_eq!(bench.reopens(), ["CAN_DO"]);
    assert_eq!(bench.reopens(), ["CAN_DO"], "over any number of connections");
    let ended = bench.worker.finish(&job, JobEnd::Complete(b"late"), bench.now);
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::JobLost);
    assert_eq!(bench.sent(), ["GRAB_JOB_ALL"]);
}

#[test]
fn an_abandoned_lost_job_frees_its_slot() {
    let (mut bench, job) = Bench::begun(1);
    assert_eq!(bench.reopens(), ["CAN_DO"]);
    // Another job has the same handle on another server, or after a restart.
    let same_name = Bench::started(1).gets_job(1);
    bench.worker.leave(&same_name);
    assert!(bench.sent().is_empty());
    bench.worker.leave(&job);
    assert_eq!(bench.sent(), ["GRAB_JOB_ALL"]);
}

#[test]
fn a_job_is_reported_on_only_while_its_own_connection_holds_it() {
    let mut bench = Bench::started(2);
    let (job, ended) = (bench.gets_job(1), bench.gets_job(2));
    bench.completes(&ended);
    bench.worker.reopen(bench.now);
    let same_name = bench.gets_job(1);
    bench.sent();
    for lost in [&job, &ended] {
        assert!(!bench.worker.holds(lost));
        let error = bench.worker.report(lost, Report::Data(b"piece")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::JobLost);
    }
    assert!(bench.sent().is_empty());
    bench.completes(&same_name);
    assert!(!bench.worker.holds(&same_name));
    assert!(bench.worker.report(&same_name, Report::Data(b"piece")).is_err());
}

#[test]
fn all_jobs_can_be_left_to_the_server_at_once() {
    let (mut bench, _job) = timed(Duration::from_secs(1));
    bench.gets_job(2);
    bench.worker.leave_all();
    assert!(bench.worker.is_idle());
    assert_eq!(bench.worker.running(), 0);
    bench.worker.close();
    assert_eq!(bench.settled(), [Settled::Abandoned, Settled::Abandoned]);

    // One of an earlier connection, and its second run.
    let (mut bench, _) = Bench::begun(2);
    bench.reopens();
    assert_eq!(bench.gets(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]), None);
    bench.worker.leave_all();
    assert!(bench.worker.is_idle() && bench.worker.released().is_none());
    assert_eq!(bench.worker.running(), 0);
}

/// A worker with two places that has announced this time for `f`, and a job of it.
fn timed(timeout: Duration) -> (Bench, JobHandle) {
    let mut bench = Bench::of(2, REGRAB, Some(timeout));
    assert_eq!(bench.sent(), ["CAN_DO_TIMEOUT", "GRAB_JOB_ALL"]);
    let job = bench.gets_job(1);
    bench.worker.begin(&job);
    bench.sent();
    (bench, job)
}

#[test]
fn the_time_that_was_announced_for_a_job_is_known() {
    let second = Duration::from_secs(1);
    // The server rounds less up to a second.
    for (timeout, held) in [(3 * second, 3 * second), (second / 10, second)] {
        let (mut bench, job) = timed(timeout);
        assert_eq!(bench.worker.held_until(&job), Some(bench.now + held));
        // Up to server 1.1, the timer may have missed the job: only its answer shows it.
        bench.now += 10 * second;
        assert_eq!(bench.sent_with_end(&job)[0], "WORK_COMPLETE");
        assert_eq!(bench.worker.held_until(&job), None);
    }
    let (mut bench, job) = timed(3 * second);
    bench.reopens();
    assert_eq!(bench.gets(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]), None);
    assert_eq!(bench.worker.held_until(&job), None, "that is the one of this connection");
    let (bench, job) = timed(Duration::ZERO);
    assert_eq!(bench.worker.held_until(&job), None, "no timer");
    let (plain, job) = Bench::with_job(1);
    assert_eq!(plain.worker.held_until(&job), None);
}

/// The server knows the first one, and would count a second registration as another worker.
#[test]
fn a_new_function_timeout_applies_to_the_next_connection() {
    let (mut bench, first) = timed(Duration::from_secs(3));
    bench.worker.can_do(&function("f"), None);
    assert!(bench.sent().is_empty());
    bench.sent_with_end(&first);
    let second = bench.gets_job(2);
    let until = bench.now + Duration::from_secs(3);
    assert_eq!(bench.worker.held_until(&second), Some(until));
    assert_eq!(bench.reopens(), ["CAN_DO", "GRAB_JOB_ALL"]);
    let third = bench.gets_job(3);
    assert_eq!(bench.worker.held_until(&third), None);
}

#[test]
fn a_job_that_comes_again_after_its_time_begins_when_its_first_run_has_ended() {
    let again = ["H:x:1", "f", "u", "", "w"];
    let (mut bench, job) = timed(Duration::from_secs(1));
    bench.now += Duration::from_secs(2);
    assert_eq!(bench.gets(PacketType::JobAssignAll, &again), None);
    assert!(bench.worker.released().is_none());
    assert_eq!(bench.worker.running(), 1);
    bench.sent();
    // The server would treat it as the result of the second run.
    let error = bench.worker.finish(&job, JobEnd::Fail, bench.now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::JobLost);
    assert!(!bench.sent().contains(&"WORK_FAIL".to_owned()));
    assert_eq!(bench.settled(), [Settled::Rejected]);
    let second = bench.worker.released().unwrap();
    assert_eq!(bench.worker.held_until(&second.handle), Some(bench.now + Duration::from_secs(1)));
    assert_eq!(bench.sent_with_end(&second.handle)[0], "WORK_COMPLETE");

    // The second run goes back with its connection.
    let (mut bench, job) = timed(Duration::from_secs(1));
    assert_eq!(bench.gets(PacketType::JobAssignAll, &again), None);
    bench.reopens();
    assert!(bench.worker.finish(&job, JobEnd::Fail, bench.now).is_err());
    let third = bench.gets_job(1);
    bench.completes(&third);
    assert!(bench.worker.released().is_none());

    // A stopping worker does not run it a second time: the first result ends it.
    let (mut bench, job) = timed(Duration::from_secs(1));
    assert_eq!(bench.gets(PacketType::JobAssignAll, &again), None);
    bench.worker.stop();
    bench.completes(&job);
    assert!(bench.sent().contains(&"WORK_COMPLETE".to_owned()) && bench.worker.is_drained());
}

#[test]
fn an_exception_is_followed_by_a_failure_where_it_does_not_end_a_job() {
    let (mut bench, job) = Bench::with_job(1);
    bench.worker.finish(&job, JobEnd::Exception(b"why"), bench.now).unwrap();
    assert_eq!(bench.sent(), ["WORK_EXCEPTION", "GRAB_JOB_ALL"]);

    let mut old = Bench::started(1);
    for grab in ["GRAB_JOB_UNIQ", "GRAB_JOB"] {
        assert_eq!(old.sent_on(PacketType::Error, &["server_error", "no such command"]), [grab]);
    }
    let job = old.gets(PacketType::JobAssign, &["H:x:1", "f", "w"]).unwrap();
    old.worker.finish(&job, JobEnd::Exception(b"why"), old.now).unwrap();
    assert_eq!(old.sent(), ["WORK_EXCEPTION", "WORK_FAIL", "GRAB_JOB"]);
    // Both end the same job. A server that ends it with the first may refuse the second.
    old.gets(PacketType::Error, &["JOB_NOT_FOUND", "Job given in work result not found"]);
    old.gets(PacketType::NoJob, &[]);
    assert_eq!(old.settled(), [Settled::Failed]);
    assert!(!old.worker.has_unconfirmed());
}

#[test]
fn a_second_run_of_a_job_waits_for_the_end_of_the_first() {
    let (mut bench, job) = Bench::begun(3);
    assert_eq!(bench.reopens(), ["CAN_DO", "GRAB_JOB_ALL"]);
    assert_eq!(bench.gets(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]), None);
    assert_eq!((bench.worker.running(), bench.sent().len()), (0, 1), "one place is free");
    let other = bench.gets_job(2);
    assert!(bench.worker.released().is_none());
    assert!(bench.worker.finish(&job, JobEnd::Fail, bench.now).is_err());
    let again = bench.worker.released().unwrap();
    assert_eq!(again.handle.name(), b"H:x:1");
    bench.completes(&again.handle);
    bench.completes(&other);
    bench.worker.send_barrier(bench.now);
    assert_eq!(bench.settled(), [Settled::Abandoned]);
}

#[test]
fn a_job_that_waits_for_its_first_run_goes_back_when_the_worker_stops() {
    let (mut bench, _) = Bench::begun(2);
    bench.reopens();
    assert_eq!(bench.gets(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]), None);
    bench.worker.stop();
    bench.worker.poll(bench.now);
    assert!(bench.worker.is_drained() && bench.worker.released().is_none());
}

#[test]
fn a_connection_is_good_when_it_has_brought_a_job_or_has_lasted() {
    let mut bench = Bench::started(1);
    bench.gets(PacketType::NoJob, &[]);
    assert!(!bench.worker.is_proven(bench.now), "it may be closed at once");
    assert!(bench.worker.is_proven(bench.now + Duration::from_secs(1)));
    let mut busy = Bench::started(1);
    assert!(!busy.worker.is_proven(busy.now + Duration::from_secs(9)), "nothing was answered");
    busy.gets_job(1);
    assert!(busy.worker.is_proven(busy.now));
    busy.worker.reopen(busy.now);
    assert!(!busy.worker.is_proven(busy.now));
    let again = busy.gets_job(1);
    assert!(!busy.worker.is_proven(busy.now), "no job has ended since the last connection");
    busy.completes(&again);
    assert!(!busy.worker.is_proven(busy.now), "the server may not have read that");
    busy.sent();
    busy.gets(PacketType::NoJob, &[]);
    assert!(busy.worker.is_proven(busy.now));
    let mut other = Bench::started(1);
    let unreadable = ["H".repeat(64), "f".into(), "u".into(), String::new(), "w".into()];
    let unreadable = Packet::new(Magic::Response, PacketType::JobAssignAll, &unreadable).unwrap();
    assert!(other.worker.accept(&unreadable, other.now).is_err());
    assert!(!other.worker.is_proven(other.now));
}

/// gearmand looks for jobs of the function first that was announced last.
#[test]
fn a_function_whose_job_was_given_back_is_served_last_on_the_next_connection() {
    let now = Instant::now();
    let worker = session(1, REGRAB, now);
    let mut bench = Bench { worker, now };
    for name in ["f", "g", "h"] {
        bench.worker.can_do(&function(name), None);
    }
    bench.worker.start();
    for (announced, gives_back) in [("hgf", true), ("fhg", false), ("hgf", true), ("fhg", true)] {
        let sent = bench.packets().into_iter();
        let names = sent.filter(|packet| packet.packet_type == PacketType::CanDo);
        let names: Vec<_> = names.map(|packet| packet.body).collect();
        assert_eq!(names.concat(), announced.as_bytes());
        let job = bench.gets_job(1);
        if gives_back {
            bench.worker.finish(&job, JobEnd::GiveBack, now).unwrap();
        }
        bench.worker.reopen(now);
    }
}

#[test]
fn each_answer_gives_the_next_question_the_whole_time() {
    let mut bench = Bench::started(8);
    bench.gets_job(1);
    bench.sent();
    bench.gets_job(2);
    assert_eq!(bench.sent().len(), 3, "4 under way, of the same instant as the echo");
    let barrier = bench.worker.send_barrier(bench.now);
    let asked = bench.now;
    assert_eq!(bench.worker.waiting_since(), Some(asked));
    let answers = [
        (PacketType::JobAssignAll, &["H:x:3", "f", "u", "", "w"][..]),
        (PacketType::NoJob, &[]),
        (PacketType::NoJob, &[]),
        (PacketType::NoJob, &[]),
        (PacketType::EchoRes, &[""]),
    ];
    for (packet_type, arguments) in answers {
        assert!(!bench.worker.is_past(barrier));
        bench.now += Duration::from_secs(6);
        let steps = bench.worker.confirmations.steps;
        bench.gets(PacketType::Noop, &[]);
        assert_eq!(bench.worker.confirmations.steps, steps, "it answers nothing");
        bench.gets(packet_type, arguments);
        assert_eq!(bench.worker.confirmations.steps, steps + 1);
        assert_eq!(bench.worker.waiting_since().unwrap_or(bench.now), bench.now);
    }
    assert!(bench.worker.is_past(barrier));
    // A later request waits from then on.
    bench.now += Duration::from_secs(6);
    bench.worker.send_barrier(bench.now);
    assert_eq!(bench.worker.waiting_since(), Some(bench.now));
}

#[test]
fn a_late_answer_gives_the_next_question_the_whole_time() {
    let mut bench = Bench::started(1);
    assert_eq!(bench.sent_after(Duration::from_secs(1)), ["GRAB_JOB_UNIQ"]);
    let asked = bench.now;
    assert_eq!(bench.worker.waiting_since(), Some(asked));
    bench.now += Duration::from_millis(500);
    assert!(bench.gets(PacketType::JobAssignAll, &["H:x:1", "f", "u", "", "w"]).is_some());
    assert_eq!(bench.worker.waiting_since(), Some(bench.now));
    bench.now += Duration::from_millis(500);
    assert_eq!(bench.worker.waiting_since(), Some(asked + Duration::from_millis(500)));
}

/// It asked again at once, and again.
#[test]
fn an_interval_beyond_the_clock_does_not_end() {
    let mut bench = Bench::of(1, Duration::MAX, None);
    bench.sent();
    assert_eq!(bench.sent_on(PacketType::NoJob, &[]), ["PRE_SLEEP"]);
    bench.now += Duration::from_secs(3600);
    assert!(bench.sent().is_empty());
}
