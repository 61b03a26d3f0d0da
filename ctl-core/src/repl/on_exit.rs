//! Settles what a session holds when it ends, as a setting or a person says.

use std::sync::Mutex;

use super::Prompt;
use super::editor::Edited;
use super::guest::{ASK, Answers, Guest, lock};
use super::shell::{Leaving, Terminal};
use crate::error::CliError;
use crate::text::color::Role;

/// Settles what a session holds, before it ends or its state is put at risk: as the setting says, or as a person
/// answers. Returns true to continue; `left` is set if it was left unattended.
///
/// # Errors
/// Something could not be settled: the session stays.
pub(super) fn settle<G: Guest>(
    shared: &Mutex<G>,
    reason: Leaving,
    person: Option<&mut dyn Terminal>,
    left: &mut bool,
) -> Result<bool, CliError> {
    if !G::is_risky(reason) || !lock(shared).holds() {
        return Ok(true);
    }
    let word = lock(shared).parts().on_exit.word;
    let fate = match (word, person) {
        (ASK, Some(person)) => {
            lock(shared).show_held()?;
            // Does not lock the state while the person thinks.
            match choose(person, G::ANSWERS, G::UNASKED, || lock(shared).question())? {
                Some(fate) => fate,
                None => return Ok(false),
            }
        }
        (ASK, None) => G::UNASKED,
        (fate, _) => fate,
    };
    let continues = lock(shared).let_go(fate)?;
    *left |= continues && fate == G::UNASKED;
    Ok(continues)
}

/// Asks until there is an answer; none to stay. `question` is evaluated each time, since time passes while the person
/// thinks; if it returns none, there is nothing left to decide, and the answer is `nothing`.
///
/// # Errors
/// The terminal fails.
fn choose(
    person: &mut dyn Terminal,
    answers: Answers,
    nothing: &'static str,
    mut question: impl FnMut() -> Option<String>,
) -> Result<Option<&'static str>, CliError> {
    loop {
        let Some(question) = question() else { return Ok(Some(nothing)) };
        let prompt = format!("{question}: {} / [s]tay: ", offered(answers.words));
        let answer = match person.ask(&Prompt::new().role(Role::Warning, prompt))? {
            Edited::Text(text) => String::from_utf8_lossy(&text).trim().to_ascii_lowercase(),
            Edited::End => return Ok(Some(answers.at_end)),
            Edited::Interrupted => return Ok(None),
        };
        if matches!(answer.as_str(), "s" | "stay" | "c" | "cancel") {
            return Ok(None);
        }
        // An empty answer is a prefix of the first word.
        let is_meant = |word: &&&str| {
            **word == answer || (answer.len() <= 1 && word.starts_with(answer.as_str()))
        };
        if let Some(word) = answers.words.iter().find(is_meant) {
            return Ok(Some(word));
        }
    }
}

fn offered(words: &[&str]) -> String {
    let shown = words.iter().enumerate().map(|(at, word)| {
        let (first, rest) = word.split_at(1);
        format!("[{first}]{rest}{}", if at == 0 { " (default)" } else { "" })
    });
    shown.collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_a_letter() {
        assert_eq!(offered(&["release", "bury"]), "[r]elease (default) / [b]ury");
    }
}
