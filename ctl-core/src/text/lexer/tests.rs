use proptest::prelude::*;

use super::*;

fn words(text: &str) -> Vec<String> {
    let statement = next_statement(text.as_bytes()).unwrap();
    statement.words.iter().map(|w| String::from_utf8(w.bytes.clone()).unwrap()).collect()
}

fn error(text: &str) -> LexError {
    next_statement(text.as_bytes()).unwrap_err()
}

#[test]
fn blanks_separate_words_and_a_line_end_ends_the_statement() {
    assert_eq!(words("put  a\t b \r\nput c"), ["put", "a", "b"]);
    assert_eq!(next_statement(b"put a\nput b").unwrap().used, 6);
    assert_eq!(words("   "), [""; 0]);
}

#[test]
fn double_quotes_support_sdssplitargs_escapes() {
    let statement = next_statement(br#"put "\n\r\t\a\b\\\"\x00\xfF\q""#).unwrap();
    assert_eq!(statement.words[1].bytes, b"\n\r\t\x07\x08\\\"\x00\xffq");
    // Not two hex digits: the x stands for itself.
    assert_eq!(words(r#""\xg1""#), ["xg1"]);
}

#[test]
fn single_quotes_keep_everything_but_an_escaped_quote() {
    assert_eq!(words(r#"put 'it\'s \n "x"'"#), ["put", r#"it's \n "x""#]);
}

#[test]
fn an_empty_pair_of_quotes_is_an_empty_word() {
    assert_eq!(words(r#"put "" ''"#), ["put", "", ""]);
}

#[test]
fn unbalanced_quotes_and_text_after_a_closing_quote_are_refused() {
    assert_eq!(error(r#"put "abc"#), LexError::Incomplete(Open::Quote('"')));
    assert_eq!(error("put 'abc"), LexError::Incomplete(Open::Quote('\'')));
    assert!(error(r#"put "a"b"#).to_string().starts_with("Invalid argument(s)"));
    assert!(error("put 'abc").to_string().starts_with("Invalid argument(s)"));
}

#[test]
fn a_backslash_outside_of_quotes_means_itself() {
    assert_eq!(words(r"put C:\dir\file a\\b"), ["put", r"C:\dir\file", r"a\\b"]);
}

#[test]
fn a_trailing_backslash_continues_the_line() {
    assert_eq!(words("put \\\n  a\\\r\nb"), ["put", "ab"]);
    assert_eq!(words("put \"a\\\nb\""), ["put", "ab"]);
    assert_eq!(words("put a\\\\\nb"), ["put", "a\\\\"]);
    assert_eq!(error("put a \\"), LexError::Incomplete(Open::Backslash));
}

#[test]
fn comments_start_at_a_word() {
    assert_eq!(words("# all of it"), [""; 0]);
    assert_eq!(words("put a#1 # rest \"open"), ["put", "a#1"]);
    assert_eq!(words("put '#1'"), ["put", "#1"]);
}

#[test]
fn encoded_words_are_decoded_and_literal() {
    let statement = next_statement(b"put b64:QGE= hex:00fF json:{\"a\": [1, \"}\"]}").unwrap();
    let bytes: Vec<&[u8]> = statement.words.iter().map(|w| w.bytes.as_slice()).collect();
    assert_eq!(bytes, [b"put".as_slice(), b"@a", &[0, 255], br#"{"a": [1, "}"]}"#]);
    assert!(statement.words[1..].iter().all(|w| w.literal));
    assert!(!statement.words[0].literal);
    assert_eq!(words(r#"put json:"a b""#), ["put", r#""a b""#]);
    assert_eq!(words("put \"b64:QGE=\""), ["put", "b64:QGE="]);
}

#[test]
fn wrong_encodings_are_refused_with_the_reason() {
    for (text, why) in [
        ("put b64:@@", "is not base64"),
        ("put hex:abc", "odd number of digits"),
        ("put hex:zz", "only 0-9, a-f and A-F"),
        ("put json:{a}", "is not JSON"),
        ("put json:nope", "is not JSON"),
    ] {
        let error = error(text);
        assert!(error.to_string().contains(why), "{text}: {error}");
        assert!(matches!(error, LexError::Invalid(_)));
    }
}

#[test]
fn json_needs_no_quotes() {
    assert_eq!(words(r#"put {"a": "x } y", "b": [1, 2]} c"#)[1], r#"{"a": "x } y", "b": [1, 2]}"#);
    assert_eq!(words("connect [::1]:11300"), ["connect", "[::1]:11300"]);
    assert_eq!(error("put {\"a\": \"}\""), LexError::Incomplete(Open::Bracket('{')));
}

#[test]
fn heredocs_take_the_lines_up_to_their_tag() {
    let text = b"put -t mail <<EOF -p 1\nfirst\n\"second\n\nEOF\nput next";
    let statement = next_statement(text).unwrap();
    assert_eq!(statement.words[3].bytes, b"first\n\"second\n");
    assert!(statement.words[3].literal && statement.words[3].heredoc);
    assert_eq!(statement.words[5].bytes, b"1");
    assert_eq!(&text[statement.used..], b"put next");
    let last = statement.words.last().unwrap();
    assert_eq!(&text[..last.end], b"put -t mail <<EOF -p 1");
}

#[test]
fn heredocs_can_drop_tabs_and_come_in_pairs() {
    assert_eq!(words("put <<-A <<'B'\n\tx\n\ty\n\tA\n\tz\nB"), ["put", "x\ny", "\tz"]);
    assert_eq!(words("put <<E\r\nx\r\nE\r\n"), ["put", "x\r"]);
    assert_eq!(words("put <<E\nE"), ["put", ""]);
}

#[test]
fn an_unfinished_heredoc_names_its_tag() {
    let open = Open::Heredoc { tag: b"EOF".to_vec(), strip_tabs: true };
    assert_eq!(error("put <<-EOF\nx"), LexError::Incomplete(open.clone()));
    assert!(LexError::Incomplete(open).to_string().contains("the line EOF that ends the <<"));
    assert_eq!(words("put <<"), ["put", "<<"]);
    assert_eq!(words("put <<a!b"), ["put", "<<a!b"]);
}

#[test]
fn the_first_byte_decides_if_a_word_is_literal() {
    let statement = next_statement(br#"put @"my file" "@x" -t"a""#).unwrap();
    let literal: Vec<bool> = statement.words.iter().map(|w| w.literal).collect();
    assert_eq!(literal, [false, false, true, false]);
}

#[test]
fn partial_knows_the_word_under_the_cursor() {
    let at = |text: &str| partial(text.as_bytes()).unwrap();
    assert_eq!(at("put -t ma").current, b"ma");
    assert_eq!(at("put -t ma").words.len(), 2);
    assert_eq!(at("put -t ma").start, 7);
    assert_eq!(at("put -t ").current, b"");
    assert_eq!(at("put -t ").start, 7);
    assert_eq!(at("").words.len(), 0);
    assert_eq!(at("put \"a b").current, b"a b");
    assert_eq!(at("put \"a b").start, 5);
    assert_eq!(at("put a\nuse m").words[0].bytes, b"use");
    assert_eq!(at("put a\nuse m").start, 10);
    assert_eq!(partial(b"put a # comm"), None);
    assert_eq!(partial(b"put <<EOF\nbo"), None);
}

#[test]
fn quote_writes_simple_words_bare() {
    assert_eq!(quote(b"mail/a.b"), "mail/a.b");
    assert_eq!(quote(b"a b"), "\"a b\"");
    assert_eq!(quote(b"\x00\xff\x1b\n"), r#""\x00\xff\x1b\n""#);
    assert_eq!(quote("ä\u{85}".as_bytes()), r#""ä\xc2\x85""#);
    assert_eq!(quote(b""), "\"\"");
    assert_eq!(quote(b"b64:x"), "\"b64:x\"");
    assert_eq!(quote(b"@x"), "\"@x\"");
}

proptest! {
    #[test]
    fn quote_round_trips_any_bytes(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5)) {
        let text: Vec<String> = parts.iter().map(|p| quote(p)).collect();
        let statement = next_statement(text.join(" ").as_bytes()).unwrap();
        let back: Vec<Vec<u8>> = statement.words.into_iter().map(|w| w.bytes).collect();
        prop_assert_eq!(back, parts);
    }

    #[test]
    fn every_byte_can_be_written_as_hex_escape_or_encoding(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let digits: String = body.iter().map(|b| format!("{b:02x}")).collect();
        let escapes: String = body.iter().map(|b| format!("\\x{b:02x}")).collect();
        let base64 = crate::text::encoding::base64(&body);
        let text = format!("hex:{digits} \"{escapes}\" b64:{base64}");
        for word in next_statement(text.as_bytes()).unwrap().words {
            prop_assert_eq!(&word.bytes, &body);
        }
    }

    #[test]
    fn heredoc_bodies_are_kept_byte_for_byte(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let is_end = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line) == b"END";
        prop_assume!(!body.split(|b| *b == b'\n').any(is_end));
        let mut text = b"put <<END\n".to_vec();
        text.extend_from_slice(&body);
        text.extend_from_slice(b"\nEND\n");
        let statement = next_statement(&text).unwrap();
        prop_assert_eq!(statement.used, text.len());
        prop_assert_eq!(&statement.words[1].bytes, &body);
    }

    #[test]
    fn junk_never_panics_and_always_makes_progress(text in prop::collection::vec(any::<u8>(), 1..300)) {
        let _ = partial(&text);
        if let Ok(statement) = next_statement(&text) {
            prop_assert!(statement.used > 0 && statement.used <= text.len());
        }
    }

    #[test]
    fn shell_like_junk_never_panics(text in "[ab \"'\\\\{}<\\[\\]#\n\r@:EOFx0-]{0,60}") {
        let _ = partial(text.as_bytes());
        if let Ok(statement) = next_statement(text.as_bytes()) {
            prop_assert!(text.is_empty() || statement.used > 0);
        }
    }
}

#[test]
fn keeps_shell_lines_verbatim() {
    let statement = next_statement(b"  ! echo \"it's # \\\nput x").unwrap();
    let texts: Vec<&[u8]> = statement.words.iter().map(|word| word.bytes.as_slice()).collect();
    assert_eq!(texts, [&b"!"[..], b"echo \"it's # \\"]);
    assert_eq!(statement.used, 19);
    assert_eq!(words("!ls"), ["!", "ls"]);
    assert_eq!(words("!"), ["!", ""]);
    assert_eq!(words("put !x"), ["put", "!x"]);
    assert_eq!(partial(b"!echo pu"), None);
}

#[test]
fn escapes_completed_words() {
    let name = "H:\u{202e}\u{9b}\x1b[2J:1";
    let word = quote(name.as_bytes());
    assert!(!word.chars().any(crate::text::escape::acts), "{word:?}");
    let line = format!("fg {word}");
    assert_eq!(next_statement(line.as_bytes()).unwrap().words[1].bytes, name.as_bytes());
}
