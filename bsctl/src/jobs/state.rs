//! The states of jobs, as flags name them.

use beanstalk_client::{JobState, TubeStats};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// All of them.
pub const ALL: &[JobState] =
    &[JobState::Ready, JobState::Reserved, JobState::Delayed, JobState::Buried];
/// Those that jobs can be removed in. Reserved jobs belong to their connections.
pub const FREE: &[JobState] = &[JobState::Ready, JobState::Delayed, JobState::Buried];
/// Those that jobs can be kicked from, in the server's order.
pub const KICKED: &[JobState] = &[JobState::Buried, JobState::Delayed];

/// Reads one of these states.
pub fn one_of(states: &'static [JobState]) -> impl TypedValueParser<Value = JobState> {
    let known = states.iter().map(|state| PossibleValue::new(state.as_str()).help(meaning(state)));
    PossibleValuesParser::new(known).map(|word| JobState::from(word.as_str()))
}

fn meaning(state: &JobState) -> &'static str {
    match state {
        JobState::Ready => "Waiting to be reserved",
        JobState::Reserved => "Held by a connection",
        JobState::Delayed => "Waiting for its delay to end",
        _ => "Set aside until kicked",
    }
}

/// How many jobs a tube has in this state.
pub fn count(state: &JobState, stats: &TubeStats) -> u64 {
    match state {
        JobState::Ready => stats.current_jobs_ready,
        JobState::Reserved => stats.current_jobs_reserved,
        JobState::Delayed => stats.current_jobs_delayed,
        JobState::Buried => stats.current_jobs_buried,
        _ => 0,
    }
}

/// How many jobs a tube has.
pub fn count_all(stats: &TubeStats) -> u64 {
    ALL.iter().map(|state| count(state, stats)).sum()
}
