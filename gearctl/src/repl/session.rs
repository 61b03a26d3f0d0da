//! What a session remembers between its lines.

use crate::submit::running::Running;

/// What a session remembers between its lines.
#[derive(Default)]
pub struct Session {
    /// Foreground jobs that were left running, in that order; also ended ones not shown yet.
    pub runs: Vec<Running>,
}
