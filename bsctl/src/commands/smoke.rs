//! `smoke`: checks that client, network and server work together.

use std::time::Duration;

use beanstalk_client::protocol::{
    AnyCommand, Bury, Command, Delete, Kick, Put, ReserveWithTimeout, Response, StatsTube, Touch,
    Use,
};
use beanstalk_client::{JobRef, PutOptions, TubeName};
use ctl_core::commands::smoke::{STEPS, Steps, scratch_name};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;

use crate::error::cli_error;
use crate::link::{Link, reply_line};
use crate::names;
use crate::tool::Tool;

/// The end of `smoke --help`.
pub const HELP: &str = "\
Protocol: put, reserve-with-timeout, touch, bury, kick, delete, stats-tube, in a temporary tube with a random name.
The body has every byte value and must come back unchanged. Nothing is left behind.
Exit 0 if every step passed, 1 if one failed; 69, 76 or 124 if the connection itself failed.
This is for people who set something up; check roundtrip does the same for monitoring, with thresholds.

Examples:
  bsctl smoke
  bsctl --embedded smoke -o json";

/// Runs `smoke`.
///
/// # Errors
/// The connection's failure; a failed step is exit 1 after the table.
pub fn run(tool: &mut Tool) -> Result<Exit, CliError> {
    tool.refuse_dry_run("smoke", "bsctl ping changes nothing")?;
    tool.out.expect(&STEPS)?;
    steps(tool.link.side(), "smoke")?.finish(&mut tool.out)
}

/// Takes all steps, up to the first that fails, and leaves nothing behind.
///
/// # Errors
/// The server cannot be reached.
pub fn steps(link: &mut Link, purpose: &str) -> Result<Steps, CliError> {
    let tube = scratch_tube(purpose)?;
    link.client()?;
    let mut smoke = Smoke { steps: Steps::default(), job: None };
    smoke.run(link, &tube);
    smoke.clean_up(link);
    Ok(smoke.steps)
}

/// A tube that nobody else uses.
///
/// # Errors
/// Never: the name is valid.
pub fn scratch_tube(purpose: &str) -> Result<TubeName, CliError> {
    names::tube(&scratch_name("bsctl", purpose))
}

struct Smoke {
    steps: Steps,
    /// The job, while it exists.
    job: Option<JobRef>,
}

impl Smoke {
    /// Runs all steps up to the first failure.
    fn run(&mut self, link: &mut Link, tube: &TubeName) -> Option<()> {
        let body: Vec<u8> = (0..=u8::MAX).collect();
        if let Err(error) =
            link.call(Use(tube.clone())).and_then(|_| link.watch_only(std::slice::from_ref(tube)))
        {
            self.steps.fail(("use", &format!("use {tube}")), "USING", error);
            return None;
        }
        let put = Put::new(body.as_slice(), PutOptions::default()).map_err(cli_error);
        let put = self.built("put", put)?;
        let line = format!("put 1024 0 60 {}", body.len());
        self.step(link, "put", line, "INSERTED id", &put, |reply| match reply {
            Response::Inserted(id) => Some((*id).into()),
            _ => None,
        })?;
        let reserve = ReserveWithTimeout::new(Duration::from_secs(1)).map_err(cli_error);
        let reserve = self.built("reserve", reserve)?;
        let line = "reserve-with-timeout 1".to_owned();
        let expected = "RESERVED id, same body";
        self.step(link, "reserve", line, expected, &reserve, |reply| match reply {
            Response::Reserved(job) if job.body == body => Some(job.into()),
            _ => None,
        })?;
        let job = self.job?;
        let id = job.id();
        let done =
            |word: &'static str| move |reply: &Response| (reply.word() == word).then_some(job);
        self.step(
            link,
            "touch",
            format!("touch {id}"),
            "TOUCHED",
            &Touch::new(job),
            done("TOUCHED"),
        )?;
        let bury = Bury::new(job, 1024);
        self.step(link, "bury", format!("bury {id} 1024"), "BURIED", &bury, done("BURIED"))?;
        let kicked = |reply: &Response| matches!(reply, Response::Kicked(Some(1))).then_some(job);
        self.step(link, "kick", "kick 1".to_owned(), "KICKED 1", &Kick(1), kicked)?;
        let delete = Delete::new(id);
        self.step(link, "delete", format!("delete {id}"), "DELETED", &delete, done("DELETED"))?;
        self.job = None;
        let stats = StatsTube(tube.clone());
        let empty = |reply: &Response| {
            let stats = stats.decode(reply.clone()).ok().flatten()?;
            let left = stats.current_jobs_ready
                + stats.current_jobs_reserved
                + stats.current_jobs_delayed
                + stats.current_jobs_buried;
            (left == 0 && stats.total_jobs == 1).then_some(job)
        };
        self.step(link, "stats", format!("stats-tube {tube}"), "OK, 0 jobs of 1", &stats, empty)?;
        self.job = None;
        Some(())
    }

    /// One command; `check` returns the job's reference if the reply is as expected.
    fn step(
        &mut self,
        link: &mut Link,
        step: &'static str,
        command: String,
        expected: &'static str,
        send: &impl Command,
        check: impl Fn(&Response) -> Option<JobRef>,
    ) -> Option<()> {
        match link.call(AnyCommand::new(send)) {
            Ok(reply) => {
                let job = check(&reply);
                self.job = job.or(self.job);
                let (got, ok) = (reply_line(&reply), job.is_some());
                self.steps.note((step, &command), expected, &got, ok).then_some(())
            }
            Err(error) => {
                self.steps.fail((step, &command), expected, error);
                None
            }
        }
    }

    fn built<C>(&mut self, step: &'static str, command: Result<C, CliError>) -> Option<C> {
        match command {
            Ok(command) => Some(command),
            Err(error) => {
                self.steps.fail((step, step), "", error);
                None
            }
        }
    }

    /// Removes the job, even if it is still reserved: closing the connection gives it back.
    fn clean_up(&mut self, link: &mut Link) {
        let Some(job) = self.job.take() else { return };
        link.close();
        let _ = link.call(Delete::new(job.id()));
    }
}
