//! Which jobs a worker inspects, and that it finds the one that ends every process.

use beanstalk_client::{Inspect, Outcome, WorkerOptions};

use super::world::World;

fn options() -> WorkerOptions {
    WorkerOptions::new("127.0.0.1:1").unwrap().seed(7)
}

/// Processes that work on the same tube. One that runs the job that ends it is restarted.
struct Processes {
    world: World,
    lanes: Vec<usize>,
    poison: u64,
    ended: usize,
}

impl Processes {
    fn new(count: usize) -> Self {
        let mut world = World::new();
        let lanes = (0..count).map(|_| world.worker(&options())).collect();
        Processes { world, lanes, poison: 0, ended: 0 }
    }

    /// Puts jobs, all of which are done.
    fn work(&mut self, jobs: usize, priority: u32) {
        for _ in 0..jobs {
            self.world.put_at(priority, 600);
            self.turn();
        }
    }

    /// Lets handlers process their jobs; returns whether there were any.
    fn turn(&mut self) -> bool {
        let mut has_run = false;
        for lane in &mut self.lanes {
            while let Some((_, job)) = self.world.seen(*lane).running.first().copied() {
                has_run = true;
                if job != self.poison {
                    self.world.finish(*lane, Outcome::Delete);
                    continue;
                }
                self.ended += 1;
                self.world.cut(*lane);
                self.world.hold_back(*lane);
                *lane = self.world.worker(&options());
            }
        }
        has_run
    }

    /// Lets it end processes until it is buried.
    fn until_buried(&mut self, mut between: impl FnMut(&mut World)) {
        self.poison = self.world.put(600);
        for _ in 0..1_000 {
            between(&mut self.world);
            while self.turn() {}
            if self.world.stat(self.poison, "state") == "buried" {
                return;
            }
        }
        panic!("it ended {} processes", self.ended);
    }
}

/// By default, 25 reserves are the limit.
const LIMIT: usize = 25;

#[test]
fn a_job_that_ends_its_process_is_found_by_the_next_ones() {
    let mut processes = Processes::new(1);
    processes.work(100, 77);
    processes.until_buried(|_| {});
    assert_eq!(processes.ended, LIMIT);
    assert!(!processes.world.seen(processes.lanes[0]).lines.is_empty());
}

#[test]
fn a_job_that_ends_processes_is_found_however_much_comes_before_it() {
    let mut processes = Processes::new(1);
    processes.work(100, 77);
    processes.until_buried(|world| {
        for _ in 0..40 {
            world.put_at(1, 600);
        }
    });
    assert_eq!(processes.ended, LIMIT);
}

#[test]
fn a_job_that_ends_processes_is_found_by_those_that_share_a_tube() {
    let mut processes = Processes::new(4);
    // None of them inspects every job any more.
    processes.work(400, 77);
    processes.until_buried(|world| {
        world.put(600);
    });
    assert!((LIMIT..LIMIT + 4).contains(&processes.ended), "{}", processes.ended);
}

#[test]
fn inspects_returned_jobs_always_and_new_ones_rarely() {
    for (inspect, most) in [(Inspect::Suspects, 100), (Inspect::Before, 500)] {
        let mut world = World::new();
        let worker = world.worker(&options().inspect(inspect));
        world.finish_at_once(worker, Outcome::Delete);
        for _ in 0..500 {
            world.put(600);
        }
        let looks = world.seen(worker).count("stats-job");
        assert!((most / 5..=most).contains(&looks), "{looks}");
        assert_eq!(world.seen(worker).settled.len(), 500);
    }
    let mut world = World::new();
    let worker = world.worker(&options());
    for job in 0..100 {
        let id = world.put(600);
        let before = world.seen(worker).count("stats-job");
        world.finish(worker, Outcome::release());
        let looks = world.seen(worker).count("stats-job") - before;
        assert!((1..=2).contains(&looks), "job {job}");
        assert_eq!(world.seen(worker).running[0].1, id);
        world.finish(worker, Outcome::Delete);
    }
}
