//! Random sequences: what is sent, and how it is cut into writes.

use fixtures::gearmand::PacketType;
use proptest::{prelude::*, sample::select};

/// What both servers are started with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) threads: u32,
    pub(crate) round_robin: bool,
    pub(crate) exceptions: bool,
    pub(crate) job_retries: i32,
    pub(crate) worker_wakeup: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) options: Options,
    pub(crate) steps: Vec<Step>,
}

/// Something to send.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Packet(PacketType, Vec<String>),
    /// Reports about a job that the connection has been given, chosen among them by number; about
    /// a job of this number if it has none.
    Work(PacketType, usize, Vec<String>),
    /// A text command, without its line end.
    Line(String),
    Bytes(Vec<u8>),
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
    /// Something on which the server may close the connection.
    Break(usize, Command),
    Close(usize),
}

pub(crate) fn cases(threads: u32) -> impl Strategy<Value = Case> {
    let options = (any::<bool>(), any::<bool>(), select(vec![0, 0, 1, 2]), select(vec![0, 0, 1]))
        .prop_map(move |(round_robin, exceptions, job_retries, worker_wakeup)| Options {
            threads,
            round_robin,
            exceptions,
            job_retries,
            worker_wakeup,
        });
    (options, prop::collection::vec(step(threads), 1..=40))
        .prop_map(|(options, steps)| Case { options, steps })
}

fn step(threads: u32) -> impl Strategy<Value = Step> {
    let connection = 0..4usize;
    let commands = prop_oneof![
        6 => prop::collection::vec(command(), 1),
        3 => prop::collection::vec(command(), 2..=6),
    ];
    let cut = prop_oneof![6 => Just(None), 1 => (1..60usize).prop_map(Some)];
    prop_oneof![
        40 => (connection.clone(), commands, cut)
            .prop_map(|(connection, mut commands, cut)| {
                keep_assigned_jobs(&mut commands);
                Step::Send { connection, commands, cut }
            }),
        2 => (connection.clone(), breaking(threads))
            .prop_map(|(connection, command)| Step::Break(connection, command)),
        3 => connection.prop_map(Step::Close),
    ]
}

/// Takes out what may end a job in the same write that has it assigned: the real server sends the
/// workload from memory that it has freed by then.
fn keep_assigned_jobs(commands: &mut Vec<Command>) {
    use PacketType as P;
    let mut has_grabbed = false;
    commands.retain(|command| {
        let ends_jobs = match command {
            Command::Work(..) => true,
            Command::Packet(kind, _) => {
                has_grabbed |= matches!(kind, P::GrabJob | P::GrabJobUniq | P::GrabJobAll);
                matches!(kind, P::CantDo | P::ResetAbilities)
            }
            _ => false,
        };
        !(ends_jobs && has_grabbed)
    });
}

fn command() -> BoxedStrategy<Command> {
    prop_oneof![
        10 => submit(),
        9 => worker(),
        9 => work(),
        4 => question(),
        5 => line().prop_map(Command::Line),
        2 => odd(),
    ]
    .boxed()
}

fn texts(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|&part| part.to_owned()).collect()
}

fn function() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => select(vec!["a", "b", "c"]), 1 => select(vec!["", "A", "x y", "\u{e9}"])]
}

fn unique() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(vec!["", "", "u", "v", "-"]).prop_map(str::to_owned),
        1 => select(vec![63usize, 64, 65]).prop_map(|length| "n".repeat(length)),
    ]
}

fn workload() -> impl Strategy<Value = &'static str> {
    select(vec!["", "w", "x", "a\0b", "\0"])
}

