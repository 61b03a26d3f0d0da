use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use proptest::prelude::*;

use super::{Arrivals, Questions};

/// Changes by other clients between two polls.
#[derive(Debug, Clone)]
enum Deed {
    Put,
    /// A put that takes an id and is refused.
    Refused,
    /// A put whose body takes a while.
    Begin,
    /// The end of the oldest such body.
    Arrive,
    /// The deletion of one of the jobs.
    Delete(usize),
    /// A restart: with its log, or without.
    Restart(bool),
}

/// A server that others use: before each answer, they do the next few of their deeds.
#[derive(Debug)]
struct Busy {
    deeds: Vec<Vec<Deed>>,
    epoch: u64,
    next_id: u64,
    puts: u64,
    /// Jobs by id, each with a number that no other job ever has.
    jobs: BTreeMap<u64, u64>,
    begun: Vec<u64>,
    numbers: u64,
}

impl Busy {
    fn new(deeds: Vec<Vec<Deed>>) -> Self {
        let (jobs, begun) = (BTreeMap::new(), Vec::new());
        Self { deeds, epoch: 0, next_id: 1, puts: 0, jobs, begun, numbers: 0 }
    }

    fn arrives(&mut self, id: u64) {
        self.puts += 1;
        self.numbers += 1;
        self.jobs.insert(id, self.numbers);
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn go_on(&mut self) {
        for deed in self.deeds.pop().unwrap_or_default() {
            match deed {
                Deed::Put => {
                    let id = self.id();
                    self.arrives(id);
                }
                Deed::Refused => drop(self.id()),
                Deed::Begin => {
                    let id = self.id();
                    self.begun.push(id);
                }
                Deed::Arrive if self.begun.is_empty() => {}
                Deed::Arrive => {
                    let id = self.begun.remove(0);
                    self.arrives(id);
                }
                Deed::Delete(at) => {
                    let id = self.jobs.keys().nth(at % self.jobs.len().max(1)).copied();
                    id.map(|id| self.jobs.remove(&id));
                }
                Deed::Restart(has_log) => {
                    (self.epoch, self.puts) = (self.epoch + 1, 0);
                    self.begun.clear();
                    if has_log {
                        self.next_id = self.jobs.last_key_value().map_or(1, |(id, _)| id + 1);
                    } else {
                        self.jobs.clear();
                        self.next_id = 1;
                    }
                }
            }
        }
    }
}

impl Questions for Busy {
    type Job = u64;
    type Error = Infallible;

    fn count(&mut self) -> Result<(String, u64), Infallible> {
        self.go_on();
        Ok((self.epoch.to_string(), self.puts))
    }

    fn heads(&mut self) -> Result<Vec<u64>, Infallible> {
        self.go_on();
        Ok(self.jobs.keys().take(1).copied().collect())
    }

    fn existing(&mut self, ids: Range<u64>) -> Result<Vec<(u64, u64)>, Infallible> {
        self.go_on();
        Ok(self.jobs.range(ids).map(|(id, job)| (*id, *job)).collect())
    }
}

fn look(arrivals: &mut Arrivals, server: &mut Busy) -> Vec<u64> {
    let mut shown = Vec::new();
    let Ok(()) = arrivals.look(server, |_, _, jobs| {
        shown.extend(jobs);
        Ok(ControlFlow::Continue(()))
    });
    shown
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        12 => Just(Deed::Put),
        1 => Just(Deed::Refused),
        2 => Just(Deed::Begin),
        3 => Just(Deed::Arrive),
        3 => any::<usize>().prop_map(Deed::Delete),
    ]
}

/// Without ids that are not counted: of those that a server gave between its restart and the next look, nothing is
/// known.
fn plain_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![3 => Just(Deed::Put), 1 => any::<usize>().prop_map(Deed::Delete)]
}

