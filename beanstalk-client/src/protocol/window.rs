//! The commands of a pipeline that are in flight, without the input and output.

use std::collections::VecDeque;

use crate::{
    Error,
    protocol::{Command, Response, ServerWait, Session, Ticket},
};

/// How many commands may be in flight unless the caller says otherwise: enough to keep the server busy, and below the
/// 500 or so reserved jobs on one connection from which on the server gets slow.
const DEFAULT_SIZE: usize = 256;

/// No further command is encoded while so many bytes wait to be written.
const ENOUGH_OUTGOING: u64 = 256 * 1024;

/// Takes commands as there is room, and matches each reply with the oldest of them.
#[derive(Debug)]
pub(crate) struct Window<C> {
    in_flight: VecDeque<InFlight<C>>,
    size: usize,
    ended: bool,
}

#[derive(Debug)]
enum InFlight<C> {
    Sent(Ticket, C),
    Refused(Error),
}

/// The oldest command in flight.
#[derive(Debug)]
pub(crate) enum Head {
    /// Its reply is waited for.
    Sent(Ticket, ServerWait),
    /// It was never sent.
    Refused(Error),
}

impl<C: Command> Window<C> {
    pub(crate) fn new() -> Self {
        Window { in_flight: VecDeque::new(), size: DEFAULT_SIZE, ended: false }
    }

    pub(crate) fn resize(&mut self, commands: usize) {
        self.size = commands.max(1);
    }

    /// Takes no further command.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Takes commands while there is room. It waits until half of the window is free, so that many commands go out in
    /// one write while the server works on the other half.
    ///
    /// With nothing in flight it takes one in any case: only the end of `commands`, or an error that was given, ends a
    /// pipeline.
    pub(crate) fn fill(&mut self, session: &mut Session, commands: &mut impl Iterator<Item = C>) {
        if self.in_flight.len() > self.size / 2 {
            return;
        }
        while !self.ended && (self.in_flight.is_empty() || self.has_room(session)) {
            let Some(command) = commands.next() else {
                self.ended = true;
                return;
            };
            self.in_flight.push_back(match session.send(&command) {
                Ok(ticket) => InFlight::Sent(ticket, command),
                Err(refusal) => InFlight::Refused(refusal.with_command(command.name())),
            });
            self.ended = !session.is_open();
        }
    }

    /// Whether one more command may follow those in flight.
    fn has_room(&self, session: &Session) -> bool {
        self.in_flight.len() < self.size && session.is_open() && session.unsent() < ENOUGH_OUTGOING
    }

    /// The oldest command in flight; one that was refused is taken out.
    pub(crate) fn head(&mut self) -> Option<Head> {
        if let Some(InFlight::Sent(ticket, command)) = self.in_flight.front() {
            return Some(Head::Sent(*ticket, command.server_wait()));
        }
        match self.in_flight.pop_front()? {
            InFlight::Refused(refusal) => Some(Head::Refused(refusal)),
            InFlight::Sent(ticket, command) => Some(Head::Sent(ticket, command.server_wait())),
        }
    }

    /// Takes the oldest command out with what became of it. An error that ends the connection ends the pipeline.
    pub(crate) fn complete(
        &mut self,
        session: &mut Session,
        outcome: Result<Response, Error>,
    ) -> Option<Result<C::Reply, Error>> {
        let command = match self.in_flight.pop_front()? {
            InFlight::Sent(_, command) => command,
            InFlight::Refused(refusal) => return Some(Err(refusal)),
        };
        let outcome = match outcome {
            Ok(response) => session.decode(&command, response),
            Err(error) => Err(error.with_command(command.name())),
        };
        self.ended |= outcome.is_err() && !session.is_open();
        Some(outcome)
    }
}
