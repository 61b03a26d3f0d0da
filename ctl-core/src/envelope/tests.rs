//! The records are seeds of the fuzz target `envelopes`. Laravel's are made by `Queue::createPayload` of
//! illuminate/queue 8.83, Symfony's by the JSON serializer of symfony/messenger 5.4; the others are written by hand from
//! their producers' documentation.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::text::encoding::base64;

fn seed(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/envelopes");
    std::fs::read(std::path::Path::new(folder).join(name)).unwrap()
}

fn decode(format: &str, body: &[u8]) -> Option<Envelope> {
    let formats = Formats::default();
    formats.decode(&formats.named(format).unwrap(), body)
}

/// As detected, and with the format given.
fn read(name: &str, format: &str) -> Value {
    let told = decode(format, &seed(name)).unwrap().into_value();
    if let Some(found) = decode("auto", &seed(name)) {
        assert_eq!(found.into_value(), told, "{name}");
    }
    told
}

fn why(format: &str, body: &[u8]) -> Value {
    decode(format, body).unwrap().into_value()["why"].clone()
}

#[test]
fn a_laravel_command_shows_its_envelope() {
    let read = read("laravel-command", "laravel");
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
fn laravel_data_with_a_command_member_is_shown() {
    let body = br#"{"job":"Backup@run","data":{"command":"mysqldump app","host":"db1"}}"#;
    let read = decode("laravel", body).unwrap().into_value();
    assert_eq!(read["arguments"], json!({"command": "mysqldump app", "host": "db1"}));
    assert_eq!((&read["class"], read.get("why")), (&json!("Backup@run"), None));
}

#[test]
fn a_laravel_job_without_a_command_shows_its_data() {
    let read = read("laravel-plain", "laravel");
    assert_eq!(read["class"], "SendMail");
    assert_eq!(read["arguments"], json!({"to": "joe@example.com"}));
}

#[test]
fn recognizes_symfony_by_its_headers() {
    assert_eq!(
        read("symfony-json", "symfony"),
        json!({
            "format": "symfony",
            "class": "App\\Message\\SmsNotification",
            "attempts": 2,
            "arguments": {"content": "it's \"here\" \\ \0 now", "to": "+4930", "at": null},
        }),
    );
}

#[test]
fn recognizes_formats_by_their_members() {
    let backburner = read("backburner", "backburner");
    let arguments = json!(["foo@bar.com", 3]);
    assert_eq!(
        backburner,
        json!({"format": "backburner", "class": "NewsletterSender", "arguments": arguments, "options": {"ttr": 60}})
    );
    assert_eq!(short(&backburner), "backburner NewsletterSender(\"foo@bar.com\", 3)");
    assert_eq!(
        read("stalker", "stalker"),
        json!({"format": "stalker", "class": "email.send", "arguments": {"to": "joe@example.com", "body": "hi"}})
    );
    assert_eq!(
        read("json-task", "json"),
        json!({
            "format": "json", "class": "app.add", "id": "f3", "attempts": 1,
            "arguments": [1, 2], "options": {"kwargs": {}},
        })
    );
}

#[test]
fn unwraps_rails_celery_and_php_enqueue_classes() {
    let wrapper = json!({"class": "ActiveJob::QueueAdapters::BackburnerAdapter::JobWrapper"});
    for (seed, expected) in [
        (
            "activejob",
            json!({
                "format": "activejob", "class": "MailJob", "id": "0b7d2f30", "attempts": 2,
                "queue": "mailers", "arguments": ["joe@example.com"], "options": wrapper,
            }),
        ),
        (
            "celery",
            json!({
                "format": "celery", "class": "app.tasks.add", "id": "3d1b", "attempts": 1,
                "queue": "celery",
                "arguments": [[1, 2], {}, {"callbacks": null}],
                "options": {"content-encoding": "utf-8", "content-type": "application/json"},
            }),
        ),
        (
            "celery-1",
            json!({
                "format": "celery", "class": "app.tasks.add", "id": "3d1b", "attempts": 0,
                "arguments": {"task": "app.tasks.add", "id": "3d1b", "args": [1], "retries": 0},
                "options": {"content-type": "application/json", "headers": {}, "properties": {}},
            }),
        ),
        (
            "enqueue",
            json!({
                "format": "enqueue", "class": "App\\OrderProcessor", "id": "5f0c1a",
                "arguments": {"order": 7},
            }),
        ),
    ] {
        assert_eq!(read(seed, expected["format"].as_str().unwrap()), expected, "{seed}");
    }
}

fn own(text: &str) -> Result<Formats, (Option<usize>, String)> {
    let document = toml_edit::Document::parse(text.to_owned()).unwrap();
    let rows = document.as_table().iter();
    let rows = rows.map(|(name, row)| Format::read(name, row.as_table_like().unwrap()));
    Ok(Formats::behind(rows.collect::<Result<_, _>>()?))
}

#[test]
fn reads_every_built_in_format() {
    let rows = include_str!("formats.toml").lines().filter(|line| line.starts_with('['));
    let names: Vec<&str> = rows.map(|line| line.trim_matches(['[', ']'])).collect();
    let words = ["mod-gearman", "auto", "none", "utf8", "base64", "hex"];
    assert!(Formats::default().names().eq(names.into_iter().chain(words)));
}

#[test]
fn custom_formats_override_built_in_ones() {
    let row =
        "when = { \"/v\" = \"number\" }\nclass = [\"/name\", \"/job/0\"]\narguments = \"/in\"\n";
    let formats = own(&format!("[orders]\n{row}[laravel]\nclass = \"/l\"\n")).unwrap();
    let found = |body: Value| {
        let found = formats.decode(&Decode::Auto, body.to_string().as_bytes())?.into_value();
        Some((found["format"].clone(), found["class"].clone(), found.get("arguments").cloned()))
    };
    let is = |format: &str, class: &str, arguments| Some((format.into(), class.into(), arguments));
    let body = json!({"v": 1, "job": ["pay"], "class": "Mail", "in": "{\"sum\":3}"});
    assert_eq!(found(body), is("orders", "pay", Some(json!({"sum": 3}))));
    assert_eq!(found(json!({"v": "1", "name": "pay", "class": "Mail"})).unwrap().0, "json");
    assert_eq!(found(json!({"l": "X"})), is("laravel", "X", None));
    assert_eq!(formats.names().filter(|name| *name == "laravel").count(), 1);
    assert!(formats.named("orders").is_ok());
    let error = formats.named("order").unwrap_err();
    assert!(error.message.contains("did you mean orders?"), "{error}");
}

#[test]
fn rejects_a_bad_custom_format_with_its_position() {
    for (row, place, why) in [
        ("class = 7", Some(4), "must be a pointer"),
        ("class = \"name\"", Some(4), "must be a pointer"),
        ("class = [\"/name\", 7]", Some(4), "must be a pointer"),
        ("clas = \"/name\"", Some(4), "a.clas: unknown"),
        ("class = \"/a\"\nwhen = [\"/a\"]", Some(17), "any, text, number, list or object"),
        ("class = \"/a\"\nwhen = { \"/a\" = \"or\" }", Some(17), "must be a table of pointers"),
        ("class = \"/a\"\nonly = 1", Some(17), "names of members"),
        ("id = \"/a\"", None, "class is missing"),
    ] {
        let (at, what) = own(&format!("[a]\n{row}\n")).unwrap_err();
        assert_eq!(at, place, "{row}");
        assert!(what.contains(why), "{row}: {what}");
    }
}

#[test]
fn mod_gearman_checks_and_results() {
    let check = read("mod-gearman-check", "mod-gearman");
    assert_eq!(check["class"], "service");
    assert_eq!(check["arguments"]["command_line"], "/usr/lib/nagios/plugins/check_load -w 5 -c 9");
    let result = read("mod-gearman-result", "mod-gearman");
    assert_eq!(result["class"], "result");
    assert_eq!(result["arguments"]["output"], "OK - load average: 0.01|load1=0.01;5;9");
    assert_eq!(why("mod-gearman", &seed("mod-gearman-encrypted")), "encrypted");
    assert_eq!(decode("auto", &seed("mod-gearman-encrypted")), None);
}

#[test]
fn mod_gearman_of_other_agents() {
    let decoded =
        |text: &[u8]| decode("mod-gearman", base64(text).as_bytes()).unwrap().into_value();
    let data = decoded(b"DATATYPE::SERVICEPERFDATA\tTIMET::7\tHOSTNAME::db1\tSERVICEPERFDATA::a=1");
    assert_eq!(
        (&data["class"], &data["arguments"]["HOSTNAME"]),
        (&"SERVICEPERFDATA".into(), &"db1".into())
    );
    let result = decoded(b"type=active\nhost_name=M\xfcnchen\nreturn_code=0\noutput=OK\nmore\n\n");
    assert_eq!(
        (&result["class"], &result["arguments"]["type"]),
        (&"result".into(), &"active".into())
    );
    assert_eq!(result["arguments"]["host_name"], "M\u{fc}nchen");
    assert_eq!(result["arguments"]["output"], "OK\nmore");
}

#[test]
#[cfg(feature = "aes")]
fn mod_gearman_is_decrypted_with_the_key_in_a_file() {
    // AES-256-ECB by openssl, with the key "should_be_changed".
    const BODY: &[u8] =
        b"yXWwUgnkqLgOo2wld0PAbFkqh+vD5MEVwGlCE2t1Qbelk9ZZUXckwA/JMfzZ3gvz97lFuz2u4/IdgGwIFRbcPkay\
                          /4EwxnIwSTejlFIIvnk1btARJwy9+5nB6TM0SEky";
    let folder = tempfile::tempdir().unwrap();
    let with = |key: &str| {
        let file = folder.path().join("key");
        std::fs::write(&file, key).unwrap();
        let name = format!("mod-gearman={}", file.to_str().unwrap());
        let decode = Formats::default().named(&name)?;
        assert!(!format!("{decode:?}").contains("115"), "keys are not shown: {decode:?}");
        Ok::<_, CliError>(Formats::default().decode(&decode, BODY).unwrap())
    };
    let check = with("should_be_changed\n").unwrap().into_value();
    assert_eq!(
        (&check["class"], &check["arguments"]["host_name"]),
        (&"service".into(), &"db1".into())
    );
    assert_eq!(check["arguments"]["service_description"], "M\u{fc}nchen load");
    assert_eq!(with("another").unwrap().into_value()["why"], "encrypted");
    assert_eq!(with("\n").unwrap_err().exit.code(), 65);
    assert_eq!(Formats::default().named("mod-gearman=/nowhere").unwrap_err().exit.code(), 66);
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
        assert_eq!(decode("auto", body), None, "{body:?}");
        assert_eq!(decode("none", body), None);
    }
}

