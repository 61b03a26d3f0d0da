//! Shell lines as documents show them.

/// The commands of a line, each with its words, without redirections and comments. Supports what documents need:
/// quotes, pipes, lists, redirections and substitutions.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut is_target) = (None::<String>, None, false);
    let mut letters = line.chars().peekable();
    loop {
        let letter = letters.next();
        match (letter, quote) {
            (Some(end), Some(start)) if end == start => quote = None,
            (Some('\\'), None | Some('"')) => match letters.next() {
                // The line continues.
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            (Some(start @ ('\'' | '"')), None) => {
                quote = Some(start);
                word.get_or_insert_default();
            }
            (None | Some(' ' | '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')'), None)
            | (None, Some(_)) => {
                match word.take() {
                    Some(_) if is_target => is_target = false,
                    // The number of a stream.
                    Some(number) if letter == Some('>') && number == "2" => {}
                    Some(word) => commands.last_mut().unwrap().push(word),
                    None => {}
                }
                match letter {
                    None => break,
                    Some('<' | '>') => is_target = true,
                    Some('|' | '&' | ';' | '\n' | '(' | ')') => commands.push(Vec::new()),
                    Some(_) => {}
                }
            }
            (Some('#'), None) if word.is_none() => {
                while letters.next_if(|c| *c != '\n').is_some() {}
            }
            (Some(letter), _) => word.get_or_insert_default().push(letter),
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn splits_words_like_a_shell() {
        for (line, words) in [
            ("tool put 'a b' \"c\\\"d\" ''", &[&["tool", "put", "a b", "c\"d", ""][..]][..]),
            ("tool a > file # why", &[&["tool", "a"]]),
            (
                "tool a 2>err <in && tool b|tool c; x",
                &[&["tool", "a"], &["tool", "b"], &["tool", "c"], &["x"]],
            ),
            ("tool a \\\n  b\nother", &[&["tool", "a", "b"], &["other"]]),
            ("test $(tool a) -lt 1", &[&["test", "$"], &["tool", "a"], &["-lt", "1"]]),
            ("tool 'x<3' a#b", &[&["tool", "x<3", "a#b"]]),
        ] {
            assert_eq!(commands(line), words, "{line}");
        }
    }
}
