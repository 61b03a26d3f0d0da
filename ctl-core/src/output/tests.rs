use crate::text::escape;
use serde_json::Value;

use super::document::PIECE;
use super::*;
use crate::envelope::{Decode, Formats};

static JOBS: Shape = Shape::rows(
    "id",
    &[
        Column::new("id", "ID"),
        Column::new("tube", "TUBE"),
        Column::wide("age", "AGE"),
        Column::on_request("ttr", "TTR"),
        Column::new("body", "BODY"),
    ],
);

fn job(id: u64, body: &[u8]) -> Record {
    Record::new().with("id", id).with("tube", "mail").with("age", 5).with("ttr", 60).with_body(body)
}

fn style(format: Format) -> Style {
    Style { format, ..Style::default() }
}

fn written(style: Style, records: Vec<Record>) -> Result<Vec<u8>, CliError> {
    let shared = Memory::default();
    let mut out = Output::to(Box::new(shared.clone()), style);
    let mut list = out.list(&JOBS)?;
    for record in records {
        list.push(record)?;
    }
    list.finish()?;
    let bytes = shared.bytes();
    Ok(bytes)
}

fn text(style: Style, records: Vec<Record>) -> String {
    String::from_utf8(written(style, records).unwrap()).unwrap()
}

#[test]
fn plain_keeps_bytes_that_are_not_text() {
    assert_eq!(
        written(style(Format::Plain), vec![job(1, b"\xff\x00")]).unwrap(),
        b"1\tmail\t\xff\\0\n"
    );
}

#[test]
fn csv_has_a_heading_even_when_empty() {
    let lines = text(style(Format::Csv), vec![job(1, b"a,\"b\"\nc"), job(2, b"\xff")]);
    let heading = "id,tube,age,body,body_base64\n";
    assert_eq!(lines, format!("{heading}1,mail,5,\"a,\"\"b\"\"\nc\",\n2,mail,5,,/w==\n"));
    assert_eq!(text(style(Format::Csv), vec![]), heading);
    let bare = Style { headless: true, ..style(Format::Csv) };
    assert_eq!(text(bare, vec![job(2, b"x")]), "2,mail,5,x,\n");
}

#[test]
fn csv_names_the_encoding_of_bodies() {
    let shown = |decode, body: &[u8]| {
        let (decode, columns) = (Some(decode), Some(vec!["id".to_owned(), "body".to_owned()]));
        text(Style { decode, columns, ..style(Format::Csv) }, vec![job(1, body)])
    };
    assert_eq!(shown(Decode::Base64, b"hi"), "id,body_base64\n1,aGk=\n");
    assert_eq!(shown(Decode::Hex, b"hi"), "id,body_hex\n1,6869\n");
    assert_eq!(shown(Decode::Utf8, b"hi"), "id,body\n1,hi\n");
}

#[test]
fn csv_encodes_bodies_with_control_characters_as_base64() {
    let lines = text(style(Format::Csv), vec![job(1, b"\x1b[2J")]);
    assert!(lines.ends_with("1,mail,5,,G1sySg==\n"), "{lines}");
}

#[test]
fn csv_writes_pairs_and_outcomes() {
    let shared = Memory::default();
    let mut out = Output::to(Box::new(shared.clone()), style(Format::Csv));
    out.pairs(Record::new().with("a", 1).with("b", "x, y")).unwrap();
    out.done_with(&Record::new().with("moved", 3).with("to", "t"), &["moved"], "moved 3").unwrap();
    assert_eq!(shared.text(), "key,value\na,1\nb,\"x, y\"\nmoved,to\n3,t\n");
}

#[test]
fn json_is_one_document_also_when_empty() {
    let list: Value = serde_json::from_str(&text(style(Format::Json), vec![job(1, b"x")])).unwrap();
    assert_eq!(
        list,
        serde_json::json!([{"id": 1, "tube": "mail", "age": 5, "ttr": 60, "body": "x"}])
    );
    assert_eq!(text(style(Format::Json), vec![]), "[]\n");
    assert_eq!(text(style(Format::Yaml), vec![]), "[]\n");
}

