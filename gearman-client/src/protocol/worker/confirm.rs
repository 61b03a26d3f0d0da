//! Matching answers to a worker's requests and results.
//!
//! The server does not acknowledge results, but it answers in order: the answer to a later grab or echo shows that it
//! accepted a result, and an ERROR before that answer that it did not.

use std::{collections::VecDeque, time::Instant};

use queue_core::{Fate, Later, Observation, Operation};

use super::{Grab, assignment::Assignment, work::Settled};
use crate::{Error, ErrorKind, protocol::PacketType, trace};

/// Sent packets that are not answered or confirmed yet.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// Numbers the sent packets, to tell what an answer confirms.
    number: u64,
    /// Unanswered grabs and echoes.
    asked: VecDeque<Asked>,
    /// Number of grabs in flight.
    pub(super) grabs: usize,
    /// Results and reports not yet confirmed by a later answer.
    unconfirmed: VecDeque<Work>,
    settled: VecDeque<Settled>,
    /// The total number of results lost with their connections.
    pub(super) unknown: u64,
    /// Whether any request was answered on this connection.
    pub(super) has_answers: bool,
    /// Whether the server has accepted a result on this connection.
    pub(super) has_results: bool,
    /// The total number of answered and withdrawn requests, and when that last changed. When it grows, a barrier may be
    /// passed.
    pub(super) steps: u64,
    stepped_at: Option<Instant>,
    /// News for the observers of grabs and results.
    pub(super) later: Later,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    request: Question,
    since: Instant,
    /// Its end offset on the connection.
    end: u64,
    /// Its observation, if observed.
    observation: Observed,
}

/// A request that the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Grab(Grab),
    Echo,
    /// A dead letter: the submission of a job.
    Letter,
}

impl Question {
    fn grab(self) -> Option<Grab> {
        if let Question::Grab(grab) = self { Some(grab) } else { None }
    }

    /// Whether such a packet answers it.
    fn is_answered(self, by: PacketType) -> bool {
        match by {
            PacketType::EchoRes => self == Question::Echo,
            PacketType::JobCreated => self == Question::Letter,
            _ => self.grab().is_some(),
        }
    }
}

/// The observation of something in progress, if observed.
pub(super) type Observed = Option<Box<Operation>>;

#[derive(Debug)]
struct Work {
    number: u64,
    packet_type: PacketType,
    /// Number of such packets, if they are reports: those sent between two others are counted together, because a long
    /// job may send very many before anything confirms them.
    count: u64,
    /// Whether it only repeats the end sent just before.
    is_repeated: bool,
    observation: Observed,
}

impl Work {
    /// Its observation ends, and so does it.
    fn ended(&mut self, error: Option<ErrorKind>, later: &mut Later) {
        if let Some(observation) = self.observation.take() {
            let failure = error.map(|error| (error.name(), Fate::Unknown));
            let observation = Observation::new(*observation, failure);
            later.notify(observation);
        }
    }

    fn is_report(&self) -> bool {
        use PacketType::{WorkData, WorkStatus, WorkWarning};
        matches!(self.packet_type, WorkStatus | WorkData | WorkWarning)
    }

    fn is_result(&self) -> bool {
        use PacketType::{WorkComplete, WorkException, WorkFail};
        !self.is_repeated && matches!(self.packet_type, WorkComplete | WorkFail | WorkException)
    }
}

impl Confirmations {
    /// Counts a sent packet.
    pub(super) fn count(&mut self) {
        self.number += 1;
    }

    /// That packet was a request with this end offset; returns its number.
    pub(super) fn asked(
        &mut self,
        request: Question,
        end: u64,
        observation: Observed,
        now: Instant,
    ) -> u64 {
        self.asked.push_back(Asked { number: self.number, request, since: now, end, observation });
        self.grabs += usize::from(request.grab().is_some());
        self.number
    }

    /// That packet was a result or a report.
    pub(super) fn result_or_report(&mut self, packet_type: PacketType, observation: Observed) {
        let asked = self.asked.back().map_or(0, |asked| asked.number);
        let latest = self.unconfirmed.iter_mut().rev();
        let mut reports = latest.take_while(|work| work.is_report() && work.number > asked);
        if let Some(same) = reports.find(|work| work.packet_type == packet_type) {
            same.count += 1;
            return;
        }
        let (number, count) = (self.number, 1);
        let work = Work { number, packet_type, count, is_repeated: false, observation };
        self.unconfirmed.push_back(work);
    }

    /// That packet repeated the end of a job.
    pub(super) fn repeated(&mut self, packet_type: PacketType) {
        let (number, count) = (self.number, 1);
        let work = Work { number, packet_type, count, is_repeated: true, observation: None };
        self.unconfirmed.push_back(work);
    }

    /// Whether the request with this number was answered.
    pub(super) fn is_past(&self, number: u64) -> bool {
        self.asked.front().is_none_or(|asked| asked.number > number)
    }

    /// The server has made progress: the oldest request waits from now on.
    pub(super) fn step(&mut self, now: Instant) {
        self.steps += 1;
        self.stepped_at = Some(now);
    }

