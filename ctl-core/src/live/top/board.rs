//! A tool's view of its queues and servers, and its current data.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::commands::exporter::{Kind, Look, Metrics};
use crate::error::CliError;
use crate::output::{Column, Shape};

/// The view of a tool's queues in `top`, built from what its exporter collects.
#[derive(Debug)]
pub struct Board {
    /// The columns of [`Board::figures`], by [`columns`].
    pub shape: &'static Shape,
    /// The figures of a queue, in order.
    pub figures: &'static [Figure],
    /// The figures of a server; those with [`Source::Sum`] are sums over its queues.
    pub server: &'static [Figure],
    /// The figure that rows are sorted by, and whose history is drawn.
    pub main: &'static str,
    /// Describes what is wrong with a queue.
    pub problem: fn(&Row<'_>) -> Option<String>,
    /// The commands that a user can run on a queue, if allowed.
    pub acts: &'static [Act],
    /// The command that lists some jobs of a queue, with `{queue}` for its name; otherwise what to say instead.
    pub jobs: Result<&'static [&'static str], &'static str>,
}

/// A command on a queue, with a key.
#[derive(Debug)]
pub struct Act {
    /// The key; if several acts share one, the first that fits is used.
    pub key: char,
    /// Its description, such as `kick the buried jobs`.
    pub name: &'static str,
    /// The command, with `{queue}` for the queue's name.
    pub line: &'static [&'static str],
    /// Whether it makes sense for a queue.
    pub fits: fn(&Row<'_>) -> bool,
}

/// A displayed value of a queue or a server.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its key and title.
    pub column: Column,
    /// Where it comes from.
    pub source: Source,
    /// Its format.
    pub unit: Unit,
    /// The figures with the highest rank are omitted first when there is no room.
    pub rank: u8,
}

/// The source of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The server's address, if there are several.
    Server,
    /// The name of the queue.
    Name,
    /// What is wrong with it.
    Problem,
    /// A family of metrics, with an optional label besides that of the queue.
    Family(&'static str, Option<(&'static str, &'static str)>),
    /// The increase per second.
    Rate(&'static str, Option<(&'static str, &'static str)>),
    /// The sum of a figure over the server's queues.
    Sum(&'static str),
}

/// The format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Unchanged.
    Text,
    /// A whole number.
    Count,
    /// Per second; with a sign if it can fall.
    PerSecond,
    /// A number of seconds.
    Seconds,
    /// Whether something holds: a family that is 0 or 1.
    Flag,
}

impl Figure {
    /// A figure with this source and unit. Those with a high rank are omitted first when there is no room.
    #[must_use]
    pub const fn new(column: Column, source: Source, unit: Unit, rank: u8) -> Self {
        Self { column, source, unit, rank }
    }

    /// The server, shown if there are several.
    #[must_use]
    pub const fn server() -> Self {
        Self::new(Column::new("server", "SERVER"), Source::Server, Unit::Text, 3)
    }

    /// The name of a queue.
    #[must_use]
    pub const fn name(title: &'static str) -> Self {
        Self::new(Column::new("queue", title), Source::Name, Unit::Text, 0)
    }

    /// The same, with names that are escaped already.
    #[must_use]
    pub const fn escaped(self) -> Self {
        Self { column: self.column.escaped(), ..self }
    }

    /// The problem of a queue.
    #[must_use]
    pub const fn problem() -> Self {
        Self::new(Column::new("problem", "PROBLEM"), Source::Problem, Unit::Text, 2)
    }

    /// The number of jobs, or of workers.
    #[must_use]
    pub const fn count(column: Column, family: &'static str, rank: u8) -> Self {
        Self::new(column, Source::Family(family, None), Unit::Count, rank)
    }

    /// The same, for samples with this label.
    #[must_use]
    pub const fn labelled(self, label: (&'static str, &'static str)) -> Self {
        match self.source {
            Source::Family(family, _) => {
                Self { source: Source::Family(family, Some(label)), ..self }
            }
            Source::Rate(family, _) => Self { source: Source::Rate(family, Some(label)), ..self },
            _ => self,
        }
    }

    /// The increase of a family per second.
    #[must_use]
    pub const fn rate(column: Column, family: &'static str, rank: u8) -> Self {
        Self::new(column, Source::Rate(family, None), Unit::PerSecond, rank)
    }

    /// A number of seconds.
    #[must_use]
    pub const fn seconds(column: Column, family: &'static str, rank: u8) -> Self {
        Self::new(column, Source::Family(family, None), Unit::Seconds, rank)
    }

    /// Whether something holds.
    #[must_use]
    pub const fn flag(column: Column, family: &'static str, rank: u8) -> Self {
        Self::new(column, Source::Family(family, None), Unit::Flag, rank)
    }

    /// The sum of the figure with this key over the queues of a server.
    #[must_use]
    pub const fn sum(column: Column) -> Self {
        Self::new(column, Source::Sum(column.key), Unit::Count, 0)
    }
}

/// The columns of these figures, for a [`Shape`].
pub const fn columns<const N: usize>(figures: &[Figure; N]) -> [Column; N] {
    let mut columns = [Column::new("", ""); N];
    let mut at = 0;
    while at < N {
        // Both indexes are within bounds; constants have no iterators.
        #[allow(clippy::indexing_slicing)]
        {
            columns[at] = figures[at].column.ranked(figures[at].rank);
        }
        at += 1;
    }
    columns
}

impl Board {
    /// The figure that rows are sorted by: the default, or the one with this key or title.
    pub(super) fn figure(&self, name: Option<&str>) -> usize {
        let key = name.and_then(|name| self.shape.key_of(name)).unwrap_or(self.main);
        position(self.figures, key).unwrap_or(0)
    }
}

fn position(figures: &[Figure], key: &str) -> Option<usize> {
    figures.iter().position(|figure| figure.column.key == key)
}

/// The current values of a queue, one for each figure of the board.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its server.
    pub server: &'a str,
    /// Its name.
    pub name: &'a str,
    figures: &'static [Figure],
    values: &'a [Option<f64>],
}

