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

/// Makes each member do its share of the jobs in its own thread. The time goes from the first one's start to the last
/// one's end: threads start and end in any order, and take time for it.
pub fn crowd<M: Send>(
    members: &mut [M],
    jobs: u64,
    work: impl Fn(&mut M, u64) -> Result<()> + Sync,
) -> Result<Duration> {
    let many = members.len();
    let (all_run, work) = (&Barrier::new(many), &work);
    thread::scope(|scope| {
        let begin = |(number, member)| {
            scope.spawn(move || {
                all_run.wait();
                let start = Instant::now();
                work(member, share(jobs, many, number)).map(|()| (start, Instant::now()))
            })
        };
        let threads: Vec<_> = members.iter_mut().enumerate().map(begin).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect::<Result<Vec<_>>>()?;
        let first = ended.iter().map(|(start, _)| *start).min();
        let last = ended.iter().map(|(_, end)| *end).max();
        Ok(first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first))
    })
}
