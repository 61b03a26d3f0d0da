//! Querying the servers, each over its own connection.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use queue_core::lock;

use super::{Exports, Metrics};
use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::input::glob::is_wanted;
use crate::link::{Link, PATIENCE};
use crate::output::messages::Messages;
use crate::system::at_once::at_once;

/// The optional questions that a server is known not to answer.
#[derive(Debug, Default)]
pub struct Known(Vec<&'static str>);

impl Known {
    /// The answer to an optional question, unless this server is known not to answer it: silence is waited for only
    /// once.
    ///
    /// # Errors
    /// The error of the question.
    pub fn ask<O>(
        &mut self,
        question: &'static str,
        ask: impl FnOnce() -> Result<Option<O>, CliError>,
    ) -> Result<Option<O>, CliError> {
        if self.0.contains(&question) {
            return Ok(None);
        }
        let answer = ask()?;
        if answer.is_none() {
            self.0.push(question);
        }
        Ok(answer)
    }
}

/// Selects queues.
#[derive(Debug, Clone, Args)]
pub struct Choice {
    /// Only names matching this pattern (* and ?); !GLOB excludes; repeatable
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Vec<String>,

    /// Maximum number of names, in order
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) max: usize,
}

impl Choice {
    /// The selected ones, and the number of others.
    pub fn of<Q>(&self, queues: Vec<Q>, name: impl Fn(&Q) -> String) -> (Vec<(String, Q)>, usize) {
        let mut wanted: Vec<(String, Q)> = queues
            .into_iter()
            .map(|queue| (name(&queue), queue))
            .filter(|(name, _)| is_wanted(name, &self.only))
            .collect();
        wanted.sort_by(|(one, _), (other, _)| one.cmp(other));
        let more = wanted.len().saturating_sub(self.max);
        wanted.truncate(self.max);
        (wanted, more)
    }
}

/// The servers of a command, and the query.
pub(crate) struct Collector<T: Tool> {
    pub(crate) exports: &'static Exports<T>,
    choice: Choice,
    servers: Vec<Server<T::Link>>,
    /// Where to report that a server does not answer, or answers again.
    messages: Option<Messages>,
}

/// A server's answer, and its time.
pub(crate) struct Look {
    pub(crate) metrics: Metrics,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
}

impl<T: Tool> Collector<T> {
    /// All servers of the command; none is queried yet. Replies have the time limit of `ping`.
    ///
    /// # Errors
    /// An invalid address: exit 2.
    pub(crate) fn new(
        context: &mut Context<T>,
        exports: &'static Exports<T>,
        choice: Choice,
    ) -> Result<Self, CliError> {
        context.link.dialer_mut().default_timeout(PATIENCE);
        let server = |(address, link)| {
            let asking = Asking { link, known: Known::default(), is_down: false };
            Server { address, link: Mutex::new(asking) }
        };
        let servers = context.link.each()?.into_iter().map(server).collect();
        let messages = Some(context.messages.clone());
        Ok(Self { exports, choice, servers, messages })
    }

    /// Stops reporting servers that come and go, because the caller shows them.
    pub(crate) fn silence(&mut self) {
        self.messages = None;
    }

    /// The addresses, in the order of all answers.
    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = &str> {
        self.servers.iter().map(|server| server.address.as_str())
    }

    /// The current answers of all servers, which are queried in parallel.
    pub(crate) fn looks(&self) -> Vec<Result<Look, CliError>> {
        self.ask_all(|link, known| self.look(link, known))
    }

    /// The current answer of one server.
    pub(crate) fn look_at(&self, server: usize) -> Result<Look, CliError> {
        let server = self.servers.get(server);
        let server = server.ok_or_else(|| CliError::internal("there is no such server"))?;
        server.ask(self.messages.as_ref(), |link, known| self.look(link, known))
    }

    fn look(&self, link: &mut T::Link, known: &mut Known) -> Result<Look, CliError> {
        let at = Instant::now();
        let metrics = (self.exports.scrape)(link, &self.choice, known)?;
        Ok(Look { metrics, at, took: at.elapsed() })
    }

    /// Queries all servers in parallel.
    pub(crate) fn ask_all<O: Send>(
        &self,
        question: impl Fn(&mut T::Link, &mut Known) -> Result<O, CliError> + Sync,
    ) -> Vec<Result<O, CliError>> {
        at_once(&self.servers, |server| server.ask(self.messages.as_ref(), &question))
    }
}

struct Server<L> {
    address: String,
    /// Locked while it is queried.
    link: Mutex<Asking<L>>,
}

struct Asking<L> {
    link: L,
    known: Known,
    /// Whether it was reported that the server does not answer.
    is_down: bool,
}

impl<L: Link> Server<L> {
    /// Queries over the connection of this server. A failed one is replaced the next time.
    fn ask<O>(
        &self,
        messages: Option<&Messages>,
        question: impl FnOnce(&mut L, &mut Known) -> Result<O, CliError>,
    ) -> Result<O, CliError> {
        let mut asking = lock(&self.link);
        let Asking { link, known, .. } = &mut *asking;
        let answer = link.connect().and_then(|()| question(link, known));
        match (&answer, messages) {
            (Ok(_), Some(messages)) if asking.is_down => {
                messages.note(format!("{} answers again", self.address));
            }
            (Err(error), Some(messages)) if !asking.is_down && error.exit != Exit::Usage => {
                messages.warn(error.at(&self.address));
            }
            _ => {}
        }
        // A question that is wrong says nothing about the server.
        asking.is_down = answer.as_ref().is_err_and(|error| error.exit != Exit::Usage);
        if asking.is_down {
            asking.link.close();
            asking.known = Known::default();
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_the_first_matches_by_name() {
        let choice = Choice { only: ["a*", "b", "!*x"].map(str::to_owned).to_vec(), max: 2 };
        let queues = ["b", "ab", "ax", "c", "aa"].map(str::to_owned).to_vec();
        let (wanted, more) = choice.of(queues, Clone::clone);
        assert_eq!(wanted.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["aa", "ab"]);
        assert_eq!(more, 1);
    }
}
