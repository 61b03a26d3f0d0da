//! What a worker may be given, and what the system may refuse it.

use std::{
    io::{self, Read, Write},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use beanstalk_client::{
    ConnectOptions, ErrorKind, Fate, Outcome, RetryPolicy, SlotState, Worker, WorkerHandle,
    WorkerOptions, blocking,
};
use fixtures::{Port, beanstalkd::Server, fault::Fault};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::faces::{Door, WorkerFace};
use crate::support::{
    both_faces,
    connectors::{over, resolved_by},
    place::start,
};

both_faces!(
    a_tube_has_only_its_own_slots,
    slots_without_a_tube_make_no_connection,
    a_check_says_which_servers_do_not_answer_and_why,
    a_server_that_was_never_connected_is_in_the_report,
    a_grace_without_end_is_one,
    reconnects_take_their_delays_from_the_options_of_the_server,
    nothing_is_cut_off_by_a_half_close,
    a_worker_without_file_descriptors_waits_and_reports_it_once,
);

/// Never more than so many of its jobs run at once, and the jobs of others go on meanwhile.
fn a_tube_has_only_its_own_slots<F: WorkerFace>() {
    let (server, mut client) = start::<F>();
    for tube in ["slow", "quick"] {
        client.use_tube(tube).unwrap();
        for _ in 0..8 {
            let _ = client.put(tube.as_bytes(), Default::default()).unwrap();
        }
    }
    let options = WorkerOptions::new(server.address()).unwrap().until_empty().slots(4);
    let options = options.slots_for("slow", 2).unwrap().slots_for("unknown", 1).unwrap();
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (seen, (open, door)) = (most.clone(), Door::new());
    let worker = F::start_on(options, &["slow", "quick"], move |job| {
        assert_eq!(job.tube().as_str().as_bytes(), job.body());
        if job.tube() == "slow" {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            door.pass();
            running.fetch_sub(1, Ordering::SeqCst);
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 8);
    worker.events.wait_for("started", 10);
    assert_eq!(client.stats_tube("quick").unwrap().map_or(0, |stats| stats.current_jobs_ready), 0);
    (0..8).for_each(|_| open.send(()).unwrap());
    assert_eq!((worker.end().finished, most.load(Ordering::SeqCst)), (16, 2));
}

#[test]
fn a_dead_letter_tube_is_served_by_another_worker() {
    let options: WorkerOptions = "127.0.0.1:1".parse().unwrap();
    let options = options.dead_letter("dead".parse().unwrap());
    let of_async = Worker::new(options.clone()).unwrap().register("dead", |_| async {});
    let of_blocking = blocking::Worker::new(options).unwrap().register("dead", |_| ());
    for error in [of_async.unwrap_err(), of_blocking.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("tube dead is the dead-letter tube"), "{error}");
    }
}

fn slots_without_a_tube_make_no_connection<F: WorkerFace>() {
    let (server, mut client) = start::<F>();
    let options = WorkerOptions::new(server.address()).unwrap().slots(3);
    let worker =
        F::start(options.clone().slots_for("default", 2).unwrap(), |_| Ok(Outcome::Delete));
    worker.events.wait_for("connected", 2);
    let states: Vec<_> = worker.handle.slots().into_iter().map(|slot| slot.state).collect();
    assert_eq!(states[2], SlotState::Ended, "{states:?}");
    assert_eq!(client.stats().unwrap().current_connections, 3);
    worker.stop();
    assert_eq!(F::start_on(options, &[], |_| Ok(Outcome::Delete)).end().total(), 0);
}

/// One that answers is enough.
fn a_check_says_which_servers_do_not_answer_and_why<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let (nobody, other) = (Port::take().unwrap(), Port::take().unwrap());
    let (nobody, other) = (nobody.address().to_string(), other.address().to_string());
    F::check(&format!("{nobody},{}", server.address())).unwrap();
    let error = F::check(&format!("{nobody},{other}")).unwrap_err();
    let told = error.to_string();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Connect, Fate::NotSent), "{told}");
    for part in ["check: none of the servers can be reached", &nobody, &other, "refused"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    server.faults().add(Fault::nth(1).of("list-tube-used").reply("HTTP/1.1 400 Bad Request"));
    let error = F::check(server.address()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedReply, "{error}");
    let asked = format!("list-tube-used to {}: ", server.address());
    assert!(error.to_string().starts_with(&asked), "{error}");
}