fn deeds(most: usize) -> impl Strategy<Value = Vec<Vec<Deed>>> {
    prop::collection::vec(prop::collection::vec(deed(), 0..6), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shows_each_arriving_job_once(
        before in prop::collection::vec(deed(), 0..40),
        restart in prop::option::of(any::<bool>()),
        deeds in deeds(60),
    ) {
        let mut server = Busy::new(vec![before.into_iter().chain(restart.map(Deed::Restart)).collect()]);
        server.go_on();
        server.begun.clear();
        let old: BTreeSet<u64> = server.jobs.values().copied().collect();
        server.deeds = deeds;
        let Ok(mut arrivals) = Arrivals::after_newest(&mut server);
        let from = server.numbers;
        server.begun.clear();
        let mut shown = Vec::new();
        while !server.deeds.is_empty() {
            shown.extend(look(&mut arrivals, &mut server));
        }
        shown.extend(look(&mut arrivals, &mut server));
        let set: BTreeSet<u64> = shown.iter().copied().collect();
        prop_assert_eq!(set.len(), shown.len(), "{:?}", shown);
        prop_assert!(set.is_disjoint(&old), "{:?} {:?}", old, shown);
        for (id, job) in &server.jobs {
            prop_assert!(*job <= from || set.contains(job), "{} {:?} {:?}", id, shown, arrivals);
        }
        // And it waits for more.
        prop_assert_eq!(look(&mut arrivals, &mut server), Vec::<u64>::new());
        let id = server.id();
        server.arrives(id);
        prop_assert_eq!(look(&mut arrivals, &mut server), vec![server.numbers]);
    }

    #[test]
    fn shows_jobs_put_after_a_restart(
        before in prop::collection::vec(deed(), 0..40),
        has_log in any::<bool>(),
        between in prop::collection::vec(plain_deed(), 0..300),
        deeds in prop::collection::vec(prop::collection::vec(plain_deed(), 0..6), 0..30),
    ) {
        let mut server = Busy::new(vec![before]);
        let Ok(mut arrivals) = Arrivals::after_newest(&mut server);
        look(&mut arrivals, &mut server);
        server.deeds = vec![vec![Deed::Restart(has_log)]];
        server.go_on();
        let from = server.numbers;
        server.deeds = vec![between];
        server.go_on();
        server.deeds = deeds;
        let mut shown = BTreeSet::new();
        while !server.deeds.is_empty() {
            shown.extend(look(&mut arrivals, &mut server));
        }
        shown.extend(look(&mut arrivals, &mut server));
        for job in server.jobs.values() {
            prop_assert!(*job <= from || shown.contains(job), "{} {:?} {:?}", job, shown, arrivals);
        }
    }
}

/// A job that is put between the count and the query of the tubes' heads is not counted twice: tail would ask for ids
/// that the server has not reached, and show nothing.
#[test]
fn counts_jobs_put_during_startup_once() {
    let mut server = Busy::new(vec![vec![], vec![Deed::Put, Deed::Put], vec![]]);
    let Ok(mut arrivals) = Arrivals::after_newest(&mut server);
    for job in [3, 4] {
        server.deeds = vec![vec![Deed::Put]];
        assert_eq!(look(&mut arrivals, &mut server), [job]);
    }
}

/// A server whose connection is lost once, at a query or while its jobs are shown.
struct Torn(Busy, bool);

impl Questions for Torn {
    type Job = u64;
    type Error = &'static str;

    fn count(&mut self) -> Result<(String, u64), &'static str> {
        let Ok(count) = self.0.count();
        Ok(count)
    }

    fn heads(&mut self) -> Result<Vec<u64>, &'static str> {
        let Ok(heads) = self.0.heads();
        Ok(heads)
    }

    fn existing(&mut self, ids: Range<u64>) -> Result<Vec<(u64, u64)>, &'static str> {
        if std::mem::take(&mut self.1) {
            return Err("lost");
        }
        let Ok(jobs) = self.0.existing(ids);
        Ok(jobs)
    }
}

#[test]
fn catches_up_after_a_failed_poll() {
    for is_torn in [true, false] {
        let mut server = Torn(Busy::new(vec![]), false);
        let mut arrivals = Arrivals::after_newest(&mut server).unwrap();
        let id = server.0.id();
        server.0.arrives(id);
        server.1 = is_torn;
        let lost = arrivals.look(&mut server, |_, _, _| Err("lost"));
        assert_eq!(lost, Err("lost"));
        let mut shown = Vec::new();
        let looked = arrivals.look(&mut server, |_, _, jobs| {
            shown.extend(jobs);
            Ok(ControlFlow::Continue(()))
        });
        assert_eq!((looked, shown), (Ok(()), vec![1]));
    }
}

/// The first rows belong to the new server: the notice marks where they begin.
#[test]
fn reports_a_restart_with_the_first_new_jobs() {
    let mut server = Busy::new(vec![]);
    let Ok(mut arrivals) = Arrivals::after_newest(&mut server);
    server.deeds = vec![vec![Deed::Restart(false), Deed::Put]];
    let mut told = Vec::new();
    let Ok(()) = arrivals.look(&mut server, |_, server, jobs| {
        told.push((server.to_owned(), jobs));
        Ok(ControlFlow::Continue(()))
    });
    assert_eq!(told.first(), Some(&("1".to_owned(), vec![1])));
}
