//! An encoded command, with what its connection has to know about it.

use bytes::BytesMut;
use queue_core::emptied;

use super::{Meaning, Session, Ticket};
use crate::{
    Error, JobRef,
    protocol::{Command, Effect, ServerWait},
};

/// An encoded command, kept in case it has to be resent.
#[derive(Debug)]
pub(crate) struct EncodedCommand {
    /// Empty while the bytes are queued for writing.
    pub(crate) bytes: BytesMut,
    /// The length of the whole command.
    pub(crate) len: usize,
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    /// How long the server may hold the answer back.
    pub(crate) wait: ServerWait,
    pub(crate) job: Option<JobRef>,
}

impl Default for EncodedCommand {
    fn default() -> Self {
        EncodedCommand {
            bytes: BytesMut::new(),
            len: 0,
            name: "",
            effect: Effect::None,
            wait: ServerWait::None,
            job: None,
        }
    }
}

impl EncodedCommand {
    /// Encodes another command into this frame. Reuses the memory, unless a large body made it large.
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
    /// As [`send`](Self::send), for an encoded command. Its bytes move into the outgoing ones.
    pub(crate) fn send_frame(&mut self, frame: &mut EncodedCommand) -> Result<Ticket, Error> {
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
