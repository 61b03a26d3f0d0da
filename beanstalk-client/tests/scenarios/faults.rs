//! Faults on real sockets: connections cut and reset in the middle of replies, replies that answer nothing, bodies
//! larger than the memory for them.

use std::io::Write;

use beanstalk_client::ErrorKind;
use queue_core::proof::{Scripts, read_line, read_to_end};

use crate::support::{Face, place::options};

/// How much memory this process has ever used, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

const ALONE: &str = "TESTS_ALONE_IN_THE_PROCESS";

/// C13, B13, S5: a body of 256 MiB is skipped in a few MiB of memory. Other tests use memory too, so it runs alone in a
/// separate process.
#[cfg(target_os = "linux")]
#[test]
fn a_huge_body_is_skipped_in_little_memory() {
    const SIZE: usize = 256 << 20;
    if std::env::var_os(ALONE).is_none() {
        let name = "faults::a_huge_body_is_skipped_in_little_memory";
        return crate::support::run_alone(name, &[(ALONE, "1")]);
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
