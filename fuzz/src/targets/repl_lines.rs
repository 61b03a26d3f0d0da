//! What is typed into the tools' shells.

use ctl_core::text::lexer::{LexError, next_statement, partial, quote};

/// Statements take what they say and all of it in the end; a word that is quoted is read as the same word.
pub fn repl_lines(data: &[u8]) {
    let mut rest = data;
    while !rest.is_empty() {
        let statement = match next_statement(rest) {
            Ok(statement) => statement,
            Err(error) => {
                check_error(rest, &error);
                break;
            }
        };
        assert!((1..=rest.len()).contains(&statement.used), "{} bytes were used", statement.used);
        let mut end = 0;
        for word in &statement.words {
            // A shell line may be empty, and nothing else.
            let is_empty = word.start == word.end && word.bytes.is_empty();
            let is_word = word.start < word.end || is_empty;
            assert!(end <= word.start && is_word, "words overlap: {statement:?}");
            assert!(word.end <= statement.used);
            assert!(word.heredoc || word.bytes.len() <= word.end - word.start, "a word has grown");
            end = word.end;
        }
        rest = &rest[statement.used..];
    }
    check_quoting(data);
    if let Some(partial) = partial(data) {
        assert!(partial.start <= data.len());
        assert!(partial.words.iter().all(|word| word.end <= partial.start));
    }
}

/// What is not finished can be completed by more text only.
fn check_error(text: &[u8], error: &LexError) {
    let message = error.to_string();
    assert!(!message.is_empty());
    if let LexError::Invalid(_) = error {
        let longer = [text, b"\n"].concat();
        assert!(next_statement(&longer).is_err(), "more text has made it valid: {message}");
    }
}

fn check_quoting(word: &[u8]) {
    let written = quote(word);
    let line = format!("{written} {written}");
    let statement = next_statement(line.as_bytes()).expect("quoted words are read");
    assert_eq!(statement.words.len(), 2, "{written}");
    assert!(statement.words.iter().all(|read| read.bytes == word), "{written}");
    assert!(!written.bytes().any(|byte| byte.is_ascii_control()), "{written:?}");
}
