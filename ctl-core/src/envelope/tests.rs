//! The records are seeds of the fuzz target `envelopes`. Laravel's are made by `Queue::createPayload` of
//! illuminate/queue 8.83, Symfony's by both serializers of symfony/messenger 5.4, PHP's by `serialize` of PHP 8.2
//! (yii2-queue's own serializer is that); the others are written by hand from their producers' documentation.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::found::MOST_VALUES;
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
fn a_laravel_command_shows_its_properties() {
    let read = read("laravel-command", Decode::Laravel);
    assert_eq!(
        read,
        json!({
            "format": "laravel",
            "class": "App\\Jobs\\SendMail",
            "id": "231ed2fe-9c7b-48db-b0e3-fef60b2c5149",
            "queue": "mail",
            "arguments": {
                "to": "joe@example.com",
                "copies": 2,
                "options": {"html": true, "ratio": 0.5, "tags": ["a", "b"]},
            },
            "options": {"maxTries": 3, "timeout": 90, "delay": 60},
        })
    );
    assert_eq!(
        short(&read),
        "laravel App\\Jobs\\SendMail(to: \"joe@example.com\", copies: 2, options: \
         {\"html\":true,\"ratio\":0.5,\"tags\":[\"a\",\"b\"]}) queue=mail \
         id=231ed2fe-9c7b-48db-b0e3-fef60b2c5149"
    );
}

#[test]
fn an_encrypted_laravel_command_shows_what_is_outside() {
    let read = read("laravel-encrypted", Decode::Laravel);
    assert_eq!(read["class"], "App\\Jobs\\Secret");
    assert_eq!(read["why"], "encrypted");
    assert_eq!(read.get("arguments"), None);
    assert!(short(&read).ends_with("(encrypted)"));
}

/// `command` is the framework's only for its own handler.
#[test]
fn laravel_data_with_a_command_of_its_own_is_shown() {
    let body = br#"{"job":"Backup@run","data":{"command":"mysqldump app","host":"db1"}}"#;
    let read = decode(Decode::Laravel, body).unwrap().into_value();
    assert_eq!(read["arguments"], json!({"command": "mysqldump app", "host": "db1"}));
    assert_eq!((&read["class"], read.get("why")), (&json!("Backup@run"), None));
    let handled = |command: &str| {
        let job = "Illuminate\\Queue\\CallQueuedHandler@call";
        let body = json!({"job": job, "data": {"commandName": "A", "command": command}});
        why(Decode::Laravel, body.to_string().as_bytes())
    };
    assert_eq!(handled("garbage"), Some(Why::Malformed));
    // Base64 of {"a":1}, which nothing has encrypted.
    assert_eq!(handled("eyJhIjoxfQ=="), Some(Why::Malformed));
}

#[test]
fn a_laravel_job_without_a_command_shows_its_data() {
    let read = read("laravel-plain", Decode::Laravel);
    assert_eq!(read["class"], "SendMail");
    assert_eq!(read["arguments"], json!({"to": "joe@example.com"}));
    assert_eq!(read["options"], json!({"handler": "SendMail@fire"}));
}

