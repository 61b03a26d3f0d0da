//! Requests to the real server, version 2.0.0, and its answers.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::{ErrorKind, QueueName, RequestId};

fn id(text: &str) -> RequestId {
    text.parse().unwrap()
}

fn queue(text: &str) -> QueueName {
    text.parse().unwrap()
}

/// Bytes from hexadecimal pairs, and text between quotes.
fn bytes(text: &str) -> Bytes {
    let mut found = Vec::new();
    for (n, part) in text.split('"').enumerate() {
        if n % 2 == 1 {
            found.extend_from_slice(part.as_bytes());
            continue;
        }
        let pairs = part.split_whitespace().filter(|pair| *pair != "|");
        found.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
    }
    found.into()
}

fn encoded(encoding: Encoding, request: &Request) -> Bytes {
    let mut frame = BytesMut::new();
    encoding.encode(request, &mut frame).unwrap();
    frame.freeze()
}

fn delivered(body: &'static [u8], duplications: u16, message_id: u64) -> Result<Success, Refusal> {
    let body = Bytes::from_static(body);
    Ok(Success::Delivered(Delivered { message_id: message_id.into(), duplications, body }))
}

/// Requests, their encoding, the answers, and their meaning.
fn binary() -> Vec<(Request, &'static str, &'static str, Result<Success, Refusal>)> {
    let q = || queue("/q");
    vec![
        (
            Request::create_queue(id("1"), q()),
            "09 00 01 31 00 02 2f 71",
            "09 00 01 31 00 02 2f 71 00 02 6f 6b",
            Ok(Success::Done),
        ),
        (
            Request::create_queue(id("1"), q()),
            "09 00 01 31 00 02 2f 71",
            "09 00 01 31 00 02 2f 71 00 0d \"queue exists.\"",
            Err(Refusal::QueueExists),
        ),
        (
            Request::rpush(id("1"), q(), "hi"),
            "02 00 01 31 00 02 2f 71 00 02 68 69",
            "02 00 01 31 00 02 2f 71 00 02 6f 6b 00 00 00 00 00 00 00 01",
            Ok(Success::Pushed(1.into())),
        ),
        (
            Request::lpush(id("2"), q(), "yo"),
            "01 00 01 32 00 02 2f 71 00 02 79 6f",
            "01 00 01 32 00 02 2f 71 00 02 6f 6b 00 00 00 00 00 00 00 02",
            Ok(Success::Pushed(2.into())),
        ),
        (
            Request::rpush(id("3"), queue("/nope"), "hi"),
            "02 00 01 33 00 05 2f 6e 6f 70 65 00 02 68 69",
            "02 00 01 33 00 05 2f 6e 6f 70 65 00 11 \"queue not exists.\"",
            Err(Refusal::QueueNotFound),
        ),
        (
            Request::count(id("4"), q()),
            "06 00 01 34 00 02 2f 71",
            "06 00 01 34 00 02 2f 71 00 02 6f 6b 00 00 00 02",
            Ok(Success::Counted(2)),
        ),
        (
            Request::pull(id("5"), q()),
            "04 00 01 35 00 02 2f 71",
            "04 00 01 35 00 02 2f 71 00 02 6f 6b 00 02 79 6f 00 01 00 00 00 00 00 00 00 02",
            delivered(b"yo", 1, 2),
        ),
        (
            Request::lcancel(id("5"), q()),
            "07 00 01 35 00 02 2f 71",
            "07 00 01 35 00 02 2f 71 00 02 6f 6b",
            Ok(Success::Done),
        ),
        (
            Request::rcancel(id("7"), q()),
            "08 00 01 37 00 02 2f 71",
            "08 00 01 37 00 02 2f 71 00 02 6f 6b",
            Ok(Success::Done),
        ),
        (
            Request::delete(id("8"), q()),
            "03 00 01 38 00 02 2f 71",
            "03 00 01 38 00 02 2f 71 00 17 \"message was not pulled.\"",
            Err(Refusal::NotPulled),
        ),
        (
            Request::clear(id("9"), q()),
            "05 00 01 39 00 02 2f 71",
            "05 00 01 39 00 02 2f 71 00 02 6f 6b 00 00 01 2c",
            Ok(Success::Counted(300)),
        ),
        (
            Request::delete_queue(id("10"), queue("/nope")),
            "0a 00 02 31 30 00 05 2f 6e 6f 70 65",
            "0a 00 02 31 30 00 05 2f 6e 6f 70 65 00 11 \"queue not exists.\"",
            Err(Refusal::QueueNotFound),
        ),
        (
            Request::rpush(id("e"), q(), ""),
            "02 00 01 65 00 02 2f 71 00 00",
            "02 00 01 65 00 02 2f 71 00 02 6f 6b 00 00 00 00 00 00 00 03",
            Ok(Success::Pushed(3.into())),
        ),
        (
            Request::pull(id("e"), q()),
            "04 00 01 65 00 02 2f 71",
            "04 00 01 65 00 02 2f 71 00 02 6f 6b 00 00 00 01 00 00 00 00 00 00 00 03",
            delivered(b"", 1, 3),
        ),
        (
            Request::rpush(
                id("88bea088837d4743af67a2d49e6d08d1"),
                queue("/order/new"),
                "this is a test message.",
            ),
            "02 | 00 20 \"88bea088837d4743af67a2d49e6d08d1\" | 00 0a \"/order/new\" | 00 17 \"this is a test message.\"",
            "02 00 20 \"88bea088837d4743af67a2d49e6d08d1\" 00 0a \"/order/new\" 00 02 \"ok\" 00 00 00 00 56 92 86 6a",
            Ok(Success::Pushed(1_452_443_242.into())),
        ),
    ]
}

