use std::collections::BTreeMap;

use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use crate::{
    ErrorKind, Job, JobState,
    protocol::{Command, Response},
};

/// A server's jobs, each with its tube and its state, as the commands of a search see them.
struct Book {
    jobs: BTreeMap<u64, (u8, JobState)>,
    puts: u64,
    /// Which job of a list is the first.
    first: fn(&mut dyn Iterator<Item = u64>) -> Option<u64>,
    used: String,
    /// Is deleted before the first job is asked for.
    goes: Option<u64>,
    /// The commands of each batch.
    batches: Vec<Vec<String>>,
}

impl Book {
    fn new(puts: u64, jobs: impl IntoIterator<Item = (u64, u8, JobState)>) -> Self {
        Book {
            jobs: jobs.into_iter().map(|(id, tube, state)| (id, (tube, state))).collect(),
            puts,
            first: |ids| ids.min(),
            used: "mine".to_owned(),
            goes: None,
            batches: Vec::new(),
        }
    }

    fn ready(puts: u64, ids: impl IntoIterator<Item = u64>) -> Self {
        Self::new(puts, ids.into_iter().map(|id| (id, 0, JobState::Ready)))
    }

    /// Of one tube, or of the server.
    fn statistics(&self, name: &str) -> Response {
        let of = |wanted: &str| {
            let is_of = |tube: u8| name.is_empty() || format!("t{tube}") == name;
            let has = |(tube, state): &&(u8, JobState)| is_of(*tube) && state.as_str() == wanted;
            self.jobs.values().filter(has).count()
        };
        let states = ["ready", "reserved", "delayed", "buried"];
        let lines = states.map(|state| format!("current-jobs-{state}: {}\n", of(state)));
        let (puts, lines) = (self.puts, lines.concat());
        Response::Ok(format!("---\nname: {name}\ntotal-jobs: {puts}\n{lines}").into())
    }

    fn peek(&self, wanted: &JobState) -> Response {
        let of = |(id, (tube, state)): (&u64, &(u8, JobState))| {
            (format!("t{tube}") == self.used && state == wanted).then_some(*id)
        };
        match (self.first)(&mut self.jobs.iter().filter_map(of)) {
            Some(id) => Response::Found(Job::for_test(id, "body")),
            None => Response::NotFound,
        }
    }

    fn reply(&mut self, line: &str) -> Response {
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "stats" | "stats-tube" => self.statistics(argument),
            "list-tubes" => {
                let tubes: BTreeSet<u8> = self.jobs.values().map(|(tube, _)| *tube).collect();
                let lines: String = tubes.iter().map(|tube| format!("- t{tube}\n")).collect();
                Response::Ok(format!("---\n- default\n{lines}").into())
            }
            "use" => {
                self.used = argument.to_owned();
                Response::Using(argument.to_owned().into())
            }
            "peek-ready" => self.peek(&JobState::Ready),
            "peek-delayed" => self.peek(&JobState::Delayed),
            "peek-buried" => self.peek(&JobState::Buried),
            _ => {
                assert_eq!(verb, "stats-job");
                if let Some(id) = self.goes.take() {
                    self.jobs.remove(&id);
                }
                let Some((tube, state)) = self.jobs.get(&argument.parse().unwrap()) else {
                    return Response::NotFound;
                };
                let stats = format!("---\nid: {argument}\ntube: t{tube}\nstate: {state}\n");
                Response::Ok(stats.into())
            }
        }
    }

    /// The ids of the jobs that the search finds, in this order; the first `batches` of it.
    fn found(&mut self, search: &mut JobSearch, batches: usize) -> Vec<u64> {
        let mut found = Vec::new();
        for _ in 0..batches {
            let queries = search.queries(&"mine".try_into().unwrap());
            let lines: Vec<String> = queries.iter().map(line).collect();
            for (query, line) in queries.iter().zip(&lines) {
                search.answer(query.decode(self.reply(line)).unwrap());
            }
            self.batches.push(lines);
            found.extend(std::iter::from_fn(|| search.job()).map(|job| job.id.get()));
            if search.is_over() {
                break;
            }
        }
        found
    }

    fn all(&mut self, filter: impl Into<JobFilter>) -> (Vec<u64>, JobSearch) {
        let mut search = JobSearch::new(filter.into());
        let found = self.found(&mut search, usize::MAX);
        (found, search)
    }
}