impl Row<'_> {
    /// The value of this figure.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.at(position(self.figures, key)?)
    }

    /// The value of this figure, or 0.
    pub fn count(&self, key: &str) -> f64 {
        self.get(key).unwrap_or(0.0)
    }

    pub(super) fn at(&self, figure: usize) -> Option<f64> {
        self.values.get(figure).copied().flatten()
    }
}

/// Number of samples in the history of a queue.
const HISTORY: usize = 60;
/// How long to show that a server has restarted.
const NEWS: Duration = Duration::from_secs(60);

/// The current data of all servers.
pub(crate) struct Known {
    /// The name of the tool, and its word for a queue.
    pub(super) tool: &'static str,
    pub(super) noun: &'static str,
    pub(super) board: &'static Board,
    pub(super) servers: Vec<Server>,
}

/// The data of a server.
#[derive(Default)]
pub(super) struct Server {
    pub(super) address: String,
    /// Why it does not answer, and since when.
    pub(super) down: Option<(Instant, String)>,
    pub(super) version: Option<String>,
    /// Its own id, which changes with a restart, if it has one; kept while it is down.
    pub(super) id: Option<String>,
    /// The figures of the server.
    pub(super) values: Vec<Option<f64>>,
    /// Number of unselected queues.
    pub(super) left_out: u64,
    /// Number of queries.
    pub(super) looks: u64,
    queues: BTreeMap<String, Queue>,
    restarted: Option<Instant>,
    /// The reported value of each figure.
    said: Vec<Option<f64>>,
    /// The last sample, to compute rates.
    last: Option<Look>,
}

#[derive(Default)]
struct Queue {
    /// The reported value of each figure.
    said: Vec<Option<f64>>,
    /// The displayed value of each figure.
    values: Vec<Option<f64>>,
    history: Vec<f64>,
}

impl Known {
    pub(crate) fn new<'a>(
        board: &'static Board,
        (tool, noun): (&'static str, &'static str),
        addresses: impl Iterator<Item = &'a str>,
    ) -> Self {
        let server = |address: &str| Server { address: address.to_owned(), ..Server::default() };
        Self { tool, noun, board, servers: addresses.map(server).collect() }
    }

    /// Stores a server's answer or error.
    pub(crate) fn take(&mut self, server: usize, look: Result<Look, CliError>) {
        let Some(server) = self.servers.get_mut(server) else { return };
        server.looks += 1;
        match look {
            Ok(look) => server.came(self.board, self.noun, look),
            Err(error) => server.failed(error.message),
        }
    }

    /// The data of all queues.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let figures = self.board.figures;
        self.servers.iter().flat_map(move |server| {
            server.queues.iter().map(move |(name, queue)| Row {
                server: &server.address,
                name,
                figures,
                values: &queue.values,
            })
        })
    }

    /// The last values of a queue's main figure, oldest first.
    pub(super) fn history(&self, row: &Row<'_>) -> &[f64] {
        let server = self.servers.iter().find(|server| server.address == row.server);
        let queue = server.and_then(|server| server.queues.get(row.name));
        queue.map_or(&[], |queue| &queue.history)
    }

    /// The smallest number of queries to any server.
    pub(super) fn looks(&self) -> u64 {
        self.servers.iter().map(|server| server.looks).min().unwrap_or(0)
    }
}

