//! Records everything that happens.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fixtures::history::{Checker, Event, Fate, Key, Report, Rules};

use crate::body::key_of;

/// How long a call may take beyond its deadline. The machine may be busy with other things.
const SLACK: Duration = Duration::from_secs(10);
/// How long a delivery may be in flight: delayed by the network or a frozen server until its client gives up.
const IN_FLIGHT: Duration = Duration::from_secs(30);
/// How long settled jobs are remembered one by one.
pub const MEMORY: Duration = Duration::from_secs(60);
/// Rules broken more often than this are only counted.
const MOST_SHOWN: usize = 20;

pub struct Ledger {
    start: Instant,
    keys: AtomicU64,
    book: Mutex<Book>,
    pub counts: Counts,
    /// Problems other than broken rules of the history.
    problems: Mutex<Vec<String>>,
}

struct Book {
    checker: Checker,
    trace: Option<BufWriter<File>>,
    shown: usize,
}

/// What happened, counted.
#[derive(Default)]
pub struct Counts {
    pub submitted: AtomicU64,
    pub acknowledged: AtomicU64,
    pub unknown: AtomicU64,
    pub not_sent: AtomicU64,
    pub refused: AtomicU64,
    pub deliveries: AtomicU64,
    pub ended: AtomicU64,
    pub end_unknown: AtomicU64,
    pub end_not_sent: AtomicU64,
    /// Calls whose caller left before their end.
    pub cancelled: AtomicU64,
    /// Connections made by clients, producers and workers.
    pub connections: AtomicU64,
    pub kills: AtomicU64,
    pub freezes: AtomicU64,
    pub worker_kills: AtomicU64,
    pub toxics: AtomicU64,
}

/// One more.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Ledger {
    pub fn new(trace: Option<&Path>) -> Self {
        let rules = Rules { slack: SLACK, in_flight: IN_FLIGHT, all_end: true, ..Rules::default() };
        let trace = trace.map(|path| BufWriter::new(File::create(path).expect("the trace file")));
        Ledger {
            start: Instant::now(),
            keys: AtomicU64::new(1),
            book: Mutex::new(Book { checker: Checker::new(rules), trace, shown: 0 }),
            counts: Counts::default(),
            problems: Mutex::default(),
        }
    }

    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A new job, whose submission is starting.
    pub fn submit(&self, actor: u32, deadline: Option<Duration>, at_least_once: bool) -> Key {
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        count(&self.counts.submitted);
        self.note(actor, Event::Submit { key, deadline, at_least_once });
        key
    }

    pub fn submitted(&self, actor: u32, key: Key, fate: Fate) {
        count(match fate {
            Fate::Acknowledged => &self.counts.acknowledged,
            Fate::Refused => &self.counts.refused,
            Fate::NotSent => &self.counts.not_sent,
            Fate::Unknown => &self.counts.unknown,
        });
        self.note(actor, Event::Submitted { key, fate });
    }

    /// A job with this body, which has to be one of ours.
    pub fn came(&self, actor: u32, body: &[u8]) -> Key {
        let key = key_of(body).unwrap_or_else(|| {
            self.problem(format!("a body that nobody submitted: {}", body.escape_ascii()));
            0
        });
        self.delivered(actor, key);
        key
    }

    pub fn delivered(&self, actor: u32, key: Key) {
        count(&self.counts.deliveries);
        self.note(actor, Event::Delivered { key });
    }

    pub fn finish(&self, actor: u32, key: Key) {
        self.note(actor, Event::Finish { key, deadline: None });
    }

    pub fn finished(&self, actor: u32, key: Key, fate: Fate) {
        count(match fate {
            Fate::Acknowledged => &self.counts.ended,
            Fate::Unknown => &self.counts.end_unknown,
            Fate::Refused | Fate::NotSent => &self.counts.end_not_sent,
        });
        self.note(actor, Event::Finished { key, fate });
    }

    pub fn note(&self, actor: u32, event: Event) {
        let mut book = self.book.lock().unwrap();
        let at = self.start.elapsed();
        book.checker.note(at, actor, &event);
        if let Some(trace) = &mut book.trace {
            let _ = writeln!(trace, "{:.6} {actor} {event:?}", at.as_secs_f64());
        }
        book.show_news();
    }

    /// Records a problem.
    pub fn problem(&self, what: impl Into<String>) {
        let what = what.into();
        eprintln!("soak: {what}");
        self.problems.lock().unwrap().push(what);
    }

    /// For the trace only.
    pub fn remark(&self, what: &str) {
        let at = self.now();
        if let Some(trace) = &mut self.book.lock().unwrap().trace {
            let _ = writeln!(trace, "{:.6} - {what}", at.as_secs_f64());
        }
    }

    /// Forgets what is settled; returns how many jobs are not.
    pub fn tidy(&self) -> usize {
        let mut book = self.book.lock().unwrap();
        book.checker.retire(self.now().saturating_sub(MEMORY));
        book.show_news();
        book.checker.open()
    }

    /// Number of acknowledged jobs that nobody has received yet.
    pub fn waiting(&self) -> usize {
        self.book.lock().unwrap().checker.waiting()
    }

    /// The end: the verdict of the history, and other problems.
    pub fn close(&self) -> (Report, Vec<String>) {
        let mut book = self.book.lock().unwrap();
        if let Some(mut trace) = book.trace.take() {
            let _ = trace.flush();
        }
        let checker = std::mem::replace(&mut book.checker, Checker::new(Rules::default()));
        (checker.finish(), std::mem::take(&mut self.problems.lock().unwrap()))
    }
}

impl Book {
    /// Reports broken rules during the run.
    fn show_news(&mut self) {
        for violation in self.checker.violations().iter().skip(self.shown).take(MOST_SHOWN) {
            eprintln!("soak: {violation}");
        }
        self.shown = self.shown.max(self.checker.violations().len());
    }
}
