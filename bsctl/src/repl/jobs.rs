//! The verbs on reserved jobs: reserve and keep them, list, touch, save.

use std::path::Path;
use std::time::{Duration, Instant};

use beanstalk_client::protocol::{
    AnyCommand, Peek, ReserveJob, ReserveWithTimeout, Response, StatsJob, StatsTube,
};
use beanstalk_client::{JobId, TubeName};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::repl::body;
use ctl_core::repl::guest::Guest as _;
use ctl_core::repl::patience::Patience;
use ctl_core::text::units;

use super::state::State;
use crate::error::cli_error;
use crate::jobs::{BODIES, explain_not_found, paused, record_with_body, taker};
use crate::link::{Place, SLICE};
use crate::seen::{Seen, damaged};
use crate::tool::{Session, held};

pub(super) static RESERVED: Shape = Shape::rows(
    "id",
    &[
        Column::new("id", "ID"),
        Column::new("tube", "TUBE"),
        Column::new("left", "LEFT"),
        Column::new("ttr", "TTR"),
        Column::new("size", "SIZE"),
        Column::new("hold", "HOLD"),
    ],
);

impl State<'_> {
    /// `reserve [DUR]`, `reserve --job ID`.
    pub(super) fn reserve(
        &mut self,
        wait: Option<Duration>,
        job: Option<u64>,
    ) -> Result<Exit, CliError> {
        let (seen, sent) = match job {
            Some(id) => self.reserve_one(id.into())?,
            None => self.reserve_next(wait)?,
        };
        let stats = self.tool.link.call(StatsJob(seen.job().id()))?;
        self.add(&seen, stats.as_ref(), sent);
        let job = match seen {
            Seen::Whole(job) => job,
            Seen::Damaged(job, _) => return Err(damaged(job)),
        };
        let record = |shown: &[u8]| record_with_body(job.id, stats.as_ref(), shown);
        body::show(self.tool, &BODIES, &job.body, record)
    }

    fn reserve_one(&mut self, id: JobId) -> Result<(Seen, Instant), CliError> {
        let sent = Instant::now();
        match Seen::ask(&mut self.tool.link, &ReserveJob(id))? {
            Some(seen) => Ok((seen, sent)),
            None => Err(explain_not_found(&mut self.tool.link, id)),
        }
    }

    /// Waits in slices, as long as [`Patience`] says.
    fn reserve_next(&mut self, wait: Option<Duration>) -> Result<(Seen, Instant), CliError> {
        let interrupts = self.tool.interrupts()?;
        let patience = Patience::new(wait, self.tool.link.dialer.timeout(), self.person);
        // The first attempt does not wait, so that a wait can be announced before it begins.
        let mut waits = false;
        loop {
            interrupts.check()?;
            let slice = if waits { patience.slice(SLICE) } else { Duration::ZERO };
            let sent = Instant::now();
            let command = ReserveWithTimeout::new(slice).map_err(cli_error)?;
            match self.tool.link.call(AnyCommand::new(&command))? {
                Response::Reserved(job) => return Ok((Seen::Whole(job), sent)),
                Response::BodyDamaged { job, body } => {
                    return Ok((Seen::Damaged(job, body), sent));
                }
                Response::TimedOut => interrupts.sleep(taker::pause_after(sent, slice))?,
                Response::DeadlineSoon => self.save_the_nearly_over()?,
                refusal => return Err(cli_error(refusal.refuse())),
            }
            if patience.is_over() {
                return Err(self.nothing_came(&patience));
            }
            if !waits {
                waits = true;
                self.say_what_is_waited_for()?;
            }
            self.keep_alive()?;
        }
    }

    /// A person should know what the session waits for, and whether jobs are waiting in another tube instead.
    fn say_what_is_waited_for(&mut self) -> Result<(), CliError> {
        let place = self.tool.link.place().filter(|_| self.person);
        let Some(Place { used, watched }) = place else { return Ok(()) };
        let names: Vec<&str> = watched.iter().map(TubeName::as_str).collect();
        let mut text = format!("waiting for a job in {}; Ctrl-C ends it", names.join(", "));
        if !watched.contains(&used)
            && let Some(stats) = self.tool.link.call(StatsTube(used.clone()))?
            && stats.current_jobs_ready > 0
        {
            let ready = units::count(stats.current_jobs_ready, "ready job");
            text.push_str(&format!(" ({used} has {ready}, and is not watched: watch {used})"));
        }
        if let Some(told) = paused::told(&paused::among(&mut self.tool.link, &watched)?) {
            text.push_str(&format!("; {told}"));
        }
        self.tool.messages.note(text);
        Ok(())
    }

    /// Touches the jobs to be kept while a command waits.
    fn keep_alive(&mut self) -> Result<(), CliError> {
        for said in self.tick(Instant::now()) {
            self.tool.messages.note(said);
        }
        if self.is_connected() {
            return Ok(());
        }
        Err(CliError::unavailable("the connection was lost while waiting for a job"))
    }

    /// A job has less than a second left, and the server gives out no other before it is settled. Otherwise the same
    /// answer would be repeated at once, forever.
    fn save_the_nearly_over(&mut self) -> Result<(), CliError> {
        let now = Instant::now();
        let session = self.session();
        let nearest = session.held.iter().min_by_key(|(_, held)| held.left(now));
        let Some((&id, held)) = nearest else { return Ok(()) };
        let left = held.left(now);
        if session.autotouch || held.hold {
            return self.touch(id);
        }
        let left = left.as_secs_f64();
        let why = "the server gives out no other job until it is settled";
        let why = format!("job {id} has {left:.1} s left: {why}");
        Err(CliError::new(Exit::Negative, "DEADLINE_SOON", why)
            .hint(format!("touch {id}, or delete, release or bury it"))
            .hint(format!("hold {id}, or :set autotouch on, to keep jobs while waiting")))
    }

    fn nothing_came(&mut self, patience: &Patience) -> CliError {
        let watched = self.tool.link.place().map(|place| place.watched).unwrap_or_default();
        let tubes = watched.iter().map(TubeName::as_str).collect::<Vec<_>>().join(", ");
        let error = if patience.looks_once() {
            CliError::new(Exit::Negative, "NOTHING_RESERVED", format!("no job is ready in {tubes}"))
                .hint("reserve 30s, to wait for one")
        } else {
            CliError::timeout(format!("no job arrived in {tubes} within {}", patience.shown()))
        };
        paused::explain(error, &paused::among(&mut self.tool.link, &watched).unwrap_or_default())
    }

    /// `touch`.
    pub(super) fn touch_some(&mut self, which: Option<&str>) -> Result<Exit, CliError> {
        for id in self.which(which)? {
            self.touch(id)?;
            let done = Record::new().with("id", id.get());
            self.tool.out.done(&done, &format!("job {id} has its full time to run again"))?;
        }
        Ok(Exit::Done)
    }

    /// `hold` and `unhold`.
    pub(super) fn hold_some(&mut self, which: Option<&str>, hold: bool) -> Result<Exit, CliError> {
        for id in self.which(which)? {
            if hold {
                self.touch(id)?;
            }
            if let Some(held) = self.session().held.get_mut(&id) {
                held.hold = hold;
            }
            let done = Record::new().with("id", id.get()).with("hold", hold);
            let said = match hold {
                true => format!("job {id} is held until it is finished"),
                false => format!("job {id} is no longer held"),
            };
            self.tool.out.done(&done, &said)?;
        }
        Ok(Exit::Done)
    }

    /// The jobs that `ID`, `all` or no argument (the last one) stand for.
    fn which(&self, which: Option<&str>) -> Result<Vec<JobId>, CliError> {
        match which {
            Some("all") => Ok(self.held_ids()),
            Some(id) => {
                let id = id.parse().map_err(|_| {
                    CliError::usage(format!("`{id}` is neither a job id nor the word all"))
                })?;
                self.held(id).map(|_| vec![id])
            }
            None => self.last_held().map(|id| vec![id]),
        }
    }

    /// The job that was reserved last.
    pub(super) fn last_held(&self) -> Result<JobId, CliError> {
        self.tool.session.as_ref().and_then(Session::last).ok_or_else(|| {
            CliError::usage("this session holds no job, so an id is needed")
                .hint("reserve, or the command with an id")
        })
    }

    /// `save ID FILE`.
    pub(super) fn save(&mut self, id: JobId, file: &Path) -> Result<Exit, CliError> {
        let body = match held(self.tool, id) {
            Some(held) => held.body.clone(),
            // Of a damaged job, this is all there is.
            None => match Seen::ask(&mut self.tool.link, &Peek(id))? {
                Some(seen) => seen.body().clone(),
                None => return Err(CliError::not_found(format!("job {id} does not exist"))),
            },
        };
        let (record, label) = (Record::new().with("id", id.get()), format!("job {id}"));
        body::save(&mut self.tool.out, file, &body, (record, &label))
    }

    /// `:save FILE`.
    pub(super) fn save_last(&mut self, file: &Path) -> Result<Exit, CliError> {
        let shown = self.last_shown.ok_or_else(|| {
            CliError::usage("no job has been shown in this session yet")
                .hint(format!("save ID {}", file.display()))
        })?;
        self.save(shown, file)
    }
}
