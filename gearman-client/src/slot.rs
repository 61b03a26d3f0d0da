//! Where the driver of a connection puts what is for a caller.

use std::{
    collections::VecDeque,
    task::{Context, Waker},
};

use crate::{
    Error, ErrorKind, Fate, JobEvent,
    protocol::{Epoch, Packet},
};

/// The mailbox of a caller.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) mail: VecDeque<(u32, Mail)>,
    pub(crate) waker: Option<Waker>,
    /// Requests and jobs whose last mail is still to come.
    pub(crate) open: u32,
    /// Bytes of events that wait to be read.
    pub(crate) backlog: usize,
    /// Requests that got more events than the backlog takes.
    pub(crate) choked: Vec<u32>,
    /// The connection that its requests went to.
    pub(crate) epoch: Option<Epoch>,
    /// The caller has gone.
    pub(crate) is_abandoned: bool,
    /// The caller need not be woken when its job is created.
    pub(crate) wants_end_only: bool,
}

/// Something for a caller.
#[derive(Debug)]
pub(crate) enum Mail {
    Answer(Packet),
    Event(JobEvent),
    Lost(Error),
}

impl Slot {
    /// Makes it as new. The memory of its queues serves the next caller.
    pub(crate) fn reset(&mut self) {
        let Slot { mail, waker, open, backlog, choked, epoch, is_abandoned, wants_end_only } = self;
        mail.clear();
        choked.clear();
        (*waker, *epoch) = (None, None);
        (*open, *backlog) = (0, 0);
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
        self.open == 0 && self.mail.is_empty()
    }

    pub(crate) fn put(&mut self, tag: u32, mail: Mail) {
        if !self.is_abandoned {
            self.mail.push_back((tag, mail));
        }
    }

    /// An event that does not end its job: kept as far as the backlog goes.
    pub(crate) fn put_event(&mut self, tag: u32, event: JobEvent, max: usize) {
        if self.is_abandoned || self.wants_end_only || self.choked.contains(&tag) {
            return;
        }
        // Of progress that nobody has read yet, only the latest matters.
        if let (Some((of, Mail::Event(JobEvent::Status(old)))), JobEvent::Status(new)) =
            (self.mail.back_mut(), &event)
            && *of == tag
        {
            old.clone_from(new);
            return;
        }
        if self.backlog + event.weight() > max {
            self.choked.push(tag);
            let message = format!(
                "the events of the job that wait to be read passed the limit of {max} bytes (read faster, or raise \
                 max_backlog)"
            );
            let error = Error::new(ErrorKind::Backlog, Fate::Unknown, message);
            self.mail.push_back((tag, Mail::Lost(error)));
            return;
        }
        self.backlog += event.weight();
        self.mail.push_back((tag, Mail::Event(event)));
    }
}
