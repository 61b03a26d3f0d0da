//! Where the driver of a connection puts what is for a caller.

use std::task::{Context, Waker};

use crate::{
    JobEvent,
    inbox::{Inbox, Mail},
    protocol::Epoch,
};

/// The mailbox of a caller.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) inbox: Inbox<u32>,
    pub(crate) waker: Option<Waker>,
    /// Requests and jobs whose last mail is still to come.
    pub(crate) open: u32,
    /// The connection that its requests went to.
    pub(crate) epoch: Option<Epoch>,
    /// The caller has gone.
    pub(crate) is_abandoned: bool,
    /// The caller need not be woken when its job is created.
    pub(crate) wants_end_only: bool,
}

impl Slot {
    /// Makes it as new. The memory of its queues serves the next caller.
    pub(crate) fn reset(&mut self) {
        let Slot { inbox, waker, open, epoch, is_abandoned, wants_end_only } = self;
        inbox.clear();
        (*waker, *epoch, *open) = (None, None, 0);
        (*is_abandoned, *wants_end_only) = (false, false);
    }

    /// Lets the caller sleep until there is mail.
    pub(crate) fn wait(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Whether all mail has come and is taken.
    pub(crate) fn is_over(&self) -> bool {
        self.open == 0 && self.inbox.len() == 0
    }

    pub(crate) fn put(&mut self, tag: u32, mail: Mail) {
        if !self.is_abandoned {
            self.inbox.put(tag, mail);
        }
    }

    pub(crate) fn put_last(&mut self, tag: u32, mail: Mail) {
        if !self.is_abandoned {
            self.inbox.put_last(tag, mail);
        }
    }

    /// An event that does not end its job.
    pub(crate) fn put_event(&mut self, tag: u32, event: JobEvent, max: usize) {
        if !self.is_abandoned && !self.wants_end_only {
            self.inbox.put_event(tag, event, max);
        }
    }
}
