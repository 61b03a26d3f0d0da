//! `bench`: how fast a server answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use ctl_core::commands::bench::{self, Done, Kind, Plan};
use ctl_core::commands::roundtrip::scratch_name;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::messages::Messages;
use ctl_core::system::process;
use ctl_core::system::signals::Interrupts;
use gearman_client::blocking::{Client, Worker};
use gearman_client::protocol::{AdminCommand, Echo, Submit};
use gearman_client::{FunctionName, SubmitOptions};

use crate::error::cli_error;
use crate::link::{Answer, Link, next_job, status_of, worker};
use crate::names::{self, show_function};
use crate::tool::Tool;

/// The end of `bench --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB_BG, ECHO_REQ, SUBMIT_JOB, GRAB_JOB_UNIQ, WORK_COMPLETE, drop function, with a temporary function.
  submit     submit a background job
  echo       a round trip without side effects (ECHO_REQ)
  roundtrip  submit a job and wait for its result; a worker for each client
  worker     grab and complete a job that was submitted beforehand
A named function must have no jobs and no workers; everything queued for it is completed at the end, and it is dropped
where the server supports that. With several servers, only the first one is measured.
Without --rate, each client sends its next operations once the previous ones are answered (a closed loop), so a slow
reply hides how long others would have waited. With --rate, operations are due by the clock, and their times count from
then.
Ctrl-C ends the run, prints the results so far and empties the function. Failed operations give exit 3, a --fail-if that
holds exit 1. The last row is the total of all clients.

Examples:
  gearctl bench submit -j 4 --batch 100 --duration 10s --size 1k..64k
  gearctl bench roundtrip --rate 500 --duration 30s --fail-if 'p99>50ms'";

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure: submit, echo, roundtrip, worker
    #[arg(value_name = "MODE", default_value = "roundtrip", hide_possible_values = true)]
    mode: Mode,

    /// Function to use [default: one with a random name]
    #[arg(short, long, value_name = "FUNCTION")]
    function: Option<String>,

    #[command(flatten)]
    bench: bench::LoadArgs,
}

/// The measured operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Submit a background job.
    Submit,
    /// A round trip.
    Echo,
    /// Submit a job and wait for its result.
    Roundtrip,
    /// Grab and complete a job.
    Worker,
}

/// Runs `bench`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: BenchArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("bench", "gearctl --embedded bench, to leave the server alone")?;
    tool.out.expect(&bench::ROWS)?;
    let interrupts = tool.interrupts()?;
    let function = match &args.function {
        Some(name) => names::function(name)?,
        None => names::function(&scratch_name("gearctl", "bench"))?,
    };
    let (kind, pipelines) = match args.mode {
        Mode::Submit => (Kind::Leaving, true),
        Mode::Echo => (Kind::Passing, true),
        Mode::Roundtrip => (Kind::Passing, false),
        Mode::Worker => (Kind::Taking, false),
    };
    let plan = Plan::new(&args.bench, (args.mode, kind, pipelines), None)?;
    // Connects like other commands, so that --wait-for-server applies here, too.
    tool.link.client()?;
    if args.mode != Mode::Echo {
        check_unused(&mut tool.link, &function)?;
    }
    let measured = measure(tool, &plan, args.mode, &function, &interrupts);
    match (args.mode, plan.keeps()) {
        (Mode::Echo, _) => {}
        (_, true) => tool.messages.note(format!("its jobs of {} stay", show_function(&function))),
        (_, false) => clean_up(&mut tool.link, &function, &tool.messages),
    }
    measured?.report(tool, plan, &interrupts)
}

/// The benchmark must not take other clients' jobs, nor they its own.
fn check_unused(link: &mut Link, function: &FunctionName) -> Result<(), CliError> {
    let Some(status) = status_of(link, function)? else { return Ok(()) };
    let name = show_function(function);
    let why = match (status.total, status.workers) {
        (0, 0) => return Ok(()),
        (0, _) => format!("{name} has workers, which would take the benchmark's jobs"),
        (jobs, _) => format!("{name} has jobs ({jobs}), but a benchmark empties its function"),
    };
    Err(CliError::usage(why).hint("leave out --function to use a temporary one"))
}

fn measure(
    tool: &mut Tool,
    plan: &Plan,
    mode: Mode,
    function: &FunctionName,
    interrupts: &Interrupts,
) -> Result<bench::Measured, CliError> {
    let link = &mut tool.link;
    if mode == Mode::Worker {
        let mut client = Submitter::new(link, mode, function)?;
        plan.fill(interrupts, |bodies, done| client.submit(bodies, done))?;
    }
    let mut workers = Workers::default();
    let mut clients = Vec::new();
    for _ in 0..plan.clients() {
        if mode == Mode::Roundtrip {
            workers.start(link, function)?;
        }
        clients.push(match mode {
            Mode::Worker => {
                BenchClient::Grabs(worker(link.worker_options()?, function)?, link.patience())
            }
            _ => BenchClient::Submits(Submitter::new(link, mode, function)?),
        });
    }
    bench::measure(plan, clients, &tool.messages, interrupts)
}

