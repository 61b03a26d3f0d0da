//! Values that are written as text.

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