#[test]
fn json_with_body_and_headers_is_not_always_symfony() {
    for body in ["W1sxXV0=", "{}", "eA==", "x"] {
        let job = json!({"class": "Mail", "id": 7, "body": body, "headers": {"to": "joe"}});
        let found = decode("auto", job.to_string().as_bytes()).unwrap().into_value();
        assert_eq!((&found["format"], &found["class"]), (&json!("json"), &json!("Mail")), "{body}");
        assert_eq!((&found["id"], found.get("why")), (&json!("7"), None), "{body}");
    }
}

#[test]
fn gives_a_one_word_reason_for_undecodable_bodies() {
    for (format, body, word) in [
        ("laravel", &b"{\"job\":1}"[..], "foreign"),
        ("laravel", b"hello", "foreign"),
        ("laravel", b"{\"job\":\"x\",", "truncated"),
        ("json", b"{\"job\" \"x\"}", "malformed"),
        ("mod-gearman", b"hello", "foreign"),
        ("symfony", b"{\"body\":\"x\",\"headers\":{}}", "foreign"),
    ] {
        assert_eq!(why(format, body), word, "{format} {:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn size_and_depth_are_bounded() {
    assert_eq!(why("json", &vec![b' '; MOST + 1]), "large");
    assert_eq!(decode("auto", &vec![b'{'; MOST + 1]), None);
    assert_eq!(why("json", &[b'['; 100_000]), "malformed");
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes: Vec<u8>) {
        for format in ["auto", "json", "celery", "mod-gearman"] {
            let _ = decode(format, &bytes);
        }
    }
}