enum BenchClient {
    Submits(Submitter),
    /// With the time that the server may take to say whether it has a job.
    Grabs(Worker, Duration),
}

impl bench::Client for BenchClient {
    fn perform(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        match self {
            Self::Submits(submitter) => submitter.perform(bodies, done),
            Self::Grabs(worker, patience) => {
                for _ in bodies {
                    let Some(job) = next_job(worker, *patience, || false)? else { break };
                    done(worker.complete(job, b"").map_err(cli_error));
                }
                Ok(())
            }
        }
    }
}

struct Submitter {
    client: Client,
    mode: Mode,
    function: FunctionName,
}

impl Submitter {
    fn new(link: &mut Link, mode: Mode, function: &FunctionName) -> Result<Self, CliError> {
        let mut client = Client::connect(link.dialer.only()?).map_err(cli_error)?;
        client.set_total_timeout(link.dialer.call_bound());
        Ok(Self { client, mode, function: function.clone() })
    }

    fn submit(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        let submit = |body: &Bytes| {
            Submit::background(self.function.clone(), body.clone(), SubmitOptions::default())
        };
        let submits =
            bodies.iter().map(submit).collect::<Result<Vec<_>, _>>().map_err(cli_error)?;
        let outcomes = self.client.call_many(submits);
        outcomes.for_each(|outcome| done(outcome.map(drop).map_err(cli_error)));
        Ok(())
    }

    fn perform(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError> {
        match self.mode {
            Mode::Echo => {
                let outcomes = self.client.call_many(bodies.iter().cloned().map(Echo));
                outcomes.for_each(|outcome| done(outcome.map(drop).map_err(cli_error)));
            }
            Mode::Roundtrip => {
                for body in bodies {
                    let options = SubmitOptions::default();
                    let outcome = self.client.run(self.function.clone(), body, options);
                    done(match outcome.map(|outcome| outcome.complete()) {
                        Ok(Some(back)) if back == *body => Ok(()),
                        Ok(_) => {
                            let why = "a job returned a wrong result";
                            Err(CliError::new(Exit::Protocol, "OTHER_RESULT", why))
                        }
                        Err(error) => Err(cli_error(error)),
                    });
                }
            }
            Mode::Submit | Mode::Worker => self.submit(bodies, done)?,
        }
        Ok(())
    }
}

/// Workers that return their workloads, until this value is dropped.
#[derive(Default)]
struct Workers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// How often a waiting worker checks whether to stop.
const SLICE: Duration = Duration::from_millis(100);

impl Workers {
    fn start(&mut self, link: &mut Link, function: &FunctionName) -> Result<(), CliError> {
        let (mut worker, stop) =
            (worker(link.worker_options()?, function)?, Arc::clone(&self.stop));
        let work = move || {
            while !stop.load(Ordering::Relaxed) {
                // A failure here also shows at the client that waits for the job.
                if let Ok(Some(job)) = worker.next_job(SLICE) {
                    let body = job.workload.clone();
                    let _ = worker.complete(job, body);
                }
            }
        };
        self.threads.push(process::thread("worker", work)?);
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How long connections that have just been closed may keep a function in use.
const BOUND: Duration = Duration::from_secs(5);

/// Completes the remaining jobs and drops the function, also after Ctrl-C.
fn clean_up(link: &mut Link, function: &FunctionName, messages: &Messages) {
    let name = show_function(function);
    let why = match empty(link, function).and_then(|()| remove(link, function)) {
        Ok(Some(Answer::Came(()))) => return,
        Ok(Some(Answer::Unsupported(_))) => "the server cannot drop it".to_owned(),
        Ok(Some(Answer::Silent(_))) => "no reply to drop function".to_owned(),
        Ok(None) => "it is still in use".to_owned(),
        Err(error) => error.message,
    };
    messages.note(format!("the function {name} stays on the server: {why}"));
}

/// Drops a function whose workers have just disconnected, which the server notices a moment later. None if it stays in
/// use.
fn remove(link: &mut Link, function: &FunctionName) -> Result<Option<Answer<()>>, CliError> {
    let (start, command) = (Instant::now(), AdminCommand::DropFunction(function.clone()));
    loop {
        let reply = link.probe(&command);
        match reply.and_then(|answer| answer.and_then(|reply| reply.ok().map_err(cli_error))) {
            Err(error) if error.code != "FUNCTION_IN_USE" => return Err(error),
            Ok(answer) => return Ok(Some(answer)),
            Err(_) if start.elapsed() >= BOUND => return Ok(None),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn empty(link: &mut Link, function: &FunctionName) -> Result<(), CliError> {
    if status_of(link, function)?.is_none_or(|status| status.total <= 0) {
        return Ok(());
    }
    let mut worker = worker(link.worker_options()?, function)?;
    while let Some(job) = next_job(&mut worker, link.patience(), || false)? {
        worker.complete(job, b"").map_err(cli_error)?;
    }
    let _ = worker.stop();
    Ok(())
}
