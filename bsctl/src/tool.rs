//! The context of every command, and what a session of this tool remembers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use beanstalk_client::{JobId, JobRef, TubeName};
use ctl_core::context::Context;
use ctl_core::error::CliError;

use crate::names;

/// This tool.
#[derive(Debug)]
pub enum Bsctl {}

/// The context of every command.
pub type Tool = Context<Bsctl>;

/// What a session remembers between its lines.
#[derive(Default)]
pub struct Session {
    /// The jobs that the session's connection holds reserved.
    pub held: BTreeMap<JobId, Held>,
}

/// A reserved job of a session.
#[derive(Debug, Clone)]
pub struct Held {
    /// The reservation.
    pub job: JobRef,
    /// The tube, if the server reported it.
    pub tube: Option<TubeName>,
    /// The body's length in bytes.
    pub size: usize,
    /// How long it may be held.
    pub ttr: Duration,
    /// When the server takes it back, measured from just before the reserve was sent.
    pub deadline: Instant,
}

/// The tube of `-t`, or the session's used tube, or the default one.
///
/// # Errors
/// A session's server cannot be reached.
pub fn tube_or_used(tool: &mut Tool, tube: Option<TubeName>) -> Result<TubeName, CliError> {
    match tube {
        Some(tube) => Ok(tube),
        None if tool.session.is_some() => Ok(tool.link.client()?.used_tube().clone()),
        None => usual_tube(tool),
    }
}

/// The tube from the settings, or `default`.
///
/// # Errors
/// The name is illegal.
pub fn usual_tube(tool: &Tool) -> Result<TubeName, CliError> {
    let usual = tool.settings().queue();
    usual.map_or_else(|| Ok(TubeName::default()), |name| names::tube(&name))
}

/// These tubes, or those that the session watches, or the default one.
///
/// # Errors
/// The default name is illegal.
pub fn tubes_or_watched(tool: &Tool, given: Vec<TubeName>) -> Result<Vec<TubeName>, CliError> {
    if !given.is_empty() {
        return Ok(given);
    }
    match tool.link.place() {
        Some(place) if tool.session.is_some() => Ok(place.watched().to_vec()),
        _ => Ok(vec![usual_tube(tool)?]),
    }
}

/// The session's reservation of this job, if it holds one.
#[must_use]
pub fn held(tool: &Tool, id: JobId) -> Option<&Held> {
    tool.session.as_ref().and_then(|session| session.held.get(&id))
}

/// The session no longer holds this job.
pub fn forget_held(tool: &mut Tool, id: JobId) {
    if let Some(session) = &mut tool.session {
        session.held.remove(&id);
    }
}
