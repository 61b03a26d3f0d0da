//! The commands of a pipeline that are in flight, without I/O.

use std::collections::VecDeque;

use queue_core::{Batch, Span};

use crate::{
    Error, Result,
    protocol::{ClientSession, Command, Response, ServerWait, Session, Ticket},
    trace,
};

/// Default window: enough to keep the server busy, and below the roughly 500 reserved jobs on one connection at which
/// the server slows down.
const DEFAULT_SIZE: usize = 256;

/// No further command is encoded while this many bytes wait to be written.
const ENOUGH_OUTGOING: u64 = 256 * 1024;

/// Takes commands while there is room, and matches each reply with the oldest of them.
#[derive(Debug)]
pub(crate) struct Window<C> {
    in_flight: VecDeque<InFlight<C>>,
    size: usize,
    ended: bool,
    batch: Batch,
}

#[derive(Debug)]
enum InFlight<C> {
    Sent(Ticket, C),
    Refused(Error),
}

/// The oldest command in flight.
#[derive(Debug)]
pub(crate) enum Head {
    /// It was sent, and waits for its reply.
    Sent(Ticket, ServerWait),
    /// It was never sent.
    Refused(Error),
}

impl<C: Command> Window<C> {
    pub(crate) fn new() -> Self {
        Window { in_flight: VecDeque::new(), size: DEFAULT_SIZE, ended: false, batch: Batch::new() }
    }

    /// The span of the pipeline, which starts at its first use.
    pub(crate) fn span(&mut self, client: &ClientSession) -> Span {
        self.batch.begin(|| trace::pipeline::<C>(client));
        self.batch.span()
    }

    pub(crate) fn resize(&mut self, commands: usize) {
        self.size = commands.max(1);
    }

    /// Without a connection, the pipeline ends with an error for the first command, if there is one.
    pub(crate) fn fail<T>(
        &mut self,
        client: &mut ClientSession,
        commands: &mut impl Iterator<Item = C>,
        error: Error,
    ) -> Option<Result<T>> {
        self.ended = true;
        let command = commands.next()?;
        self.batch.takes(1);
        let outcome = Err(error.with_command(command.name()));
        self.tell(client, command.name(), &outcome);
        Some(outcome)
    }

    /// Takes commands once half of the window is free, so that many go out in one write while the server works on the
    /// other half.
    ///
    /// With nothing in flight it takes at least one: only the end of `commands`, or a reported error, ends a pipeline.
    pub(crate) fn fill(&mut self, session: &mut Session, commands: &mut impl Iterator<Item = C>) {
        if self.in_flight.len() > self.size / 2 {
            return;
        }
        while !self.ended && (self.in_flight.is_empty() || self.has_room(session)) {
            let Some(command) = commands.next() else {
                self.ended = true;
                return;
            };
            self.batch.takes(1);
            self.in_flight.push_back(match session.send(&command) {
                Ok(ticket) => InFlight::Sent(ticket, command),
                Err(refusal) => InFlight::Refused(refusal.with_command(command.name())),
            });
            self.ended = !session.is_open();
        }
    }

    fn has_room(&self, session: &Session) -> bool {
        self.in_flight.len() < self.size && session.is_open() && session.unsent() < ENOUGH_OUTGOING
    }

    /// The oldest command in flight. A refused one is removed.
    pub(crate) fn head(&mut self, client: &mut ClientSession) -> Option<Head> {
        if let Some(InFlight::Sent(ticket, command)) = self.in_flight.front() {
            return Some(Head::Sent(*ticket, command.server_wait()));
        }
        match self.in_flight.pop_front()? {
            InFlight::Refused(refusal) => {
                let outcome = Err::<(), _>(refusal);
                self.tell(client, C::NAME, &outcome);
                outcome.err().map(Head::Refused)
            }
            InFlight::Sent(ticket, command) => Some(Head::Sent(ticket, command.server_wait())),
        }
    }

    /// Removes the oldest command and returns its outcome. An error that ends the connection also ends the pipeline.
    pub(crate) fn complete(
        &mut self,
        client: &mut ClientSession,
        outcome: Result<Response>,
    ) -> Option<Result<C::Reply>> {
        let command = match self.in_flight.pop_front()? {
            InFlight::Sent(_, command) => command,
            InFlight::Refused(refusal) => return Some(Err(refusal)),
        };
        let outcome = match outcome {
            Ok(response) => {
                if matches!(response, Response::Reserved(_)) {
                    self.batch.delivered();
                }
                client.session.decode(&command, response)
            }
            Err(error) => Err(error.with_command(command.name())),
        };
        self.ended |= outcome.is_err() && !client.session.is_open();
        self.tell(client, command.name(), &outcome);
        Some(outcome)
    }

    /// Reports the end of a command, within the span of the pipeline.
    fn tell<T>(&mut self, client: &mut ClientSession, verb: &str, outcome: &Result<T>) {
        client.count::<C, _>(outcome);
        let failure = trace::failure(outcome);
        match verb {
            "put" => self.batch.sent(failure),
            _ => self.batch.answered(failure.map(|(error, _)| error)),
        }
    }
}
