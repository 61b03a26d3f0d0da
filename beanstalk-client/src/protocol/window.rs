//! The commands of a pipeline that are in flight, without I/O.

use std::collections::VecDeque;

use queue_core::{BatchOperation, Span};

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
    in_flight: VecDeque<WindowEntry<C>>,
    size: usize,
    ended: bool,
    batch: BatchOperation,
}

#[derive(Debug)]
enum WindowEntry<C> {
    Sent(Ticket, C),
    Refused(Error),
}

/// The oldest command in flight.
#[derive(Debug)]
pub(crate) enum OldestCommand {
    /// It was sent, and waits for its reply.
    Sent(Ticket, ServerWait),
    /// It was never sent.
    Refused(Error),
}

impl<C: Command> Window<C> {
    pub(crate) fn new() -> Self {
        Window {
            in_flight: VecDeque::new(),
            size: DEFAULT_SIZE,
            ended: false,
            batch: BatchOperation::new(),
        }
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
        self.notify(client, command.name(), &outcome);
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
                Ok(ticket) => WindowEntry::Sent(ticket, command),
                Err(refusal) => WindowEntry::Refused(refusal.with_command(command.name())),
            });
            self.ended = !session.is_open();
        }
    }

    fn has_room(&self, session: &Session) -> bool {
        self.in_flight.len() < self.size && session.is_open() && session.unsent() < ENOUGH_OUTGOING
    }

    /// The oldest command in flight. A refused one is removed.
    pub(crate) fn head(&mut self, client: &mut ClientSession) -> Option<OldestCommand> {
        if let WindowEntry::Sent(ticket, command) = self.in_flight.front()? {
            return Some(OldestCommand::Sent(*ticket, command.server_wait()));
        }
        let WindowEntry::Refused(refusal) = self.in_flight.pop_front()? else { return None };
        let outcome = Err::<(), _>(refusal);
        self.notify(client, C::NAME, &outcome);
        outcome.err().map(OldestCommand::Refused)
    }

    /// Removes the oldest command and returns its outcome. An error that ends the connection also ends the pipeline.
    pub(crate) fn complete(
        &mut self,
        client: &mut ClientSession,
        outcome: Result<Response>,
    ) -> Option<Result<C::Reply>> {
        let command = match self.in_flight.pop_front()? {
            WindowEntry::Sent(_, command) => command,
            WindowEntry::Refused(refusal) => return Some(Err(refusal)),
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
        self.notify(client, command.name(), &outcome);
        Some(outcome)
    }

    /// Reports the end of a command, within the span of the pipeline.
    fn notify<T>(&mut self, client: &mut ClientSession, verb: &str, outcome: &Result<T>) {
        client.count::<C, _>(outcome);
        let failure = trace::failure(outcome);
        match verb {
            "put" => self.batch.sent(failure),
            _ => self.batch.answered(failure.map(|(error, _)| error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ErrorKind, Job, PutOptions,
        protocol::{Delete, Put},
    };

    fn client() -> ClientSession {
        ClientSession::new("simulated:11300".parse().unwrap(), true)
    }

    fn deletes() -> impl Iterator<Item = Delete> {
        (1..).map(|job: u64| Delete::new(job))
    }

    /// Answers the oldest command.
    fn complete<C: Command>(
        window: &mut Window<C>,
        client: &mut ClientSession,
        response: Response,
    ) -> Result<C::Reply> {
        assert!(matches!(window.head(client), Some(OldestCommand::Sent(..))));
        window.complete(client, Ok(response)).unwrap()
    }

    #[test]
    fn a_window_is_filled_once_half_of_it_is_free() {
        for (size, filled) in [(4, [4, 4, 6, 6, 8]), (1, [1, 2, 3, 4, 5]), (0, [1, 2, 3, 4, 5])] {
            let (mut client, mut commands) = (client(), deletes());
            let mut window = Window::new();
            window.resize(size);
            for taken in filled {
                window.fill(&mut client.session, &mut commands);
                assert_eq!(client.session.metrics().commands, taken, "of {size}");
                assert!(complete(&mut window, &mut client, Response::Deleted).is_ok());
            }
        }
    }

    #[test]
    fn a_window_takes_no_more_while_much_waits_to_be_written() {
        let (mut client, body) = (client(), vec![0; 200 << 10]);
        let mut puts = (0..9).map(|_| Put::new(&body, PutOptions::default()).unwrap());
        let mut window = Window::new();
        window.fill(&mut client.session, &mut puts);
        assert_eq!(client.session.metrics().commands, 2);
        window.fill(&mut client.session, &mut puts);
        assert_eq!(client.session.metrics().commands, 2);
        // Something has to be in flight, however much there is.
        assert!(complete(&mut window, &mut client, Response::Inserted(1.into())).is_ok());
        assert!(complete(&mut window, &mut client, Response::Inserted(2.into())).is_ok());
        window.fill(&mut client.session, &mut puts);
        assert_eq!(client.session.metrics().commands, 3);
        client.session.sent(usize::MAX);
        window.fill(&mut client.session, &mut puts);
        assert_eq!(client.session.metrics().commands, 5);
    }

    #[test]
    fn a_pipeline_survives_refusals_and_ends_with_its_connection() {
        let (mut client, mut window) = (client(), Window::new());
        window.resize(1);
        let mut commands = deletes();
        window.fill(&mut client.session, &mut commands);
        let error = complete(&mut window, &mut client, Response::NotFound).unwrap_err();
        assert_eq!((error.kind(), error.command()), (ErrorKind::NotFound, Some("delete")));
        window.fill(&mut client.session, &mut commands);
        assert!(complete(&mut window, &mut client, Response::Deleted).is_ok());
        window.fill(&mut client.session, &mut commands);
        let error = complete(&mut window, &mut client, Response::Touched).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        window.fill(&mut client.session, &mut commands);
        assert!(window.head(&mut client).is_none());
        let metrics = client.session.metrics();
        assert_eq!(metrics.errors_of(ErrorKind::NotFound), 1);
        assert_eq!(metrics.errors_of(ErrorKind::Protocol), 1);
        assert_eq!(metrics.commands, 3);
    }

    #[test]
    fn a_pipeline_asks_for_no_command_after_the_last() {
        let (mut client, mut window) = (client(), Window::new());
        let mut given = 0;
        let mut twice = std::iter::from_fn(|| {
            given += 1;
            (given != 2).then(|| Delete::new(given))
        });
        window.fill(&mut client.session, &mut twice);
        window.fill(&mut client.session, &mut twice);
        assert_eq!((given, client.session.metrics().commands), (2, 1));
    }

    #[test]
    fn a_command_that_cannot_be_sent_has_its_outcome_in_turn() {
        let (mut client, mut window) = (client(), Window::new());
        let lost = Job::for_test(7, "body");
        let mut commands = [Delete::new(1), Delete::new(&lost), Delete::new(2)].into_iter();
        window.fill(&mut client.session, &mut commands);
        assert_eq!(client.session.outgoing(), b"delete 1\r\ndelete 2\r\n");
        assert!(complete(&mut window, &mut client, Response::Deleted).is_ok());
        let Some(OldestCommand::Refused(error)) = window.head(&mut client) else {
            panic!("{window:?}")
        };
        assert_eq!((error.kind(), error.command()), (ErrorKind::JobLost, Some("delete")));
        assert_eq!(client.session.metrics().errors_of(ErrorKind::JobLost), 1);
        assert!(complete(&mut window, &mut client, Response::Deleted).is_ok());
        assert!(window.head(&mut client).is_none());
    }
}