impl Server {
    /// Whether it has recently restarted.
    pub(super) fn is_new(&self) -> bool {
        self.restarted.is_some_and(|at| at.elapsed() < NEWS)
    }

    /// Unknown values are not shown, and rates start over.
    fn failed(&mut self, why: String) {
        let since = self.down.take().map_or_else(Instant::now, |(since, _)| since);
        // The address is shown anyway.
        let own = why.strip_prefix(&format!("{}: ", self.address)).unwrap_or(&why);
        let why = own.replacen(&format!(" to {}: ", self.address), ": ", 1);
        self.down = Some((since, why));
        self.last = None;
        self.said.clear();
        self.values.clear();
        self.queues.clear();
    }

    fn came(&mut self, board: &'static Board, noun: &str, look: Look) {
        let metrics = &look.metrics;
        self.down = None;
        self.version = metrics.label("_info", "version").map(str::to_owned);
        self.left_out = metrics.value_ending("_left_out").map_or(0, |count| count as u64);
        let id = metrics.server_id().map(str::to_owned);
        let is_other = self.id.is_some() && id.is_some() && self.id != id;
        let is_reset = self.last.as_ref().is_some_and(|last| metrics.started_after(&last.metrics));
        if is_other || is_reset {
            self.restarted = Some(look.at);
        }
        self.id = id;
        let passed = self.last.as_ref().map(|last| look.at.saturating_duration_since(last.at));
        let seconds = passed.map(|passed| passed.as_secs_f64());
        let main = board.figure(None);
        let mut queues = BTreeMap::new();
        for (name, said) in of_queues(board.figures, metrics, noun) {
            let Queue { said: before, mut history, .. } =
                self.queues.remove(name).unwrap_or_default();
            let values = shown(board.figures, metrics, (&said, &before), seconds);
            history.push(values.get(main).copied().flatten().unwrap_or(0.0));
            history.drain(..history.len().saturating_sub(HISTORY));
            queues.insert(name.to_owned(), Queue { said, values, history });
        }
        let sum = |key: &str| {
            let at = position(board.figures, key)?;
            let values =
                queues.values().filter_map(|queue| queue.values.get(at).copied().flatten());
            // Not `sum`: that of nothing is -0.
            Some(values.fold(0.0, |sum, value| sum + value))
        };
        let said = board.server.iter().map(|figure| match figure.source {
            Source::Family(family, None) | Source::Rate(family, None) => metrics.value(family),
            Source::Sum(key) => sum(key),
            _ => None,
        });
        let said: Vec<Option<f64>> = said.collect();
        self.values = shown(board.server, metrics, (&said, &self.said), seconds);
        self.said = said;
        self.queues = queues;
        self.last = Some(look);
    }
}

/// The reported values of each figure of a server's queues.
fn of_queues<'m>(
    figures: &[Figure],
    metrics: &'m Metrics,
    noun: &str,
) -> BTreeMap<&'m str, Vec<Option<f64>>> {
    let mut queues = BTreeMap::<&str, Vec<Option<f64>>>::new();
    for (at, figure) in figures.iter().enumerate() {
        let (family, wanted) = match figure.source {
            Source::Family(family, wanted) | Source::Rate(family, wanted) => (family, wanted),
            Source::Server | Source::Name | Source::Problem | Source::Sum(_) => continue,
        };
        for (labels, value) in metrics.samples(family) {
            let is_wanted = wanted.is_none_or(|(key, text)| {
                labels.iter().any(|(name, label)| name == key && label == text)
            });
            let Some((_, name)) = labels.iter().find(|(key, _)| key == noun && is_wanted) else {
                continue;
            };
            let values = queues.entry(name).or_insert_with(|| vec![None; figures.len()]);
            if let Some(place) = values.get_mut(at) {
                *place = Some(value);
            }
        }
    }
    queues
}

/// The displayed values, from the current and the previous reported ones, `seconds` apart.
fn shown(
    figures: &[Figure],
    metrics: &Metrics,
    (now, before): (&[Option<f64>], &[Option<f64>]),
    seconds: Option<f64>,
) -> Vec<Option<f64>> {
    let one = |(at, figure): (usize, &Figure)| {
        let now = now.get(at).copied().flatten()?;
        let Source::Rate(family, _) = figure.source else { return Some(now) };
        let grown = now - before.get(at).copied().flatten()?;
        // A counter that has decreased was reset.
        let is_known = grown >= 0.0 || metrics.kind(family) == Some(Kind::Gauge);
        seconds.filter(|seconds| is_known && *seconds > 0.0).map(|seconds| grown / seconds)
    };
    figures.iter().enumerate().map(one).collect()
}
