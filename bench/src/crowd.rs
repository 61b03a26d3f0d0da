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

/// Makes each member do its share of the jobs in a thread of its own. The time goes from the first one's start to the last
/// one's end: threads start and end in any order, and take time for it.
pub fn crowd<M: Send>(
    members: &mut [M],
    jobs: u64,
    work: impl Fn(&mut M, u64) -> Result<()> + Sync,
) -> Result<Duration> {
    let many = members.len();
    let (all_run, work) = (&Barrier::new(many), &work);
    thread::scope(|scope| {
        let start = |(number, member)| {
            scope.spawn(move || {
                all_run.wait();
                let start = Instant::now();
                work(member, share(jobs, many, number)).map(|()| (start, Instant::now()))
            })
        };
        let threads: Vec<_> = members.iter_mut().enumerate().map(start).collect();
        let mut first_and_last: Option<(Instant, Instant)> = None;
        for thread in threads {
            let (start, end) = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            let (first, last) = first_and_last.unwrap_or((start, end));
            first_and_last = Some((first.min(start), last.max(end)));
        }
        Ok(first_and_last.map(|(first, last)| last - first).unwrap_or_default())
    })
}
