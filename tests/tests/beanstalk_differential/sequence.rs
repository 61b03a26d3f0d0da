//! Random sequences: what is sent, and how it is cut into writes.

use std::fmt;

use fixtures::beanstalkd::Version;
use proptest::{prelude::*, sample::select};

use crate::beanstalk_differential::version;

/// Bytes that show themselves as text.
#[derive(Clone)]
pub(crate) struct Command(pub(crate) Vec<u8>);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Command {
    /// Whether the connection may wait after it.
    fn may_wait(&self) -> bool {
        self.0.starts_with(b"reserve") && !self.0.starts_with(b"reserve-job")
    }

    /// Whether a release has the command. An older one takes `reserve-job` for a `reserve` with something behind it.
    pub(crate) fn is_known_to(&self, version: Version) -> bool {
        version >= Version::V1_12 || !self.0.starts_with(b"reserve-job")
    }

    /// Whether it changes nothing that another connection can see; its counter is masked.
    ///
    /// Only such commands may stand behind a waiting `reserve`. When the wait ends, they run
    /// while the connection that ended it goes on too, and nothing says which of the two is first.
    pub(crate) fn is_local(&self) -> bool {
        self.0.starts_with(b"list-tube-used")
    }
}

/// One thing done to the servers.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Commands in one write, or in two with the cut at this byte.
    Send {
        connection: usize,
        commands: Vec<Command>,
        cut: Option<usize>,
    },
    Open,
    Close(usize),
    /// `shutdown(SHUT_WR)`.
    HalfClose(usize),
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..=50)
}

fn step() -> impl Strategy<Value = Step> {
    let connection = 0..4usize;
    let commands = prop_oneof![
        6 => prop::collection::vec(command(), 1),
        2 => prop::collection::vec(command(), 2..=6),
    ];
    let cut = prop_oneof![6 => Just(None), 1 => (0..40usize).prop_map(Some)];
    prop_oneof![
        40 => (connection.clone(), commands, cut).prop_map(|(connection, mut commands, cut)| {
            commands.retain(|command| command.is_known_to(version()));
            Step::Send { connection, commands: only_local_behind_reserve(commands), cut }
        }),
        2 => Just(Step::Open),
        1 => connection.clone().prop_map(Step::Close),
        1 => connection.prop_map(Step::HalfClose),
    ]
}

fn only_local_behind_reserve(mut commands: Vec<Command>) -> Vec<Command> {
    let mut may_wait = false;
    commands.retain(|command| {
        let keep = !may_wait || command.is_local();
        may_wait |= command.may_wait();
        keep
    });
    commands
}

fn line(text: String) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn tube() -> impl Strategy<Value = &'static str> {
    select(vec!["default", "a", "b", "c", "d"])
}

/// Mostly ids that exist by then.
fn id() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 1..12u64, 1 => Just(0), 1 => Just(u64::MAX)]
}

fn priority() -> impl Strategy<Value = u32> {
    select(vec![0, 1, 1, 1023, 1024, u32::MAX])
}

/// Far enough apart and away that none falls due while a sequence runs.
fn delay() -> impl Strategy<Value = u32> {
    select(vec![0, 0, 0, 500, 1000, 100_000, u32::MAX])
}

fn command() -> BoxedStrategy<Command> {
    prop_oneof![
        12 => put(),
        10 => reserve(),
        10 => with_id(),
        8 => with_tube(),
        6 => alone(),
        2 => (0..5u32).prop_map(|bound| line(format!("kick {bound}"))),
        3 => odd(),
    ]
    .prop_map(Command)
    .boxed()
}

fn put() -> BoxedStrategy<Vec<u8>> {
    let body = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..20),
        1 => prop::collection::vec(any::<u8>(), 200..320),
        1 => Just(b"\r\ndelete 1\r\n".to_vec()),
    ];
    let end = prop_oneof![20 => Just(&b"\r\n"[..]), 1 => Just(&b"xy"[..]), 1 => Just(&b"\n\r"[..])];
    let ttr = select(vec![200u32, 3000, u32::MAX]);
    (priority(), delay(), ttr, body, end)
        .prop_map(|(priority, delay, ttr, body, end)| {
            let mut bytes = line(format!("put {priority} {delay} {ttr} {}", body.len()));
            bytes.extend_from_slice(&body);
            bytes.extend_from_slice(end);
            bytes
        })
        .boxed()
}

fn reserve() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        6 => Just(line("reserve-with-timeout 0".into())),
        2 => Just(line("reserve".into())),
        1 => Just(line("reserve-with-timeout 5000".into())),
        1 => Just(line("reserve-with-timeout -1".into())),
        2 => id().prop_map(|id| line(format!("reserve-job {id}"))),
    ]
    .boxed()
}

