//! The context of every command, and what a session of this tool remembers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use beanstalk_client::{JobId, JobRef, Priority, TubeName};
use bytes::Bytes;
use ctl_core::context::Context;
use ctl_core::error::CliError;

use crate::names;

/// This tool.
#[derive(Debug)]
pub enum Bsctl {}

/// The context of every command.
pub type Tool = Context<Bsctl>;

/// The memory of a session between its lines.
#[derive(Default)]
pub struct Session {
    /// The jobs that the session's connection holds reserved.
    pub held: BTreeMap<JobId, Held>,
    /// Whether to touch every job before its time expires.
    pub autotouch: bool,
}

/// A reserved job of a session.
#[derive(Debug)]
pub struct Held {
    /// The reservation.
    pub job: JobRef,
    /// The tube, if the server reported it.
    pub tube: Option<TubeName>,
    /// Its body.
    pub body: Bytes,
    /// Its priority when it was reserved.
    pub pri: Priority,
    /// How long it may be held.
    pub ttr: Duration,
    /// The latest moment at which its time can have been restarted: just before the reserve or the touch was sent.
    pub touched: Instant,
    /// Whether it is touched automatically.
    pub hold: bool,
    /// Its position in the order of reserving.
    pub order: u64,
    /// Whether a person was warned that little time is left.
    pub warned: bool,
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
        Some(place) if tool.session.is_some() => Ok(place.watched),
        _ => Ok(vec![usual_tube(tool)?]),
    }
}

/// The session's reservation of this job, if it holds one.
pub fn held(tool: &Tool, id: JobId) -> Option<&Held> {
    tool.session.as_ref().and_then(|session| session.held.get(&id))
}

/// The session no longer holds this job.
pub fn forget_held(tool: &mut Tool, id: JobId) {
    if let Some(session) = &mut tool.session {
        session.held.remove(&id);
    }
}
