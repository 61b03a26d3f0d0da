//! The prompt: parts with a meaning, coloured only where the terminal wants it.

use crate::color::Role;
use crate::escape;

/// A prompt, made of parts that may have a role.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    parts: Vec<(String, Option<Role>)>,
}

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

    /// The prompt behind these words.
    #[must_use]
    pub fn after(mut self, role: Role, text: impl Into<String>) -> Self {
        self.parts.insert(0, (text.into(), Some(role)));
        self
    }

    /// Adds text with a role.
    #[must_use]
    pub fn role(mut self, role: Role, text: impl Into<String>) -> Self {
        self.parts.push((text.into(), Some(role)));
        self
    }

    /// The prompt as plain text; nothing in it acts on a terminal.
    #[must_use]
    pub fn plain(&self) -> String {
        self.parts.iter().map(|(text, _)| escape::line(text)).collect()
    }

    /// The prompt with colours, of the same width.
    #[must_use]
    pub fn styled(&self) -> String {
        let paint = |(text, role): &(String, Option<Role>)| match role {
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
    fn colours_change_nothing_but_the_colour() {
        let prompt = Prompt::new().text("a\x1b[2J").role(Role::Warning, "b").text("> ");
        assert_eq!(prompt.plain(), "a\\x1b[2Jb> ");
        let styled = prompt.styled();
        assert!(styled.starts_with("a\\x1b[2J\x1b[") && styled.ends_with("> "), "{styled:?}");
    }
}
