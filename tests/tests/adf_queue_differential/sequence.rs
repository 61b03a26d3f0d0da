//! Random sequences.

use proptest::{collection::vec, prelude::*, sample::select};

use crate::adf_queue_differential::{
    requests,
    step::{Ending, Frame, KEPT, Step, queue},
    wire::binary,
};

/// Names of queues, without their common prefix.
pub(crate) const QUEUES: [&str; 4] = ["a", "b", "c", KEPT];

/// More of them, which cannot all be named in binary.
pub(crate) const ODD_QUEUES: [&str; 8] =
    ["missing", "A", "\u{961f}", " a", "a b", "\"\\", "\r\n\u{1}", "???"];

/// Maximum number of pulls over HTTP in a sequence: each may hold a thread of the real server.
const MAX_HTTP_PULLS: usize = 2;

/// A request, apart from its form.
#[derive(Clone, Debug)]
struct Request {
    action: u8,
    id: String,
    queue: String,
    body: Vec<u8>,
}

const ACTIONS: [&str; 10] = [
    "lpush",
    "rpush",
    "delete",
    "pull",
    "clear",
    "count",
    "lcancel",
    "rcancel",
    "createqueue",
    "deletequeue",
];

/// Sequences over WebSocket, and over HTTP too; with bodies that make a transcript long.
pub(crate) fn steps(has_http: bool, has_long: bool) -> impl Strategy<Value = Vec<Step>> {
    let requests = if has_http { 30 } else { 0 };
    let step = prop_oneof![
        50 => (speaker(), request(has_long)).prop_map(|(connection, request)| {
            Step::Send(connection, vec![frame(connection, &request)])
        }),
        8 => (speaker(), batch()).prop_map(|(connection, requests)| {
            let frames = requests.iter().map(|request| frame(connection, request));
            Step::Send(connection, frames.collect())
        }),
        4 => odd(),
        4 => (0..5usize).prop_map(Step::Open),
        3 => (0..5usize, select(vec![Ending::Close, Ending::HalfClose, Ending::Reset]))
            .prop_map(|(connection, ending)| Step::End(connection, ending)),
        requests => (any::<bool>(), requests::request())
            .prop_map(|(is_another, bytes)| Step::Request { is_another, bytes }),
        requests / 15 => Just(Step::GiveUp),
    ];
    vec(step, 1..=40).prop_map(|steps| {
        // Most sequences need these, and what they do not need is taken out of a failing one.
        let mut all: Vec<Step> = (0..4).map(Step::Open).collect();
        for name in ["a", "b"] {
            all.push(Step::Send(
                0,
                vec![Frame::new(2, binary(9, b"1", queue(name).as_bytes(), None))],
            ));
        }
        all.extend(steps);
        let mut pulls = 0;
        all.retain(|step| {
            pulls += usize::from(requests::is_pull(step));
            !requests::is_pull(step) || pulls <= MAX_HTTP_PULLS
        });
        all
    })
}

/// Mostly the same ones, so that they have something to acknowledge.
fn speaker() -> impl Strategy<Value = usize> {
    select(vec![0, 0, 0, 1, 2, 2, 3])
}

fn request(has_long: bool) -> impl Strategy<Value = Request> {
    let action = select(vec![1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6, 7, 7, 8, 8, 9, 9, 10]);
    (action, id(), name(), body(has_long)).prop_map(|(action, id, queue, body)| Request {
        action,
        id,
        queue,
        body,
    })
}

/// Requests that are sent together, and whose answers do not depend on how far the server is with the deliveries that
/// they cause: those go behind what it has read by then.
fn batch() -> impl Strategy<Value = Vec<Request>> {
    let kind = select(vec![vec![2], vec![4], vec![3, 5, 6, 7, 8, 9, 10]]);
    (kind, vec((any::<prop::sample::Index>(), request(false)), 2..=5)).prop_map(
        |(actions, requests)| {
            let requests = requests.into_iter();
            requests
                .map(|(place, request)| Request { action: *place.get(&actions), ..request })
                .collect()
        },
    )
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        40 => select(vec!["1", "1", "2", "3"]).prop_map(str::to_owned),
        1 => select(vec![1usize, 32, 33, 300]).prop_map(|length| "x".repeat(length)),
        1 => select(vec!["", " ", "\u{e9}\u{961f}", "\"\\/", "\t\0"]).prop_map(str::to_owned),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        40 => select(vec!["a", "a", "a", "b", "b", "c", KEPT, KEPT]).prop_map(queue),
        2 => select(ODD_QUEUES.to_vec()).prop_map(queue),
        1 => Just(String::new()),
    ]
}

