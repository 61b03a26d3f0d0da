//! libgearman, by a small C program that is compiled when the benchmark starts and gets its instructions line by line.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::{
    gearmand::scenario::{BATCH, Contender, Scenario, Task, Work},
    stopwatch::Clock,
};

pub struct Libgearman {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

const PROGRAM: &str = include_str!("../../../peers/libgearman_peer.c");

impl Libgearman {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let folder = TempDir::new()?;
        let program = folder.path().join("libgearman_peer");
        compile(&folder, &program)?;
        let mut child = Command::new(&program)
            .args([address.ip().to_string(), address.port().to_string()])
            .arg(Clock::server().unwrap_or_default().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = child.stdin.take().context("no pipe to the program")?;
        let from = BufReader::new(child.stdout.take().context("no pipe from the program")?);
        let mut peer = Libgearman { child, to, from };
        let greeting = peer.line()?;
        ensure!(greeting == "ready", "the program said {greeting:?}");
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

fn compile(folder: &TempDir, program: &std::path::Path) -> Result<()> {
    let source = folder.path().join("peer.c");
    std::fs::write(&source, PROGRAM)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-O2", "-o"])
        .args([program, &source])
        .arg("-lgearman")
        .output()
        .with_context(|| format!("{} cannot be started", compiler.display()))?;
    ensure!(
        output.status.success(),
        "its headers or a C compiler are missing: install the package `libgearman-dev`, or set CC"
    );
    Ok(())
}

impl Contender for Libgearman {
    fn name(&self) -> &'static str {
        "libgearman"
    }

    fn can(&self, scenario: &Scenario) -> bool {
        // With workloads of 20 MB it waits for its own timeout.
        scenario.functions == 1 && scenario.size == 64
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let (verb, window) = match work.task {
            Task::Submit | Task::SubmitCallers { .. } => ("submit", 1),
            Task::SubmitBatch => ("batch", BATCH),
            Task::Work { .. } => ("work", 1),
            Task::RoundTrip => ("round-trip", 1),
            Task::Foreground { in_flight } => ("foreground", in_flight),
        };
        let (jobs, size, function) = (work.jobs, work.workload.len(), work.function());
        writeln!(self.to, "{verb} {jobs} {size} {window} {function}")?;
        let answer = self.line()?;
        match answer.strip_prefix("done ") {
            Some(nanoseconds) => Ok(Duration::from_nanos(nanoseconds.parse()?)),
            None => bail!("the program said {answer:?}"),
        }
    }
}

impl Drop for Libgearman {
    fn drop(&mut self) {
        // It may have ended on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
