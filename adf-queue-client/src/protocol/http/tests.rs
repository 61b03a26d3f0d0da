//! Tests of the codec.

use super::*;
use crate::{
    ErrorKind, RequestId,
    protocol::{Refusal, Success},
};

fn id(text: &str) -> RequestId {
    text.parse().unwrap()
}

fn queue(text: &str) -> QueueName {
    text.parse().unwrap()
}

#[test]
fn refuses_what_the_server_would_reject_before_encoding() {
    let mut out = BytesMut::new();
    let mut refused = |encoding, request: &Request, host: &str| {
        let error = encode(encoding, request, host, &mut out).unwrap_err();
        assert!(error.kind() == &ErrorKind::InvalidInput && out.is_empty());
        error.to_string()
    };
    let push = |body: Vec<u8>| Request::lpush(id("1"), queue("/q"), body);
    assert!(refused(Encoding::Binary, &push(vec![]), "q").contains("body of 0 bytes"));
    assert!(refused(Encoding::Json, &push(vec![0; MAX_BODY + 1]), "q").contains("1 to 10485760"));
    let text = push(b"ok\xff".to_vec());
    assert!(refused(Encoding::Json, &text, "q").contains("not UTF-8 at byte 2"));
    encode(Encoding::Binary, &text, "q", &mut BytesMut::new()).unwrap();
    encode(Encoding::Json, &push(vec![b'x'; MAX_BODY]), "q", &mut BytesMut::new()).unwrap();
    let long = Request::pull(id("1"), queue(&"q".repeat(470)));
    assert!(refused(Encoding::Json, &long, "q").contains("lines of up to 512"));
    let foreign = Request::pull(id("1"), queue("队"));
    assert!(refused(Encoding::Binary, &foreign, "q").contains("is not ASCII"));
    assert!(refused(Encoding::Json, &foreign, "q\r\nX: y").contains("visible ASCII"));
}

#[test]
fn a_host_that_no_request_could_carry_is_refused() {
    for host in ["localhost:6230", &"h".repeat(506)] {
        crate::protocol::check_host(host).unwrap();
    }
    for (host, said) in [("q\r\nX: y", "visible ASCII"), (&"h".repeat(507), "up to 512")] {
        let error = crate::protocol::check_host(host).unwrap_err();
        assert!(error.kind() == &ErrorKind::InvalidInput && error.to_string().contains(said));
    }
}

/// Row 10, and a page where a result should be.
#[test]
fn distinguishes_pages_from_other_responses() {
    let page = "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8\nContent-Length: 4\n\npage";
    assert_eq!(read(page.as_bytes(), 3).unwrap().page().unwrap(), "page");
    let error = read(COUNT.as_bytes(), 3).unwrap().page().unwrap_err();
    assert!(error.to_string().contains("not answer with an HTML page"), "{error}");
}

#[test]
fn the_page_of_a_queue_is_asked_for_by_its_encoded_name() {
    let asked = |queue: Option<&str>| {
        let mut out = BytesMut::new();
        let queue = queue.map(|queue| queue.parse::<QueueName>().unwrap());
        encode_page(queue.as_ref(), "q:6230", &mut out)
            .map(|()| String::from_utf8(out.to_vec()).unwrap())
    };
    assert_eq!(asked(None).unwrap(), "GET / HTTP/1.1\r\nHost: q:6230\r\n\r\n");
    assert_eq!(
        asked(Some("/a b队")).unwrap(),
        "GET /?queue=%2Fa%20b%E9%98%9F HTTP/1.1\r\nHost: q:6230\r\n\r\n"
    );
    assert!(asked(Some(&"q".repeat(500))).unwrap_err().to_string().contains("up to 512"));
}

const COUNT: &str = "HTTP/1.1 200 OK\nContent-Type: application/json\nVia: vm\nConnection: keep-alive\nTransfer-Encoding: chunked\n\n48\r\n{\"queue\":\"/j\",\"count\":0,\"result\":\"ok\",\"action\":\"count\",\"requestid\":\"h1\"}\r\n0\r\n\r\n";

/// Returns an answer in pieces, as a connection does: what was not taken is returned again.
fn read(data: &[u8], piece: usize) -> Result<Answer> {
    let mut answer = Answer::new(64 << 20);
    let (mut start, mut end) = (0, 0);
    while end < data.len() {
        end = data.len().min(end + piece);
        start += answer.read(&data[start..end])?;
    }
    assert!(start == data.len() || !answer.is_whole(), "what was not taken is not yet understood");
    Ok(answer)
}

