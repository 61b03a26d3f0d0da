//! A command as the bytes that are sent, and what its connection has to know of it besides.

use bytes::BytesMut;
use queue_core::emptied;

use super::{Meaning, Session, Ticket};
use crate::{
    Error, JobRef,
    protocol::{Command, Effect, ServerWait},
};

/// An encoded command. It is kept by whoever may have to send it again.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Empty while the bytes are under way.
    pub(crate) bytes: BytesMut,
    /// How many bytes the whole command has.
    pub(crate) len: usize,
    /// Its wire verb.
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    /// How long the server may hold the answer back.
    pub(crate) wait: ServerWait,
    /// The job that it acts on.
    pub(crate) job: Option<JobRef>,
}

impl Default for Frame {
    fn default() -> Self {
        Frame {
            bytes: BytesMut::new(),
            len: 0,
            name: "",
            effect: Effect::None,
            wait: ServerWait::None,
            job: None,
        }
    }
}

impl Frame {
    /// Becomes this command. The memory of the one before is used again, unless a large body made it large.
    pub(crate) fn encode<C: Command>(&mut self, command: &C) {
        emptied(&mut self.bytes);
        command.encode(&mut self.bytes);
        self.len = self.bytes.len();
        self.name = command.name();
        self.effect = command.effect();
        self.wait = command.server_wait();
        self.job = command.job();
    }
}

impl Session {
    /// As [`send`](Self::send), of a command that is encoded. Its bytes move into the outgoing ones.
    pub(crate) fn send_frame(&mut self, frame: &mut Frame) -> Result<Ticket, Error> {
        self.refuse(frame.job)?;
        let before = self.outgoing.len();
        if before == 0 {
            std::mem::swap(&mut self.outgoing, &mut frame.bytes);
        } else {
            self.outgoing.extend_from_slice(&frame.bytes);
        }
        frame.bytes.clear();
        Ok(self.queue(before, frame.wait, Meaning::Command(frame.effect.clone()), frame.job))
    }
}
