//! What a prompt consists of: parts with a meaning, coloured only if the terminal supports it, in the order of the
//! person's format. Which parts there are is in each tool's `repl/prompt.rs`.

use std::sync::{Arc, Mutex, PoisonError};

use unicode_width::UnicodeWidthStr;

use crate::error::CliError;
use crate::text::color::Role;
use crate::text::escape;

/// A prompt, made of parts that may have a role.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    text: String,
    role: Option<Role>,
    /// Its letter in formats.
    letter: Option<char>,
}

/// The parts of a prompt, by the letters that follow `%` in a format.
const LETTERS: &[(char, &str)] = &[
    ('c', "context"),
    ('a', "address, or that there is no connection"),
    ('t', "used tube"),
    ('r', "what is held or in progress"),
    ('w', "what is watched or waited for"),
    ('d', "further state"),
];

/// The value that stands for the tool's own prompt.
pub(super) const USUAL: &str = "default";
/// The longest format, in bytes.
const LONGEST: usize = 200;

impl Prompt {
    /// An empty prompt.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part { text: text.into(), role: None, letter: None });
        self
    }

    /// Puts these words before the prompt, as a part that a format can name by this letter.
    #[must_use]
    pub fn after(mut self, letter: char, role: Role, text: impl Into<String>) -> Self {
        self.parts.insert(0, Part { text: text.into(), role: Some(role), letter: Some(letter) });
        self
    }

    /// Adds text with a role.
    #[must_use]
    pub fn role(mut self, role: Role, text: impl Into<String>) -> Self {
        self.parts.push(Part { text: text.into(), role: Some(role), letter: None });
        self
    }

    /// Adds text with a role that a format can name by a letter: one of those that `:set prompt` knows. There, blanks
    /// around it are omitted.
    #[must_use]
    pub fn part(mut self, letter: char, role: Role, text: impl Into<String>) -> Self {
        self.parts.push(Part { text: text.into(), role: Some(role), letter: Some(letter) });
        self
    }

    /// The parts that a format names, in its order, with its own text between them.
    #[must_use]
    pub(crate) fn formatted(&self, format: &str) -> Self {
        let mut prompt = Self::new();
        let mut rest = format;
        while let Some((text, after)) = rest.split_once('%') {
            prompt = prompt.text(text);
            let mut letters = after.chars();
            match letters.next() {
                Some('%') => prompt = prompt.text("%"),
                letter => {
                    let named = self.parts.iter().filter(|part| part.letter == letter);
                    let trimmed =
                        |part: &Part| Part { text: part.text.trim().to_owned(), ..part.clone() };
                    prompt.parts.extend(named.filter(|part| part.letter.is_some()).map(trimmed));
                }
            }
            rest = letters.as_str();
        }
        prompt.text(rest)
    }

    /// The same, padded to this number of columns by blanks before its end, unless it has more.
    #[must_use]
    pub(crate) fn fitted(&self, width: usize) -> Option<Self> {
        let blanks = width.checked_sub(self.plain().width())?;
        let mut fitted = self.clone();
        let blanks = Part { text: " ".repeat(blanks), role: None, letter: None };
        fitted.parts.insert(fitted.parts.len().saturating_sub(1), blanks);
        Some(fitted)
    }

    /// The prompt as plain text, in which nothing acts on a terminal.
    #[must_use]
    pub fn plain(&self) -> String {
        self.parts.iter().map(|part| escape::line(&part.text)).collect()
    }

    /// The prompt with colours, of the same width.
    #[must_use]
    pub(crate) fn styled(&self) -> String {
        let paint = |Part { text, role, .. }: &Part| match role {
            Some(role) => role.paint(&escape::line(text), true),
            None => escape::line(text).into_owned(),
        };
        self.parts.iter().map(paint).collect()
    }
}

/// The format of a session's prompts; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Prompts {
    format: Arc<Mutex<Option<String>>>,
    /// Whether the terminal supports more than ASCII and one colour.
    pub(super) rich: bool,
}

impl Prompts {
    /// The tool's own prompts.
    pub(super) fn new(rich: bool) -> Self {
        Self { format: Arc::default(), rich }
    }

    /// The tool's prompt with the mark of its context, if any, in the person's format.
    pub(super) fn formatted(&self, usual: Prompt, mark: Option<(String, Role)>) -> Prompt {
        let usual = match mark {
            Some((mark, role)) => usual.after('c', role, format!("{mark} ")),
            None => usual,
        };
        match &*self.format.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(format) => usual.formatted(format),
            None => usual,
        }
    }

    /// The current format.
    pub(super) fn word(&self) -> String {
        let format = self.format.lock().unwrap_or_else(PoisonError::into_inner);
        format.clone().unwrap_or_else(|| USUAL.to_owned())
    }

    /// Changes the format; [`USUAL`] is the tool's own.
    ///
    /// # Errors
    /// An unknown letter, or a format that is too long: exit 2.
    pub(super) fn set(&self, format: &str) -> Result<(), CliError> {
        let known =
            |letter: char| letter == '%' || LETTERS.iter().any(|(known, _)| *known == letter);
        let mut letters = format.chars();
        while letters.by_ref().any(|c| c == '%') {
            if !letters.next().is_some_and(known) {
                let all: Vec<String> =
                    LETTERS.iter().map(|(letter, about)| format!("%{letter} {about}")).collect();
                let text =
                    format!("`{format}` is not a prompt format: % must be followed by a letter");
                return Err(CliError::usage(text).hint(format!("{}, %% %", all.join(", "))));
            }
        }
        if format.len() > LONGEST {
            return Err(CliError::usage(format!("a prompt format is limited to {LONGEST} bytes")));
        }
        let own = (format != USUAL).then(|| format.to_owned());
        *self.format.lock().unwrap_or_else(PoisonError::into_inner) = own;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_orders_the_parts_and_leaves_out_what_there_is_not() {
        let prompt = Prompt::new().part('a', Role::Faint, "h:1").text(" ");
        let prompt =
            prompt.part('t', Role::Heading, "mail").part('r', Role::Good, " *2").text("> ");
        assert_eq!(prompt.formatted("%c[%t%r] 100%% %a$ ").plain(), "[mail*2] 100% h:1$ ");
        assert_eq!(prompt.formatted("%").plain(), "");
        let prompts = Prompts::new(true);
        for bad in ["%x", "%", "a%", &"x".repeat(201)] {
            assert_eq!(prompts.set(bad).unwrap_err().exit.code(), 2, "{bad}");
        }
        prompts.set("%t%r> ").unwrap();
        assert_eq!(prompts.word(), "%t%r> ");
        prompts.set(USUAL).unwrap();
        assert_eq!(prompts.word(), "default");
    }

    #[test]
    fn a_prompt_is_made_as_wide_as_another() {
        let prompt = Prompt::new().role(Role::Error, "not connected").text("> ");
        assert_eq!(prompt.fitted(20).unwrap().plain(), "not connected     > ");
        assert_eq!(prompt.fitted(15).unwrap().plain(), "not connected> ");
        assert!(prompt.fitted(14).is_none());
    }

    #[test]
    fn colours_change_nothing_but_the_colour() {
        let prompt = Prompt::new().text("a\x1b[2J").role(Role::Warning, "b").text("> ");
        assert_eq!(prompt.plain(), "a\\x1b[2Jb> ");
        let styled = prompt.styled();
        assert!(styled.starts_with("a\\x1b[2J\x1b[") && styled.ends_with("> "), "{styled:?}");
    }
}
