//! The traffic of one connection, as lines: matches answers with requests, and measures response times.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use queue_core::lock;

use super::cutter::{Cutter, Found};
use super::decoder::{Decoder, Role, Said, Side};
use super::summary::Summary;
use crate::output::Record;
use crate::rules::filter::{self, Fields, Filters, Kind, Value};
use crate::text::{escape, units};

/// Maximum number of requests waiting for their answers on one connection.
const MOST_QUESTIONS: usize = 4096;
/// Number of them whose arguments are kept.
const WITH_ARGUMENTS: usize = 64;
/// The longest arguments in a line, in bytes.
const LONGEST: usize = 512;

/// Where connections report their traffic.
#[derive(Debug)]
pub(super) struct News {
    pub(super) lines: SyncSender<Item>,
    /// Number of lines that the printer did not take in time.
    pub(super) dropped: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) summary: Mutex<Summary>,
    pub(super) choice: Choice,
    /// Whether it was reported that the server cannot be reached.
    pub(super) is_down: AtomicBool,
}

/// A piece of news to report.
#[derive(Debug)]
pub(super) enum Item {
    Line(Box<Line>),
    Warning(String),
}

/// Which lines are shown.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// None.
    pub(super) is_silent: bool,
    pub(super) filters: Filters,
    /// Only answers that took longer than this.
    pub(super) slow: Option<Duration>,
    /// Number of bytes shown of a body.
    pub(super) body: usize,
    /// Whether bodies are decoded before they are shown.
    pub(super) decodes: bool,
}

/// A line.
#[derive(Debug)]
pub(super) struct Line {
    at: SystemTime,
    connection: u64,
    side: Side,
    verb: Cow<'static, str>,
    arguments: String,
    body: Option<(Vec<u8>, u64)>,
    bytes: Option<u64>,
    took: Option<Duration>,
    to: Option<String>,
    is_error: bool,
}

impl Line {
    /// The line as shown, with this many bytes of the body; `is_short` omits the date.
    pub(super) fn record(&self, is_short: bool, shown: usize) -> Record {
        let at = units::in_milliseconds(self.at);
        let at = match at.get("2026-01-01T".len()..at.len() - 1) {
            Some(time) if is_short => time.to_owned(),
            _ => at,
        };
        let ms = self.took.map(units::milliseconds);
        let record = Record::new()
            .with("ts", at)
            .with("connection", self.connection)
            .with("from", self.side.name())
            .with("verb", self.verb.as_ref())
            .with("size", self.body.as_ref().map(|(_, size)| *size))
            .with("duration_ms", ms)
            .with("to", self.to.as_deref())
            .with("args", self.arguments.as_str())
            .with("bytes", self.bytes)
            .with("error", self.is_error);
        match &self.body {
            Some((body, _)) => record.with_body(body.clone()).showing(shown),
            None => record,
        }
    }
}

impl Choice {
    fn wants(&self, line: &Line) -> bool {
        let is_slow = |slow| line.took.is_some_and(|took| took >= slow);
        self.slow.is_none_or(is_slow) && self.filters.fit(line)
    }
}

impl Fields for Line {
    const NOUN: &'static str = "line";

    const FIELDS: &'static [filter::Field] = &[
        filter::Field::new("verb", Kind::Text),
        filter::Field::new("from", Kind::Word(&["client", "server"])),
        filter::Field::new("connection", Kind::Whole),
        filter::Field::new("size", Kind::Size),
        filter::Field::new("took", Kind::Time),
        filter::Field::new("to", Kind::Text),
        filter::Field::new("args", Kind::Text),
        filter::Field::new("body", Kind::Text),
        filter::Field::new("error", Kind::Word(&["true", "false"])),
    ];

    fn value(&self, field: &str, _: &[String]) -> Option<Value<'_>> {
        Some(match field {
            "verb" => Value::text(&*self.verb),
            "from" => Value::text(self.side.name()),
            "connection" => Value::Whole(self.connection),
            "size" => Value::Whole(self.body.as_ref()?.1),
            "took" => Value::Time(self.took?),
            "to" => Value::text(self.to.as_ref()?),
            "args" => Value::text(&self.arguments),
            "body" => Value::text(&self.body.as_ref()?.0),
            "error" => Value::text(if self.is_error { "true" } else { "false" }),
            _ => return None,
        })
    }
}

