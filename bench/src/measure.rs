//! Interleaved rounds, medians and ratios; knows no queue.

use std::time::Duration;

use anyhow::Result;

/// How long and how often each contender runs in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds that count. One more comes first and only finds out how many jobs fill a slice.
    pub rounds: usize,
    /// What one run of one contender should take.
    pub slice: Duration,
    /// The most jobs of one run, however fast they go.
    pub most_jobs: u64,
}

/// The fewest jobs of one run, however slow they go.
const FEWEST_JOBS: u64 = 64;

/// The rates of one contender in jobs per second, one for each round.
#[derive(Clone, Debug, Default)]
pub struct Rates(Vec<f64>);

impl Rates {
    /// The middle rate.
    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// The median over the rounds of this rate divided by the other one in the same round: what slows down a whole
    /// round falls out.
    pub fn ratio_to(&self, other: &Rates) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }
}

/// Runs every contender in every round, each round starting with another one.
///
/// `run` does that many jobs with that contender and returns the time they took, without the time for preparations.
pub fn interleave<C>(
    plan: Plan,
    contenders: &mut [C],
    mut run: impl FnMut(&mut C, u64) -> Result<Duration>,
) -> Result<Vec<Rates>> {
    let mut jobs = Vec::with_capacity(contenders.len());
    for contender in contenders.iter_mut() {
        let trial = (plan.most_jobs / 20).max(FEWEST_JOBS);
        let rate = per_second(trial, run(contender, trial)?);
        let wanted = (rate * plan.slice.as_secs_f64()) as u64;
        jobs.push(wanted.clamp(FEWEST_JOBS, plan.most_jobs));
    }
    let mut rates = vec![Rates::default(); contenders.len()];
    for round in 0..plan.rounds {
        let mut order: Vec<_> = contenders.iter_mut().zip(&jobs).zip(&mut rates).collect();
        let first = round % order.len().max(1);
        order.rotate_left(first);
        for ((contender, &jobs), rates) in order {
            let time = run(contender, jobs)?;
            rates.0.push(per_second(jobs, time));
        }
    }
    Ok(rates)
}

fn per_second(jobs: u64, time: Duration) -> f64 {
    jobs as f64 / time.as_secs_f64().max(1e-9)
}

/// The middle of these numbers, or the mean of the middle two; not a number when there is none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let at = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
    match numbers.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => at(count / 2),
        count => f64::midpoint(at(count / 2 - 1), at(count / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn every_contender_runs_in_every_round_and_the_first_one_changes() {
        let plan = Plan { rounds: 3, slice: Duration::from_millis(1), most_jobs: 100 };
        let mut ran = Vec::new();
        let rates = interleave(plan, &mut ['a', 'b'], |name, _| {
            ran.push(*name);
            Ok(Duration::from_millis(if *name == 'a' { 1 } else { 2 }))
        });
        assert_eq!(ran, ['a', 'b', 'a', 'b', 'b', 'a', 'a', 'b']);
        let rates = rates.expect("nothing failed");
        assert_eq!(rates[0].ratio_to(&rates[0]), 1.0);
        assert_eq!(rates.len(), 2);
    }
}
