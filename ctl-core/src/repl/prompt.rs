//! The parts of a prompt, coloured only if the terminal supports it. Which parts there are is in each tool's
//! `repl/prompt.rs`.

use unicode_width::UnicodeWidthStr;

use crate::text::color::Role;
use crate::text::escape;

/// A prompt, made of parts that may have a role.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    parts: Vec<Part>,
}

/// A text, which may have a role.
type Part = (String, Option<Role>);

impl Prompt {
    /// An empty prompt.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push((text.into(), None));
        self
    }

    /// Adds text with a role.
    #[must_use]
    pub fn role(mut self, role: Role, text: impl Into<String>) -> Self {
        self.parts.push((text.into(), Some(role)));
        self
    }

    /// The same behind the mark of a context, if there is one.
    #[must_use]
    pub(super) fn behind(mut self, mark: Option<(String, Role)>) -> Self {
        self.parts.splice(..0, mark.map(|(mark, role)| (format!("{mark} "), Some(role))));
        self
    }

    /// The same, padded to this number of columns by blanks before its end, unless it has more.
    pub(crate) fn fitted(&self, width: usize) -> Option<Self> {
        let blanks = width.checked_sub(self.plain().width())?;
        let mut fitted = self.clone();
        let end = fitted.parts.len().saturating_sub(1);
        fitted.parts.insert(end, (" ".repeat(blanks), None));
        Some(fitted)
    }

    /// The prompt as plain text, in which nothing acts on a terminal.
    pub fn plain(&self) -> String {
        self.parts.iter().map(|(text, _)| escape::line(text)).collect()
    }

    /// The prompt with colours, of the same width.
    pub(crate) fn styled(&self) -> String {
        let paint = |(text, role): &Part| match role {
            Some(role) => role.paint(&escape::line(text), true),
            None => escape::line(text).into_owned(),
        };
        self.parts.iter().map(paint).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pads_a_prompt_to_a_width() {
        let prompt = Prompt::new().role(Role::Error, "not connected").text("> ");
        assert_eq!(prompt.fitted(20).unwrap().plain(), "not connected     > ");
        assert_eq!(prompt.fitted(15).unwrap().plain(), "not connected> ");
        assert!(prompt.fitted(14).is_none());
        assert_eq!(
            prompt.behind(Some(("prod!".to_owned(), Role::Error))).plain(),
            "prod! not connected> "
        );
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let prompt = Prompt::new().text("a\x1b[2J").role(Role::Warning, "b").text("> ");
        assert_eq!(prompt.plain(), "a\\x1b[2Jb> ");
        let styled = prompt.styled();
        assert!(styled.starts_with("a\\x1b[2J\x1b[") && styled.ends_with("> "), "{styled:?}");
    }
}
