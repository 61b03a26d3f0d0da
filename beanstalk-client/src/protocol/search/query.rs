//! The queries of a search for jobs, and their answers.

use bytes::BytesMut;

use crate::{
    Error, ErrorKind, JobId, JobStats, TubeName,
    filter::{COUNTED, JobFilter},
    protocol::{
        AnyCommand, Command, Effect, ListTubes, PeekBuried, PeekDelayed, PeekReady, Response,
        Stats, StatsJob, StatsTube, Use,
    },
};

/// One command of a [`JobSearch`](super::JobSearch).
#[derive(Clone, Debug)]
pub struct JobQuery(Question);

#[derive(Clone, Debug)]
enum Question {
    Server,
    Tube(StatsTube),
    Tubes,
    /// A peek at the used tube, or the `use` before it.
    First(AnyCommand),
    /// The last one of the same write, so that the session need not know of the others.
    Restore(Use),
    Job(StatsJob),
}

/// The answer to a [`JobQuery`].
#[derive(Debug)]
pub struct JobAnswer(pub(super) Answer);

#[derive(Debug)]
pub(super) enum Answer {
    /// The jobs of the server, and its count of puts.
    Server(Counts, u64),
    /// The jobs of a tube.
    Tube(Counts),
    Tubes(Vec<TubeName>),
    /// The first job of a list, if there is one.
    First(Option<u64>),
    Job(Option<Box<JobStats>>),
}

/// Numbers of jobs, by the states that the server counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts([u64; COUNTED.len()]);

impl Counts {
    /// The number of jobs that the filter counts.
    pub(super) fn of(self, filter: &JobFilter) -> u64 {
        let counts = COUNTED.iter().zip(self.0).filter(|(state, _)| filter.has_state(state));
        counts.fold(0, |sum, (_, count)| sum.saturating_add(count))
    }
}

impl JobQuery {
    /// Counts the jobs of these tubes, or of the server, and its puts.
    pub(super) fn counts(tubes: &[TubeName]) -> Vec<Self> {
        let tubes = tubes.iter().cloned().map(|tube| Question::Tube(StatsTube(tube)));
        tubes.chain([Question::Server]).map(JobQuery).collect()
    }

    pub(super) fn tubes() -> Vec<Self> {
        vec![JobQuery(Question::Tubes)]
    }

    pub(super) fn job(id: u64) -> Self {
        JobQuery(Question::Job(StatsJob(JobId::from(id))))
    }

    /// Asks for the first job of every list of these tubes. The last command makes `used` the used tube again.
    pub(super) fn firsts(tubes: impl IntoIterator<Item = TubeName>, used: &TubeName) -> Vec<Self> {
        let mut commands = Vec::new();
        for tube in tubes {
            commands.push(AnyCommand::new(&Use(tube)));
            commands.push(AnyCommand::new(&PeekReady));
            commands.push(AnyCommand::new(&PeekDelayed));
            commands.push(AnyCommand::new(&PeekBuried));
        }
        let restore = Question::Restore(Use(used.clone()));
        commands.into_iter().map(Question::First).chain([restore]).map(JobQuery).collect()
    }
}

impl Command for JobQuery {
    type Reply = JobAnswer;
    const NAME: &'static str = StatsJob::NAME;

    fn encode(&self, out: &mut BytesMut) {
        match &self.0 {
            Question::Server => Stats.encode(out),
            Question::Tube(command) => command.encode(out),
            Question::Tubes => ListTubes.encode(out),
            Question::First(command) => command.encode(out),
            Question::Restore(command) => command.encode(out),
            Question::Job(command) => command.encode(out),
        }
    }

    fn decode(&self, response: Response) -> Result<JobAnswer, Error> {
        macro_rules! counts {
            ($stats:ident) => {
                Counts([
                    $stats.current_jobs_ready,
                    $stats.current_jobs_reserved,
                    $stats.current_jobs_delayed,
                    $stats.current_jobs_buried,
                ])
            };
        }
        Ok(JobAnswer(match &self.0 {
            Question::Server => {
                let stats = Stats.decode(response)?;
                Answer::Server(counts!(stats), stats.total_jobs)
            }
            Question::Tube(command) => {
                let stats = command.decode(response)?;
                Answer::Tube(stats.map(|stats| counts!(stats)).unwrap_or_default())
            }
            Question::Tubes => Answer::Tubes(ListTubes.decode(response)?),
            Question::First(_) => Answer::First(first(response)?),
            Question::Restore(command) => {
                command.decode(response)?;
                Answer::First(None)
            }
            Question::Job(command) => Answer::Job(command.decode(response)?.map(Box::new)),
        }))
    }

    fn name(&self) -> &'static str {
        match &self.0 {
            Question::Server => Stats::NAME,
            Question::Tube(_) => StatsTube::NAME,
            Question::Tubes => ListTubes::NAME,
            Question::First(command) => command.name(),
            Question::Restore(_) => Use::NAME,
            Question::Job(_) => StatsJob::NAME,
        }
    }

    fn effect(&self) -> Effect {
        match &self.0 {
            Question::Restore(_) => Effect::Restore,
            _ => Effect::None,
        }
    }
}

/// The job that a peek shows. A tube that cannot be used is left out: the first jobs of the one before are seen twice.
fn first(response: Response) -> Result<Option<u64>, Error> {
    Ok(match response {
        Response::Found(job) => Some(job.id.get()),
        Response::BodyTooLarge { job, .. } | Response::BodyDamaged { job, .. } => {
            Some(job.id().get())
        }
        Response::Using(_) => None,
        other => {
            let refusal = other.refuse();
            return if refusal.kind() == ErrorKind::Protocol { Err(refusal) } else { Ok(None) };
        }
    })
}
