//! Name patterns: `*` matches any text, `?` any one character; `!` in front excludes.

use std::fmt;

use clap::Args;

use crate::output::messages::Messages;
use crate::text::escape;
use crate::text::spelling::or_else;

/// The names that a command is about.
#[derive(Debug, Args)]
pub struct Patterns {
    /// The patterns (* and ?); !GLOB excludes
    #[arg(value_name = "GLOB", required = true)]
    patterns: Vec<String>,
}

impl Patterns {
    /// Whether the name is selected.
    pub fn want(&self, name: &str) -> bool {
        is_wanted(name, &self.patterns)
    }
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.patterns.join(" "))
    }
}

/// Whether a name is selected: it matches one of the patterns, or there are none, and none of those that exclude.
pub fn is_wanted(name: &str, patterns: &[String]) -> bool {
    let excluding = |pattern: &String| pattern.strip_prefix('!').map(str::to_owned);
    let excluded: Vec<String> = patterns.iter().filter_map(excluding).collect();
    let mut including = patterns.iter().filter(|pattern| !pattern.starts_with('!')).peekable();
    let is_included = including.peek().is_none() || including.any(|pattern| glob(pattern, name));
    is_included && !fits(name, &excluded)
}

/// Whether a name matches one of the patterns.
pub fn fits(name: &str, patterns: &[impl AsRef<str>]) -> bool {
    patterns.iter().any(|pattern| glob(pattern.as_ref(), name))
}

/// Whether a name matches a pattern: `*` matches any text, `?` any one character, everything else itself.
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to resume once the last `*` matches one more byte.
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || name.get(n) == Some(byte) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, taken)) = retry else { return false };
                retry = Some((star, taken + 1));
                p = star + 1;
                n = taken + 1;
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

/// Reports which patterns match none of these names: a mistyped name would look like an empty queue. `several` is the
/// word for the named things.
pub fn tell_unmatched<'n>(
    messages: &Messages,
    several: &str,
    patterns: &[String],
    names: impl Iterator<Item = &'n str> + Clone,
) {
    for pattern in patterns.iter().filter(|pattern| !pattern.starts_with('!')) {
        let only = std::slice::from_ref(pattern);
        if names.clone().any(|name| is_wanted(name, only)) {
            continue;
        }
        let meant = or_else(pattern, names.clone());
        messages.note(format!("no {several} match {}{meant}", escape::line(pattern)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("mail*", "mail", true),
            ("mail*", "mail.out", true),
            ("*out", "mail.out", true),
            ("*.*", "a.b", true),
            ("m?il", "mail", true),
            ("m?il", "mil", false),
            ("mail", "mail.out", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c*", "xxaxxcxxbxx", false),
            ("**", "", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_include_and_exclude() {
        for (patterns, wanted) in [
            (&[][..], "ab ax b"),
            (&["a*"], "ab ax"),
            (&["a*", "b", "!*x"], "ab b"),
            (&["!*x"], "ab b"),
            (&["!*"], ""),
        ] {
            let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
            let names = ["ab", "ax", "b"].into_iter().filter(|name| is_wanted(name, &patterns));
            assert_eq!(names.collect::<Vec<_>>().join(" "), wanted, "{patterns:?}");
        }
    }
}