#[test]
fn answers_of_the_real_server_are_read_however_they_are_cut() {
    for piece in 1..COUNT.len() {
        let answer = read(COUNT.as_bytes(), piece).unwrap();
        assert!(answer.is_whole() && answer.keeps_alive());
        let response = answer.finish(Encoding::Json).unwrap();
        assert!(response.answers(&Request::count(id("h1"), queue("/j"))));
        assert_eq!(response.outcome, Ok(Success::Counted(0)));
    }
    for len in 0..COUNT.len() {
        let mut answer = read(&COUNT.as_bytes()[..len], 1).unwrap();
        assert!(!answer.end(), "after {len} bytes");
    }
}

#[test]
fn a_refusal_comes_with_status_200() {
    let frame = b"\x06\0\x011\0\x01?\0\x11queue not exists.";
    let head = b"HTTP/1.1 200 OK\nContent-Type: application/octet-stream\nConnection: close\nTransfer-Encoding: chunked\n\n1a\r\n";
    let data = [&head[..], frame, b"\r\n0\r\n\r\n"].concat();
    let answer = read(&data, 7).unwrap();
    assert!(answer.is_whole() && !answer.keeps_alive());
    assert_eq!(answer.finish(Encoding::Binary).unwrap().outcome, Err(Refusal::QueueNotFound));
}

#[test]
fn a_pull_that_waits_has_begun_and_is_not_whole() {
    let head = COUNT.split_inclusive("\n\n").next().unwrap();
    let answer = read(head.as_bytes(), 1000).unwrap();
    assert!(answer.has_begun() && !answer.is_whole());
    assert!(!read(&head.as_bytes()[..head.len() - 1], 1000).unwrap().has_begun());
    assert!(answer.finish(Encoding::Json).unwrap_err().to_string().contains("is incomplete"));
}

#[test]
fn reports_a_non_result() {
    for (data, kind, why) in [
        (
            "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 4\n\npage",
            ErrorKind::Protocol,
            "a page instead of a result",
        ),
        (
            "HTTP/1.1 400 Bad Request\nContent-Length: 7\n\nNo body",
            ErrorKind::InvalidInput,
            "400 Bad Request",
        ),
        (
            "HTTP/1.1 411 Length Required\nContent-Length: 22\n\nRequire Content-Length",
            ErrorKind::InvalidInput,
            "411 Length Required",
        ),
        ("HTTP/1.1 100 Continue\r\n\r\n", ErrorKind::Protocol, "100 Continue"),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
            ErrorKind::Protocol,
            "the server answered 302 Found",
        ),
    ] {
        let error = read(data.as_bytes(), 9).unwrap().finish(Encoding::Json).unwrap_err();
        let is_refused = kind == ErrorKind::InvalidInput;
        assert_eq!(error.fate() == Fate::Refused, is_refused, "{error}");
        assert!(error.kind() == &kind && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn answers_are_bounded() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for chunk in [
        "fffffffffffffff\r\n",
        "10000000000000000\r\n",
        "-1\r\n",
        "+1\r\n",
        "x\r\n",
        "\r\n",
        "4\r\nabcdef\r\n",
    ] {
        let data = format!("{head}{chunk}");
        assert!(read(data.as_bytes(), 1000).is_err(), "{chunk:?}");
    }
    let endless = format!("{head}{}", "1".repeat(2000));
    let error = read(endless.as_bytes(), 100).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("1024")), (&ErrorKind::Protocol, true));
    let trailer = format!("{head}0\r\n{}", "x: y\r\n".repeat(5000));
    assert!(read(trailer.as_bytes(), 100).unwrap_err().to_string().contains("16384"));
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "1".repeat(20_000));
    assert!(read(endless.as_bytes(), 100).unwrap_err().to_string().contains("16384"));
    // What just fits is taken, behind which a line or two may stand.
    let mut answer = Answer::new(4);
    let full = format!("{head}4\r\nbody\r\n0\r\nx: y\r\nz: 1\r\n\r\n");
    assert_eq!(answer.read(full.as_bytes()).unwrap(), full.len());
    assert!(answer.is_whole());
    let mut answer = Answer::new(3);
    let counted = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
    assert!(answer.read(counted).unwrap_err().to_string().contains("limit of 3"));
    let mut answer = Answer::new(3);
    assert!(answer.read(b"HTTP/1.1 200 OK\r\n\r\nfour").is_err());
}

#[test]
fn an_answer_without_a_length_ends_with_its_connection() {
    let data = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}";
    let mut answer = read(data, 5).unwrap();
    assert!(!answer.is_whole() && answer.end() && !answer.keeps_alive());
    assert_eq!(answer.finish(Encoding::Json).unwrap_err().kind(), &ErrorKind::Protocol);
}
