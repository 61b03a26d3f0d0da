//! Whether a stream gets colours, decided per stream, and the styles of the tools.

use clap::ValueEnum;
use clap::builder::styling::{AnsiColor, Style};

use crate::system::env::Environment;

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

impl ColorWhen {
    /// Decides for one stream: flag, then `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR`, `TERM`, then whether it
    /// is a terminal.
    pub fn decide(self, environment: &Environment, terminal: bool) -> bool {
        match self {
            Self::Always => return true,
            Self::Never => return false,
            Self::Auto => {}
        }
        if environment.var("NO_COLOR").is_some() {
            return false;
        }
        if environment.var("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
            return true;
        }
        if environment.var("CLICOLOR").is_some_and(|value| value == "0") {
            return false;
        }
        terminal && environment.var("TERM").is_none_or(|value| value != "dumb")
    }
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

    fn decide(when: ColorWhen, vars: &[(&str, &str)], terminal: bool) -> bool {
        when.decide(&Environment::of(vars), terminal)
    }

    #[test]
    fn precedence_of_colour_settings() {
        use ColorWhen::{Always, Auto, Never};
        assert!(decide(Auto, &[], true));
        assert!(!decide(Auto, &[], false));
        assert!(!decide(Auto, &[("TERM", "dumb")], true));
        assert!(!decide(Auto, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true));
        assert!(decide(Auto, &[("NO_COLOR", "")], true));
        assert!(decide(Auto, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], false));
        assert!(!decide(Auto, &[("CLICOLOR_FORCE", "0")], false));
        assert!(!decide(Auto, &[("CLICOLOR", "0")], true));
        assert!(decide(Always, &[("NO_COLOR", "1")], false));
        assert!(!decide(Never, &[("CLICOLOR_FORCE", "1")], true));
    }

    #[test]
    fn paint_is_plain_without_colour() {
        assert_eq!(Role::Error.paint("x", false), "x");
        assert!(Role::Error.paint("x", true).starts_with("\x1b["));
    }
}