impl News {
    /// Shows a line, if lines are shown and this one matches. Filters see more of its body than is shown.
    fn line(&self, line: impl FnOnce() -> Line) {
        if self.choice.is_silent {
            return;
        }
        let mut line = line();
        if !self.choice.wants(&line) {
            return;
        }
        if let Some((beginning, _)) = &mut line.body
            && !self.choice.decodes
        {
            beginning.truncate(self.choice.body);
        }
        if self.lines.try_send(Item::Line(Box::new(line))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn warn(&self, text: String) {
        if self.lines.try_send(Item::Warning(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An observed connection.
#[derive(Debug)]
pub(super) struct Connection<D> {
    number: u64,
    decoder: D,
    cutters: [Cutter; 2],
    questions: Questions,
    news: Arc<News>,
}

/// Unanswered requests, the oldest first.
#[derive(Debug, Default)]
struct Questions {
    asked: VecDeque<Question>,
    /// There were too many, or a side was not understood, so answers can no longer be matched.
    is_lost: bool,
}

#[derive(Debug)]
struct Question {
    key: Cow<'static, str>,
    verb: Cow<'static, str>,
    arguments: String,
    at: Instant,
}

impl Questions {
    fn ask(&mut self, key: Cow<'static, str>, said: &Said, at: Instant) {
        if self.asked.len() >= MOST_QUESTIONS {
            self.lose();
        }
        if self.is_lost {
            return;
        }
        let is_few = self.asked.len() < WITH_ARGUMENTS;
        let arguments = if is_few { clipped(&said.arguments) } else { String::new() };
        self.asked.push_back(Question { key, verb: said.verb.clone(), arguments, at });
    }

    fn answer(&mut self, key: Option<&str>) -> Option<Question> {
        let at = match key {
            Some(key) => self.asked.iter().position(|question| question.key == key)?,
            None => 0,
        };
        self.asked.remove(at)
    }

    fn lose(&mut self) {
        *self = Self { asked: VecDeque::new(), is_lost: true };
    }
}

impl<D: Decoder> Connection<D> {
    /// An application has connected.
    pub(super) fn open(number: u64, peer: String, decoder: D, news: Arc<News>) -> Self {
        news.connections.fetch_add(1, Ordering::Relaxed);
        let mut new = Self {
            number,
            decoder,
            cutters: Default::default(),
            questions: Questions::default(),
            news,
        };
        new.tell(Side::Client, "(open)", peer);
        new
    }

    /// The server has accepted the connection.
    pub(super) fn reached(&self) {
        if self.news.is_down.swap(false, Ordering::Relaxed) {
            self.news.warn("the server is reachable again".to_owned());
        }
    }

    /// The server cannot be reached.
    pub(super) fn unreachable(&mut self, address: &str, error: &std::io::Error) {
        self.tell(Side::Server, "(unreachable)", error.to_string());
        if !self.news.is_down.swap(true, Ordering::Relaxed) {
            let text = format!("cannot reach {address}: {error}; the client connection is reset");
            self.news.warn(text);
        }
    }

    /// The side has ended its stream.
    pub(super) fn ended(&mut self, side: Side) {
        self.passed(side, None, Instant::now());
        self.tell(side, "(end)", String::new());
    }

    /// The connection of this side was lost.
    pub(super) fn reset(&mut self, side: Side) {
        self.tell(side, "(reset)", String::new());
    }

    /// Decodes bytes that have passed, or the end of the stream.
    pub(super) fn passed(&mut self, side: Side, bytes: Option<&[u8]>, at: Instant) {
        let Self { number, decoder, cutters, questions, news, .. } = self;
        let [client, server] = cutters;
        let cutter = if side == Side::Client { client } else { server };
        let place = Place { connection: *number, side, at };
        let note = |decoder: &mut D, found: Found<'_>| match found {
            Found::Unit { kept, len } => {
                if let Some(said) = decoder.read(side, kept, len) {
                    place.said(news, questions, said, len);
                }
            }
            Found::Stranger { why, kept } => {
                questions.lose();
                place.stranger(news, why, kept);
            }
        };
        match bytes {
            Some(bytes) => cutter.feed(decoder, side, bytes, note),
            None => cutter.end(decoder, note),
        }
    }

    /// A line about the connection itself.
    fn tell(&mut self, side: Side, verb: &'static str, arguments: String) {
        let place = Place { connection: self.number, side, at: Instant::now() };
        self.news.line(|| Line { arguments, ..place.line(verb.into()) });
    }
}

/// Where and when something was sent.
#[derive(Debug, Clone, Copy)]
struct Place {
    connection: u64,
    side: Side,
    at: Instant,
}

impl Place {
    fn line(self, verb: Cow<'static, str>) -> Line {
        Line {
            at: SystemTime::now(),
            connection: self.connection,
            side: self.side,
            verb,
            arguments: String::new(),
            body: None,
            bytes: None,
            took: None,
            to: None,
            is_error: false,
        }
    }

    fn said(self, news: &News, questions: &mut Questions, said: Said, len: u64) {
        if self.side == Side::Client {
            lock(&news.summary).sent(&said.verb);
        }
        let question = match &said.role {
            Role::Tells => None,
            Role::Asks(key) => {
                let was_lost = questions.is_lost;
                questions.ask(key.clone(), &said, self.at);
                if questions.is_lost && !was_lost {
                    let connection = self.connection;
                    news.warn(format!(
                        "connection {connection}: more than {MOST_QUESTIONS} commands await a reply; no longer timing replies"
                    ));
                }
                None
            }
            Role::Answers(key) => questions.answer(key.as_deref()),
        };
        let took = question.as_ref().map(|question| self.at.saturating_duration_since(question.at));
        if let (Some(question), Some(took)) = (&question, took) {
            lock(&news.summary).answered(&question.verb, took, said.is_error);
        }
        let to = |Question { verb, arguments, .. }: Question| match arguments.as_str() {
            "" => verb.into_owned(),
            arguments => format!("{verb} {arguments}"),
        };
        news.line(|| Line {
            arguments: clipped(&said.arguments),
            body: said.body,
            bytes: Some(len),
            took,
            to: question.map(to),
            is_error: said.is_error,
            ..self.line(said.verb)
        });
    }

    fn stranger(self, news: &News, why: &str, kept: &[u8]) {
        let shown = escape::bytes_line(kept.get(..32).unwrap_or(kept));
        let (connection, side) = (self.connection, self.side.name());
        news.warn(format!(
            "connection {connection}: data from the {side} is passed on undecoded: {why} ({shown})"
        ));
        news.line(|| Line { arguments: why.to_owned(), ..self.line("(undecoded)".into()) });
    }
}

fn clipped(text: &str) -> String {
    escape::clip(text, LONGEST).into_owned()
}
