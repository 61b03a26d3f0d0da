//! What a session remembers between its lines.

use std::collections::VecDeque;

use gearman_client::JobHandle;

use crate::repl::serving::Serving;
use crate::submit::running::Running;

/// What a session remembers between its lines.
#[derive(Default)]
pub struct Session {
    /// Foreground jobs that were left running, in that order; also ended ones that nobody has seen yet.
    pub runs: Vec<Running>,
    /// Background jobs, oldest first.
    pub submitted: VecDeque<Submitted>,
    /// Functions that it serves, in the order of their registration.
    pub serving: Vec<Serving>,
}

/// A background job that a session has submitted.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Its handle.
    pub handle: JobHandle,
    /// Its function.
    pub function: String,
}

/// Maximum number of background jobs that are remembered.
const MAX_SUBMITTED: usize = 1000;

impl Session {
    /// A background job was submitted.
    pub fn submitted(&mut self, handle: JobHandle, function: String) {
        if self.submitted.len() >= MAX_SUBMITTED {
            self.submitted.pop_front();
        }
        self.submitted.push_back(Submitted { handle, function });
    }
}
