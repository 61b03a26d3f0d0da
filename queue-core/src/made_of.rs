//! What values are made of, as tables of conversions.

/// `TryFrom` each kind of text for a type that reads itself by `FromStr`: by this table whatever takes
/// `impl TryInto<Type>` takes text, too.
#[macro_export]
macro_rules! try_from_text {
    ($type:ty, $error:ty) => {
        $crate::try_from_text!($type, $error: &str, String, &String);
    };
    ($type:ty, $error:ty: $($text:ty),+) => {$(
        impl TryFrom<$text> for $type {
            type Error = $error;

            fn try_from(text: $text) -> Result<Self, $error> {
                text.parse()
            }
        }
    )+};
}

/// What options with a list of servers are made of by `new`, which takes the list: each of these types, and text.
#[macro_export]
macro_rules! from_servers {
    ($options:ident, $error:ty: $($from:ty),+) => {
        $(
            impl From<$from> for $options {
                fn from(from: $from) -> Self {
                    $options::new(from.into())
                }
            }
        )+

        impl From<&$options> for $options {
            fn from(options: &$options) -> Self {
                options.clone()
            }
        }

        impl std::str::FromStr for $options {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                text.parse().map($options::new)
            }
        }

        $crate::try_from_text!($options, $error);
    };
}