#[test]
fn symfony_is_read_by_headers_and_by_php() {
    let message = json!({"content": "it's \"here\" \\ \0 now", "to": "+4930", "at": null});
    for name in ["symfony-json", "symfony-php"] {
        assert_eq!(
            read(name, Decode::Symfony),
            json!({
                "format": "symfony",
                "class": "App\\Message\\SmsNotification",
                "attempts": 2,
                "arguments": message,
                "options": {"bus": "messenger.bus.default"},
            }),
            "{name}"
        );
    }
    let binary = read("symfony-php-base64", Decode::Symfony);
    assert_eq!(binary["arguments"]["content"], json!({"$base64": "//4="}));
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
fn php_values() {
    assert_eq!(
        read("php-values", Decode::Php)["arguments"],
        json!({
            "self": {"$ref": 1},
            "list": [1, -2, 1.5, true, null, "INF", {"$base64": "/w=="}, "grün"],
            "map": {"a": 1, "7": "x"},
            "re": {"$ref": 3},
        })
    );
    let yii = read("yii2-php", Decode::Php);
    assert_eq!(yii["class"], "app\\jobs\\DownloadJob");
    assert_eq!(yii["arguments"]["suit"], "app\\jobs\\Suit::Hearts");
    assert_eq!(read("php-custom", Decode::Php)["class"], "ArrayObject");
    let old = b"C:11:\"ArrayObject\":3:{abc}";
    assert_eq!(php::read(old).unwrap(), json!({"$class": "ArrayObject", "$data": "abc"}));
    // A name cannot pass for one that this tool adds.
    let posing = b"O:1:\"A\":1:{s:6:\"$class\";i:1;}";
    assert_eq!(php::read(posing).unwrap(), json!({"$class": "A", "$$class": 1}));
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
fn messagepack() {
    let task = read("msgpack-task", Decode::Msgpack);
    assert_eq!(task["class"], "mail.send");
    assert_eq!(task["arguments"], json!([7, 1.5]));
    assert_eq!(task["id"], u64::MAX.to_string());
    assert_eq!(
        read("msgpack-values", Decode::Msgpack)["arguments"],
        json!({"k": {"$base64": "AP8B"}, "e": {"$ext": 5, "$base64": "Kg=="}})
    );
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
    let variants = Decode::value_variants().iter();
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
        (Decode::Php, b"hello", "foreign"),
        (Decode::Php, b"O:8:\"stdClass\":1:{s:1:\"a\";i:1", "truncated"),
        (Decode::Php, b"O:8:\"stdClass\":1:{i:0;x:1;}", "malformed"),
        (Decode::Php, b"i:1;i:2;", "malformed"),
        (Decode::Php, b"a:99999999999:{", "truncated"),
        (Decode::Msgpack, b"\x81\xa1k", "truncated"),
        (Decode::Msgpack, b"hello", "foreign"),
        (Decode::ModGearman, b"hello", "foreign"),
        (Decode::Symfony, b"{\"body\":\"x\",\"headers\":{}}", "malformed"),
    ] {
        let found = why(format, body).map(Why::word);
        assert_eq!(found, Some(word), "{format:?} {:?}", String::from_utf8_lossy(body));
    }
    // A body that starts so unmistakably is reported even if its format is not given.
    assert_eq!(why(Decode::Auto, b"O:8:\"stdClass\":1:{"), Some(Why::Truncated));
}

#[test]
fn size_depth_and_number_are_bounded() {
    assert_eq!(why(Decode::Json, &vec![b' '; MOST + 1]), Some(Why::Large));
    assert_eq!(decode(Decode::Auto, &vec![b'{'; MOST + 1]), None);
    let nested = |depth: usize| [b"a:1:{i:0;".repeat(depth), b"}".repeat(depth)].concat();
    assert_eq!(php::read(&nested(100_000 / 9)), Err(Why::Deep));
    let one = [b"a:1:{i:0;".repeat(10), b"i:1;".to_vec(), b"}".repeat(10)].concat();
    assert!(php::read(&one).is_ok());
    let many: String = (0..MOST_VALUES).map(|at| format!("i:{at};N;")).collect();
    let many = format!("a:{MOST_VALUES}:{{{many}}}");
    assert_eq!(php::read(many.as_bytes()), Err(Why::Many));
    let deep = [vec![0x91; 1000], vec![0xc0]].concat();
    assert_eq!(why(Decode::Msgpack, &deep), Some(Why::Deep));
    let many = [&[0xdc, 0xff, 0xff][..], &[0xc0; 0xffff]].concat();
    assert_eq!(why(Decode::Msgpack, &many), Some(Why::Many));
}

/// PHP's text, and what it decodes to.
fn php_value() -> impl Strategy<Value = (Vec<u8>, Value)> {
    let text = |text: &str| format!("s:{}:\"{text}\";", text.len()).into_bytes();
    let leaf = prop_oneof![
        Just((b"N;".to_vec(), Value::Null)),
        any::<bool>().prop_map(|is| (format!("b:{};", u8::from(is)).into_bytes(), is.into())),
        any::<i64>().prop_map(|number| (format!("i:{number};").into_bytes(), number.into())),
        (-1e9..1e9).prop_map(|number: f64| (format!("d:{number:?};").into_bytes(), number.into())),
        any::<String>().prop_map(move |string| (text(&string), string.into())),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|all| {
                let (mut bytes, mut values) = (format!("a:{}:{{", all.len()).into_bytes(), vec![]);
                for (at, (part, value)) in all.into_iter().enumerate() {
                    bytes.extend([format!("i:{at};").into_bytes(), part].concat());
                    values.push(value);
                }
                bytes.push(b'}');
                (bytes, Value::Array(values))
            }),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..6).prop_map(move |all| {
                let mut bytes = format!("O:1:\"A\":{}:{{", all.len()).into_bytes();
                let mut map = Map::from_iter([("$class".to_owned(), "A".into())]);
                for (at, (name, (part, value))) in all.into_iter().enumerate() {
                    let written = match at % 3 {
                        0 => name.clone(),
                        1 => format!("\0*\0{name}"),
                        _ => format!("\0A\\B\0{name}"),
                    };
                    bytes.extend([text(&written), part].concat());
                    map.insert(name, value);
                }
                bytes.push(b'}');
                (bytes, Value::Object(map))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_php_writes_is_read((bytes, value) in php_value()) {
        prop_assert_eq!(php::read(&bytes), Ok(value));
        for end in 0..bytes.len() {
            prop_assert_eq!(php::read(&bytes[..end]), Err(Why::Truncated), "cut at {}", end);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        for format in [Decode::Auto, Decode::Php, Decode::Msgpack, Decode::ModGearman] {
            let _ = decode(format, &bytes);
        }
    }
}
