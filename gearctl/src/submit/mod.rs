//! Submitting jobs: where they come from, the threads that submit them, and their results.

pub mod merged;
pub mod pool;
pub(crate) mod results;
pub mod running;
pub mod tasks;
