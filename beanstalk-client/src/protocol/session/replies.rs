//! Matching replies to commands, and applying their effects.

use queue_core::Io;

use super::{Meaning, PendingReply, Session, SessionState, Ticket, closed, ended};
use crate::{
    Error, ErrorKind, Fate,
    protocol::{Command, Effect, Response},
};

impl Session {
    /// The reply to `ticket`, or `None` if more bytes are needed. Ask for tickets in order; the replies to skipped ones
    /// take effect and are dropped.
    ///
    /// # Errors
    ///
    /// `Protocol` when the bytes are not a reply, `ConnectionLost` when the stream ended before it. Both close the
    /// session.
    pub fn reply(&mut self, ticket: Ticket) -> Result<Option<Response>, Error> {
        loop {
            match self.next_reply(ticket)? {
                Some((number, response)) if number == ticket => return Ok(Some(response)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// As [`reply`](Self::reply), from the bytes that a pump has read.
    ///
    /// # Errors
    ///
    /// As [`reply`](Self::reply).
    pub fn reply_in<F>(
        &mut self,
        ticket: Ticket,
        io: &mut Io<F>,
    ) -> Result<Option<Response>, Error> {
        self.follow(io);
        while let Some((number, response)) = self.next_reply_in(ticket, io)? {
            if number == ticket {
                return Ok(Some(response));
            }
        }
        Ok(None)
    }

    /// Reads the replies to the abandoned commands before this one, so that they occupy no buffer space.
    pub(crate) fn pass_over_in<F>(&mut self, ticket: Ticket, io: &mut Io<F>) -> Result<(), Error> {
        self.follow(io);
        while self.answered < ticket.0 && self.next_reply_in(ticket, io)?.is_some() {}
        Ok(())
    }

    /// The same for all commands sent so far.
    pub(crate) fn pass_over_all_in<F>(&mut self, io: &mut Io<F>) -> Result<(), Error> {
        if !self.may_be_answered() {
            return Ok(());
        }
        self.pass_over_in(Ticket(self.answered + self.pending.len() as u64), io)
    }

    /// Whether the server has answered a command since the last call, even if no caller waits for it.
    pub(crate) fn take_answered(&mut self) -> bool {
        std::mem::take(&mut self.has_answered)
    }

    fn next_reply_in<F>(
        &mut self,
        ticket: Ticket,
        io: &mut Io<F>,
    ) -> Result<Option<(Ticket, Response)>, Error> {
        self.refuse_closed(ticket)?;
        let decoded = self.decoder.parser.next(io);
        self.sort(ticket, decoded)
    }

    /// The next reply and its number, for a caller that waits for that of `ticket`.
    fn next_reply(&mut self, ticket: Ticket) -> Result<Option<(Ticket, Response)>, Error> {
        self.refuse_closed(ticket)?;
        let decoded = self.decoder.next();
        self.sort(ticket, decoded)
    }

    fn refuse_closed(&mut self, ticket: Ticket) -> Result<(), Error> {
        match self.state {
            SessionState::Closed => Err(self.fail(ticket, closed())),
            _ => Ok(()),
        }
    }

    /// Gives a reply its number, and applies its effect.
    fn sort(
        &mut self,
        ticket: Ticket,
        decoded: Result<Option<Response>, Error>,
    ) -> Result<Option<(Ticket, Response)>, Error> {
        let response = match decoded {
            Ok(Some(response)) => response,
            Ok(None) if self.end_of_stream => match self.pending.front() {
                Some(PendingReply { meaning: Meaning::Command(Effect::Quit), .. })
                    if self.decoder.is_at_boundary() =>
                {
                    Response::Closed
                }
                _ => return Err(self.fail(ticket, ended())),
            },
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.fail(ticket, error)),
        };
        let Some(answered) = self.take_begun() else {
            let error = Error::protocol("the server sent a reply that matches no command");
            return Err(self.fail(ticket, error));
        };
        let number = Ticket(self.answered);
        self.answered += 1;
        self.metrics.replies += 1;
        self.has_answered |= matches!(answered.meaning, Meaning::Command(_));
        if answered.may_be_cut && matches!(response, Response::BadFormat | Response::UnknownCommand)
        {
            // The server also answers the rest of the line, so the next reply would be out of step.
            self.close();
        }
        self.holdings.note(&answered.meaning, answered.job, &response);
        self.take_effect(answered.meaning, &response, number == ticket)
            .map_err(|error| self.fail(ticket, error))?;
        Ok(Some((number, response)))
    }

    /// Takes the oldest command, for its reply. No reply can arrive before the command's first byte was sent; the last
    /// byte may be unsent, since some refusals arrive as soon as the server has read the command line.
    fn take_begun(&mut self) -> Option<PendingReply> {
        if self.sent <= self.answered_to {
            return None;
        }
        let oldest = self.pending.pop_front()?;
        self.answered_to = oldest.end;
        Some(oldest)
    }

    fn take_effect(
        &mut self,
        meaning: Meaning,
        response: &Response,
        wanted: bool,
    ) -> Result<(), Error> {
        let effect = match meaning {
            Meaning::Restore | Meaning::Command(Effect::Restore) => {
                return match response {
                    Response::Using(_) | Response::Watching(_) => Ok(()),
                    other => Err(Error::protocol(format!(
                        "the server replied {} while the used tube and the watch list were restored",
                        other.word()
                    ))),
                };
            }
            Meaning::Command(effect) => effect,
        };
        match (effect, response) {
            (Effect::Use(tube), Response::Using(_)) => self.used = tube,
            (Effect::Watch(tube), Response::Watching(_)) if !self.watched.contains(&tube) => {
                self.watched.push(tube);
                self.give_orphans_back();
            }
            (Effect::Ignore(tube), Response::Watching(_)) if self.watched.contains(&tube) => {
                self.watched.retain(|t| *t != tube);
                self.give_orphans_back();
            }
            (
                Effect::Put,
                Response::BadFormat | Response::UnknownCommand | Response::ExpectedCrlf,
            ) => self.close(),
            (Effect::Reserve, Response::Reserved(job)) if !wanted => {
                self.keep_orphan(job.clone());
            }
            // This job will not be run, and it must not go to another reserve: closing gives it back with its priority
            // unchanged.
            (Effect::ReserveJob, Response::Reserved(_))
            | (
                Effect::Reserve | Effect::ReserveJob,
                Response::BodyTooLarge { .. } | Response::BodyDamaged { .. },
            ) if !wanted => {
                self.close_after_replies();
            }
            _ => {}
        }
        Ok(())
    }

    /// Decodes the reply to `command`. A reply that cannot belong to it closes the session.
    ///
    /// # Errors
    ///
    /// Any refusal by the server.
    pub fn decode<C: Command>(
        &mut self,
        command: &C,
        response: Response,
    ) -> Result<C::Reply, Error> {
        command.decode(response).map_err(|error| {
            if error.kind() == ErrorKind::Protocol {
                self.close();
            }
            error.with_command(command.name())
        })
    }

    /// Closes the session, and gives the error the fate of the command with this ticket.
    #[must_use]
    pub fn fail(&mut self, ticket: Ticket, error: Error) -> Error {
        self.close();
        error.with_fate(self.fate(ticket))
    }

    /// Whether the server may have acted on an unanswered command: only if its last byte was taken.
    pub(super) fn fate(&self, ticket: Ticket) -> Fate {
        let index = ticket.0.checked_sub(self.answered).and_then(|n| usize::try_from(n).ok());
        match index.and_then(|index| self.pending.get(index)) {
            Some(pending) if pending.end > self.sent => Fate::NotSent,
            _ => Fate::Unknown,
        }
    }
}
