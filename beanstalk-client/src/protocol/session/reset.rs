//! What a connection has beyond that of a new one, and how it is given up.

use super::{Meaning, Session};
use crate::{
    JobId, TubeName,
    protocol::{AnyCommand, Effect, Ignore, Response, Use, Watch},
};

/// The jobs that the server has reserved for this connection, as far as its replies tell: one whose time to run is over is
/// still among them.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    jobs: Vec<JobId>,
    /// There were too many to be told one from the other.
    is_full: bool,
}

/// More are taken to be held until the connection ends.
const MOST: usize = 64;

impl Holdings {
    /// Takes in the reply to a command of this effect, on this job if it acts on one.
    pub(super) fn note(&mut self, meaning: &Meaning, job: Option<JobId>, response: &Response) {
        match (response, job, meaning) {
            (
                Response::Deleted | Response::Released | Response::Buried(_) | Response::NotFound,
                Some(job),
                _,
            ) => {
                if let Some(at) = self.jobs.iter().position(|held| *held == job) {
                    self.jobs.swap_remove(at);
                }
            }
            (_, _, Meaning::Command(Effect::Reserve | Effect::ReserveJob)) => {
                let job = match response {
                    Response::Reserved(job) => job.id,
                    Response::BodyTooLarge { job, .. } | Response::BodyDamaged { job, .. } => {
                        job.id()
                    }
                    _ => return,
                };
                match self.jobs.len() < MOST {
                    true => self.jobs.push(job),
                    false => self.is_full = true,
                }
            }
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && !self.is_full
    }
}

/// What makes a connection like a new one.
#[derive(Debug)]
pub(crate) enum Reset {
    /// These commands, which may be none.
    Send(Vec<AnyCommand>),
    /// Closing it: it may hold jobs, or replies are under way.
    Close,
}

impl Session {
    /// What makes this connection like a new one, with the tube `default` used and watched, and no job reserved.
    pub(crate) fn to_reset(&self) -> Reset {
        if !self.is_open() || self.awaits_replies() || !self.holdings.is_empty() {
            return Reset::Close;
        }
        let default = TubeName::default();
        let mut commands = Vec::new();
        if self.used != default {
            commands.push(AnyCommand::new(&Use(default.clone())));
        }
        if !self.watched.contains(&default) {
            commands.push(AnyCommand::new(&Watch(default.clone())));
        }
        let others = self.watched.iter().filter(|tube| **tube != default);
        commands.extend(others.map(|tube| AnyCommand::new(&Ignore(tube.clone()))));
        Reset::Send(commands)
    }

    /// Closes the connection, and has the next one use and watch what a new one does.
    pub(crate) fn forget(&mut self) {
        self.poison();
        self.used = TubeName::default();
        self.watched = vec![TubeName::default()];
    }
}
