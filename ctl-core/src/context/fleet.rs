//! Several servers: queries all of them, labels results with their server, and exits with the worst error.

use std::mem;

use queue_core::lock;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::input::confirm::{Asking, in_all, waits};
use crate::link::{Link, who};
use crate::output::messages::Messages;
use crate::output::{List, Output, Shape};
use crate::system::at_once::at_once;

/// The servers that a command queries, each over its own connection.
pub struct Fleet<L> {
    messages: Messages,
    /// Empty for a single server, which is queried over the tool's own connection.
    servers: Vec<Server<L>>,
    /// Those that only [`Fleet::ask_at`] has queried.
    others: Vec<Server<L>>,
}

struct Server<L> {
    address: String,
    link: L,
    /// Why it was given up.
    failure: Option<CliError>,
}

/// A server's reply; without an address if there is only one server.
pub type Answered<T> = (Option<String>, T);

impl<L: Link> Fleet<L> {
    /// The servers of the tool; none is queried yet.
    ///
    /// # Errors
    /// An invalid address: exit 2.
    pub fn of<T: Tool<Link = L>>(tool: &mut Context<T>) -> Result<Self, CliError> {
        let each = tool.link.each()?;
        let several = each.len() > 1;
        let server = |(address, link)| Server { address, link, failure: None };
        let servers = each.into_iter().filter(|_| several).map(server).collect();
        Ok(Self { messages: tool.messages.clone(), servers, others: Vec::new() })
    }

    /// Whether there are several servers.
    pub fn is_several(&self) -> bool {
        !self.servers.is_empty()
    }

    /// A list of results, with a server column if there are several servers.
    ///
    /// # Errors
    /// As [`Output::list`].
    pub fn list<'o>(
        &self,
        out: &'o mut Output,
        shape: &'static Shape,
    ) -> Result<List<'o>, CliError> {
        if self.is_several() { out.list_by_server(shape) } else { out.list(shape) }
    }

    /// Refuses columns that the list will not have, before any server is queried.
    ///
    /// # Errors
    /// As [`Output::list`].
    pub fn expect(&self, out: &mut Output, shape: &'static Shape) -> Result<(), CliError> {
        self.list(out, shape).map(drop)
    }

    /// Queries all servers at the same time; a single one over `own`. A server that fails is reported, and not queried
    /// again. The answers are in the order of the servers.
    ///
    /// # Errors
    /// No server replied: the worst error.
    pub fn ask<T>(
        &mut self,
        own: &mut L,
        ask: impl Fn(&mut L) -> Result<T, CliError> + Sync,
    ) -> Result<Vec<Answered<T>>, CliError>
    where
        T: Send,
    {
        if !self.is_several() {
            return Ok(vec![(None, ask(own)?)]);
        }
        let mut answers = Vec::new();
        let asked = self.servers.iter_mut().filter(|server| server.failure.is_none());
        let asked = at_once(asked, |server| ask(&mut server.link));
        let servers = self.servers.iter_mut().filter(|server| server.failure.is_none());
        for (server, answer) in servers.zip(asked) {
            match answer {
                Ok(answer) => answers.push((Some(server.address.clone()), answer)),
                Err(error) => {
                    self.messages.warn(error.at(&server.address));
                    server.failure = Some(error);
                }
            }
        }
        if answers.is_empty() {
            let text = "none of the servers has answered";
            let worst = self.silent().map(|error| error.context(text));
            return Err(worst.unwrap_or_else(|| CliError::unavailable(text)));
        }
        Ok(answers)
    }

    /// Queries only the server at this address: one of these, under any of its names, or another one. A server that has
    /// failed is not queried again. The answer has no address if it is the single one.
    ///
    /// # Errors
    /// Its failure, with its address; an invalid address: exit 2.
    pub fn ask_at<T>(
        &mut self,
        own: &mut L,
        address: &str,
        ask: impl FnOnce(&mut L) -> Result<T, CliError>,
    ) -> Result<Answered<T>, CliError> {
        let is_other = self.others.iter().any(|server| server.address == address);
        if !is_other && self.is_own(own, address)? {
            return Ok((None, ask(own)?));
        }
        let server = self.server_at(own, address)?;
        if let Some(failure) = &server.failure {
            let message = failure.at(&server.address);
            return Err(CliError { message, fate: None, ..failure.clone() });
        }
        match ask(&mut server.link) {
            Ok(answer) => Ok((Some(server.address.clone()), answer)),
            Err(error) => {
                server.failure = Some(error.clone());
                Err(CliError { message: error.at(&server.address), ..error })
            }
        }
    }

    /// Whether one of these servers is at this address, under any of its names.
    ///
    /// # Errors
    /// An invalid address: exit 2.
    pub fn has(&self, own: &mut L, address: &str) -> Result<bool, CliError> {
        Ok(self.is_own(own, address)? || find(&self.servers, address).is_some())
    }

    fn is_own(&self, own: &mut L, address: &str) -> Result<bool, CliError> {
        if self.is_several() {
            return Ok(false);
        }
        let its = own.dialer_mut().address()?;
        Ok(its == address || !who::places(&its).is_disjoint(&who::places(address)))
    }

    fn server_at(&mut self, own: &mut L, address: &str) -> Result<&mut Server<L>, CliError> {
        let known = self.others.iter().position(|server| server.address == address);
        if let (None, Some(at)) = (known, find(&self.servers, address)) {
            return self.servers.get_mut(at).ok_or_else(|| CliError::usage("no server given"));
        }
        let at = known.unwrap_or(self.others.len());
        if known.is_none() {
            let link = own.to_server(address)?;
            self.others.push(Server { address: address.to_owned(), link, failure: None });
        }
        self.others.get_mut(at).ok_or_else(|| CliError::usage("no server given"))
    }

    /// The link to a server that has replied; `own` if there is only one.
    pub fn at<'l>(&'l mut self, own: &'l mut L, server: Option<&str>) -> &'l mut L {
        let mut servers = self.servers.iter_mut();
        match server.and_then(|name| servers.find(|server| server.address == name)) {
            Some(server) => &mut server.link,
            None => own,
        }
    }

    /// The exit code of the worst server.
    pub fn exit(&self) -> Exit {
        let failures = self.servers.iter().filter_map(|server| server.failure.as_ref());
        failures.map(|error| error.exit).fold(Exit::Done, Exit::worse)
    }

    /// The error of the servers that did not reply, for results that no other server can supply.
    pub fn silent(&self) -> Option<CliError> {
        let silent = self.servers.iter().filter(|server| server.failure.is_some());
        let names: Vec<&str> = silent.map(|server| server.address.as_str()).collect();
        if names.is_empty() {
            return None;
        }
        let text = format!("no answer from {}", names.join(", "));
        Some(CliError::new(self.exit(), "UNAVAILABLE", text))
    }

    /// The error that none of the servers that replied knows `what`.
    #[must_use]
    pub fn unknown(&self, what: &str) -> CliError {
        let who = if self.is_several() { "no server knows" } else { "the server does not know" };
        CliError::not_found(format!("{who} {what}"))
    }
}

