//! Many threads or tasks that share the jobs of one run; knows no queue.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

/// The share of one of `many` of these jobs.
pub fn share(jobs: u64, many: usize, number: usize) -> u64 {
    (jobs + number as u64) / many.max(1) as u64
}

/// Makes each member do its share of the jobs in a thread of its own. The time starts once all threads run.
pub fn crowd<M: Send>(
    members: &mut [M],
    jobs: u64,
    work: impl Fn(&mut M, u64) -> Result<()> + Sync,
) -> Result<Duration> {
    let many = members.len();
    let (all_run, work) = (&Barrier::new(many + 1), &work);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, member) in members.iter_mut().enumerate() {
            threads.push(scope.spawn(move || {
                all_run.wait();
                work(member, share(jobs, many, number))
            }));
        }
        all_run.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(start.elapsed())
    })
}