    /// Since when the oldest request has been next in line for an answer.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let since = self.asked.front()?.since;
        Some(self.stepped_at.map_or(since, |at| at.max(since)))
    }

    /// Whether a connection that has written this many bytes has written the oldest request.
    pub(super) fn is_waiting(&self, sent: u64) -> bool {
        self.asked.front().is_some_and(|asked| asked.end <= sent)
    }

    /// The kind of the oldest request, if it is a grab.
    pub(super) fn next_grab(&self) -> Option<Grab> {
        self.asked.front().and_then(|asked| asked.request.grab())
    }

    /// Withdraws the oldest request if it is a dead letter; returns whether it was.
    pub(super) fn withdraw_letter(&mut self, now: Instant) -> bool {
        let is_letter = self.asked.front().is_some_and(|asked| asked.request == Question::Letter);
        if is_letter {
            self.asked.pop_front();
            self.step(now);
        }
        is_letter
    }

    /// When the oldest request was sent, if it is a grab.
    pub(super) fn waiting_grab(&self) -> Option<Instant> {
        self.next_grab()?;
        self.asked.front().map(|asked| asked.since)
    }

    /// Whether results or reports are unconfirmed.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// The oldest request has its answer, which confirms everything sent before it. Returns the kind of a grab, and its
    /// operation.
    ///
    /// # Errors
    ///
    /// `Protocol` when there is no such request.
    pub(super) fn answered(
        &mut self,
        by: PacketType,
        now: Instant,
    ) -> Result<(Option<Grab>, Observed), Error> {
        let Some(asked) = self.asked.pop_front() else {
            return Err(Error::protocol(format!("unexpected {by}, which matches no request")));
        };
        if !asked.request.is_answered(by) {
            self.abandoned(asked.observation);
            return Err(Error::protocol(format!("unexpected {by}, which matches another request")));
        }
        let grab = asked.request.grab();
        self.grabs -= usize::from(grab.is_some());
        self.has_answers = true;
        self.step(now);
        while self.unconfirmed.front().is_some_and(|work| work.number < asked.number) {
            let Some(mut work) = self.unconfirmed.pop_front() else { break };
            work.ended(None, &mut self.later);
            if work.is_result() {
                self.has_results = true;
                self.settled.push_back(match work.packet_type {
                    PacketType::WorkComplete => Settled::Completed,
                    _ => Settled::Failed,
                });
            }
        }
        Ok((grab, asked.observation))
    }

    /// A grab was answered, with a job without `missing` bytes of its workload or with none.
    pub(super) fn grabbed(&mut self, observation: Observed, job: Option<(&Assignment, usize)>) {
        if let Some(observation) = observation {
            let job = job.map(|(job, missing)| (&job.handle, job.workload.len() + missing));
            let observation = trace::grabbed(*observation, job);
            self.later.notify(observation);
        }
    }

    /// A request gets no answer, so its operation has no outcome. Subscribers hear of the end of its span.
    pub(super) fn abandoned(&mut self, observation: Observed) {
        if let Some(observation) = observation {
            self.later.push(|| drop(observation));
        }
    }

    /// Withdraws the oldest request if it is a grab; returns its kind.
    pub(super) fn withdraw_grab(&mut self, now: Instant) -> Option<Grab> {
        let grab = self.next_grab()?;
        let unanswered = self.asked.pop_front();
        self.abandoned(unanswered.and_then(|asked| asked.observation));
        self.grabs -= 1;
        self.step(now);
        Some(grab)
    }

    /// The server refused a result or a report, because it gave the job to another worker.
    pub(super) fn rejected(&mut self, text: &[u8]) {
        // gearmand's texts name the kind of packet.
        let says = |words: &[u8]| text.windows(words.len()).any(|window| window == words);
        let of_kind = |work: &Work| match work.packet_type {
            PacketType::WorkData | PacketType::WorkWarning => says(b"does not exist on server"),
            PacketType::WorkException => says(b"exception"),
            _ => says(b"work result"),
        };
        let at = self.unconfirmed.iter().position(of_kind).unwrap_or(0);
        if let Some(work) = self.unconfirmed.get_mut(at).filter(|work| work.count > 1) {
            work.count -= 1;
            return;
        }
        let Some(mut work) = self.unconfirmed.remove(at) else { return };
        work.ended(Some(ErrorKind::JobNotFound), &mut self.later);
        if work.is_result() {
            self.settled.push_back(Settled::Rejected);
        }
    }

    /// The fate of a job for which nothing is sent.
    pub(super) fn settle(&mut self, settled: Settled) {
        self.settled.push_back(settled);
    }

    /// The fates of results since the last call.
    pub(super) fn settled(&mut self) -> impl Iterator<Item = Settled> {
        self.settled.drain(..)
    }

    /// Starts on a new connection.
    pub(super) fn reopen(&mut self) {
        (self.has_answers, self.has_results) = (false, false);
    }

    /// The connection is gone, with this many unfinished jobs: no more answers will arrive.
    pub(super) fn close(&mut self, running: usize) {
        self.settled.extend(std::iter::repeat_n(Settled::Abandoned, running));
        let results = self.unconfirmed.iter().filter(|work| work.is_result()).count();
        self.settled.extend(std::iter::repeat_n(Settled::Unknown, results));
        self.unknown += results as u64;
        for mut work in self.unconfirmed.drain(..) {
            work.ended(Some(ErrorKind::ConnectionLost), &mut self.later);
        }
        for asked in std::mem::take(&mut self.asked) {
            self.abandoned(asked.observation);
        }
        self.grabs = 0;
    }
}

