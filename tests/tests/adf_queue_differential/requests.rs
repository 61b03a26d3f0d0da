//! Random requests over HTTP.

use proptest::{prelude::*, sample::select};

use crate::adf_queue_differential::{
    step::{KEPT, RUN, Step, queue},
    wire::contains,
};

/// Ids of pulls over HTTP, where all users of a server share one list.
pub(crate) const IDS: [&str; 3] = ["the-queue-of-run1", "the-queue-of-run2", "the-queue-of-run3"];

/// It may wait, which holds one of the server's threads.
pub(crate) fn is_pull(step: &Step) -> bool {
    matches!(step, Step::Request { bytes, .. } if contains(bytes, b"/queue/pull"))
}

pub(crate) fn request() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        10 => simple(),
        8 => push(),
        4 => pull(),
        4 => acknowledgement(),
        5 => odd(),
    ]
}

fn id() -> impl Strategy<Value = &'static str> {
    select(IDS.to_vec())
}

fn suffix() -> impl Strategy<Value = &'static str> {
    select(vec!["", ".json", ".bin", ".bin"])
}

fn connection() -> impl Strategy<Value = &'static str> {
    select(vec!["Connection: close\r\n", "Connection: close\r\n", "Connection: keep-alive\r\n", ""])
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "c", KEPT, "missing", "%E9%98%9F", "a%20b", "%22%5c", "a+b"])
        .prop_map(queue)
}

fn get(target: &str, connection: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: tests\r\n{connection}\r\n").into_bytes()
}

fn simple() -> impl Strategy<Value = Vec<u8>> {
    let action = select(vec!["count", "count", "clear", "createqueue", "deletequeue"]);
    (action, suffix(), name(), id(), connection()).prop_map(
        |(action, suffix, name, id, connection)| {
            let is_lost = action == "deletequeue" && name == queue(KEPT);
            let name = if is_lost { queue("a") } else { name };
            get(&format!("/queue/{action}{suffix}?queue={name}&requestid={id}"), connection)
        },
    )
}

fn acknowledgement() -> impl Strategy<Value = Vec<u8>> {
    let action = select(vec!["delete", "lcancel", "rcancel"]);
    let name = select(vec!["a", KEPT, KEPT]);
    (action, suffix(), name, id(), connection()).prop_map(
        |(action, suffix, name, id, connection)| {
            let name = queue(name);
            get(&format!("/queue/{action}{suffix}?queue={name}&requestid={id}"), connection)
        },
    )
}

/// Only from queues that are never deleted: a pull from another one might wait forever.
fn pull() -> impl Strategy<Value = Vec<u8>> {
    let target = (suffix(), id()).prop_map(|(suffix, id)| {
        format!("/queue/pull{suffix}?queue={}&requestid={id}", queue(KEPT))
    });
    let target = target.boxed();
    let missing = format!("/queue/pull.bin?queue={}&requestid=1", queue("never"));
    prop_oneof![
        5 => (target.clone(), connection()).prop_map(|(target, connection)| get(&target, connection)),
        1 => target.prop_map(|target| post(&target, "Content-Length: 1\r\n", b"x")),
        1 => Just(get(&missing, "")),
    ]
}