fn a_server_that_was_never_connected_is_in_the_report<F: WorkerFace>() {
    let (server, nobody) = (Server::start().unwrap(), Port::take().unwrap());
    let both = format!("{},{}", server.address(), nobody.address());
    let quick = Duration::from_millis(1);
    let options = WorkerOptions::new(both).unwrap().slots(2).reconnect_backoff(quick, quick);
    let worker = F::start(options, |_| Ok(Outcome::Delete));
    worker.events.wait_for("connected", 2);
    worker.until_it_failed_to_connect(1);
    let never = worker.handle.slots().into_iter().map(|slot| slot.never_connected);
    assert!(never.eq([false, true, false, true]));
    assert_eq!(worker.handle.report().never_connected, 0, "it may still be");
    let report = worker.stop();
    assert_eq!(report.never_connected, 1);
    assert!(report.to_string().ends_with("0 unknown, 1 server never connected"), "{report}");
}

/// `Duration::MAX`, when a stop finds the connection lost.
fn a_grace_without_end_is_one<F: WorkerFace>() {
    for loses in [true, false] {
        let (server, mut client) = start::<F>();
        let _ = client.put(b"x", Default::default()).unwrap();
        let (open, door) = Door::new();
        let options = WorkerOptions::new(server.address()).unwrap().grace(Duration::MAX);
        let worker = F::start(options, move |_| {
            door.pass();
            Ok(Outcome::Delete)
        });
        worker.events.wait_for("started", 1);
        if loses {
            server.close_connections();
            worker.events.wait_for("lost", 1);
        }
        worker.handle.stop();
        std::thread::sleep(Duration::from_millis(300));
        assert!(worker.handle.slots().iter().all(|slot| slot.state != SlotState::Ended) || loses);
        open.send(()).unwrap();
        let handle = worker.handle.clone();
        assert_eq!(worker.end().total(), 1);
        assert!(handle.slots().iter().all(|slot| slot.state == SlotState::Ended), "{handle:?}");
    }
}

/// And not from a setting that says nothing about them.
fn reconnects_take_their_delays_from_the_options_of_the_server<F: WorkerFace>() {
    let nobody = Port::take().unwrap();
    let quick = Duration::from_millis(1);
    let options: ConnectOptions = nobody.address().to_string().parse().unwrap();
    let options = options.retry(RetryPolicy::never().backoff(quick, quick));
    let worker = F::start(WorkerOptions::new(options.clone()).unwrap(), |_| Ok(Outcome::Delete));
    worker.until_it_failed_to_connect(50);
    worker.stop();
    // Unless the worker has its own.
    let slow = WorkerOptions::new(options).unwrap();
    let slow = slow.reconnect_backoff(Duration::from_secs(3600), Duration::from_secs(3600)).seed(7);
    let worker = F::start(slow, |_| Ok(Outcome::Delete));
    worker.until_it_failed_to_connect(1);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(worker.handle.metrics().errors_of(ErrorKind::Connect), 1);
    worker.stop();
}

/// EMFILE; later, some are available again.
fn a_worker_without_file_descriptors_waits_and_reports_it_once<F: WorkerFace>() {
    const EMFILE: i32 = 24;
    let (server, mut client) = start::<F>();
    let _ = client.put(b"x", Default::default()).unwrap();
    let at = server.socket_addr().unwrap();
    let left = Arc::new(AtomicUsize::new(8));
    let resolve = move || {
        let is_short = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if is_short.is_ok() { Err(io::Error::from_raw_os_error(EMFILE)) } else { Ok(at) }
    };
    let quick = Duration::from_millis(1);
    let options: ConnectOptions = server.address().parse().unwrap();
    let options = options.retry(RetryPolicy::never().backoff(quick, quick));
    let options = resolved_by(options, move |_| resolve());
    let worker = F::start(WorkerOptions::new(options).unwrap(), |_| Ok(Outcome::Delete));
    worker.events.wait_for("deleted", 1);
    assert_eq!(worker.handle.metrics().errors_of(ErrorKind::Connect), 8);
    let told = worker.events.all();
    assert!(told[0].contains("os error 24"), "{told:?}");
    assert_eq!((worker.events.count("disconnected"), &*told[1]), (1, "connected"), "{told:?}");
    // A failure after a connection is reported.
    server.close_connections();
    worker.events.wait_for("disconnected", 2);
    worker.events.wait_for("connected", 2);
    worker.stop();
}

#[test]
fn a_worker_refuses_plain_text_when_tls_is_required() {
    let options = |address: &str| {
        let server: ConnectOptions = address.parse().unwrap();
        WorkerOptions::new(server.require_tls(true)).unwrap()
    };
    for error in [
        Worker::new(options("10.0.0.5")).err().unwrap(),
        blocking::Worker::new(options("10.0.0.5")).err().unwrap(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("require_tls"), "{error}");
    }
    for address in ["127.0.0.1", "beanstalks://10.0.0.5"] {
        assert!(Worker::new(options(address)).is_ok(), "{address}");
        assert!(blocking::Worker::new(options(address)).is_ok(), "{address}");
    }
}