fn body(has_long: bool) -> impl Strategy<Value = Vec<u8>> {
    let is_long = u32::from(has_long);
    prop_oneof![
        8 => select(vec!["x", "y", "hello"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => Just(Vec::new()),
        2 => select(vec!["h\u{e9}llo \u{961f} \u{1f600}", "\"q\" \\ / \u{8}\u{c}\n\r\t", "a\u{1}b\0c\u{1f}\u{7f}\u{2028}"])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => select(vec![b"\xff\xfe\0ok".to_vec(), b"\xe9\x98".to_vec(), b"\xed\xa0\x80".to_vec()]),
        1 => select(vec![125usize, 126, 300]).prop_map(|length| vec![b'z'; length]),
        // Longer ones than the length field of binary allows.
        is_long => select(vec![65_535usize, 65_536, 70_000]).prop_map(|length| vec![b'l'; length]),
    ]
}

/// A request as the connection speaks.
fn frame(connection: usize, request: &Request) -> Frame {
    let Request { action, id, queue: name, body } = request;
    let is_push = matches!(action, 1 | 2);
    let kept = queue(KEPT);
    let name = match action {
        // A pull as JSON from a queue that is not there ends the real server, so that one stays.
        4 if connection >= 2 => &kept,
        10 if *name == kept => &queue("a"),
        _ => name,
    };
    if connection < 2 {
        let body = is_push.then_some(&body[..body.len().min(usize::from(u16::MAX))]);
        return Frame::new(2, binary(*action, id.as_bytes(), name.as_bytes(), body));
    }
    let string = |text: &str| serde_json::to_string(text).expect("a string can be written");
    let action = ACTIONS[usize::from(*action) - 1];
    let (id, name) = (string(id), string(name));
    let mut text = format!(r#"{{"action":"{action}","requestid":{id},"queue":{name}"#);
    if is_push {
        text += &format!(r#","body":{}"#, string(&String::from_utf8_lossy(body)));
    }
    Frame::new(1, text + "}")
}

/// Frames that are not requests, or unusual ones.
fn odd() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2usize, odd_binary()).prop_map(|(at, payload)| Step::Send(at, vec![Frame::new(2, payload)])),
        2 => (2..4usize, odd_json()).prop_map(|(at, text)| Step::Send(at, vec![Frame::new(1, text)])),
        1 => (0..4usize, odd_frame()).prop_map(|(at, frame)| Step::Send(at, vec![frame])),
        1 => (4..5usize, request(false)).prop_map(|(at, request)| Step::Send(at, vec![frame(0, &request)])),
    ]
}

fn odd_binary() -> impl Strategy<Value = Vec<u8>> {
    let name = queue("a");
    let trailing = [binary(6, b"1", name.as_bytes(), None), b"trailing".to_vec()].concat();
    let count = binary(6, b"1", name.as_bytes(), None);
    prop_oneof![
        select(vec![0, 11, 12, 13, 14, 255])
            .prop_map(move |action| { binary(action, b"1", queue("a").as_bytes(), None) }),
        Just(Vec::new()),
        Just(trailing),
        Just(binary(6, b"\xff\xe9", b"\x80\xff", None)),
        Just(binary(9, b"1", queue("\u{961f}").as_bytes(), None)),
        Just(binary(10, b"1", queue("???").as_bytes(), None)),
        // Cut: this ends the connection.
        (1..count.len()).prop_map(move |length| count[..length].to_vec()),
        Just([binary(2, b"1", queue("a").as_bytes(), None), vec![0, 5, b'h', b'i']].concat()),
    ]
}

fn odd_json() -> impl Strategy<Value = String> {
    let name = queue("a");
    let kept = queue(KEPT);
    let texts = [
        "",
        "not json",
        "[1]",
        "5",
        "null",
        "{",
        "{}",
        "\"x\"",
        r#"{"action":"count","requestid":5,"queue":"NAME"}"#,
        r#"{"action":"count","requestid":"","queue":"NAME"}"#,
        r#"{"action":"count","requestid":null,"queue":"NAME"}"#,
        r#"{"action":"COUNT","requestid":"1","queue":"NAME"}"#,
        r#"{"Action":"count","requestid":"1","queue":"NAME"}"#,
        r#"{"action":"count","requestid":"1"}"#,
        r#"{"action":"count","requestid":"1","queue":5}"#,
        r#"{"action":"rpush","requestid":"1","queue":"KEPT"}"#,
        r#"{"action":"rpush","requestid":"1","queue":"KEPT","body":5}"#,
        r#"{"action":"rpush","requestid":"1","queue":"KEPT","body":null}"#,
        r#"{"action":"count","requestid":"1","queue":"KEPT","more":[1,{"a":-1.5e3}],"x":true}"#,
        r#"{"action":"pull","action":"count","requestid":"1","queue":"KEPT"}"#,
        " {\n\"action\" : \"count\",\t\"requestid\":\"1\" ,\r\n\"queue\":\"KEPT\" } ",
        r#"{"action":"count","requestid":"1","queue":"KEPT"} more"#,
        r#"{"action":"count","requestid":"1","queue":"KEPT",}"#,
        r#"{"action":"rpush","requestid":"1","queue":"KEPT","body":"\u00e9\u961f\u0001\/\b"}"#,
        r#"{"action":"rpush","requestid":"1","queue":"KEPT","body":"\ud83d\ude00"}"#,
        r#"{"action":"rpush","requestid":"1","queue":"KEPT","body":"\x"}"#,
        "{\"action\":\"rpush\",\"requestid\":\"1\",\"queue\":\"KEPT\",\"body\":\"\u{1}\n\"}",
    ];
    let texts = texts.map(|text| text.replace("NAME", &name).replace("KEPT", &kept));
    select(texts.to_vec())
}

/// Frames of other kinds.
fn odd_frame() -> impl Strategy<Value = Frame> {
    let count = binary(6, b"1", queue("a").as_bytes(), None);
    let json = format!(r#"{{"action":"count","requestid":"1","queue":"{}"}}"#, queue("a"));
    select(vec![
        Frame::new(9, "abc"),
        Frame::new(9, ""),
        Frame::new(10, "abc"),
        Frame::new(8, vec![3, 0xe8]),
        Frame::new(8, ""),
        Frame::new(0, count.clone()),
        Frame::new(1, json.clone()),
        Frame::new(2, count.clone()),
        Frame::new(3, count.clone()),
        Frame::new(11, count.clone()),
        Frame { is_last: false, ..Frame::new(2, count) },
        Frame { is_last: false, ..Frame::new(1, json) },
        Frame { is_last: false, ..Frame::new(1, r#"{"action":"#) },
        Frame::new(
            1,
            b"{\"action\":\"count\",\"requestid\":\"x\xff\",\"queue\":\"missing\"}".to_vec(),
        ),
    ])
}
