//! Specifics of the formats of some commands.

use crate::harness::*;

/// A job of Laravel, whose command is in PHP's serialization.
const LARAVEL: &str = r#"{"displayName":"App\\SendMail","job":"Illuminate\\Queue\\CallQueuedHandler@call","data":{"commandName":"App\\SendMail","command":"O:12:\"App\\SendMail\":2:{s:2:\"to\";s:3:\"joe\";s:5:\"queue\";s:4:\"mail\";}"}}"#;

/// Every command that shows bodies, which stay unchanged.
#[test]
fn shows_decoded_bodies_beside_raw_ones() {
    in_memory(|address| {
        let id = put(address, "mail", LARAVEL).to_string();
        put(address, "other", "plain");
        for filter in [
            "envelope.class~=SendMail",
            "envelope.arguments.command~=\"joe\"",
            "envelope.format=laravel",
        ] {
            let ran = bsctl(address, &["jobs", "--filter", filter, "-o", "id"]).exits(0);
            assert_eq!(ran.out().trim(), id, "{filter}");
        }
        let body: serde_json::Value = serde_json::from_str(LARAVEL).unwrap();
        let envelope = serde_json::json!({
            "format": "laravel", "class": "App\\SendMail", "arguments": body["data"],
            "options": {"job": body["job"]},
        });
        for line in [
            &["peek", &id][..],
            &["jobs", "mail"],
            &["jobs", "mail", "--with-body"],
            &["job", &id],
            &["job", &id, "--with-body"],
            &["export", "mail"],
            &["reserve", "-t", "mail"],
            &["pop", "-t", "mail"],
        ] {
            let decoded = [line, &["-o", "ndjson", "--decode", "auto"]].concat();
            if line[0] != "pop" {
                let plain = bsctl(address, &[line, &["-o", "ndjson"]].concat()).exits(0);
                assert!(!plain.out().contains("envelope"), "{}", plain.out());
            }
            let record = bsctl(address, &decoded).exits(0).json();
            assert_eq!(
                (&record["envelope"], &record["body"]),
                (&envelope, &LARAVEL.into()),
                "{line:?}"
            );
        }
    });
}
