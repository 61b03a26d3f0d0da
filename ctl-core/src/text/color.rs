//! Whether a stream gets colours, decided per stream, and the styles of the tools.

use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Style};

/// The value of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorWhen {
    /// By the environment, else when the stream is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The role of a piece of text, which determines its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A heading.
    Heading,
    /// An error.
    Error,
    /// Something that needs attention.
    Warning,
    /// Success.
    Good,
    /// Less important.
    Faint,
    /// A colour that distinguishes items.
    Tint(Tint),
}

/// A colour that distinguishes an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Tint {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Tint {
    const fn color(self) -> AnsiColor {
        match self {
            Self::Red => AnsiColor::Red,
            Self::Green => AnsiColor::Green,
            Self::Yellow => AnsiColor::Yellow,
            Self::Blue => AnsiColor::Blue,
            Self::Magenta => AnsiColor::Magenta,
            Self::Cyan => AnsiColor::Cyan,
        }
    }
}

impl Role {
    const fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Error => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Faint => Style::new().dimmed(),
            Self::Tint(tint) => tint.color().on_default().bold(),
        }
    }

    /// `text` in this role's style when `color`, else as it is.
    pub(crate) fn paint(self, text: &str, color: bool) -> String {
        if !color {
            return text.to_owned();
        }
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_is_plain_without_colour() {
        assert_eq!(Role::Error.paint("x", false), "x");
        assert!(Role::Error.paint("x", true).starts_with("\x1b["));
    }
}
