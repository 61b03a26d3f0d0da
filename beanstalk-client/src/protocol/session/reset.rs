//! How a connection's state differs from that of a new one, and how it is reset.

use super::{Meaning, Session};
use crate::{
    JobId, JobRef, TubeName,
    protocol::{AnyCommand, Effect, Ignore, Response, Use, Watch},
};

/// The jobs that the server has reserved for this connection, as far as its replies show. Includes jobs whose time to
/// run has expired.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    jobs: Vec<JobId>,
    /// Whether there were too many to track individually.
    is_full: bool,
    /// A reserve has brought a job.
    has_reserved: bool,
    /// Not all that were reserved are of the tube that is watched.
    is_mixed: bool,
}

/// Above this number, the connection counts as holding jobs until it ends.
const MOST: usize = 64;

impl Holdings {
    /// Applies the reply to a command with this effect, on this job if it acts on one.
    pub(super) fn note(&mut self, meaning: &Meaning, job: Option<JobId>, response: &Response) {
        match (response, job, meaning) {
            (
                Response::Deleted | Response::Released | Response::Buried(_) | Response::NotFound,
                Some(job),
                _,
            ) => {
                if let Some(at) = self.jobs.iter().position(|held| *held == job) {
                    self.jobs.swap_remove(at);
                }
            }
            (_, _, Meaning::Command(effect @ (Effect::Reserve | Effect::ReserveJob))) => {
                let job = match response {
                    Response::Reserved(job) => job.id,
                    Response::BodyTooLarge { job, .. } | Response::BodyDamaged { job, .. } => {
                        job.id()
                    }
                    _ => return,
                };
                self.has_reserved = true;
                self.is_mixed |= *effect == Effect::ReserveJob;
                match self.jobs.len() < MOST {
                    true => self.jobs.push(job),
                    false => self.is_full = true,
                }
            }
            (Response::Watching(_), _, Meaning::Command(_)) => self.is_mixed |= self.has_reserved,
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && !self.is_full
    }
}

/// How to give a connection the state of a new one.
#[derive(Debug)]
pub(crate) enum Reset {
    /// By sending these commands, of which there may be none.
    Send(Vec<AnyCommand>),
    /// By closing it: it may hold jobs, or replies are outstanding.
    Close,
}

impl Session {
    /// The tube of a job that this connection has reserved, if it is known: all its reserved jobs are from the only
    /// watched tube.
    pub(crate) fn tube_of(&self, job: JobRef) -> Option<&TubeName> {
        let Holdings { has_reserved, is_mixed, .. } = self.holdings;
        let is_own = job.reservation == Some(self.epoch);
        match self.watched.as_slice() {
            [only] if is_own && has_reserved && !is_mixed => Some(only),
            _ => None,
        }
    }

    /// How to give this connection the state of a new one: the tube `default` used and watched, and no job reserved.
    pub(crate) fn to_reset(&self) -> Reset {
        if !self.is_open() || self.awaits_replies() || !self.holdings.is_empty() {
            return Reset::Close;
        }
        let default = TubeName::default();
        let mut commands = Vec::new();
        if self.used != default {
            commands.push(AnyCommand::new(&Use(default.clone())));
        }
        if !self.watched.contains(&default) {
            commands.push(AnyCommand::new(&Watch(default.clone())));
        }
        let others = self.watched.iter().filter(|tube| **tube != default);
        commands.extend(others.map(|tube| AnyCommand::new(&Ignore(tube.clone()))));
        Reset::Send(commands)
    }

