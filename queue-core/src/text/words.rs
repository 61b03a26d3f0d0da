//! Macros for values with a text form: for configuration, for logs, and for serde.

/// A word for each variant of an enum without fields: `Display`, `FromStr`, and serde by these words if the calling
/// crate has the feature `serde`.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($type:ty, $error:ty, $what:literal: $($word:literal = $variant:ident),+ $(,)?) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $error;

            /// An underscore is as good as a hyphen.
            fn from_str(text: &str) -> Result<Self, $error> {
                match &*text.replace('_', "-") {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(<$error>::from($crate::unknown_word($what, text, &[$($word),+]))),
                }
            }
        }

        #[cfg(feature = "serde")]
        $crate::serde_as_text!($type);
    };
}

/// `Display` and `FromStr` for values with a `name()`, and serde by it if the calling crate has the feature `serde`.
/// The table lists all values.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($type:ty, $error:ty, $what:literal: $($value:expr),+ $(,)?) => {
        impl std::fmt::Display for $type {
            /// Formats as the [name](Self::name).
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $error;

            /// Parses a [name](Self::name).
            fn from_str(text: &str) -> Result<Self, $error> {
                let all = [$($value),+];
                let names: Vec<&str> = all.iter().map(|value| value.name()).collect();
                let known = names.iter().position(|name| *name == text);
                known
                    .and_then(|at| all.into_iter().nth(at))
                    .ok_or_else(|| <$error>::from($crate::unknown_word($what, text, &names)))
            }
        }

        #[cfg(feature = "serde")]
        $crate::serde_as_text!($type);
    };
}

/// Serde for a type as the text of its `Display` and `FromStr`. The calling crate depends on `serde`. The parameters of
/// a generic type, and their bounds, follow after semicolons.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_as_text {
    ($type:ty $(; [$($generic:tt)+] $($bound:tt)+)?) => {
        impl<$($($generic)+)?> serde::Serialize for $type {
            fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de $(, $($generic)+)?> serde::Deserialize<'de> for $type $($($bound)+)? {
            fn deserialize<Z: serde::Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
                let text = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// The error for text that is not one of these words.
#[must_use]
pub fn unknown_word(what: &str, text: &str, words: &[&str]) -> crate::Error {
    let (last, others) = words.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
    let text = crate::excerpt(text.as_bytes());
    crate::Error::invalid(format!(
        "{what} {text} is not valid: it is {}{}{last}",
        others.join(", "),
        if others.is_empty() { "" } else { " or " },
    ))
}

#[cfg(test)]
mod tests {
    use crate::{ConnectionState, Deadline, Error, Selection};

    #[test]
    fn words_round_trip() {
        for word in ["in-order", "round-robin", "random", "by-key"] {
            assert_eq!(word.parse::<Selection>().unwrap().to_string(), word);
            assert_eq!(word.replace('-', "_").parse::<Selection>().unwrap().to_string(), word);
        }
        assert_eq!("idle".parse::<ConnectionState>().unwrap(), ConnectionState::Idle);
        let error: Error = "first".parse::<Selection>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "way to choose a server \"first\" is not valid: it is in-order, round-robin, random or by-key"
        );
        assert_eq!("job".parse::<Deadline>().unwrap().to_string(), "job");
    }
}