fn submit() -> BoxedStrategy<Command> {
    use PacketType as P;
    let plain = select(vec![
        P::SubmitJob,
        P::SubmitJobBg,
        P::SubmitJobHigh,
        P::SubmitJobHighBg,
        P::SubmitJobLow,
        P::SubmitJobLowBg,
    ]);
    let when = select(vec!["0", "", "-1", "x", "1", "99999999999", "99999999998"]);
    let reduce = select(vec![P::SubmitReduceJob, P::SubmitReduceJobBackground]);
    let short = select(vec!["", "u", "-"]);
    let reducer = select(vec!["red", "", "red"]);
    prop_oneof![
        10 => (plain, function(), unique(), workload()).prop_map(|(kind, function, unique, load)| {
            Command::Packet(kind, texts(&[function, &unique, load]))
        }),
        1 => (function(), unique(), when, workload()).prop_map(|(function, unique, when, load)| {
            Command::Packet(P::SubmitJobEpoch, texts(&[function, &unique, when, load]))
        }),
        1 => (reduce, function(), short, reducer, workload()).prop_map(
            |(kind, function, unique, reducer, load)| {
                Command::Packet(kind, texts(&[function, unique, reducer, "0", load]))
            }
        ),
    ]
    .boxed()
}

fn worker() -> BoxedStrategy<Command> {
    use PacketType as P;
    let timeout = select(vec!["0", "500000", "-1", "x", "", "100000"]);
    let grab = select(vec![P::GrabJob, P::GrabJobUniq, P::GrabJobAll]);
    prop_oneof![
        6 => function().prop_map(|name| Command::Packet(P::CanDo, texts(&[name]))),
        2 => (function(), timeout)
            .prop_map(|(name, time)| Command::Packet(P::CanDoTimeout, texts(&[name, time]))),
        1 => function().prop_map(|name| Command::Packet(P::CantDo, texts(&[name]))),
        1 => Just(Command::Packet(P::ResetAbilities, vec![])),
        8 => grab.prop_map(|kind| Command::Packet(kind, vec![])),
        4 => Just(Command::Packet(P::PreSleep, vec![])),
        1 => select(vec!["me", "", "a b"]).prop_map(|id| {
            Command::Packet(P::SetClientId, texts(&[id]))
        }),
    ]
    .boxed()
}

fn work() -> BoxedStrategy<Command> {
    use PacketType as P;
    let pick = 0..8usize;
    let with_data = select(vec![
        P::WorkComplete,
        P::WorkComplete,
        P::WorkData,
        P::WorkWarning,
        P::WorkException,
    ]);
    let numerator = select(vec!["1", "-5", "x", "4294967296", "", "99999999999999999999"]);
    let denominator = select(vec!["10", "0", "x", "12345678901", ""]);
    prop_oneof![
        6 => (with_data, pick.clone(), workload())
            .prop_map(|(kind, pick, load)| Command::Work(kind, pick, texts(&[load]))),
        2 => pick.clone().prop_map(|pick| Command::Work(P::WorkFail, pick, vec![])),
        // A worker that ends the handle with a NUL.
        1 => pick.clone().prop_map(|pick| Command::Work(P::WorkFail, pick, texts(&[""]))),
        2 => (pick, numerator, denominator).prop_map(|(pick, numerator, denominator)| {
            Command::Work(P::WorkStatus, pick, texts(&[numerator, denominator]))
        }),
    ]
    .boxed()
}

fn question() -> BoxedStrategy<Command> {
    use PacketType as P;
    let unique = select(vec!["", "u", "v", "-", "nowhere", "u\0x"]);
    let option = select(vec!["exceptions", "EXCEPTIONS", "exceptions\0", "other", ""]);
    prop_oneof![
        3 => (0..20u32).prop_map(|job| {
            Command::Packet(P::GetStatus, vec![format!("H:x:{job}")])
        }),
        2 => unique.prop_map(|unique| Command::Packet(P::GetStatusUnique, texts(&[unique]))),
        1 => option.prop_map(|option| Command::Packet(P::OptionReq, texts(&[option]))),
        1 => workload().prop_map(|load| Command::Packet(P::EchoReq, texts(&[load]))),
    ]
    .boxed()
}

