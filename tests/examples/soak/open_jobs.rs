//! The jobs of one worker whose fate has not been reported, which its handlers and its observer share.

use std::{
    fmt::{Debug, Display},
    sync::{Arc, Mutex, MutexGuard},
    thread::JoinHandle,
};

use fixtures::history::{Fate, Key};

use crate::{rng::Rng, run::End, stage::Stage};

/// The open jobs of one worker, whose server identifies jobs by `I`. Ids may start over with the server, and a job may be
/// delivered again while the handler that has lost it still runs.
pub struct OpenJobs<I> {
    pub stage: Arc<Stage>,
    actor: u32,
    rng: Mutex<Rng>,
    jobs: Mutex<Jobs<I>>,
}

struct Jobs<I> {
    tickets: u64,
    running: Vec<Entry<I>>,
}

/// A job whose fate has not been reported.
struct Entry<I> {
    ticket: u64,
    id: I,
    key: Key,
    asked: Option<Ask>,
    is_lost: Box<dyn Fn() -> bool + Send>,
}

/// A handler's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// The end of its job.
    End,
    /// Another consumer gets it, or it is buried.
    GiveBack,
}

/// A worker's report about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The server has acknowledged its end.
    Ended,
    /// Something was sent to the server, and it did not answer.
    Unknown,
    /// Another consumer has it.
    Lost,
    /// It was given back, or set aside.
    GivenBack,
}

impl<I: PartialEq + Debug> OpenJobs<I> {
    pub fn new(stage: Arc<Stage>, actor: u32, rng: Rng) -> Self {
        let jobs = Mutex::new(Jobs { tickets: 0, running: Vec::new() });
        OpenJobs { stage, actor, rng: Mutex::new(rng), jobs }
    }

    pub fn rng(&self) -> MutexGuard<'_, Rng> {
        self.rng.lock().unwrap()
    }

    /// A handler gets its job; returns a ticket.
    pub fn begin(&self, id: I, body: &[u8], is_lost: impl Fn() -> bool + Send + 'static) -> u64 {
        let key = self.stage.ledger.came(self.actor, body);
        let mut jobs = self.jobs.lock().unwrap();
        jobs.tickets += 1;
        let ticket = jobs.tickets;
        let is_lost = Box::new(is_lost);
        jobs.running.push(Entry { ticket, id, key, asked: None, is_lost });
        ticket
    }

    /// The handler asks for the end of its job.
    pub fn finish(&self, ticket: u64) {
        self.ask(ticket, Ask::End);
    }

    /// The handler does not do its job.
    pub fn give_back(&self, ticket: u64) {
        self.ask(ticket, Ask::GiveBack);
    }

    /// Nothing is sent for a job that is lost: a worker may have reported that even before the handler began.
    fn ask(&self, ticket: u64, ask: Ask) {
        let mut jobs = self.jobs.lock().unwrap();
        let Some(place) = jobs.running.iter().position(|entry| entry.ticket == ticket) else {
            return;
        };
        let entry = &mut jobs.running[place];
        if (entry.is_lost)() {
            jobs.running.remove(place);
            return;
        }
        entry.asked = Some(ask);
        if ask == Ask::End {
            self.stage.ledger.finish(self.actor, entry.key);
        }
    }

    /// The worker reports what happened to a job.
    pub fn hear(&self, id: &I, told: Told) {
        let mut jobs = self.jobs.lock().unwrap();
        // Two handlers may have had the same job: one has lost it, or has given it back and not been answered yet.
        let fits = |entry: &Entry<I>| match told {
            Told::Lost => (entry.is_lost)(),
            Told::Ended => entry.asked == Some(Ask::End),
            Told::Unknown => !(entry.is_lost)(),
            Told::GivenBack => entry.asked != Some(Ask::End),
        };
        // A job that is reported as lost may have no handler yet.
        let may_fit = |entry: &Entry<I>| told != Told::Lost || entry.asked.is_some();
        let of = |fits: &dyn Fn(&Entry<I>) -> bool| {
            jobs.running.iter().position(|entry| entry.id == *id && fits(entry))
        };
        let Some(place) = of(&fits).or_else(|| of(&may_fit)) else { return };
        let entry = jobs.running.remove(place);
        self.stage.ledger.remark(&format!("{} settles key {}: {told:?}", self.actor, entry.key));
        if entry.asked == Some(Ask::End) {
            let fate = match told {
                Told::Ended => Fate::Acknowledged,
                Told::Unknown => Fate::Unknown,
                Told::Lost | Told::GivenBack => Fate::NotSent,
            };
            self.stage.ledger.finished(self.actor, entry.key, fate);
        }
    }

    /// The worker has ended, so no fate may be unreported.
    fn close(&self, name: &str) {
        let jobs = self.jobs.lock().unwrap();
        for Entry { key, id, .. } in jobs.running.iter().filter(|entry| !(entry.is_lost)()) {
            let what = format!("{name}: nobody was told what became of job {id:?} (key {key})");
            self.stage.ledger.problem(what);
        }
    }

    /// The end of the worker, whose run returns a report: it is stopped in an orderly way.
    pub fn end<R: Display + 'static>(
        self: Arc<Self>,
        name: String,
        stop: impl FnOnce() + 'static,
        worker: JoinHandle<R>,
    ) -> End
    where
        I: 'static,
    {
        Box::new(move || {
            stop();
            let report = worker.join().expect("a worker does not panic");
            self.close(&name);
            format!("{name}: {report}")
        })
    }
}
