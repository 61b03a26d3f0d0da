//! The records are seeds of the fuzz target `envelopes`. Laravel's are made by `Queue::createPayload` of
//! illuminate/queue 8.83, Symfony's by the JSON serializer of symfony/messenger 5.4; the others are written by hand from
//! their producers' documentation.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn seed(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/envelopes");
    std::fs::read(std::path::Path::new(folder).join(name)).unwrap()
}

/// As detected, and with the format given.
fn read(name: &str, format: Decode) -> Value {
    let told = decode(format, &seed(name)).unwrap().into_value();
    if let Some(found) = decode(Decode::Auto, &seed(name)) {
        assert_eq!(found.into_value(), told, "{name}");
    }
    told
}

fn why(format: Decode, body: &[u8]) -> Option<Why> {
    decode(format, body).unwrap().why
}

#[test]
fn a_laravel_command_shows_what_is_around_it() {
    let read = read("laravel-command", Decode::Laravel);
    assert_eq!(
        (&read["format"], &read["class"]),
        (&json!("laravel"), &json!("App\\Jobs\\SendMail"))
    );
    assert_eq!(read["id"], "231ed2fe-9c7b-48db-b0e3-fef60b2c5149");
    let command = read["arguments"]["command"].as_str().unwrap();
    assert!(command.starts_with("O:17:") && command.contains("joe@example.com"), "{command}");
    let job = "Illuminate\\Queue\\CallQueuedHandler@call";
    assert_eq!(read["options"], json!({"job": job, "maxTries": 3, "timeout": 90}));
    assert!(short(&read).starts_with("laravel App\\Jobs\\SendMail(commandName: "));
}

#[test]
fn laravel_data_with_a_command_of_its_own_is_shown() {
    let body = br#"{"job":"Backup@run","data":{"command":"mysqldump app","host":"db1"}}"#;
    let read = decode(Decode::Laravel, body).unwrap().into_value();
    assert_eq!(read["arguments"], json!({"command": "mysqldump app", "host": "db1"}));
    assert_eq!((&read["class"], read.get("why")), (&json!("Backup@run"), None));
}

#[test]
fn a_laravel_job_without_a_command_shows_its_data() {
    let read = read("laravel-plain", Decode::Laravel);
    assert_eq!(read["class"], "SendMail");
    assert_eq!(read["arguments"], json!({"to": "joe@example.com"}));
}

#[test]
fn symfony_is_read_by_its_headers() {
    assert_eq!(
        read("symfony-json", Decode::Symfony),
        json!({
            "format": "symfony",
            "class": "App\\Message\\SmsNotification",
            "attempts": 2,
            "arguments": {"content": "it's \"here\" \\ \0 now", "to": "+4930", "at": null},
        }),
    );
}

#[test]
fn backburner_stalker_and_others_with_the_usual_members() {
    let backburner = read("backburner", Decode::Backburner);
    let arguments = json!(["foo@bar.com", 3]);
    assert_eq!(
        backburner,
        json!({"format": "backburner", "class": "NewsletterSender", "arguments": arguments, "options": {"ttr": 60}})
    );
    assert_eq!(short(&backburner), "backburner NewsletterSender(\"foo@bar.com\", 3)");
    assert_eq!(
        read("stalker", Decode::Stalker),
        json!({"format": "stalker", "class": "email.send", "arguments": {"to": "joe@example.com", "body": "hi"}})
    );
    assert_eq!(
        read("json-task", Decode::Json),
        json!({
            "format": "json", "class": "app.add", "id": "f3", "attempts": 1,
            "arguments": [1, 2], "options": {"kwargs": {}},
        })
    );
}

#[test]
fn mod_gearman_checks_and_results() {
    let check = read("mod-gearman-check", Decode::ModGearman);
    assert_eq!(check["class"], "service");
    assert_eq!(check["arguments"]["command_line"], "/usr/lib/nagios/plugins/check_load -w 5 -c 9");
    let result = read("mod-gearman-result", Decode::ModGearman);
    assert_eq!(result["class"], "result");
    assert_eq!(result["arguments"]["output"], "OK - load average: 0.01|load1=0.01;5;9");
    assert_eq!(why(Decode::ModGearman, &seed("mod-gearman-encrypted")), Some(Why::Encrypted));
    assert_eq!(decode(Decode::Auto, &seed("mod-gearman-encrypted")), None);
}

#[test]
fn ordinary_bodies_have_no_envelope() {
    for body in [
        &b""[..],
        b"hello",
        b"{\"a\":1}",
        b"[1,2]",
        b"[\"a\",\"b\"]",
        b"17",
        b"{",
        b"a:b",
        b"aGVsbG8gd29ybGQsIGhv",
        b"\xff\xfe",
    ] {
        assert_eq!(decode(Decode::Auto, body), None, "{body:?}");
        assert_eq!(decode(Decode::None, body), None);
    }
}

#[test]
fn every_decoder_has_its_word() {
    let is_decoder =
        |decode: &&Decode| !matches!(decode, Decode::Utf8 | Decode::Base64 | Decode::Hex);
    let variants = Decode::value_variants().iter().filter(is_decoder);
    let words = variants.filter_map(|decode| decode.to_possible_value());
    assert!(words.map(|word| word.get_name().to_owned()).eq(DECODERS));
}

#[test]
fn json_with_a_body_and_headers_of_another_producer_is_not_symfony() {
    // As Celery writes it: the body is base64, and nothing names a class as other producers do.
    let celery = br#"{"body":"W1sxLCAyXSwge30sIHt9XQ==","headers":{"lang":"py","task":"add"}}"#;
    assert_eq!(decode(Decode::Auto, celery), None);
    for body in ["W1sxXV0=", "{}", "eA==", "x"] {
        let job = json!({"class": "Mail", "id": 7, "body": body, "headers": {"to": "joe"}});
        let found = decode(Decode::Auto, job.to_string().as_bytes()).unwrap();
        assert_eq!((found.format, found.class.as_deref()), ("json", Some("Mail")), "{body}");
        assert_eq!((found.id.as_deref(), found.why), (Some("7"), None), "{body}");
    }
}

#[test]
fn one_word_says_why_a_body_cannot_be_decoded() {
    for (format, body, word) in [
        (Decode::Laravel, &b"{\"job\":1}"[..], "foreign"),
        (Decode::Laravel, b"hello", "foreign"),
        (Decode::Laravel, b"{\"job\":\"x\",", "truncated"),
        (Decode::Json, b"{\"job\" \"x\"}", "malformed"),
        (Decode::ModGearman, b"hello", "foreign"),
        (Decode::Symfony, b"{\"body\":\"x\",\"headers\":{}}", "foreign"),
    ] {
        let found = why(format, body).map(Why::word);
        assert_eq!(found, Some(word), "{format:?} {:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn size_and_depth_are_bounded() {
    assert_eq!(why(Decode::Json, &vec![b' '; MOST + 1]), Some(Why::Large));
    assert_eq!(decode(Decode::Auto, &vec![b'{'; MOST + 1]), None);
    assert_eq!(why(Decode::Json, &[b'['; 100_000]), Some(Why::Malformed));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        for format in [Decode::Auto, Decode::Json, Decode::ModGearman] {
            let _ = decode(format, &bytes);
        }
    }
}
