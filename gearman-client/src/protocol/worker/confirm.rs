//! What a worker's questions and results came to.
//!
//! The server does not acknowledge results. It answers in order, though: the answer to a later grab or echo shows that
//! a result was taken, and an ERROR before it that it was not.

use std::{collections::VecDeque, time::Instant};

use queue_core::Operation;

use super::{Grab, work::Settled};
use crate::{Error, ErrorKind, protocol::PacketType};

/// What was sent and is not answered or confirmed yet.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// Numbers what is sent, to tell what an answer confirms.
    number: u64,
    /// Grabs and echoes that were not answered yet.
    asked: VecDeque<Asked>,
    grabs: usize,
    /// Results and reports that no later answer has confirmed yet.
    unconfirmed: VecDeque<Work>,
    settled: VecDeque<Settled>,
    /// How many results were lost with their connections.
    #[cfg_attr(not(any(feature = "tokio", feature = "blocking")), allow(dead_code))]
    unknown: u64,
    has_answers: bool,
    /// How often the server came further with what it was asked, and when it last did.
    steps: u64,
    stepped_at: Option<Instant>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    /// Of which kind, if it is a grab.
    grab: Option<Grab>,
    since: Instant,
    /// How many bytes of the connection it ends behind.
    #[cfg_attr(not(any(feature = "tokio", feature = "blocking")), allow(dead_code))]
    end: u64,
    /// What is told of it, if anybody is.
    told: Told,
}

/// What is told of something under way, if anybody is.
pub(super) type Told = Option<Box<Operation>>;

#[derive(Debug)]
struct Work {
    number: u64,
    packet_type: PacketType,
    /// It only repeats the end that was sent before it.
    is_repeated: bool,
    told: Told,
}

impl Work {
    /// What is told of it ends, and so does it.
    fn ended(&mut self, error: Option<ErrorKind>) {
        if let Some(mut told) = self.told.take() {
            told.ended(error.map(ErrorKind::name));
        }
    }

    fn is_result(&self) -> bool {
        use PacketType::{WorkComplete, WorkException, WorkFail};
        !self.is_repeated && matches!(self.packet_type, WorkComplete | WorkFail | WorkException)
    }
}

impl Confirmations {
    /// A packet was sent.
    pub(super) fn count(&mut self) {
        self.number += 1;
    }

    /// That packet was a question, which ends behind so many bytes of the connection; gives its number.
    pub(super) fn asked(&mut self, grab: Option<Grab>, end: u64, told: Told, now: Instant) -> u64 {
        self.asked.push_back(Asked { number: self.number, grab, since: now, end, told });
        self.grabs += usize::from(grab.is_some());
        self.number
    }

    /// That packet was a result or a report.
    pub(super) fn told(&mut self, packet_type: PacketType, told: Told) {
        let work = Work { number: self.number, packet_type, is_repeated: false, told };
        self.unconfirmed.push_back(work);
    }

    /// That packet ended a job once more, whose end was told before it.
    pub(super) fn repeated(&mut self, packet_type: PacketType) {
        let work = Work { number: self.number, packet_type, is_repeated: true, told: None };
        self.unconfirmed.push_back(work);
    }

    /// How many grabs are under way.
    pub(super) fn grabs(&self) -> usize {
        self.grabs
    }

    /// Whether the question with this number was answered.
    pub(super) fn is_past(&self, number: u64) -> bool {
        self.asked.front().is_none_or(|asked| asked.number > number)
    }

    /// The server came further with what it was asked: the oldest question waits from now on.
    pub(super) fn step(&mut self, now: Instant) {
        self.steps += 1;
        self.stepped_at = Some(now);
    }

