//! Values as block YAML that parsers of YAML 1.1 and 1.2 read alike: strings that either takes for something else are
//! quoted, and what a terminal would act on, or a parser refuse, is escaped.

use serde_json::{Map, Number, Value};

use crate::text::escape;

/// A document.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    push(value, 0, &mut out);
    out
}

/// Whether it has its own lines.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// Writes a value whose first line is indented already.
fn push(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => mapping(map, indent, out),
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    push_spaces(indent, out);
                }
                out.push_str("- ");
                push(item, indent + STEP, out);
            }
        }
        other => scalar(other, out),
    }
}

const STEP: usize = 2;

fn mapping(map: &Map<String, Value>, indent: usize, out: &mut String) {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            push_spaces(indent, out);
        }
        let start = out.len();
        push_string(key, out);
        if out.len() - start > LONGEST_KEY {
            out.insert_str(start, "? ");
            out.push('\n');
            push_spaces(indent, out);
        }
        out.push(':');
        if is_block(value) {
            out.push('\n');
            push_spaces(indent + STEP, out);
        } else {
            out.push(' ');
        }
        push(value, indent + STEP, out);
    }
}

/// A longer key is not recognized on the line of its value.
const LONGEST_KEY: usize = 1000;

/// Writes a single-line value, and ends the line.
fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => push_string(text, out),
        Value::Number(number) => push_number(number, out),
        // `null`, booleans, and empty collections are as in JSON.
        other => out.push_str(&other.to_string()),
    }
    out.push('\n');
}

/// YAML 1.1 reads a number with an exponent only with a point and a sign.
fn push_number(number: &Number, out: &mut String) {
    let text = number.to_string();
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let point = if digits.contains('.') { "" } else { ".0" };
            let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
            out.push_str(&format!("{digits}{point}e{sign}{exponent}"));
        }
        None => out.push_str(&text),
    }
}

fn push_string(text: &str, out: &mut String) {
    if is_word(text) {
        return out.push_str(text);
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if escape::acts(c) || is_no_character(c) => match u32::from(c) {
                code @ 0x1_0000.. => out.push_str(&format!("\\U{code:08x}")),
                code => out.push_str(&format!("\\u{code:04x}")),
            },
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Words and blanks that no parser reads as anything but this string: all that is a number, a date, a time, a merge or
/// a default begins with another character than a letter.
fn is_word(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b" _-./".contains(&byte);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.bytes().all(is_part)
        && !RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The words that YAML 1.1 reads as booleans and nothing.
const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

fn is_no_character(c: char) -> bool {
    let code = u32::from(c);
    code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
}

fn push_spaces(count: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', count));
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use serde_json::json;

    use super::*;

    /// Strings that parsers are known to misread, in whole or as a part of another.
    const MISREAD: [&str; 44] = [
        "",
        " ",
        "y",
        "No",
        "ON",
        "off",
        "TRUE",
        "null",
        "Null",
        "~",
        "=",
        "<<",
        "1_000",
        "0b1",
        "0o17",
        "017",
        "0x1F",
        "1e3",
        "1.5",
        ".5",
        "5.",
        ".inf",
        "-.INF",
        ".nan",
        "12:30:45",
        "2024-01-01",
        "2024-01-01T00:00:00Z",
        "- a",
        "-",
        "---",
        "...",
        "? a",
        ": a",
        "a: b",
        "a #b",
        "#",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a",
        "a\u{200b}b",
        "\u{2028}\u{85}\u{feff}",
    ];

    fn string() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            proptest::sample::select(&MISREAD[..]).prop_map(str::to_owned),
            "[a-z ]{0,6}",
            "[-+0-9._:eExX]{0,8}",
            any::<String>(),
            any::<char>().prop_map(String::from),
            Just("x".repeat(1100)),
        ];
        proptest::collection::vec(part, 1..3).prop_map(|parts| parts.concat())
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // How many digits of others survive is a matter of the parser.
            any::<f32>().prop_map(|number| Value::from(f64::from(number.trunc()))),
            string().prop_map(Value::from),
            string().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((string(), inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn documents_round_trip_without_control_characters(value in document()) {
            let text = text(&value);
            prop_assert!(!text.chars().any(|c| c != '\n' && escape::acts(c)), "{text:?}");
            let read: Value = serde_yaml::from_str(&text).unwrap();
            prop_assert_eq!(read, value, "{}", text);
        }
    }

    #[test]
    fn quotes_only_ambiguous_words() {
        let value = json!([{"tube": "mail", "state": "not ready", "pri": 1, "age": 1e300, "more": [[], {}, ["x"]]}]);
        let expected = "- tube: mail\n  state: not ready\n  pri: 1\n  age: 1.0e+300\n  more:\n    - []\n    - {}\n    - - x\n";
        assert_eq!(text(&value), expected);
        for misread in MISREAD {
            assert!(text(&json!(misread)).starts_with('"'), "{misread:?}");
        }
    }

    /// `METRICS_PYTHON` names a Python with PyYAML, which reads YAML 1.1, and ruamel.yaml, which reads 1.2.
    #[test]
    fn yaml_1_1_and_1_2_parsers_agree() {
        let python = std::env::var_os("METRICS_PYTHON").unwrap_or_else(|| "python3".into());
        let has = Command::new(&python).args(["-c", "import yaml, ruamel.yaml"]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "set METRICS_PYTHON to a Python that has pyyaml and ruamel.yaml");
            eprintln!("left out: there is no Python with pyyaml and ruamel.yaml");
            return;
        }
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let random = (0..300).map(|_| document().new_tree(&mut runner).unwrap().current());
        let misread =
            MISREAD.iter().map(|text| json!([{"body": text, *text: [text, {"a": text}]}]));
        let mut lines = String::new();
        for value in misread.chain(random) {
            lines.push_str(&format!("{}\n", json!([value, text(&value)])));
        }
        let script = "import json, sys, yaml, ruamel.yaml\n\
            for line in sys.stdin:\n\
            \x20   value, text = json.loads(line)\n\
            \x20   for read in yaml.safe_load, ruamel.yaml.YAML(typ='safe', pure=True).load:\n\
            \x20       assert read(text) == value, (read, repr(text)[:2000])\n";
        let mut child = Command::new(&python)
            .args(["-X", "utf8", "-c", script])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
        let output = child.wait_with_output().unwrap();
        // A parser that has failed reads no more.
        let _ = writer.join().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
