//! Instructions of a process, counted by valgrind; knows no queue.

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

/// Counts the instructions of each job in this program's own subcommand `arguments`, which gets a number of jobs with
/// `--jobs`: two runs with different numbers, so that start and end cancel out. `prepare` comes before each run.
pub fn per_job(
    arguments: &[&str],
    jobs: [u64; 2],
    mut prepare: impl FnMut(u64) -> Result<()>,
) -> Result<u64> {
    let [few, many] = jobs;
    let mut count = |jobs| {
        prepare(jobs)?;
        of_run(arguments, jobs)
    };
    let (less, more) = (count(few)?, count(many)?);
    Ok(more.saturating_sub(less) / (many - few).max(1))
}

fn of_run(arguments: &[&str], jobs: u64) -> Result<u64> {
    let folder = tempfile::TempDir::new()?;
    let file = folder.path().join("callgrind.out");
    let mut out = std::ffi::OsString::from("--callgrind-out-file=");
    out.push(&file);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(out)
        .arg(std::env::current_exe()?)
        .args(arguments)
        .args(["--jobs", &jobs.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("valgrind cannot be started: install the package `valgrind`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", arguments.join(" "), said.trim());
    let counted = fs::read_to_string(&file)?;
    for line in counted.lines() {
        if let Some(total) = line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")) {
            let total = total.split_whitespace().next().unwrap_or_default();
            return total.parse().context("a count that is not a number");
        }
    }
    bail!("valgrind has written no count")
}
