//! Every command of the protocol, with replies that it may get.

use std::{fmt::Debug, time::Duration};

use beanstalk_client::{
    PutOptions, ReleaseOptions, TubeName,
    protocol::{
        Bury, Command, Delete, Ignore, Kick, KickJob, ListTubeUsed, ListTubes, ListTubesWatched,
        PauseTube, Peek, PeekBuried, PeekDelayed, PeekReady, Put, Release, Reserve, ReserveJob,
        ReserveWithTimeout, Stats, StatsJob, StatsTube, Touch, Use, Watch,
    },
};
use bytes::BytesMut;

/// A command that can be visited.
pub(crate) trait Sample:
    Command<Reply: Debug + Send> + Clone + Debug + Send + 'static
{
}

impl<C: Command<Reply: Debug + Send> + Clone + Debug + Send + 'static> Sample for C {}

/// Something to do with each command.
pub(crate) trait Visitor {
    /// Called with a command and whole replies that are not refusals.
    fn visit<C: Sample>(&mut self, command: C, replies: &[&[u8]]);
}

const STATS_TUBE: &[u8] =
    b"OK 259\r\n---\nname: a\ncurrent-jobs-urgent: 0\ncurrent-jobs-ready: 1\n\
    current-jobs-reserved: 0\ncurrent-jobs-delayed: 0\ncurrent-jobs-buried: 0\ntotal-jobs: 1\n\
    current-using: 1\ncurrent-watching: 1\ncurrent-waiting: 0\ncmd-delete: 0\ncmd-pause-tube: 0\n\
    pause: 0\npause-time-left: 0\n\r\n";
const STATS_JOB: &[u8] =
    b"OK 145\r\n---\nid: 7\ntube: 1e5\nstate: reserved\npri: 10\nage: 0\ndelay: 0\nttr: 60\n\
    time-left: 59\nfile: 0\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n\r\n";
const STATS: &[u8] = b"OK 76\r\n---\ncurrent-jobs-urgent: 3\nversion: \"1.12\"\nos: #1 SMP: x @0\ndraining: false\n\r\n";

/// Visits every command but `quit`, which has no reply.
pub(crate) fn each(visitor: &mut impl Visitor) {
    let tube = || TubeName::try_from("a").unwrap();
    let seconds = Duration::from_secs;
    let reserved: &[&[u8]] = &[
        b"RESERVED 7 6\r\na\r\nb\r\n\r\n",
        b"RESERVED 7 0\r\n\r\n",
        b"TIMED_OUT\r\n",
        b"DEADLINE_SOON\r\n",
    ];
    let found: &[&[u8]] = &[b"FOUND 18446744073709551615 3\r\n\xff\0\n\r\n", b"NOT_FOUND\r\n"];
    let list: &[&[u8]] =
        &[b"OK 33\r\n---\n- default\n- 123\n- true\n- 1e5\n\r\n", b"OK 4\r\n---\n\r\n"];
    visitor.visit(
        Put::new(*b"a\r\nb", PutOptions::default()).unwrap(),
        &[b"INSERTED 7\r\n", b"BURIED 7\r\n", b"INSERTED 7 READY 5\r\n"],
    );
    visitor.visit(Use(tube()), &[b"USING a\r\n"]);
    visitor.visit(Reserve, reserved);
    visitor.visit(ReserveWithTimeout::new(seconds(1)).unwrap(), reserved);
    visitor.visit(ReserveJob(7.into()), &[b"RESERVED 7 2\r\nhi\r\n", b"NOT_FOUND\r\n"]);
    visitor.visit(Delete::new(7), &[b"DELETED\r\n"]);
    visitor
        .visit(Release::new(7, ReleaseOptions::new(1)).unwrap(), &[b"RELEASED\r\n", b"BURIED\r\n"]);
    visitor.visit(Bury::new(7, 1), &[b"BURIED\r\n"]);
    visitor.visit(Touch::new(7), &[b"TOUCHED\r\n"]);
    visitor.visit(Watch(tube()), &[b"WATCHING 2\r\n"]);
    visitor.visit(Ignore(tube()), &[b"WATCHING 1\r\n"]);
    visitor.visit(Peek(u64::MAX.into()), found);
    visitor.visit(PeekReady, found);
    visitor.visit(PeekDelayed, found);
    visitor.visit(PeekBuried, found);
    visitor.visit(Kick(5), &[b"KICKED 3\r\n"]);
    visitor.visit(KickJob::new(7), &[b"KICKED\r\n"]);
    visitor.visit(StatsJob(7.into()), &[STATS_JOB, b"NOT_FOUND\r\n"]);
    visitor.visit(StatsTube(tube()), &[STATS_TUBE, b"NOT_FOUND\r\n"]);
    visitor.visit(Stats, &[STATS]);
    visitor.visit(ListTubes, list);
    visitor.visit(ListTubeUsed, &[b"USING a\r\n"]);
    visitor.visit(ListTubesWatched, list);
    visitor.visit(PauseTube::new(tube(), seconds(1)).unwrap(), &[b"PAUSED\r\n"]);
}

/// The bytes of a command.
#[must_use]
pub(crate) fn frame<C: Command>(command: &C) -> Vec<u8> {
    let mut frame = BytesMut::new();
    command.encode(&mut frame);
    frame.to_vec()
}

/// The outcome of a call, as text for comparing two calls.
pub(crate) fn shown<T: Debug>(outcome: &beanstalk_client::Result<T>) -> String {
    match outcome {
        Ok(reply) => format!("{reply:?}"),
        Err(error) => format!("{:?} {:?} {error}", error.kind(), error.fate()),
    }
}