#[test]
fn binary_frames_are_those_of_the_real_server() {
    for (request, asked, answered, outcome) in binary() {
        assert_eq!(encoded(Encoding::Binary, &request), bytes(asked), "{request:?}");
        let answer = Encoding::Binary.decode(bytes(answered)).unwrap();
        assert!(answer.answers(&request), "{answer:?}");
        assert_eq!(
            (&*answer.queue, answer.outcome),
            (request.queue().as_str().as_bytes(), outcome)
        );
    }
}

#[test]
fn a_truncated_binary_frame_is_invalid() {
    for (request, _, answered, _) in binary() {
        let whole = bytes(answered);
        for len in 0..whole.len() {
            let error = Encoding::Binary.decode(whole.slice(..len)).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::Protocol, "{request:?} after {len} bytes");
        }
    }
}

#[test]
fn answers_are_identified_by_action_and_id() {
    let pull = Request::pull(id("5"), queue("/q"));
    let answer = Encoding::Binary.decode(bytes("07 00 01 35 00 02 2f 71 00 02 6f 6b")).unwrap();
    assert!(!answer.answers(&pull) && answer.answers(&Request::lcancel(id("5"), queue("/q"))));
}

#[test]
fn a_message_is_redelivered_unless_this_is_its_first_time() {
    for (duplications, expected) in [(1, false), (2, true), (0, true)] {
        let Ok(Success::Delivered(message)) = delivered(b"hi", duplications, 1) else { panic!() };
        assert_eq!(message.is_redelivered(), expected, "{duplications}");
    }
}

#[test]
fn a_body_whose_length_has_wrapped_is_whole() {
    let mut frame = bytes("04 00 01 70 00 02 2f 6a 00 02 6f 6b 11 70").to_vec();
    frame.extend_from_slice(&[b'x'; 70_000]);
    frame.extend_from_slice(&bytes("00 01 00 00 00 00 00 00 00 05"));
    assert_eq!(frame.len(), 70_024);
    let Ok(Success::Delivered(message)) = Encoding::Binary.decode(frame.into()).unwrap().outcome
    else {
        panic!()
    };
    assert_eq!(
        (message.body.len(), message.duplications, message.message_id.get()),
        (70_000, 1, 5)
    );
}

#[test]
fn refuses_what_binary_frames_cannot_carry() {
    let mut frame = BytesMut::from(&b"before"[..]);
    let mut refused = |request: &Request| {
        let error = Encoding::Binary.encode(request, &mut frame).unwrap_err();
        assert_eq!((error.kind(), &frame[..]), (&ErrorKind::InvalidInput, &b"before"[..]));
        error.to_string()
    };
    assert_eq!(
        refused(&Request::count(id("1"), queue("/队"))),
        r#"queue name "/\xe9\x98\x9f" is not ASCII: in binary the server would act on another queue (use JSON)"#
    );
    assert_eq!(
        refused(&Request::rpush(id("1"), queue("/q"), vec![0; 65_536])),
        "body of 65536 bytes is too long: binary frames carry up to 65535 (use JSON, or HTTP)"
    );
    let most = Request::rpush(id("1"), queue("/q"), vec![0; 65_535]);
    Encoding::Binary.encode(&most, &mut frame).unwrap();
    assert_eq!(frame.len(), "before".len() + 1 + (2 + 1) + (2 + 2) + (2 + 65_535));
}