#[test]
fn adds_a_final_newline_on_a_terminal_only() {
    let ended = |terminal, body: &[u8]| {
        let shared = Memory::default();
        let style = Style { terminal, ..style(Format::Raw) };
        let mut out = Output::to(Box::new(shared.clone()), style);
        out.raw_body(body).unwrap();
        out.end_line().unwrap();
        let shown = shared.bytes();
        String::from_utf8(shown).unwrap()
    };
    assert_eq!(ended(true, b"x"), "x\n");
    assert_eq!(ended(true, b"x\n"), "x\n");
    assert_eq!(ended(true, b""), "");
    assert_eq!(ended(false, b"x"), "x");
}

#[test]
fn encodes_raw_bodies_on_request() {
    let raw = |decode, terminal| Style { decode: Some(decode), terminal, ..style(Format::Raw) };
    for terminal in [false, true] {
        let jobs = || vec![job(1, b"\x1b\xff"), job(2, b"y")];
        assert_eq!(text(raw(Decode::Base64, terminal), jobs()), "G/8=\neQ==\n");
        assert_eq!(text(raw(Decode::Hex, terminal), jobs()), "1bff\n79\n");
        let null = Style { null: true, ..raw(Decode::Hex, terminal) };
        assert_eq!(text(null, jobs()), "1bff\0".to_owned() + "79\0");
    }
    let utf8 = written(raw(Decode::Utf8, false), vec![job(1, b"\xff")]).unwrap_err();
    assert_eq!(utf8.exit.code(), 65);
}

#[test]
fn columns_select_and_sort_orders() {
    let chosen = Style {
        columns: Some(vec!["ttr".into(), "ID".into()]),
        sort_by: Some("id".into()),
        ..style(Format::Plain)
    };
    assert_eq!(text(chosen.clone(), vec![job(10, b""), job(9, b"")]), "60\t9\n60\t10\n");
    let json = text(Style { format: Format::Json, ..chosen }, vec![job(3, b"x")]);
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap(),
        serde_json::json!([{"ttr": 60, "id": 3}])
    );
    let unknown = Style { columns: Some(vec!["nope".into()]), ..style(Format::Plain) };
    let error = written(unknown, vec![]).unwrap_err();
    assert_eq!(error.exit.code(), 2);
    assert!(error.hints[0].contains("tube"), "{error:?}");
}

#[test]
fn escapes_names_in_structured_formats_on_a_terminal_only() {
    let metric = "jobs{function=\"\u{1b}[31mred\u{202e}\"} 1\n";
    for (terminal, expected) in
        [(false, metric), (true, "jobs{function=\"\\x1b[31mred\\u{202e}\"} 1\n")]
    {
        let shared = Memory::default();
        let style = Style { terminal, ..style(Format::Table) };
        let mut out = Output::to(Box::new(shared.clone()), style);
        out.foreign_text(metric).unwrap();
        out.flush().unwrap();
        assert_eq!(String::from_utf8(shared.bytes()).unwrap(), expected);
    }
}

#[test]
fn refuses_a_binary_raw_body_on_a_terminal() {
    let terminal = Style { terminal: true, ..style(Format::Raw) };
    let error = written(terminal.clone(), vec![job(1, b"\x1b[2J")]).unwrap_err();
    assert_eq!(error.exit.code(), 2);
    assert!(error.message.starts_with("binary body not shown on a terminal"), "{error}");
    assert_eq!(text(terminal, vec![job(1, b"fine\n")]), "fine\n");
    assert_eq!(text(style(Format::Raw), vec![job(1, b"\x1b[2J")]), "\x1b[2J");
}

#[test]
fn raw_without_bodies_is_a_usage_error() {
    static NAMES: Shape = Shape::rows("name", &[Column::new("name", "NAME")]);
    let mut out = Output::to(Box::new(io::sink()), style(Format::Raw));
    assert_eq!(out.list(&NAMES).err().unwrap().exit.code(), 2);
    assert_eq!(out.pairs(Record::new()).unwrap_err().exit.code(), 2);
}

