//! The line of every command, and what it makes of every reply.

use std::{fmt::Debug, time::Duration};

use bytes::{Bytes, BytesMut};

use super::*;
use crate::{
    Inserted, Job, JobId, PutOptions, ReleaseOptions, Released, Reserved, TubeName,
    protocol::{Command, Effect, Response, ServerWait},
};

const ID: u64 = 42;

fn id() -> JobId {
    JobId::from(ID)
}

fn tube() -> TubeName {
    TubeName::try_from("mail").unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn job(id: u64) -> Job {
    Job::for_test(id, "body")
}

fn using(tube: &'static str) -> Response {
    Response::Using(Bytes::from_static(tube.as_bytes()))
}

/// Every reply of a healthy server that is not about a failure, and some that are.
fn replies() -> Vec<Response> {
    vec![
        Response::Inserted(id()),
        Response::Buried(Some(id())),
        Response::Buried(None),
        using("mail"),
        using("other"),
        Response::Reserved(job(ID)),
        Response::Reserved(job(7)),
        Response::Found(job(ID)),
        Response::Found(job(7)),
        Response::Deleted,
        Response::Released,
        Response::Touched,
        Response::Watching(3),
        Response::NotIgnored,
        Response::Kicked(Some(5)),
        Response::Kicked(Some(6)),
        Response::Kicked(None),
        Response::Paused,
        Response::TimedOut,
        Response::DeadlineSoon,
        Response::NotFound,
        Response::Draining,
        Response::BadFormat,
        Response::UnknownCommand,
        Response::Closed,
    ]
}

fn line<C: Command>(command: &C) -> String {
    let mut out = BytesMut::new();
    command.encode(&mut out);
    assert!(out.starts_with(command.name().as_bytes()), "{}", C::NAME);
    String::from_utf8(out.to_vec()).unwrap()
}

/// What a command makes of the replies that it accepts.
fn accepted<C: Command<Reply: Debug>>(command: &C) -> Vec<String> {
    let results = replies().into_iter().filter_map(|reply| command.decode(reply).ok());
    results.map(|result| format!("{result:?}")).collect()
}

/// Of a put also its body; of the replies only their number, out of those to all commands.
#[test]
fn every_command_has_its_line_and_takes_its_own_replies_only() {
    let put = PutOptions::default().priority(1).delay(seconds(2)).ttr(seconds(3));
    let release = ReleaseOptions::new(4).delay(seconds(5));
    fn row<C: Command<Reply: Debug>>(
        command: &C,
        expected: &'static str,
        replies: usize,
    ) -> (String, Vec<String>, &'static str, usize) {
        (line(command), accepted(command), expected, replies)
    }
    for (said, accepted, expected, replies) in [
        row(&Put::new("ab\r\n", put).unwrap(), "put 1 2 3 4\r\nab\r\n", 2),
        row(&Use(tube()), "use mail", 1),
        row(&Reserve, "reserve", 4),
        row(&ReserveWithTimeout::new(seconds(9)).unwrap(), "reserve-with-timeout 9", 4),
        row(&ReserveJob(id()), "reserve-job 42", 2),
        row(&Delete::new(ID), "delete 42", 1),
        row(&Release::new(ID, release).unwrap(), "release 42 4 5", 3),
        row(&Bury::new(ID, 6), "bury 42 6", 2),
        row(&Touch::new(ID), "touch 42", 1),
        row(&Watch(tube()), "watch mail", 1),
        row(&Ignore(tube()), "ignore mail", 1),
        row(&Peek(id()), "peek 42", 2),
        row(&PeekReady, "peek-ready", 3),
        row(&PeekDelayed, "peek-delayed", 3),
        row(&PeekBuried, "peek-buried", 3),
        row(&Kick(5), "kick 5", 1),
        row(&Kick(u64::MAX), "kick 4294967295", 2),
        row(&KickJob::new(ID), "kick-job 42", 1),
        row(&StatsJob(id()), "stats-job 42", 1),
        row(&StatsTube(tube()), "stats-tube mail", 1),
        row(&Stats, "stats", 0),
        row(&ListTubes, "list-tubes", 0),
        row(&ListTubeUsed, "list-tube-used", 2),
        row(&ListTubesWatched, "list-tubes-watched", 0),
        row(&PauseTube::new(tube(), seconds(8)).unwrap(), "pause-tube mail 8", 1),
        row(&Quit, "quit", 1),
    ] {
        assert_eq!(said, format!("{expected}\r\n"));
        assert_eq!(accepted.len(), replies, "{expected}: {accepted:?}");
    }
}

#[test]
fn replies_become_the_values_of_their_commands() {
    let reserved = |reply: &Reserved| matches!(reply, Reserved::Job(job) if job.id == id());
    assert!(reserved(&Reserve.decode(Response::Reserved(job(ID))).unwrap()));
    assert!(matches!(Reserve.decode(Response::TimedOut), Ok(Reserved::TimedOut)));
    assert!(matches!(Reserve.decode(Response::DeadlineSoon), Ok(Reserved::DeadlineSoon)));

    let put = Put::new("", PutOptions::default()).unwrap();
    assert_eq!(put.decode(Response::Inserted(id())).unwrap(), Inserted::Ready(id()));
    assert_eq!(put.decode(Response::Buried(Some(id()))).unwrap(), Inserted::Buried(id()));
    let release = Release::new(ID, ReleaseOptions::new(0)).unwrap();
    assert_eq!(release.decode(Response::Released).unwrap(), Released::Queued);
    assert_eq!(release.decode(Response::Buried(None)).unwrap(), Released::Buried);
    assert_eq!(Watch(tube()).decode(Response::Watching(3)).unwrap(), 3);
    assert_eq!(Kick(5).decode(Response::Kicked(Some(5))).unwrap(), 5);
    assert_eq!(Kick(5).decode(Response::Kicked(Some(0))).unwrap(), 0);
}

#[test]
fn a_raw_line_is_parsed_like_the_server_does() {
    let effect = |line: &str| RawCommand::new(line).unwrap().effect();
    assert_eq!(effect("use mail"), Effect::Use(tube()));
    assert_eq!(effect("watch mail"), Effect::Watch(tube()));
    assert_eq!(effect("ignore mail"), Effect::Ignore(tube()));
    assert_eq!(effect("reserve-job 1"), Effect::ReserveJob);
    assert_eq!(effect("reserve-with-timeout 1"), Effect::Reserve);
    assert_eq!(effect("quit"), Effect::Quit);
    assert_eq!(effect("stats"), Effect::None);
    assert_eq!(RawCommand::new("reserve").unwrap().server_wait(), ServerWait::Forever);
    assert_eq!(RawCommand::new("stats").unwrap().server_wait(), ServerWait::None);
    let put = RawCommand::with_body("put 1 2 3 4", "body").unwrap();
    assert_eq!((put.effect(), put.job()), (Effect::Put, None));
    let mut out = BytesMut::new();
    put.encode(&mut out);
    assert_eq!(out, "put 1 2 3 4\r\nbody\r\n");
    for line in ["put 1 2 3 5", "put 1 2 3", "put x 2 3 4", "use mail", "put 1 2 3 4 5"] {
        assert!(RawCommand::with_body(line, "body").is_err(), "{line}");
    }
    for line in ["", "put 1 2 3 4", "stats\r", "stats\n", "stats\0"] {
        assert!(RawCommand::new(line).is_err(), "{line:?}");
    }
    assert!(RawCommand::new("x".repeat(RawCommand::MAX_LINE)).is_ok());
    assert!(RawCommand::new("x".repeat(RawCommand::MAX_LINE + 1)).is_err());
}
