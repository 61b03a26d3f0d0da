//! The states of jobs, as flags name them.

use beanstalk_client::{JobState, TubeStats};
use clap::ValueEnum;

/// A job's state, as `--state` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnyState {
    /// Waiting to be reserved.
    Ready,
    /// Held by a connection.
    Reserved,
    /// Waiting for its delay to end.
    Delayed,
    /// Set aside until kicked.
    Buried,
}

impl From<AnyState> for JobState {
    fn from(state: AnyState) -> Self {
        match state {
            AnyState::Ready => Self::Ready,
            AnyState::Reserved => Self::Reserved,
            AnyState::Delayed => Self::Delayed,
            AnyState::Buried => Self::Buried,
        }
    }
}

/// A state that jobs can be removed in. Reserved jobs belong to their connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Waiting to be reserved.
    Ready,
    /// Waiting for its delay to end.
    Delayed,
    /// Set aside until kicked.
    Buried,
}

impl State {
    /// How many jobs a tube has in this state.
    pub fn count(self, stats: &TubeStats) -> u64 {
        match self {
            Self::Ready => stats.current_jobs_ready,
            Self::Delayed => stats.current_jobs_delayed,
            Self::Buried => stats.current_jobs_buried,
        }
    }

    /// The server's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Delayed => "delayed",
            Self::Buried => "buried",
        }
    }
}

impl From<State> for JobState {
    fn from(state: State) -> Self {
        match state {
            State::Ready => Self::Ready,
            State::Delayed => Self::Delayed,
            State::Buried => Self::Buried,
        }
    }
}
