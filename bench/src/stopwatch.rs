//! How long something takes: in time, or in time of the processor; knows no queue.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::ValueEnum;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// The time that passes
    Wall,
    /// The time that a processor works for the server and the clients (Linux only): what else the machine does hardly
    /// matters, and neither does time that is spent waiting
    Processor,
}

/// A process whose work counts, beside this one's; none while time that passes is measured.
static SERVER: OnceLock<u32> = OnceLock::new();

impl Clock {
    /// Chooses what every stopwatch measures from now on.
    pub fn choose(self, server: Option<u32>) -> Result<()> {
        if self == Clock::Wall {
            return Ok(());
        }
        anyhow::ensure!(cfg!(target_os = "linux"), "processor time can be measured on Linux only");
        let server = server.unwrap_or_else(std::process::id);
        let _ = SERVER.set(server);
        Ok(())
    }

    /// The process whose work counts, beside that of the clients.
    pub fn server() -> Option<u32> {
        SERVER.get().copied()
    }
}

/// Runs from its start on.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    passed: Instant,
    worked: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Stopwatch {
            passed: Instant::now(),
            worked: Clock::server().map(worked).unwrap_or_default(),
        }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        match Clock::server() {
            None => self.passed.elapsed(),
            Some(server) => worked(server).saturating_sub(self.worked),
        }
    }
}

/// How long the processor has worked for this process and for the server; nothing where that is unknown.
#[cfg(target_os = "linux")]
fn worked(server: u32) -> Duration {
    use nix::{
        time::{ClockId, clock_gettime},
        unistd::Pid,
    };

    let of = |clock| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    let server = i32::try_from(server).map(Pid::from_raw);
    let server = server.ok().and_then(|pid| ClockId::pid_cpu_clock_id(pid).ok());
    of(ClockId::CLOCK_PROCESS_CPUTIME_ID) + server.map(of).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn worked(_server: u32) -> Duration {
    Duration::ZERO
}