#[test]
fn only_the_answer_to_a_success_without_a_body_is_read_where_it_is() {
    let read = super::binary::success_without_body;
    let ok = b"\x02\0\x017\0\x02/q\0\x02ok\0\0\0\0\0\0\0\x09";
    assert_eq!(read(ok), Some((Action::Rpush, "7", Success::Pushed(9.into()))));
    assert_eq!(read(b"\x03\0\x017\0\x02/q\0\x02ok"), Some((Action::Delete, "7", Success::Done)));
    assert_eq!(read(&ok[..ok.len() - 1]), None);
    assert_eq!(read(b"\x02\0\x017\0\x02/q\0\x02no\0\0\0\0\0\0\0\x09"), None);
    let delivery = [&[Action::Pull.code()][..], &ok[1..]].concat();
    assert_eq!(read(&delivery), None);
}

#[test]
fn json_is_that_of_the_real_server() {
    let j = || queue("/j");
    let exchanges = [
        (
            Request::create_queue(id("1"), j()),
            r#"{"action":"createqueue","requestid":"1","queue":"/j"}"#,
            r#"{"queue":"/j","result":"ok","action":"createqueue","requestid":"1"}"#,
            Ok(Success::Done),
        ),
        (
            Request::rpush(id("1"), j(), "hi"),
            r#"{"action":"rpush","requestid":"1","queue":"/j","body":"hi"}"#,
            r#"{"queue":"/j","result":"ok","action":"rpush","requestid":"1","messageid":1}"#,
            Ok(Success::Pushed(1.into())),
        ),
        (
            Request::rpush(id("e"), j(), ""),
            r#"{"action":"rpush","requestid":"e","queue":"/j","body":""}"#,
            r#"{"queue":"/j","result":"ok","action":"rpush","requestid":"e","messageid":3}"#,
            Ok(Success::Pushed(3.into())),
        ),
        (
            Request::pull(id("2"), j()),
            r#"{"action":"pull","requestid":"2","queue":"/j"}"#,
            r#"{"queue":"/j","result":"ok","body":"hi","action":"pull","requestid":"2","duplications":1,"messageid":1}"#,
            delivered(b"hi", 1, 1),
        ),
        (
            Request::pull(id("2"), j()),
            r#"{"action":"pull","requestid":"2","queue":"/j"}"#,
            r#"{"queue":"/j","result":"ok","body":"héllo 队列 😀 \"q\" \\ / \b\f\n\r\t","action":"pull","requestid":"2","duplications":1,"messageid":1}"#,
            delivered("héllo 队列 😀 \"q\" \\ / \x08\x0c\n\r\t".as_bytes(), 1, 1),
        ),
        (
            Request::rpush(id("3"), queue("/nope"), "x"),
            r#"{"action":"rpush","requestid":"3","queue":"/nope","body":"x"}"#,
            r#"{"queue":"/nope","result":"queue not exists.","action":"rpush","requestid":"3","messageid":0}"#,
            Err(Refusal::QueueNotFound),
        ),
        (
            Request::count(id("3"), queue("/nope")),
            r#"{"action":"count","requestid":"3","queue":"/nope"}"#,
            r#"{"queue":"/nope","count":0,"result":"queue not exists.","action":"count","requestid":"3"}"#,
            Err(Refusal::QueueNotFound),
        ),
        (
            Request::clear(id("3"), j()),
            r#"{"action":"clear","requestid":"3","queue":"/j"}"#,
            r#"{"queue":"/j","count":0,"result":"ok","action":"clear","requestid":"3"}"#,
            Ok(Success::Counted(0)),
        ),
        (
            Request::lcancel(id("zz"), j()),
            r#"{"action":"lcancel","requestid":"zz","queue":"/j"}"#,
            r#"{"queue":"/j","result":"message was not pulled.","action":"lcancel","requestid":"zz"}"#,
            Err(Refusal::NotPulled),
        ),
    ];
    for (request, asked, answered, outcome) in exchanges {
        assert_eq!(encoded(Encoding::Json, &request), asked);
        let answer = Encoding::Json.decode(answered.into()).unwrap();
        assert!(answer.answers(&request), "{answer:?}");
        assert_eq!(
            (&*answer.queue, answer.outcome),
            (request.queue().as_str().as_bytes(), outcome)
        );
        for len in 0..answered.len() {
            Encoding::Json.decode(Bytes::from(answered).slice(..len)).unwrap_err();
        }
    }
}