fn with_id() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        3 => id().prop_map(|id| line(format!("delete {id}"))),
        3 => (id(), priority(), delay())
            .prop_map(|(id, priority, delay)| line(format!("release {id} {priority} {delay}"))),
        3 => (id(), priority()).prop_map(|(id, priority)| line(format!("bury {id} {priority}"))),
        1 => id().prop_map(|id| line(format!("touch {id}"))),
        2 => id().prop_map(|id| line(format!("kick-job {id}"))),
        1 => id().prop_map(|id| line(format!("peek {id}"))),
        2 => id().prop_map(|id| line(format!("stats-job {id}"))),
    ]
    .boxed()
}

fn with_tube() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        3 => tube().prop_map(|tube| line(format!("use {tube}"))),
        3 => tube().prop_map(|tube| line(format!("watch {tube}"))),
        2 => tube().prop_map(|tube| line(format!("ignore {tube}"))),
        1 => tube().prop_map(|tube| line(format!("stats-tube {tube}"))),
        1 => (tube(), select(vec![0u32, 1000]))
            .prop_map(|(tube, seconds)| line(format!("pause-tube {tube} {seconds}"))),
    ]
    .boxed()
}

fn alone() -> BoxedStrategy<Vec<u8>> {
    let words = [
        "peek-ready",
        "peek-delayed",
        "peek-buried",
        "list-tubes",
        "list-tube-used",
        "list-tubes-watched",
        "stats",
        "quit",
    ];
    let weights = [3, 3, 3, 2, 3, 2, 1, 1];
    prop::strategy::Union::new_weighted(
        weights.into_iter().zip(words).map(|(w, word)| (w, Just(line(word.into())))).collect(),
    )
    .boxed()
}

/// Lines that are wrong, unusual or borderline.
fn odd() -> BoxedStrategy<Vec<u8>> {
    let lines = [
        "",
        " ",
        "PUT 1 1 1 1",
        "peek",
        "peek-foo",
        "peek  1",
        "kick",
        "kick ",
        "kick x",
        "kick -1",
        "kick  2abc",
        "kick 4294967297",
        "kick 99999999999999999999",
        "kick-job 1 ",
        "put",
        "put ",
        "put 1 0 100 4294967295x",
        "put 1 0 100 -1",
        "put 1 0 100",
        "put 4294967296 0 100 0",
        "put 1 0 100 0 ",
        "put 1 0 100 301 junk",
        "put   1   0   100   2",
        "quitfoo",
        "reserve ",
        "reserve-mode x",
        "reserve-job",
        "reserve-with-timeout",
        "reserve-with-timeout ",
        "reserve-with-timeout 0abc",
        "reserve-with-timeout 0.5",
        "reserve-with-timeout 99999999999999999999",
        "reserve-with-timeout 4294967296",
        "delete",
        "delete 1x",
        "delete 1 ",
        "delete -1",
        "delete 01",
        "delete 18446744073709551616",
        "release 1 1",
        "release 1 1 0 0",
        "release 1 4294967296 0",
        "bury 1",
        "touch",
        "stats-foo",
        "statsfoo",
        "stats-job",
        "stats-tube",
        "stats-tube -a",
        "stats-tube nowhere",
        "use",
        "use ",
        "use -a",
        "use a b",
        "use  a",
        "use a\nb",
        "use a\0b",
        "watch a*",
        "ignore nowhere",
        "ignore -x",
        "list-tubesx",
        "list-tube-usedx",
        "pause-tubedefault 0",
        "pause-tube default",
        "pause-tube -a 1",
        "pause-tube nowhere 1",
        "pause-tube a -1",
        "pause-tube   a   0",
    ];
    let short = select(lines.to_vec()).prop_map(|text| line(text.into()));
    // Around the limit of 224 bytes, the length at which a line swallows the next included, and
    // around the second window.
    let length = select(vec![199usize, 200, 201, 217, 218, 219, 220, 221, 222, 223, 230, 440, 443]);
    let long = length.prop_map(|length| line(format!("use {}", "x".repeat(length))));
    // Whatever follows within 224 bytes goes down with it, so this one brings its own.
    let lone_cr = Just({
        let mut bytes = line("use a\rb".into());
        bytes.extend_from_slice(&[b'y'; 300]);
        bytes.extend_from_slice(b"\r\n");
        bytes
    });
    prop_oneof![20 => short, 4 => long, 1 => lone_cr].boxed()
}