fn line(query: &JobQuery) -> String {
    let mut bytes = BytesMut::new();
    query.encode(&mut bytes);
    let line = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(line.starts_with(query.name()), "{line}");
    line.trim_end().to_owned()
}

/// Farther than ids are searched around one that is known.
#[test]
fn jobs_far_apart_are_found_after_a_restart() {
    let mut book = Book::ready(2, [1, 101_002]);
    let (found, search) = book.all(JobFilter::default());
    assert_eq!((found, search.missing()), (vec![1, 101_002], 0));
}

#[test]
fn the_first_jobs_of_tubes_lead_to_far_ids() {
    let mut book = Book::ready(1, [1, 900_001, 900_002]);
    book.first = |ids| ids.max();
    let (mut found, search) = book.all(JobFilter::default());
    found.sort_unstable();
    assert_eq!(found, [1, 900_001, 900_002]);
    assert!(search.asked() < 10_000, "{} ids were asked for", search.asked());
}

#[test]
fn far_ids_that_follow_each_other_are_asked_for_together() {
    let mut book = Book::ready(1, (1..=1).chain(5001..10_001));
    book.first = |ids| ids.max();
    assert_eq!(book.all(JobFilter::default()).0.len(), 5001);
    assert!(book.batches.len() < 30, "{} batches", book.batches.len());
}

#[test]
fn a_few_jobs_among_many_ids_are_found_by_the_first_ones_of_tubes() {
    let states = [JobState::Ready, JobState::Delayed, JobState::Buried];
    let jobs = states.into_iter().zip([7, 500_000, 999_999]).map(|(state, id)| (id, 3, state));
    let mut book = Book::new(u64::MAX / 2, jobs);
    let (found, search) = book.all(JobFilter::default());
    assert_eq!((found, search.asked()), (vec![7, 500_000, 999_999], 3));
}

/// What a server counts and does not show, because it is wrong or its jobs are far above its count of puts, is searched
/// for up to the stated limit, and then reported.
#[test]
fn a_search_for_jobs_that_do_not_exist_ends() {
    let mut book = Book::ready(5000, [4, u64::MAX]);
    let (found, search) = book.all(JobFilter::default());
    assert_eq!((found, search.missing()), (vec![4], 1));
    assert_eq!(search.asked(), 5000 + 1 + MOST_BEYOND);
}

#[test]
fn a_job_that_goes_between_a_peek_and_its_statistics_is_left_out() {
    let jobs = [10, 2000, 4000].map(|id| (id, (id / 1000) as u8, JobState::Ready));
    let mut book = Book::new(5000, jobs);
    book.goes = Some(2000);
    let (found, search) = book.all(JobFilter::default());
    assert_eq!((found, search.missing()), (vec![4000, 10], 0));
}

/// A pipeline takes 256 commands at once.
#[test]
fn the_used_tube_is_restored_within_each_batch() {
    let jobs = (0..=200).map(|tube| (1 + 10_000 * u64::from(tube), tube, JobState::Ready));
    let jobs: Vec<_> = jobs.collect();
    for batches in 1.. {
        let mut book = Book::new(3_000_000, jobs.iter().cloned());
        let mut search = JobSearch::new(JobFilter::default());
        let found = book.found(&mut search, batches);
        assert_eq!(book.used, "mine", "{:?}", book.batches.last());
        let uses = |batch: &&Vec<String>| batch.iter().any(|line| line.starts_with("use"));
        assert!(book.batches.iter().filter(uses).all(|batch| batch.len() <= 256));
        if search.is_over() {
            assert_eq!((found.len(), batches > 5), (201, true));
            break;
        }
    }
}

#[test]
fn the_first_jobs_alone_can_be_asked_for() {
    let mut book =
        Book::new(3, [(1, 0, JobState::Ready), (2, 0, JobState::Ready), (3, 1, JobState::Buried)]);
    let mut search = JobSearch::of_firsts();
    assert!(book.found(&mut search, usize::MAX).is_empty());
    assert_eq!((search.firsts().collect::<Vec<_>>(), search.asked()), (vec![1, 3], 0));
}

