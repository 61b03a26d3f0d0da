//! Which processor cores the server and the clients run on.

use anyhow::Result;
use clap::ValueEnum;

/// Where the server and the clients run.
///
/// With one core, a client's own work adds to the time of every job, and nothing depends on how fast one core wakes
/// another; that makes the ratios repeatable even on a busy machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cores {
    /// Both on the same core: every instruction of a client counts
    One,
    /// The server on one core, the clients on another: they overlap, and wake each other across cores
    Two,
    /// Wherever the operating system puts them
    Any,
}

impl Cores {
    /// Starts the server on its core, and moves this process, with whatever it starts later, to the clients' core.
    pub fn place<S>(self, start_server: impl FnOnce() -> Result<S>) -> Result<S> {
        if self == Cores::Any {
            return start_server();
        }
        let mut cores = allowed()?.into_iter().rev();
        let first = cores.next();
        pin(first)?;
        let server = start_server()?;
        if self == Cores::Two {
            pin(cores.next().or(first))?;
        }
        Ok(server)
    }
}

/// The cores that this process may run on.
#[cfg(target_os = "linux")]
fn allowed() -> Result<Vec<usize>> {
    use nix::{
        sched::{CpuSet, sched_getaffinity},
        unistd::Pid,
    };

    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).collect())
}

/// Runs this process on that core only.
#[cfg(target_os = "linux")]
fn pin(core: Option<usize>) -> Result<()> {
    use nix::{
        sched::{CpuSet, sched_setaffinity},
        unistd::Pid,
    };

    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Result<Vec<usize>> {
    eprintln!("bench: cores can be chosen on Linux only");
    Ok(Vec::new())
}

#[cfg(not(target_os = "linux"))]
fn pin(_core: Option<usize>) -> Result<()> {
    Ok(())
}