/// Functions that are dropped are never given jobs: the real server would keep pointers to what
/// it has freed.
fn line() -> BoxedStrategy<String> {
    let fixed = [
        "status",
        "status x",
        "STATUS",
        "prioritystatus",
        "show jobs",
        "show unique jobs",
        "create function d",
        "create function D",
        "create function e",
        "drop function d",
        "drop function E",
        "drop function nowhere",
        "maxqueue a",
        "maxqueue a 2",
        "maxqueue b 1 2 3",
        "maxqueue c 0 2",
        "maxqueue a -1",
        "maxqueue a x",
        "maxqueue nowhere 1",
        "verbose",
    ];
    prop_oneof![
        6 => select(fixed.to_vec()).prop_map(str::to_owned),
        2 => (0..12u32).prop_map(|job| format!("cancel job H:x:{job}")),
        1 => select(vec![
            "",
            " ",
            "foo",
            " status",
            "show",
            "show foo",
            "show jobs x",
            "show  jobs",
            "cancel",
            "cancel job",
            "cancel foo bar",
            "cancel job H:x:1 x",
            "create",
            "create function",
            "create function f ",
            "create foo bar",
            "drop",
            "drop function d d",
            "maxqueue",
            "shutdown",
            "a b c d e",
        ]).prop_map(str::to_owned),
    ]
    .boxed()
}

/// Packets that the server refuses and goes on.
fn odd() -> BoxedStrategy<Command> {
    use PacketType as P;
    let refused = [
        P::Unused,
        P::Noop,
        P::JobCreated,
        P::NoJob,
        P::JobAssign,
        P::EchoRes,
        P::Error,
        P::StatusRes,
        P::AllYours,
        P::OptionRes,
        P::JobAssignUniq,
        P::SubmitJobSched,
        P::JobAssignAll,
        P::StatusResUnique,
    ];
    let response = select(vec![P::NoJob, P::EchoReq, P::CanDo, P::SubmitJob, P::PreSleep]);
    let long_handle = select(vec![P::WorkFail, P::WorkFail]);
    prop_oneof![
        4 => select(refused.to_vec()).prop_map(|kind| {
            Command::Packet(kind, vec![String::new(); parts(kind)])
        }),
        2 => response.prop_map(|kind| {
            Command::Bytes(kind.response(&vec![""; parts(kind)]))
        }),
        1 => long_handle.prop_map(|kind| Command::Packet(kind, vec!["h".repeat(64)])),
        // No packet with data that its type does not take: the real server then hands out a workload with a byte of it.
    ]
    .boxed()
}

fn parts(kind: PacketType) -> usize {
    kind.arguments() + usize::from(kind.has_data())
}

/// What ends the connection, and what has no reply with several threads.
fn breaking(threads: u32) -> BoxedStrategy<Command> {
    use PacketType as P;
    let always = vec![
        Command::Bytes(b"\0REQ\0\0\0\0\0\0\0\0".to_vec()),
        Command::Bytes(b"\0REQ\0\0\0\x2b\0\0\0\0".to_vec()),
        Command::Bytes(b"\0FOO\0\0\0\x09\0\0\0\0".to_vec()),
        Command::Line("a b c d e f".to_owned()),
        Command::Line("x".repeat(8192)),
        Command::Packet(P::CanDo, vec!["x".repeat(8193)]),
        Command::Packet(P::SubmitJob, vec!["x".repeat(8192), String::new(), String::new()]),
        // One argument, and nothing left of the size for data.
        Command::Bytes(b"\0REQ\0\0\0\x12\0\0\0\x03abc\0\0".to_vec()),
    ];
    let unanswered = vec![
        Command::Packet(P::GetStatus, vec!["h".repeat(64)]),
        Command::Packet(P::GetStatusUnique, vec!["u".repeat(64)]),
        Command::Packet(P::CanDoTimeout, texts(&["a", "000000000000000000001"])),
        Command::Packet(P::CanDoTimeout, texts(&["a", "9223372036854775807"])),
        Command::Packet(P::SubmitJobEpoch, texts(&["a", "", "9223372036854775808", ""])),
        Command::Work(P::WorkStatus, 0, texts(&["1", "123456789012"])),
    ];
    // With several threads the connection may be closed later on, when something happens to be
    // sent to it before its next request.
    if threads > 1 {
        return select(always).boxed();
    }
    prop_oneof![1 => select(always), 1 => select(unanswered)].boxed()
}