    /// Closes the connection; the next one uses and watches only `default`.
    pub(crate) fn forget(&mut self) {
        self.close();
        self.used = TubeName::default();
        self.watched = vec![TubeName::default()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Job, ReleaseOptions,
        protocol::{Bury, Command, Delete, Release, Reserve, ReserveJob, Touch},
    };

    fn answered<C: Command>(session: &mut Session, command: &C, reply: &str) -> Response {
        let ticket = session.send(command).unwrap();
        session.sent(session.outgoing().len());
        session.space()[..reply.len()].copy_from_slice(reply.as_bytes());
        session.received(reply.len());
        session.reply(ticket).unwrap().unwrap()
    }

    fn reserved<C: Command>(session: &mut Session, command: &C, id: u64) -> Job {
        let reply = format!("RESERVED {id} 1\r\nx\r\n");
        let Response::Reserved(job) = answered(session, command, &reply) else { panic!() };
        job
    }

    fn tube(session: &Session, job: &Job) -> Option<String> {
        session.tube_of(job.into()).map(ToString::to_string)
    }

    #[test]
    fn the_tube_of_a_job_is_known_while_all_come_from_the_only_one_that_is_watched() {
        let mut session = Session::new(100);
        assert_eq!(tube(&session, &Job::for_test(1, "")), None, "it is of another connection");
        let mail: TubeName = "mail".parse().unwrap();
        answered(&mut session, &Watch(mail.clone()), "WATCHING 2\r\n");
        answered(&mut session, &Ignore(TubeName::default()), "WATCHING 1\r\n");
        let job = reserved(&mut session, &Reserve, 7);
        assert_eq!(tube(&session, &job).as_deref(), Some("mail"));
        assert_eq!(session.tube_of(job.id.into()), None, "an id may be any job's");
        assert_eq!(tube(&session, &Job::for_test(7, "")), None);

        let by_id = reserved(&mut session, &ReserveJob(8.into()), 8);
        assert_eq!((tube(&session, &by_id), tube(&session, &job)), (None, None));
        session.reopen();
        assert_eq!(tube(&session, &job), None, "its connection is gone");
    }

    #[test]
    fn the_tube_of_a_job_is_not_known_once_another_is_watched() {
        let mut session = Session::new(100);
        let job = reserved(&mut session, &Reserve, 7);
        assert_eq!(tube(&session, &job).as_deref(), Some("default"));
        answered(&mut session, &Watch("mail".parse().unwrap()), "WATCHING 2\r\n");
        assert_eq!(tube(&session, &job), None);
        answered(&mut session, &Ignore(TubeName::default()), "WATCHING 1\r\n");
        assert_eq!(tube(&session, &job), None, "it is not of the one that is watched now");
    }

    /// The commands that reset the connection; `None` if it is to be closed.
    fn reset(session: &Session) -> Option<String> {
        let Reset::Send(commands) = session.to_reset() else { return None };
        let mut lines = bytes::BytesMut::new();
        commands.iter().for_each(|command| command.encode(&mut lines));
        Some(String::from_utf8(lines.to_vec()).unwrap())
    }

    #[test]
    fn a_connection_that_holds_jobs_is_closed_instead() {
        let mut session = Session::new(100);
        let release = Release::new(7, ReleaseOptions::new(0)).unwrap();
        for (last, answer) in [
            (AnyCommand::new(&Delete::new(7)), "DELETED\r\n"),
            (AnyCommand::new(&release), "RELEASED\r\n"),
            (AnyCommand::new(&Bury::new(7, 0)), "BURIED\r\n"),
            (AnyCommand::new(&Touch::new(7)), "NOT_FOUND\r\n"),
        ] {
            reserved(&mut session, &Reserve, 7);
            assert_eq!(reset(&session), None);
            answered(&mut session, &Delete::new(8), "DELETED\r\n");
            answered(&mut session, &Touch::new(7), "TOUCHED\r\n");
            assert_eq!(reset(&session), None, "it still holds job 7");
            answered(&mut session, &last, answer);
            assert_eq!(reset(&session).as_deref(), Some(""), "{answer}");
        }
        let too_large = format!("RESERVED 7 101\r\n{}\r\n", "x".repeat(101));
        for answer in [too_large.as_str(), "RESERVED 7 2\r\nxx\0\0"] {
            let mut session = Session::new(100);
            answered(&mut session, &Reserve, answer);
            assert_eq!(reset(&session), None, "its body does not matter");
            answered(&mut session, &Delete::new(7), "DELETED\r\n");
            assert_eq!(reset(&session).as_deref(), Some(""));
        }
    }

    /// So many are not worth counting one by one.
    #[test]
    fn a_connection_that_held_very_many_jobs_counts_as_holding_some() {
        for (count, is_reset) in [(MOST, true), (MOST + 1, false)] {
            let mut session = Session::new(100);
            let jobs = 1..=count as u64;
            jobs.clone().for_each(|job| drop(reserved(&mut session, &Reserve, job)));
            jobs.for_each(|job| drop(answered(&mut session, &Delete::new(job), "DELETED\r\n")));
            assert_eq!(reset(&session).is_some(), is_reset, "{count}");
        }
    }

    #[test]
    fn a_connection_is_reset_by_as_few_commands_as_it_takes() {
        let (mail, sms): (TubeName, TubeName) = ("mail".parse().unwrap(), "sms".parse().unwrap());
        let mut session = Session::new(100);
        assert_eq!(reset(&session).as_deref(), Some(""));
        answered(&mut session, &Watch(mail.clone()), "WATCHING 2\r\n");
        assert_eq!(reset(&session).as_deref(), Some("ignore mail\r\n"));
        answered(&mut session, &Use(mail), "USING mail\r\n");
        answered(&mut session, &Watch(sms), "WATCHING 3\r\n");
        answered(&mut session, &Ignore(TubeName::default()), "WATCHING 2\r\n");
        let all = "use default\r\nwatch default\r\nignore mail\r\nignore sms\r\n";
        assert_eq!(reset(&session).as_deref(), Some(all));
        let ticket = session.send(&Touch::new(1)).unwrap();
        assert_eq!(reset(&session), None, "a reply is outstanding");
        session.sent(session.outgoing().len());
        session.space()[..11].copy_from_slice(b"NOT_FOUND\r\n");
        session.received(11);
        assert!(session.reply(ticket).unwrap().is_some());
        assert_eq!(reset(&session).as_deref(), Some(all));
        session.forget();
        assert_eq!(reset(&session), None, "it is closed");
        session.reopen();
        assert_eq!((session.outgoing(), reset(&session).as_deref()), (&b""[..], Some("")));
        assert_eq!(session.used_tube(), "default");
    }
}
