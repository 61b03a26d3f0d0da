//! The jobs of a server, without taking them.

use std::vec::IntoIter;

use super::{CallMany, Client};
use crate::{
    JobFilter, JobStats, Result,
    jobs::{job_list, next_job},
    protocol::{JobQuery, JobSearch},
};

job_list!();

impl Iterator for JobList<'_> {
    type Item = Result<JobStats>;

    fn next(&mut self) -> Option<Self::Item> {
        next_job!(self)
    }
}
