//! Interleaved rounds, medians and ratios; knows no queue.

use std::time::Duration;

use anyhow::Result;

/// How long and how often each contender runs in a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds that count. One more comes first; it warms up and finds out how many jobs fill a slice.
    pub rounds: usize,
    /// What one run of the first contender should take.
    pub slice: Duration,
    /// The fewest jobs of one run, however slow they go.
    pub fewest_jobs: u64,
    /// The most jobs of one run, however fast they go.
    pub most_jobs: u64,
}

/// A contender that is slower than the first one by this factor does fewer jobs.
const MOST_SLICES: f64 = 8.0;

/// The rates of one contender in jobs per second, one for each round.
#[derive(Clone, Debug, Default)]
pub struct Rates(Vec<f64>);

impl Rates {
    /// Adds a run.
    pub fn add(&mut self, jobs: u64, time: Duration) {
        self.0.push(per_second(jobs, time));
    }

    /// The middle rate.
    pub fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// The median over the rounds of this rate divided by the other one in the same round: what slows down a whole
    /// round cancels out.
    pub fn ratio_to(&self, other: &Rates) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }
}

/// Runs every contender in every round, each round in another order.
///
/// `run` does that many jobs with that contender and returns the time they took, without the time for preparations. The
/// number of jobs is the same for all, so that all find the server in the same state; it is what the first contender
/// does in one slice. Only one that would take very long does fewer.
pub fn interleave<C>(
    plan: Plan,
    contenders: &mut [C],
    mut run: impl FnMut(&mut C, u64) -> Result<Duration>,
) -> Result<Vec<Rates>> {
    let mut speeds = Vec::new();
    for contender in contenders.iter_mut() {
        speeds.push(try_out(plan, |jobs| run(contender, jobs))?);
    }
    let slice = plan.slice.as_secs_f64();
    let fits = |speed: f64| ((speed * slice) as u64).clamp(plan.fewest_jobs, plan.most_jobs);
    let jobs = fits(speeds.first().copied().unwrap_or_default());
    let mut rates = vec![Rates::default(); contenders.len()];
    let mut chance = Chance(1);
    for _ in 0..plan.rounds {
        let mut order: Vec<_> = contenders.iter_mut().zip(&mut rates).zip(&speeds).collect();
        while !order.is_empty() {
            let ((contender, rates), speed) = order.swap_remove(chance.below(order.len()));
            let jobs = jobs.min(fits(speed * MOST_SLICES));
            rates.add(jobs, run(contender, jobs)?);
        }
    }
    Ok(rates)
}

/// Warms up, and finds out the speed: with more jobs if the fewest take no time.
fn try_out(plan: Plan, mut run: impl FnMut(u64) -> Result<Duration>) -> Result<f64> {
    let time = run(plan.fewest_jobs)?;
    let more = (plan.most_jobs / 20).max(plan.fewest_jobs);
    if time > plan.slice || more == plan.fewest_jobs {
        return Ok(per_second(plan.fewest_jobs, time));
    }
    Ok(per_second(more, run(more)?))
}

/// Numbers without a pattern, the same ones in every run (a linear congruential generator).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
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
    fn every_contender_does_the_same_number_of_jobs_in_every_round() {
        let plan =
            Plan { rounds: 20, slice: Duration::from_millis(64), fewest_jobs: 10, most_jobs: 200 };
        let mut ran = Vec::new();
        let rates = interleave(plan, &mut ['a', 'b'], |name, jobs| {
            ran.push((*name, jobs));
            // 'a' does a thousand jobs in a second, 'b' half as many.
            Ok(Duration::from_millis(if *name == 'a' { jobs } else { 2 * jobs }))
        });
        let rates = rates.expect("nothing failed");
        assert_eq!(rates[1].ratio_to(&rates[0]), 0.5);
        assert_eq!(rates[0].median(), 1000.0);
        let rounds: Vec<_> = ran[2..].chunks(2).collect();
        assert_eq!(rounds.len(), 20);
        assert!(
            rounds.iter().all(|round| round.contains(&('a', 64)) && round.contains(&('b', 64)))
        );
        let starts = rounds.iter().filter(|round| round[0].0 == 'a').count();
        assert!((1..20).contains(&starts), "the order never changed");
    }

    #[test]
    fn a_slow_contender_runs_fewer_jobs() {
        let plan =
            Plan { rounds: 1, slice: Duration::from_millis(100), fewest_jobs: 2, most_jobs: 1000 };
        let mut most = [0, 0];
        let rates = interleave(plan, &mut [0, 1], |which, jobs| {
            most[*which] = jobs.max(most[*which]);
            Ok(Duration::from_millis(if *which == 0 { jobs } else { 40 * jobs }))
        });
        assert_eq!(most, [100, 50]);
        assert_eq!(rates.expect("nothing failed")[1].median(), 25.0);
    }
}