    /// How many answers have come, and how many questions were taken back.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Since when the oldest question waits for its answer and for nothing before it.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let since = self.asked.front()?.since;
        Some(self.stepped_at.map_or(since, |at| at.max(since)))
    }

    /// Whether a connection that has taken so many bytes has the oldest question among them.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(super) fn is_waiting(&self, sent: u64) -> bool {
        self.asked.front().is_some_and(|asked| asked.end <= sent)
    }

    /// The kind of the oldest question, if it is a grab.
    pub(super) fn next_grab(&self) -> Option<Grab> {
        self.asked.front().and_then(|asked| asked.grab)
    }

    /// When the oldest question was asked, if it is a grab.
    pub(super) fn waiting_grab(&self) -> Option<Instant> {
        self.asked.front().filter(|asked| asked.grab.is_some()).map(|asked| asked.since)
    }

    /// Whether a question was answered.
    pub(super) fn has_answers(&self) -> bool {
        self.has_answers
    }

    /// Whether results or reports are not confirmed yet.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// The oldest question has its answer, which confirms what was sent before it. Gives the kind of a grab, and what is
    /// told of it.
    ///
    /// # Errors
    ///
    /// `Protocol` when there is no such question.
    pub(super) fn answered(
        &mut self,
        by: PacketType,
        is_grab: bool,
        now: Instant,
    ) -> Result<(Option<Grab>, Told), Error> {
        let Some(asked) = self.asked.pop_front() else {
            return Err(Error::protocol(format!("{by} came, which answers no request")));
        };
        if asked.grab.is_some() != is_grab {
            return Err(Error::protocol(format!("{by} came, which answers another request")));
        }
        self.grabs -= usize::from(is_grab);
        self.has_answers = true;
        self.step(now);
        while self.unconfirmed.front().is_some_and(|work| work.number < asked.number) {
            let Some(mut work) = self.unconfirmed.pop_front() else { break };
            work.ended(None);
            if work.is_result() {
                self.settled.push_back(match work.packet_type {
                    PacketType::WorkComplete => Settled::Completed,
                    _ => Settled::Failed,
                });
            }
        }
        Ok((asked.grab, asked.told))
    }

    /// Takes the oldest question back if it is a grab; gives its kind.
    pub(super) fn withdraw_grab(&mut self, now: Instant) -> Option<Grab> {
        let grab = self.next_grab()?;
        self.asked.pop_front();
        self.grabs -= 1;
        self.step(now);
        Some(grab)
    }

    /// The server does not have the job of a result or a report any more: it gave it to others.
    pub(super) fn rejected(&mut self, text: &[u8]) {
        // gearmand's texts tell what kind of packet it was.
        let says = |words: &[u8]| text.windows(words.len()).any(|window| window == words);
        let of_kind = |work: &Work| match work.packet_type {
            PacketType::WorkData | PacketType::WorkWarning => says(b"does not exist on server"),
            PacketType::WorkException => says(b"exception"),
            _ => says(b"work result"),
        };
        let at = self.unconfirmed.iter().position(of_kind).unwrap_or(0);
        let Some(mut work) = self.unconfirmed.remove(at) else { return };
        work.ended(Some(ErrorKind::JobNotFound));
        if work.is_result() {
            self.settled.push_back(Settled::Rejected);
        }
    }

    /// A result was not sent, since the server has given its job out again.
    pub(super) fn reject(&mut self) {
        self.settled.push_back(Settled::Rejected);
    }

    /// What became of results since it was last asked.
    pub(super) fn settled(&mut self) -> impl Iterator<Item = Settled> {
        self.settled.drain(..)
    }

    /// How many results were lost with their connections, in all.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(super) fn unknown(&self) -> u64 {
        self.unknown
    }

    /// There is a new connection.
    pub(super) fn reopen(&mut self) {
        self.has_answers = false;
    }

    /// The connection is gone, with so many jobs unfinished: no answer will come any more.
    pub(super) fn close(&mut self, running: usize) {
        self.settled.extend(std::iter::repeat_n(Settled::Abandoned, running));
        let results = self.unconfirmed.iter().filter(|work| work.is_result()).count();
        self.settled.extend(std::iter::repeat_n(Settled::Unknown, results));
        self.unknown += results as u64;
        for mut work in self.unconfirmed.drain(..) {
            work.ended(Some(ErrorKind::ConnectionLost));
        }
        self.asked.clear();
        self.grabs = 0;
    }
}