/// A stream that keeps what is written until it is flushed, which takes some tries. The worker is stopped as soon as
/// there is one, so that its half-close comes while the first commands are being written.
fn nothing_is_cut_off_by_a_half_close<F: WorkerFace>() {
    let log = Log::default();
    let handle: Arc<OnceLock<WorkerHandle>> = Arc::default();
    let options: ConnectOptions = "127.0.0.1:1".parse().unwrap();
    let (noted, stops) = (log.clone(), handle.clone());
    let options = over(options, move || Slow::new(noted.clone(), &stops));
    let worker = F::start(WorkerOptions::new(options).unwrap(), |_| Ok(Outcome::Delete));
    handle.set(worker.handle.clone()).unwrap();
    assert_eq!(worker.end().total(), 0);
    let mut log = log.0.lock().unwrap().clone();
    log.dedup();
    assert_eq!(log, ["written", "not flushed", "flushed", "closed"]);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
}

struct Slow {
    log: Log,
    refusals: usize,
    is_closed: bool,
}

impl Slow {
    /// Stops the worker that connects.
    fn new(log: Log, handle: &OnceLock<WorkerHandle>) -> Slow {
        handle.wait().stop();
        Slow { log, refusals: 3, is_closed: false }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        if self.refusals > 0 {
            self.refusals -= 1;
            self.log.note("not flushed");
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.log.note("flushed");
        Ok(())
    }
}

impl Read for Slow {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        if self.is_closed { Ok(0) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.log.note("written");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.try_flush()
    }
}

impl blocking::Duplex for Slow {
    fn set_read_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_write_timeout(&mut self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.log.note("closed");
        self.is_closed = true;
        Ok(())
    }
}

impl AsyncRead for Slow {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_closed { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncWrite for Slow {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.note("written");
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.try_flush() {
            Ok(()) => Poll::Ready(Ok(())),
            Err(_) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.log.note("closed");
        self.is_closed = true;
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(()))
    }
}

/// With the real limit, of the memory that stacks are made of: in its own process, since the limit is the
/// process's.
#[cfg(target_os = "linux")]
#[test]
fn a_process_without_threads_waits_for_them() {
    const NAME: &str = "worker::limits::a_process_without_threads_waits_for_them";
    if let (Ok(face), Ok(address)) = (std::env::var("FACE"), std::env::var("WITHOUT_THREADS")) {
        return without_threads(&address, |options| match face.as_str() {
            "blocking" => {
                let mut worker = blocking::Worker::new(options).unwrap();
                worker.register("default", |_| Outcome::Delete).unwrap();
                worker.run()
            }
            _ => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let mut worker = Worker::new(options).unwrap();
                worker.register("default", |_| async { Outcome::Delete }).unwrap();
                runtime.unwrap().block_on(worker.run())
            }
        });
    }
    for face in ["async", "blocking"] {
        let server = Server::start().unwrap();
        let port = server.socket_addr().unwrap().port();
        // The name has to be resolved, which takes the async face a thread.
        let address = format!("localhost:{port}");
        crate::support::run_alone(NAME, &[("FACE", face), ("WITHOUT_THREADS", &address)]);
    }
}

/// Runs a worker that gets no thread until it has reported that.
#[cfg(target_os = "linux")]
fn without_threads(
    address: &str,
    run: impl FnOnce(WorkerOptions) -> beanstalk_client::WorkerReport,
) {
    use beanstalk_client::{WorkerEvent, WorkerEventKind};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let port = address.rsplit(':').next().unwrap();
    let mut client = blocking::Client::connect(format!("127.0.0.1:{port}")).unwrap();
    for _ in 0..10 {
        let _ = client.put("x", Default::default()).unwrap();
    }
    let unlimited = getrlimit(Resource::As);
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let quick = Duration::from_millis(1);
    let options = WorkerOptions::new(address).unwrap().slots(2).until_empty();
    let options = options.reconnect_backoff(quick, quick).on_event(move |event: &WorkerEvent| {
        if let WorkerEventKind::Disconnected(error) = &event.what {
            let mut told = seen.lock().unwrap();
            told.push((event.slot, error.to_string()));
            if told.iter().any(|(slot, _)| *slot == 0) && told.iter().any(|(slot, _)| *slot == 1) {
                setrlimit(Resource::As, unlimited).unwrap();
            }
        }
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kilobytes: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    let present = kilobytes * 1024;
    setrlimit(Resource::As, Rlimit { current: Some(present + (1 << 20)), ..unlimited }).unwrap();
    let report = run(options);
    let told = told.lock().unwrap();
    assert!(told.iter().all(|(_, error)| error.contains("no thread")), "{told:?}");
    assert!(told.len() >= 2, "{told:?}");
    assert_eq!((report.finished, report.total()), (10, 10), "{told:?}");
}