/// The position of the server at this address; its other names are only looked up if no server has this one.
fn find<L>(servers: &[Server<L>], address: &str) -> Option<usize> {
    servers.iter().position(|server| server.address == address).or_else(|| {
        let places = who::places(address);
        servers.iter().position(|server| !who::places(&server.address).is_disjoint(&places))
    })
}

/// Connects to all servers at the same time, and runs a command on each in turn. Results name the server, and its
/// questions are asked as one about all servers before anything is changed. A server that fails is reported, and the
/// others continue; the exit code is the worst. A usage error or a signal ends it.
///
/// # Errors
/// Nothing was done on any server: the worst of their failures. Write failures.
pub fn on_each<T: Tool>(
    tool: &mut Context<T>,
    mut act: impl FnMut(&mut Context<T>) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    let each = tool.link.each()?.into_iter();
    let mut turns: Vec<_> = each.map(|(address, link)| (address, link, None)).collect();
    if turns.len() < 2 {
        return act(tool);
    }
    let interrupts = tool.interrupts()?;
    let (mut worst, mut is_done, usual_yes) = (Exit::Done, false, tool.globals.yes);
    let mut failures: Vec<(String, CliError)> = Vec::new();
    let mut ends = None;
    // The user is asked once about all servers. What needs no answer is done meanwhile.
    let asking = Asking::default();
    let mut waiting = Vec::new();
    let mut is_asked = false;
    // The waits for those that do not answer do not add up.
    at_once(&mut turns, |(_, link, failure)| *failure = link.connect().err());
    loop {
        for (address, link, failure) in mem::take(&mut turns) {
            let about = tool.messages.about(&address);
            let own = (mem::replace(&mut tool.link, link), mem::replace(&mut tool.messages, about));
            tool.out.on_server(address.clone());
            if !is_asked {
                tool.keep_questions(Some(Asking::clone(&asking)));
                tool.messages.hold();
            }
            let acted = match failure {
                Some(error) => Err(error),
                None => act(tool).map_err(|error| tool.link.dialer_mut().explained(error)),
            };
            tool.keep_questions(None);
            let is_waiting = acted.as_ref().is_err_and(waits);
            // Repeats what was printed before the question.
            if is_waiting {
                tool.messages.forget();
            } else {
                tool.messages.release();
            }
            let link = mem::replace(&mut tool.link, own.0);
            tool.messages = own.1;
            match acted {
                Err(_) if is_waiting => waiting.push((address, link, None)),
                Ok(exit) => {
                    is_done = true;
                    worst = worst.worse(exit);
                }
                Err(error) if matches!(error.exit, Exit::Usage | Exit::Io) => {
                    ends = Some(error);
                    break;
                }
                Err(error) => failures.push((address, error)),
            }
            if let Some(exit) = interrupts.requested() {
                worst = exit;
                waiting.clear();
                break;
            }
        }
        if waiting.is_empty() || ends.is_some() {
            break;
        }
        let asked = lock(&asking).clone();
        if let Err(error) = tool.confirm().many(&in_all(&asked), &tool.messages) {
            ends = Some(error);
            break;
        }
        (turns, is_asked) = (mem::take(&mut waiting), true);
        tool.globals.yes = true;
    }
    tool.globals.yes = usual_yes;
    tool.out.after_servers(is_done)?;
    if let (None, false) = (&ends, is_done)
        && let Some(last) = failures.iter().map(|(_, error)| error.exit.severity()).max()
        && let Some(at) = failures.iter().position(|(_, error)| error.exit.severity() == last)
    {
        let (address, error) = failures.swap_remove(at);
        ends = Some(CliError { message: error.at(&address), ..error });
    }
    for (address, error) in failures {
        worst = worst.worse(error.exit);
        tool.messages.warn(error.at(&address));
    }
    match ends {
        Some(error) => Err(error),
        None => Ok(worst),
    }
}

/// A name with its server, if there are several servers.
pub fn name_at(name: impl Into<String>, server: Option<&str>) -> String {
    let name = name.into();
    match server {
        Some(server) => format!("{name} at {server}"),
        None => name,
    }
}
