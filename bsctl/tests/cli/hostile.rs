//! Bodies and replies that would harm a terminal.

use crate::harness::*;

/// Escapes, a bell, DEL, C1, and characters that turn or hide text.
const BODY: &str = "a\x1b[2J\x07\x7f\u{9b}\u{202e}\u{200b}b\\";

fn acts(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t' || "\u{202e}\u{200b}".contains(c)
}

#[test]
fn escapes_bodies_on_a_terminal_behind_a_pipe() {
    in_memory(|address| {
        let id = put(address, "default", BODY).to_string();
        for format in ["plain", "table", "wide", "json", "ndjson", "yaml"] {
            for line in
                [&["peek", &id][..], &["jobs", "--with-body"], &["raw", &format!("peek {id}")]]
            {
                let ran = bsctl(address, &[line, &["-o", format]].concat()).exits(0);
                assert!(ran.out().contains("[2J"), "{format} {line:?} {:?}", ran.out());
                assert!(!ran.out().contains(acts), "{format} {line:?} {:?}", ran.out());
            }
        }
        let plain = bsctl(address, &["peek", &id, "-o", "plain", "--columns", "body"]).exits(0);
        let escaped = ctl_core::text::escape::field(BODY.as_bytes());
        assert_eq!(plain.out().trim_end().as_bytes(), escaped);
        let raw = bsctl(address, &["peek", &id, "-o", "raw"]).exits(0);
        assert_eq!(raw.bytes, BODY.as_bytes(), "raw is byte for byte");
        let json = bsctl(address, &["peek", &id, "-o", "ndjson"]).exits(0).json();
        assert_eq!(json["body"], BODY);
        // Text rejected by the grammar or as a name is quoted, too.
        for line in [&["kick", BODY][..], &["put", "-p", BODY, "x"], &["--a\x1b[2J"]] {
            let ran = bsctl(address, line);
            assert!(ran.code != Some(0) && !ran.err.contains(acts), "{line:?} {:?}", ran.err);
        }
    });
}
