//! `push`.

use fixtures::adf_queue::Server;
use serde_json::json;

use crate::harness::*;

#[test]
fn prints_ids_and_round_trips_bodies() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("bytes"));
        let body: Vec<u8> = (0..=u8::MAX).collect();
        let pushed = adfctl_with(address, &["push", &queue.name], &body).exits(0);
        assert_eq!(pushed.out(), "1\n");
        let popped = adfctl(address, &["pop", &queue.name, "-o", "raw"]).exits(0);
        assert_eq!(popped.bytes, body);
        assert_eq!(ready(address, &queue.name), 0);
    });
}

#[test]
fn pulls_from_the_left_end() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("ends"));
        adfctl(address, &["push", &queue.name, "second"]).exits(0);
        adfctl(address, &["push", &queue.name, "--left", "first"]).exits(0);
        let line = ["pop", &queue.name, "-c", "2", "--columns", "messageid,body"];
        assert_eq!(adfctl(address, &line).exits(0).out(), "2\tfirst\n1\tsecond\n");
    });
}

#[test]
fn each_line_or_record_is_one_message() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.queue("records"));
        adfctl_with(address, &["push", &queue.name, "--lines"], b"a\n\nb").exits(0);
        adfctl_with(address, &["push", &queue.name, "-0"], b"c\nd\0e\0").exits(0);
        let records = b"{\"v\":1,\"body\":\"f\"}\n\n{\"body_base64\":\"/w==\"}\n";
        adfctl_with(address, &["push", &queue.name, "--ndjson"], records).exits(0);
        let ran = adfctl(address, &["pop", &queue.name, "-c", "9", "-0"]).exits(0);
        assert_eq!(ran.bytes, b"a\0\0b\0c\nd\0e\0f\0\xff\0");
    });
}

#[test]
fn a_record_queue_beats_the_argument() {
    on_both(|site| {
        let address = site.address();
        let (given, own) = (site.queue("given"), site.no_queue("own"));
        let records =
            format!("{{\"queue\":\"{}\",\"body\":\"a\"}}\n{{\"body\":\"b\"}}\n", own.name);
        let push = |line: &[&str]| {
            adfctl_with(address, &[&["push", "--ndjson"], line].concat(), records.as_bytes())
        };
        // A missing queue fails only its own records.
        let ran = push(&[&given.name]).exits(3);
        assert!(ran.err.contains(&format!("there is no queue {}", own.name)), "{}", ran.err);
        assert!(ran.err.contains("-Q is only for records without `queue`"), "{}", ran.err);
        let ran = push(&["--create", "-"]).exits(3);
        assert!(ran.err.contains("stdin record 2") && ran.err.contains("-Q QUEUE"), "{}", ran.err);
        push(&["--create", "-Q", &given.name]).exits(0);
        assert_eq!((ready(address, &own.name), ready(address, &given.name)), (2, 2));
        adfctl(address, &["queue", "delete", &own.name, "-y"]).exits(0);
    });
}

#[test]
fn names_a_bad_record_and_pushes_the_rest() {
    let server = Server::builder().queue("/q").start().unwrap();
    let line = ["push", "/q", "--ndjson"];
    let ran =
        adfctl_with(server.address(), &line, b"{\"body\":\"x\"}\n{}\n{\"body\":\"y\"}\n").exits(3);
    assert!(
        ran.err.contains("stdin record 2") && ran.err.contains("without `body`"),
        "{}",
        ran.err
    );
    assert_eq!(server.view().ready, 2);
}

#[test]
fn a_body_binary_frames_cannot_carry_exits_65_unsent() {
    let server = Server::builder().queue("/q").start().unwrap();
    let ran = adfctl_with(server.address(), &["push", "/q"], &[b'x'; 65_536]).exits(65);
    assert!(ran.err.contains("65535"), "{}", ran.err);
    assert_eq!(server.view().ready, 0);
    adfctl_with(server.address(), &["push", "/q"], &[b'x'; 65_535]).exits(0);
    let json = format!("adf+json://{}", server.address());
    adfctl_with(&json, &["push", "/q"], &[b'x'; 70_000]).exits(0);
    // The length field of a frame cannot hold this length; the body is still whole.
    let line = ["pop", "/q", "-c", "2", "-o", "raw"];
    assert_eq!(adfctl(server.address(), &line).exits(0).bytes.len(), 65_535 + 70_000);
}

#[test]
fn creates_a_queue_on_request_but_not_in_a_dry_run() {
    on_both(|site| {
        let (address, queue) = (site.address(), site.no_queue("created"));
        let dry = ["push", &queue.name, "x", "--create", "-n", "-o", "json"];
        assert_eq!(adfctl(address, &dry).exits(0).json(), json!({"dry_run": true, "messages": 1}));
        assert_eq!(adfctl(address, &["queues", &queue.name]).exits(0).out(), "");
        adfctl(address, &["push", &queue.name, "x", "--create", "--repeat", "3"]).exits(0);
        adfctl(address, &["push", &queue.name, "x", "--create"]).exits(0);
        assert_eq!(ready(address, &queue.name), 4);
    });
}
