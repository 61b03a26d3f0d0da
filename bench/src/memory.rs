//! Memory of a process; knows no queue.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

/// Counts the bytes of each thing in this program's own subcommand `arguments`, which gets with `--count` how many to
/// make, and prints its [resident] memory once they are there: two runs with different numbers, so that what a process
/// needs anyway cancels out.
pub fn per_thing(arguments: &[&str], counts: [u64; 2]) -> Result<f64> {
    let [few, many] = counts;
    let (less, more) = (of_run(arguments, few)?, of_run(arguments, many)?);
    Ok((more as f64 - less as f64) / (many - few) as f64)
}

fn of_run(arguments: &[&str], count: u64) -> Result<u64> {
    let output = Command::new(std::env::current_exe()?)
        .args(arguments)
        .args(["--count", &count.to_string()])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", arguments.join(" "), said.trim());
    let bytes = String::from_utf8_lossy(&output.stdout);
    bytes.trim().parse().context("a number of bytes that is not a number")
}

/// The memory of this process that is in use now, in bytes (Linux only).
pub fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")
        .context("memory can be measured on Linux only: /proc/self/status cannot be read")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = kib.context("/proc/self/status has no VmRSS")?.parse()?;
    Ok(kib * 1024)
}