#[test]
fn pairs_are_key_and_value_lines() {
    let shared = Memory::default();
    let mut out = Output::to(Box::new(shared.clone()), style(Format::Plain));
    out.pairs(Record::new().with("current-jobs-ready", 3).with("version", "1.13")).unwrap();
    assert_eq!(shared.bytes(), b"current-jobs-ready\t3\nversion\t1.13\n");
    out.style.columns = Some(vec!["version".into()]);
    out.pairs(Record::new().with("current-jobs-ready", 3).with("version", "1.13")).unwrap();
    assert!(shared.bytes().ends_with(b"\nversion\t1.13\nversion\t1.13\n"));
}

#[test]
fn only_raw_passes_control_characters() {
    let name = "a\x1b[2J\x07\x7f\u{9b}\u{202e}\u{200b}b";
    let hostile = || {
        let body = [name.as_bytes(), b"\x9b"].concat();
        vec![Record::new().with("id", name).with("tube", name).with("age", 5).with_body(body)]
    };
    let text_body = || vec![Record::new().with("id", name).with_body(name.as_bytes().to_vec())];
    for format in <Format as clap::ValueEnum>::value_variants() {
        for (terminal, records) in [(true, hostile()), (false, hostile()), (false, text_body())] {
            if *format == Format::Raw {
                continue;
            }
            let shown = text(Style { terminal, ..style(*format) }, records);
            let acts = |c: char| !matches!(c, '\n' | '\t') && escape::acts(c);
            assert!(!shown.chars().any(acts), "{format:?} {shown:?}");
            match format {
                Format::Json => {
                    let value: Value = serde_json::from_str(&shown).unwrap();
                    assert_eq!(value[0]["id"], name);
                }
                Format::Yaml => {
                    let value: Value = serde_yaml::from_str(&shown).unwrap();
                    assert_eq!(value[0]["id"], name);
                }
                Format::Plain | Format::Name => {
                    let first = shown.trim_end().split('\t').next().unwrap();
                    assert_eq!(escape::unescape_field(first.as_bytes()), name.as_bytes());
                }
                _ => {}
            }
        }
    }
    let raw = written(style(Format::Raw), hostile()).unwrap();
    assert_eq!(raw, [name.as_bytes(), b"\x9b"].concat(), "raw is byte for byte");
}

#[test]
fn escapes_long_json_at_character_boundaries() {
    let body = format!("x{}", "\u{fc}\u{202e}".repeat(PIECE / 3));
    let shown = text(style(Format::Ndjson), vec![job(1, body.as_bytes())]);
    assert!(!shown.contains('\u{202e}'));
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["body"], body);
}

/// A body of Backburner.
const NEWSLETTER: &[u8] = br#"{"class":"Newsletter","args":["joe@example.com",7]}"#;