#[test]
fn a_limit_gives_the_newest_and_a_tube_ends_the_search_at_its_count() {
    let mut book =
        Book::new(50_000, (1..=50_000).map(|id| (id, u8::from(id == 49_500), JobState::Ready)));
    let (found, search) = book.all(JobFilter::default().newest(3));
    assert_eq!((found, search.asked(), search.missing()), (vec![50_000, 49_999, 49_998], 1000, 0));
    let of_tube = JobFilter::default().tube("t1").unwrap();
    assert_eq!(book.all(of_tube.clone()).0, [49_500]);
    let (found, search) = book.all(of_tube.newest(1));
    assert_eq!((found, search.asked()), (vec![49_500], 1000));
}

#[test]
fn a_search_that_is_stopped_shows_and_asks_nothing_more() {
    let mut book = Book::ready(5000, 1..=5000);
    let mut search = JobSearch::new(JobFilter::default());
    assert_eq!(book.found(&mut search, 2).len(), 1000);
    search.stop();
    assert!(search.is_over() && search.job().is_none());
    assert!(search.queries(&TubeName::default()).is_empty());
}

#[test]
fn a_tube_that_cannot_be_used_is_left_out_and_an_answer_out_of_step_is_an_error() {
    let query = JobQuery::firsts([TubeName::default()], &TubeName::default());
    for refusal in [Response::BadFormat, Response::UnknownCommand, Response::OutOfMemory] {
        assert!(matches!(query[0].decode(refusal).unwrap().0, Answer::First(None)));
    }
    let large = Response::BodyTooLarge { job: 7.into(), size: 9, limit: 1 };
    assert!(matches!(query[1].decode(large).unwrap().0, Answer::First(Some(7))));
    let error = query[1].decode(Response::Deleted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

fn states() -> impl Strategy<Value = JobState> {
    prop::sample::select(crate::filter::COUNTED.to_vec())
}

proptest! {
    /// Whatever was put, restarted and filtered: what is found is what fits, each once, and the limit gives the newest
    /// unless the count of puts says nothing about ids.
    #[test]
    fn a_search_finds_matching_jobs(
        jobs in prop::collection::btree_map(1..5000_u64, (0..3_u8, states()), 0..40),
        puts in 0..6000_u64,
        tubes in prop::collection::vec(0..4_u8, 0..3),
        wanted in prop::collection::vec(states(), 0..3),
        from in prop::option::of(0..5000_u64),
        to in prop::option::of(0..6000_u64),
        newest in prop::option::of(0..50_u64),
        takes_last in any::<bool>(),
    ) {
        let mut book = Book::new(puts, jobs.iter().map(|(id, (tube, state))| (*id, *tube, state.clone())));
        if takes_last {
            book.first = |ids| ids.max();
        }
        let of = |tube: &u8| format!("t{tube}").try_into().unwrap();
        let filter = JobFilter::from(tubes.iter().map(of).collect::<Vec<TubeName>>());
        let filter = wanted.iter().cloned().fold(filter, JobFilter::state);
        let filter = match (from, to) {
            (Some(from), Some(to)) => filter.ids(from..=to),
            (Some(from), None) => filter.ids(from..),
            (None, Some(to)) => filter.ids(..=to),
            (None, None) => filter,
        };
        let filter = newest.into_iter().fold(filter, JobFilter::newest);
        let fits = |(id, (tube, state)): (&u64, &(u8, JobState))| {
            ((tubes.is_empty() || tubes.contains(tube))
                && (wanted.is_empty() || wanted.contains(state))
                && from.is_none_or(|from| from <= *id)
                && to.is_none_or(|to| *id <= to))
            .then_some(*id)
        };
        let mut fitting: Vec<u64> = jobs.iter().filter_map(fits).collect();
        let most = usize::try_from(newest.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let (mut found, search) = book.all(filter);
        found.sort_unstable();
        prop_assert_eq!(search.missing(), 0);
        prop_assert_eq!(found.len(), fitting.len().min(most));
        if puts >= 5000 {
            fitting.drain(..fitting.len() - found.len());
            prop_assert_eq!(found, fitting);
        } else {
            let is_new = found.windows(2).all(|pair| pair[0] < pair[1]);
            prop_assert!(is_new && found.iter().all(|id| fitting.contains(id)));
        }
    }
}
