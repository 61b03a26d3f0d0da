//! The tool bsctl, measured as a process: start-up time, and memory while it imports jobs.

use std::{
    io::{BufWriter, Write},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use beanstalk_client::blocking::Client;
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use tempfile::NamedTempFile;

use super::start;
use crate::{figures::Figures, measure::median};

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct ToolOptions {
    /// The program to measure; `cargo build --release --bin bsctl` makes it
    #[arg(long, env = "BSCTL", value_name = "FILE", default_value = "target/release/bsctl")]
    bsctl: PathBuf,
    /// Jobs to import
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    jobs: u64,
    /// How often a process is started
    #[arg(long, value_name = "N", default_value_t = 51)]
    starts: u32,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// The most memory that an import may take, in MiB.
const MEMORY_TARGET: f64 = 64.0;

/// Measures the tool and prints what came out.
pub fn run_tool(options: &ToolOptions) -> Result<()> {
    ensure!(
        options.bsctl.is_file(),
        "{} is not there: build it with `cargo build --release --bin bsctl`, or say --bsctl FILE",
        options.bsctl.display()
    );
    let (server, _) = start()?;
    let figures = Figures { json: options.json };
    measure_starts(options, figures, server.address())?;
    // The smaller one first, because the system reports the largest child so far.
    for jobs in [options.jobs / 10, options.jobs] {
        measure_import(options, figures, server.address(), jobs)?;
    }
    Ok(())
}

fn measure_starts(options: &ToolOptions, figures: Figures, address: &str) -> Result<()> {
    let bsctl = options.bsctl.as_os_str();
    let commands: [(&str, Vec<&std::ffi::OsStr>); 3] = [
        ("start of true", vec!["true".as_ref()]),
        ("start of bsctl --version", vec![bsctl, "--version".as_ref()]),
        (
            "start of bsctl put",
            vec![bsctl, "-a".as_ref(), address.as_ref(), "put".as_ref(), "hello".as_ref()],
        ),
    ];
    let mut times = commands.each_ref().map(|_| Vec::new());
    for _ in 0..options.starts {
        for ((_, words), times) in commands.iter().zip(&mut times) {
            times.push(run_once(words)?.as_secs_f64() * 1000.0);
        }
    }
    for ((name, _), times) in commands.iter().zip(times) {
        figures.print(name, median(times), "ms", None);
    }
    let mut client = Client::connect(address)?;
    let put = client.stats()?.total_jobs;
    ensure!(put == u64::from(options.starts), "{put} jobs arrived, not {}", options.starts);
    Ok(())
}

fn measure_import(options: &ToolOptions, figures: Figures, address: &str, jobs: u64) -> Result<()> {
    let tube = format!("import-{jobs}");
    let file = records(jobs)?;
    let time = run_once(&[
        options.bsctl.as_os_str(),
        "-a".as_ref(),
        address.as_ref(),
        "import".as_ref(),
        "--tube".as_ref(),
        tube.as_ref(),
        file.path().as_os_str(),
    ])?;
    let stats = Client::connect(address)?.stats_tube(tube)?.context("no job was imported")?;
    let ready = stats.current_jobs_ready;
    ensure!(ready == jobs, "{ready} jobs were imported, not {jobs}");
    let name = format!("import of {jobs} jobs");
    figures.print(&format!("{name}, time"), time.as_secs_f64() * 1000.0, "ms", None);
    figures.print(&format!("{name}, memory"), children_memory()?, "MiB", Some(MEMORY_TARGET));
    Ok(())
}

/// A file of that many records as `bsctl export` writes them, with bodies of 64 bytes.
fn records(jobs: u64) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    let mut out = BufWriter::new(&mut file);
    for number in 1..=jobs {
        writeln!(
            out,
            r#"{{"v":1,"id":{number},"tube":"default","state":"ready","pri":1024,"delay":0,"ttr":60,"age":12,"reserves":0,"timeouts":0,"releases":0,"buries":0,"kicks":0,"body":"{number:064}"}}"#
        )?;
    }
    out.flush()?;
    drop(out);
    Ok(file)
}

/// Runs a command until it ends, and returns how long that took.
fn run_once(words: &[&std::ffi::OsStr]) -> Result<Duration> {
    let (program, arguments) = words.split_first().context("no command")?;
    let start = Instant::now();
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let time = start.elapsed();
    ensure!(
        output.status.success(),
        "{} ended with {}: {}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(time)
}

/// The most memory that any child so far had resident, in MiB.
fn children_memory() -> Result<f64> {
    let size = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() as f64;
    // Kibibytes, but bytes on macOS.
    Ok(if cfg!(target_os = "macos") { size / 1024.0 / 1024.0 } else { size / 1024.0 })
}