#[test]
fn decodes_bodies_on_a_terminal_only() {
    let on = |format, terminal| Style { terminal, ..style(format) };
    let rows = || vec![job(1, NEWSLETTER), job(2, b"plain")];
    let table = text(on(Format::Table, true), rows());
    assert!(table.contains(r#"backburner Newsletter("joe@example.com", 7)"#), "{table}");
    assert!(table.contains("plain") && !table.contains("args"), "{table}");
    assert!(!text(on(Format::Table, false), rows()).contains("backburner"));
    let record: Value =
        serde_json::from_str(&text(on(Format::Ndjson, true), vec![job(1, NEWSLETTER)])).unwrap();
    assert_eq!(record["envelope"]["class"], "Newsletter");
    assert_eq!(record["body"].as_str().unwrap().as_bytes(), NEWSLETTER);
    for format in [Format::Ndjson, Format::Json, Format::Yaml, Format::Plain] {
        assert!(!text(style(format), rows()).contains("envelope"), "{format:?}");
    }
}

#[test]
fn decode_applies_to_pipes_too() {
    let decode = |format, name| Style {
        decode: Some(Formats::default().named(name).unwrap()),
        ..style(format)
    };
    let lines = text(decode(Format::Ndjson, "backburner"), vec![job(1, NEWSLETTER), job(2, b"x")]);
    let records: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["envelope"]["arguments"], serde_json::json!(["joe@example.com", 7]));
    let unread = serde_json::json!({"format": "backburner", "why": "foreign"});
    assert_eq!((&records[1]["envelope"], &records[1]["body"]), (&unread, &"x".into()));
    // Contracts of plain lines: the columns are the same, and the body has what was asked for.
    let plain = text(decode(Format::Plain, "auto"), vec![job(1, NEWSLETTER)]);
    assert_eq!(plain, "1\tmail\tbackburner Newsletter(\"joe@example.com\", 7)\n");
    let columns = Some(vec!["id".to_owned(), "ENVELOPE".to_owned()]);
    let chosen = Style { columns, ..decode(Format::Plain, "backburner") };
    assert!(text(chosen, vec![job(1, NEWSLETTER)]).starts_with("1\t{\"format\":\"backburner\""));
}

#[test]
fn escapes_decoded_bodies_on_a_terminal() {
    let body = b"O:4:\"\x1b[2J\":1:{s:1:\"\x1b\";s:1:\"\x07\";}";
    for format in
        [Format::Table, Format::Wide, Format::Plain, Format::Json, Format::Ndjson, Format::Yaml]
    {
        let style = Style { decode: Some(Decode::Auto), terminal: true, ..style(format) };
        let shown = text(style, vec![job(1, body)]);
        assert!(shown.chars().all(|c| c == '\n' || c == '\t' || !escape::acts(c)), "{shown:?}");
    }
}

#[test]
fn merges_lists_of_several_servers_until_the_shape_changes() {
    static TUBES: Shape = Shape::rows("name", &[Column::new("name", "TUBE")]);
    let shared = Memory::default();
    let mut out = Output::to(Box::new(shared.clone()), style(Format::Json));
    for (server, id) in [("a:1", 1), ("b:2", 2)] {
        out.on_server(server.to_owned());
        let mut list = out.list(&JOBS).unwrap();
        list.push(Record::new().with("id", id)).unwrap();
        list.finish().unwrap();
    }
    let mut list = out.list(&TUBES).unwrap();
    list.push(Record::new().with("name", "mail")).unwrap();
    list.finish().unwrap();
    out.after_servers(true).unwrap();
    let bytes = shared.bytes();
    let documents = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
    let documents: Vec<Value> = documents.map(Result::unwrap).collect();
    let jobs = serde_json::json!([{"server": "a:1", "id": 1}, {"server": "b:2", "id": 2}]);
    let tubes = serde_json::json!([{"server": "b:2", "name": "mail"}]);
    assert_eq!(documents, [jobs, tubes]);
}

/// Also if only one of several has a result.
#[test]
fn blocks_name_their_server() {
    static DETAILS: Shape = Shape::blocks("name", &[Column::new("name", "TUBE")]);
    let shared = Memory::default();
    let mut out = Output::to(Box::new(shared.clone()), style(Format::Table));
    out.on_server("a:1".to_owned());
    let mut list = out.list(&DETAILS).unwrap();
    list.push(Record::new().with("name", "mail").with("v", 1)).unwrap();
    list.finish().unwrap();
    out.after_servers(true).unwrap();
    assert_eq!(shared.text(), "server: a:1\nname:   mail\n");
    // A field of that name that is no column is for programs.
    let record = Record::new().with("name", "mail").with("server", "facts");
    let shared = Memory::default();
    let mut out = Output::to(Box::new(shared.clone()), style(Format::Table));
    let mut list = out.list(&DETAILS).unwrap();
    list.push(record).unwrap();
    list.finish().unwrap();
    assert_eq!(shared.text(), "name: mail\n");
}

#[test]
fn shows_decoded_bodies_on_request_or_refuses() {
    let decoding =
        |format| Style { decode: Formats::default().named("json").ok(), ..style(format) };
    let body = br#"{"to":"joe"}"#;
    let lines = text(decoding(Format::Plain), vec![job(1, body), job(2, b"no json")]);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with("1\tmail\tjson "), "{lines:?}");
    assert_eq!(lines[1], "2\tmail\tno json");
    assert_eq!(text(style(Format::Plain), vec![job(1, body)]), "1\tmail\t{\"to\":\"joe\"}\n");
    for format in [Format::Csv, Format::Raw, Format::Name] {
        let refused = written(decoding(format), vec![job(1, body)]).unwrap_err();
        assert!(refused.message.contains("--decode"), "{format:?}: {refused}");
    }
}