fn post(target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: tests\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn push() -> impl Strategy<Value = Vec<u8>> {
    let octets = "application/octet-stream";
    let kind = prop_oneof![
        12 => Just(octets),
        1 => select(vec!["", "Application/Octet-Stream", "application/octet-stream; charset=utf-8", "text/plain",
            "application/x-www-form-urlencoded"]),
    ];
    let body = prop_oneof![
        6 => select(vec![b"x".to_vec(), b"hello".to_vec(), b"\xff\xfe\0ok".to_vec(), b"\"\\\n\x01".to_vec()]),
        1 => Just(Vec::new()),
        1 => Just(vec![b'z'; 300]),
    ];
    let action = select(vec!["lpush", "rpush", "rpush"]);
    (action, suffix(), name(), id(), kind, body, connection()).prop_map(
        |(action, suffix, name, id, kind, body, connection)| {
            let target = format!("/queue/{action}{suffix}?queue={name}&requestid={id}");
            let mut headers = format!("Content-Length: {}\r\n{connection}", body.len());
            if !kind.is_empty() {
                headers += &format!("Content-Type: {kind}\r\n");
            }
            post(&target, &headers, &body)
        },
    )
}

/// Requests that a server refuses, or interprets in its own way. Nothing here pulls: a pull as JSON from a queue that
/// is not there ends the real server.
fn odd() -> impl Strategy<Value = Vec<u8>> {
    let name = queue("a");
    let count = format!("/queue/count.json?queue={name}&requestid=1");
    let close = "Connection: close\r\n";
    let mut requests = vec![
        get(&format!("/queue/count.json?QUEUE={name}&RequestId=1"), ""),
        get(&format!("/queue/count?queue={name}&queue={name}&requestid=1"), close),
        get("/queue/count.json", close),
        get("/queue/count.bin?", ""),
        get("/queue/count.json?queue=&requestid=", close),
        get(&format!("/queue/count.bin?queue={name}&requestid=%E9%98%9F"), close),
        get("/queue/count.json?queue=%zz%4&requestid=%", close),
        get("/queue/count.json?queue=%ed%a0%80%f0%80%80%ff%c3&requestid=%e9%98", close),
        get("/queue/count.json?queue=%u961f%ud83d%ude00%u00&requestid=%00%0d%0a%22", close),
        get("/queue/count.bin?queue=%u961f%ff%00&requestid=%7f%80", close),
        get("/queue/count.json?queue&requestid=1&=x&&queue=y", close),
        get("/queue/createqueue.json?queue=&requestid=1", ""),
        get(&format!("/queue/count.xml?queue={name}&requestid=1"), close),
        get(&format!("/queue/COUNT.json?queue={name}&requestid=1"), close),
        get(&format!("/Queue/count.json?queue={name}&requestid=1"), close),
        get(&format!("/queue/c%6funt.json?queue={name}&requestid=1"), close),
        get(&format!("/queue/nothing.json?queue={name}&requestid=1"), close),
        get(&format!("/?queue={name}"), ""),
        get(&format!("/?queue={}", queue("missing")), close),
        get(&format!("/?queue={}", queue(KEPT)), close),
        get(&format!("http://tests{count}"), close),
        get(&format!("/queue/rpush.json?queue={name}&requestid=1"), close),
        format!("PUT /queue/rpush.json?queue={name}&requestid=1 HTTP/1.1\r\nContent-Length: 1\r\n{close}\r\nx").into_bytes(),
        format!("PUT {count} HTTP/1.1\r\n{close}\r\n").into_bytes(),
        format!("HEAD {count} HTTP/1.1\r\n{close}\r\n").into_bytes(),
        format!("GET {count} HTTP/1.0\r\n\r\n").into_bytes(),
        format!("GET {count} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").into_bytes(),
        format!("GET {count}\r\n\r\n").into_bytes(),
        format!("GET  {count} HTTP/1.1\r\n\r\n").into_bytes(),
        format!("GET {count} HTTP/1.1\n{}\n", "Connection: close\n").into_bytes(),
        format!("GET {count} HTTP/1.1\r\nno colon\r\n\r\n").into_bytes(),
        format!("GET {count} HTTP/1.1\r\nconnection: CLOSE\r\n\r\n").into_bytes(),
        post(&count, "Content-Length: 1\r\n", b"x"),
        post(&count, "", b""),
        post(&count, "Transfer-Encoding: chunked\r\n", b""),
        post(&count, "Content-Length: 10485761\r\n", b""),
        post(&count, "Content-Length: x\r\n", b""),
        post(&count, "Content-Length: -1\r\n", b""),
        format!("GET /queue/bin HTTP/1.1\r\nUpgrade: websocket\r\n{close}\r\n").into_bytes(),
    ];
    // One byte less than is accepted, as many, and one more.
    for length in [511, 512, 513] {
        let fixed = format!("GET /queue/count.json?queue={RUN}&requestid= HTTP/1.1").len();
        let filler = "q".repeat(length - fixed);
        requests.push(get(&format!("/queue/count.json?queue={RUN}{filler}&requestid="), close));
        let filler = "h".repeat(length - "X: ".len());
        requests.push(get(&count, &format!("{close}X: {filler}\r\n")));
    }
    select(requests)
}
