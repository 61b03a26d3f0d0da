//! `check roundtrip`: a job, in a temporary tube.

use std::time::Duration;

use beanstalk_client::protocol::{
    AnyCommand, Bury, Command, Delete, Kick, Put, ReserveWithTimeout, Response, StatsTube, Touch,
    Use,
};
use beanstalk_client::{JobRef, PutOptions, TubeName};
use ctl_core::commands::check::Metric;
use ctl_core::commands::roundtrip::{scratch_name, timed, unexpected};
use ctl_core::error::CliError;
use ctl_core::link::Link as _;

use crate::error::cli_error;
use crate::jobs::state::count_all;
use crate::link::{Link, reply_line};
use crate::names;

/// Takes all steps, up to the first that fails, and leaves nothing behind.
///
/// # Errors
/// The first failure.
pub(super) fn roundtrip(link: &mut Link) -> Result<Vec<Metric>, CliError> {
    let tube = names::tube(&scratch_name("bsctl", "check"))?;
    link.client()?;
    let mut trip = Trip { link, job: None };
    let took = timed(|| trip.run(&tube));
    trip.clean_up();
    took
}

struct Trip<'a> {
    link: &'a mut Link,
    /// The job, while it exists.
    job: Option<JobRef>,
}

impl Trip<'_> {
    fn run(&mut self, tube: &TubeName) -> Result<(), CliError> {
        let body: Vec<u8> = (0..=u8::MAX).collect();
        let used = self.link.call(Use(tube.clone()));
        used.and_then(|_| self.link.watch_only(std::slice::from_ref(tube)))
            .map_err(|error| error.context("use"))?;
        let put = Put::new(body.as_slice(), PutOptions::default()).map_err(cli_error)?;
        let job = self.step("put", "INSERTED", &put, |reply| match reply {
            Response::Inserted(id) => Some((*id).into()),
            _ => None,
        })?;
        self.job = Some(job);
        let reserve = ReserveWithTimeout::new(Duration::from_secs(1)).map_err(cli_error)?;
        let job =
            self.step("reserve", "RESERVED with the same body", &reserve, |reply| match reply {
                Response::Reserved(job) if job.body == body => Some(job.into()),
                _ => None,
            })?;
        self.job = Some(job);
        let done =
            |word: &'static str| move |reply: &Response| (reply.word() == word).then_some(());
        self.step("touch", "TOUCHED", &Touch::new(job), done("TOUCHED"))?;
        self.step("bury", "BURIED", &Bury::new(job, 1024), done("BURIED"))?;
        let kicked = |reply: &Response| matches!(reply, Response::Kicked(Some(1))).then_some(());
        self.step("kick", "KICKED 1", &Kick(1), kicked)?;
        self.step("delete", "DELETED", &Delete::new(job.id()), done("DELETED"))?;
        self.job = None;
        let stats = StatsTube(tube.clone());
        let empty = |reply: &Response| {
            let stats = stats.decode(reply.clone()).ok().flatten()?;
            (count_all(&stats) == 0 && stats.total_jobs == 1).then_some(())
        };
        self.step("stats", "0 jobs of 1", &stats, empty)
    }

    /// One command; `check` reads the reply if it is as expected.
    fn step<O>(
        &mut self,
        step: &'static str,
        expected: &'static str,
        send: &impl Command,
        check: impl Fn(&Response) -> Option<O>,
    ) -> Result<O, CliError> {
        let reply = self.link.call(AnyCommand::new(send)).map_err(|error| error.context(step))?;
        check(&reply).ok_or_else(|| unexpected(step, &reply_line(&reply), expected))
    }

    /// Removes the job, even if it is still reserved: closing the connection gives it back.
    fn clean_up(&mut self) {
        let Some(job) = self.job.take() else { return };
        self.link.close();
        let _ = self.link.call(Delete::new(job.id()));
    }
}
