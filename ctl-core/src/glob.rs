//! Patterns for names: `*` is any text, `?` any one character.

/// Whether a name is wanted: it fits one of the patterns, as every name does when there are none, and none of `exclude`.
#[must_use]
pub fn is_wanted(name: &str, patterns: &[String], exclude: &[String]) -> bool {
    let fits = |patterns: &[String]| patterns.iter().any(|pattern| glob(pattern, name));
    (patterns.is_empty() || fits(patterns)) && !fits(exclude)
}

/// Whether a name fits a pattern: `*` is any text, `?` any one character, everything else stands for itself.
#[must_use]
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on when the last `*` takes one more byte.
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
}