#[test]
fn raw_control_characters_in_json_are_read() {
    let answered = b"{\"queue\":\"/j\x01\",\"result\":\"ok\",\"body\":\"a\x01b\x00c\x1f\x7f\xe2\x80\xa8\",\"action\":\"pull\",\"requestid\":\"2\",\"duplications\":1,\"messageid\":1}";
    let answer = Encoding::Json.decode(answered[..].into()).unwrap();
    assert_eq!(&*answer.queue, b"/j\x01");
    assert_eq!(answer.outcome, delivered(b"a\x01b\x00c\x1f\x7f\xe2\x80\xa8", 1, 1));
}

#[test]
fn json_sends_no_escaped_surrogates_and_nothing_but_text() {
    let smile = Request::rpush(id("1"), queue("/j"), "\u{1f600}\u{0}");
    assert_eq!(
        encoded(Encoding::Json, &smile),
        "{\"action\":\"rpush\",\"requestid\":\"1\",\"queue\":\"/j\",\"body\":\"😀\\u0000\"}"
    );
    let mut frame = BytesMut::new();
    let binary = Request::rpush(id("1"), queue("/j"), &b"ok\xff"[..]);
    let error = Encoding::Json.encode(&binary, &mut frame).unwrap_err();
    assert_eq!(
        error.to_string(),
        "body is not UTF-8 at byte 2: JSON carries text only (use a binary transport)"
    );
    assert!(frame.is_empty());
}

#[test]
fn a_success_without_its_fields_is_invalid() {
    for answered in [
        r#"{"queue":"/j","result":"ok","action":"rpush","requestid":"1"}"#,
        r#"{"queue":"/j","result":"ok","action":"count","requestid":"1","count":-1}"#,
        r#"{"queue":"/j","result":"ok","action":"COUNT","requestid":"1","count":1}"#,
        r#"{"queue":"/j","result":"ok","action":"pull","requestid":"1","messageid":1,"body":"x"}"#,
        r#"[1]"#,
        "<html>",
        "",
    ] {
        let error = Encoding::Json.decode(answered.into()).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Protocol, "{answered}");
    }
}

#[test]
fn an_unknown_refusal_keeps_its_words_and_shows_them_escaped() {
    let answered = bytes("06 00 01 31 00 02 2f 71 00 05 \"no\" 1b 5b \"m\"");
    let Err(refusal) = Encoding::Binary.decode(answered).unwrap().outcome else { panic!() };
    assert_eq!((refusal.text(), refusal.to_string()), ("no\x1b[m", r#""no\x1b[m""#.into()));
    assert_eq!(crate::Error::from(refusal).to_string(), r#"the server refused: "no\x1b[m""#);
}

fn request() -> impl Strategy<Value = Request> {
    let text = ("[!-~]{1,32}", "[ -~]{1,300}", proptest::collection::vec(any::<u8>(), 0..300));
    (0..10_usize, text).prop_map(|(n, (request_id, name, body))| {
        let (id, queue) = (id(&request_id), queue(&name));
        let plain = [
            Request::delete,
            Request::pull,
            Request::clear,
            Request::count,
            Request::lcancel,
            Request::rcancel,
            Request::create_queue,
            Request::delete_queue,
        ];
        match n {
            0 => Request::lpush(id, queue, body),
            1 => Request::rpush(id, queue, body),
            n => plain[n - 2](id, queue),
        }
    })
}

proptest! {
    #[test]
    fn every_binary_request_round_trips(request in request()) {
        let mut frame = encoded(Encoding::Binary, &request);
        let field = |frame: &mut Bytes| {
            let len = usize::from(u16::from_be_bytes([frame[0], frame[1]]));
            let _ = frame.split_to(2);
            frame.split_to(len)
        };
        prop_assert_eq!(frame.split_to(1)[0], request.action().code());
        prop_assert_eq!(field(&mut frame), request.id().as_str());
        prop_assert_eq!(field(&mut frame), request.queue().as_str());
        if request.action().is_push() {
            prop_assert_eq!(&field(&mut frame), request.body());
        }
        prop_assert!(frame.is_empty());
    }

    #[test]
    fn junk_is_an_error_or_an_answer_and_never_panics(junk in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Encoding::Binary.decode(junk.clone().into());
        let _ = Encoding::Json.decode(junk.into());
    }
}
