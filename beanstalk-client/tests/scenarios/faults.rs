//! Faults on real sockets: connections cut and reset in the middle of replies, replies that answer nothing, bodies
//! larger than the memory for them.

use std::{
    fmt::Debug,
    io::Write,
    sync::{Arc, Mutex},
};

use beanstalk_client::{ErrorKind, Fate, PutOptions, protocol::Command};
use fixtures::{beanstalkd::Server, fault::Fault};
use queue_core::proof::{Scripts, read_line, read_to_end};

use crate::support::{
    Face, both_faces,
    catalogue::{self, Visitor},
    place::{connect, options},
};

both_faces!(
    a_connection_cut_or_reset_in_a_reply_is_replaced,
    a_reserve_cut_at_any_byte_gives_the_job_back,
    a_reply_sent_twice_is_never_taken_for_the_next_one,
    replies_in_any_pieces_are_understood,
);

struct Cut<F> {
    server: Arc<Server>,
    client: F,
    cases: Arc<Mutex<usize>>,
}

impl<F: Face> Visitor for Cut<F> {
    fn visit<C>(&mut self, command: C, replies: &[&[u8]])
    where
        C: Command + Clone + Debug + Send + 'static,
        C::Reply: Debug + Send,
    {
        for reply in replies {
            for cut in [0, 1, reply.len() / 2, reply.len() - 1] {
                for reset in [false, true] {
                    *self.cases.lock().unwrap() += 1;
                    let fault = Fault::nth(1).of(C::NAME).reply_bytes(*reply);
                    let fault = if reset { fault.reset_after(cut) } else { fault.cut_after(cut) };
                    self.server.faults().add(fault);
                    let epoch = self.client.epoch();
                    let error = self.client.call(&command).map(|_| ()).unwrap_err();
                    assert_eq!(
                        (error.kind(), error.fate(), error.command()),
                        (ErrorKind::ConnectionLost, Fate::Unknown, Some(C::NAME)),
                        "{} after {cut} bytes: {error}",
                        C::NAME
                    );
                    assert!(!self.client.is_connected());
                    assert_eq!(self.client.list_tube_used().unwrap(), "default");
                    assert_ne!(self.client.epoch(), epoch);
                }
            }
        }
    }
}

/// C9 and C10 over TCP; every byte of every reply is cut on scripted streams elsewhere.
fn a_connection_cut_or_reset_in_a_reply_is_replaced<F: Face>() {
    let server = Arc::new(Server::start().unwrap());
    let cases = Arc::default();
    let client: F = connect(server.address());
    catalogue::each(&mut Cut { server, client, cases: Arc::clone(&cases) });
    assert!(*cases.lock().unwrap() > 300);
}

/// B4.
fn a_reserve_cut_at_any_byte_gives_the_job_back<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let id = client.put(b"body", PutOptions::default().priority(7)).unwrap().id();
    for cut in 0..b"RESERVED 1 4\r\nbody\r\n".len() {
        server.faults().add(Fault::nth(1).of("reserve-with-timeout").cut_after(cut));
        let error = client.reserve().unwrap_err();
        assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
        let job = client.reserve().unwrap().job().unwrap();
        assert_eq!((job.id, &*job.body), (id, &b"body"[..]));
        let stats = client.stats_job(id).unwrap().unwrap();
        assert_eq!((stats.pri.get(), stats.releases, stats.timeouts), (7, 0, 0));
        client.reconnect().unwrap();
    }
}

/// C11.
fn a_reply_sent_twice_is_never_taken_for_the_next_one<F: Face>() {
    for pieces in [1, 1000] {
        let server = Server::start().unwrap();
        let mut client: F = connect(server.address());
        server.faults().add(Fault::nth(1).of("use").duplicate().chunks(pieces));
        client.use_tube("mine").unwrap();
        // Whether the copy has come when the next command goes out is the network's affair: the answer is its own, or
        // an error.
        for _ in 0..10 {
            match client.stats_tube("mine") {
                Ok(stats) => assert_eq!(stats.unwrap().name, "mine"),
                Err(error) => assert!(
                    matches!(error.kind(), ErrorKind::Protocol | ErrorKind::ConnectionLost),
                    "{error}"
                ),
            }
        }
        assert_eq!(client.list_tube_used().unwrap(), "mine");
    }
}

fn replies_in_any_pieces_are_understood<F: Face>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let body: Vec<u8> = (0..=255).collect();
    for pieces in [1, 2, 3, 7, 100] {
        server.faults().clear();
        server.faults().add(Fault::always().chunks(pieces));
        let _ = client.put(&body, PutOptions::default()).unwrap();
        let job = client.reserve().unwrap().job().unwrap();
        assert_eq!(job.body, body);
        assert_eq!(client.stats().unwrap().entries().len(), 51);
        client.delete(&job).unwrap();
    }
}

/// How much memory this process has ever used, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

const ALONE: &str = "TESTS_ALONE_IN_THE_PROCESS";

/// C13, B13, S5: a body of 256 MiB is skipped in a few MiB of memory. Other tests use memory too, so it runs alone in a
/// process of its own.
#[cfg(target_os = "linux")]
#[test]
fn a_huge_body_is_skipped_in_little_memory() {
    const SIZE: usize = 256 << 20;
    if std::env::var_os(ALONE).is_none() {
        let name = "faults::a_huge_body_is_skipped_in_little_memory";
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && text.contains("1 passed"), "{text}{errors}");
        return;
    }
    fn check<F: Face>() {
        let server = Scripts::start(|_, mut stream| {
            while let Some(line) = read_line(&mut stream) {
                let reply = if line.starts_with("reserve") {
                    let _ = stream.write_all(format!("RESERVED 7 {SIZE}\r\n").as_bytes());
                    let piece = [b'x'; 65_536];
                    for _ in 0..SIZE / piece.len() {
                        let _ = stream.write_all(&piece);
                    }
                    "\r\n"
                } else {
                    "BURIED\r\n"
                };
                let _ = stream.write_all(reply.as_bytes());
            }
            read_to_end(&mut stream);
        });
        let mut client = F::connect(options(&server.address()).max_body_size(1 << 20)).unwrap();
        let error = client.reserve().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BodyTooLarge);
        client.bury(error.job().unwrap(), 0).unwrap();
    }
    let before = peak_memory();
    check::<crate::support::Async>();
    check::<crate::support::Blocking>();
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        assert!(after - before < 16 << 20, "{} bytes more", after - before);
    }
}