#[cfg(test)]
mod tests {
    use PacketType::{
        EchoRes, WorkComplete, WorkData, WorkException, WorkFail, WorkStatus, WorkWarning,
    };

    use super::*;

    fn tells(confirmations: &mut Confirmations, packet_type: PacketType) {
        confirmations.count();
        confirmations.result_or_report(packet_type, None);
    }

    fn asks(confirmations: &mut Confirmations, now: Instant) {
        confirmations.count();
        confirmations.asked(Question::Echo, 0, None, now);
    }

    /// All places are taken, so nothing is asked whose answer would confirm them.
    #[test]
    fn the_reports_of_a_long_job_take_no_room() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        for _ in 0..1000 {
            for report in [WorkStatus, WorkData, WorkWarning] {
                tells(&mut confirmations, report);
            }
        }
        assert!(confirmations.unconfirmed.len() <= 3, "{}", confirmations.unconfirmed.len());
        asks(&mut confirmations, now);
        tells(&mut confirmations, WorkStatus);
        confirmations.answered(EchoRes, now).unwrap();
        assert!(confirmations.has_unconfirmed(), "the last one came behind the request");
    }

    /// The texts are gearmand's.
    #[test]
    fn a_refusal_is_of_the_oldest_packet_of_the_kind_that_it_names() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        for packet_type in [WorkComplete, WorkData, WorkWarning, WorkException] {
            tells(&mut confirmations, packet_type);
        }
        let is_left = |confirmations: &Confirmations| -> Vec<PacketType> {
            confirmations.unconfirmed.iter().map(|work| work.packet_type).collect()
        };
        for (text, left) in [
            ("Job does not exist on server", &[WorkComplete, WorkWarning, WorkException][..]),
            ("Job does not exist on server", &[WorkComplete, WorkException]),
            ("An exception was received for a job that does not exist", &[WorkComplete]),
        ] {
            confirmations.rejected(text.as_bytes());
            assert_eq!(is_left(&confirmations), left, "{text}");
        }
        assert!(confirmations.settled().eq([Settled::Rejected]), "the exception");
        asks(&mut confirmations, now);
        confirmations.answered(EchoRes, now).unwrap();
        assert!(confirmations.settled().eq([Settled::Completed]));
        confirmations.rejected(b"Job given in work result not found");
        assert_eq!(confirmations.settled().next(), None, "it was of none of them");
    }

    #[test]
    fn an_answer_confirms_only_packets_before_its_request() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        tells(&mut confirmations, WorkComplete);
        asks(&mut confirmations, now);
        tells(&mut confirmations, WorkException);
        // On some servers an exception does not end a job.
        confirmations.count();
        confirmations.repeated(WorkFail);
        tells(&mut confirmations, WorkStatus);
        asks(&mut confirmations, now);
        tells(&mut confirmations, WorkStatus);
        confirmations.answered(EchoRes, now).unwrap();
        assert!(confirmations.settled().eq([Settled::Completed]));
        confirmations.answered(EchoRes, now).unwrap();
        assert!(confirmations.settled().eq([Settled::Failed]));
        assert!(confirmations.has_unconfirmed(), "the last report");
    }

    #[test]
    fn an_anonymous_refusal_concerns_the_oldest_packet() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        asks(&mut confirmations, now);
        tells(&mut confirmations, WorkComplete);
        tells(&mut confirmations, WorkFail);
        asks(&mut confirmations, now);
        tells(&mut confirmations, WorkComplete);
        confirmations.rejected(b"no such job");
        (0..2).for_each(|_| _ = confirmations.answered(EchoRes, now).unwrap());
        confirmations.rejected(b"no such job");
        confirmations.settle(Settled::Rejected);
        let (rejected, failed) = (Settled::Rejected, Settled::Failed);
        assert!(confirmations.settled().eq([rejected, failed, rejected, rejected]));
        assert!(!confirmations.has_unconfirmed());
    }

    #[test]
    fn each_of_many_reports_may_be_refused_before_the_result() {
        let (mut confirmations, now) = (Confirmations::default(), Instant::now());
        for _ in 0..3 {
            tells(&mut confirmations, WorkStatus);
        }
        tells(&mut confirmations, WorkComplete);
        asks(&mut confirmations, now);
        for refused in 0..4 {
            assert_eq!(confirmations.settled().next(), None, "{refused}");
            confirmations.rejected(b"Job given in work result not found");
        }
        confirmations.answered(EchoRes, now).unwrap();
        assert!(confirmations.settled().eq([Settled::Rejected]));
    }
}
