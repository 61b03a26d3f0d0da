//! The crate `rustygear`, async, on a current-thread runtime. Neither its client nor its worker does two things at
//! once.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, bail};
use rustygear::client::{Client, WorkUpdate};
use tokio::{sync::mpsc, time::timeout};

use super::said;
use crate::{
    gearmand::scenario::{Contender, Kind, LIMIT, Scenario, Task, Work},
    stopwatch::Stopwatch,
};

pub struct Rustygear {
    address: String,
}

impl Rustygear {
    pub fn new(address: SocketAddr) -> Self {
        Rustygear { address: address.to_string() }
    }
}

impl Contender for Rustygear {
    fn name(&self) -> &'static str {
        "rustygear"
    }

    fn can(&self, scenario: &Scenario) -> bool {
        if scenario.functions > 1 || scenario.size > 64 {
            return false;
        }
        // It keeps at most 100 answers that nobody has read yet.
        !matches!(scenario.task, Task::Foreground { in_flight } if in_flight > 1)
    }

    fn run(&mut self, work: &Work<'_>) -> Result<Duration> {
        let address = &self.address;
        // A runtime for each run, because its tasks end only with it.
        let runtime = Kind::Async.runtime()?;
        let time = runtime.block_on(async {
            let running = async {
                let client =
                    &mut Client::new().add_server(address).connect().await.map_err(said)?;
                match work.task {
                    Task::Work { .. } => serve(address, work).await,
                    Task::RoundTrip => round_trips(client, work).await,
                    Task::Foreground { .. } => {
                        let mut worker = worker(address, work).await?.0;
                        let serve = async {
                            for _ in 0..work.jobs {
                                worker.do_one_job().await.map_err(said)?;
                            }
                            anyhow::Ok(())
                        };
                        Ok(tokio::try_join!(round_trips(client, work), serve)?.0)
                    }
                    _ => submit(client, work).await,
                }
            };
            timeout(LIMIT, running).await
        })?;
        runtime.shutdown_background();
        time
    }
}

async fn submit(client: &mut Client, work: &Work<'_>) -> Result<Duration> {
    let start = Stopwatch::start();
    for _ in 0..work.jobs {
        client.submit_background(work.function(), work.workload).await.map_err(said)?;
    }
    Ok(start.elapsed())
}

async fn round_trips(client: &mut Client, work: &Work<'_>) -> Result<Duration> {
    let start = Stopwatch::start();
    for _ in 0..work.jobs {
        let mut job = client.submit(work.function(), work.workload).await.map_err(said)?;
        match job.response().await.map_err(said)? {
            WorkUpdate::Complete { .. } => {}
            other => bail!("a job ended with {other:?}"),
        }
    }
    Ok(start.elapsed())
}

/// A worker, and a message for every job that it did.
async fn worker(address: &str, work: &Work<'_>) -> Result<(Client, mpsc::UnboundedReceiver<()>)> {
    let (done, doing) = mpsc::unbounded_channel();
    let mut worker = Client::new().add_server(address).connect().await.map_err(said)?;
    for function in work.functions {
        let (done, result) = (done.clone(), work.workload.to_vec());
        let handler = move |_job: &mut _| {
            // Nobody counts any more when the worker is being dropped.
            let _ = done.send(());
            Ok(result.clone())
        };
        worker = worker.can_do(function, handler).await.map_err(said)?;
    }
    Ok((worker, doing))
}

async fn serve(address: &str, work: &Work<'_>) -> Result<Duration> {
    let (mut worker, mut doing) = worker(address, work).await?;
    let start = Stopwatch::start();
    let mut done = 0;
    let mut asked = 0;
    while done < work.jobs {
        if asked < work.jobs {
            worker.do_one_job().await.map_err(said)?;
            asked += 1;
        } else {
            doing.recv().await;
            done += 1;
        }
    }
    let time = start.elapsed();
    // The last result is in flight.
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(time)
}
