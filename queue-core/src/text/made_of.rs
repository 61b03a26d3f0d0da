//! Conversion tables for values.

/// Implements `TryFrom` for each kind of text, for a type with `FromStr`, so that everything that takes `impl
/// TryInto<Type>` also takes text. The parameters of a generic type follow after a semicolon.
#[doc(hidden)]
#[macro_export]
macro_rules! try_from_text {
    (@ [$($generic:tt)*] $type:ty, $error:ty, $text:ty) => {
        impl<$($generic)*> TryFrom<$text> for $type {
            type Error = $error;

            fn try_from(text: $text) -> Result<Self, $error> {
                text.parse()
            }
        }
    };
    ($type:ty, $error:ty $(; $($generic:tt)+)?) => {
        $crate::try_from_text!(@ [$($($generic)+)?] $type, $error, &str);
        $crate::try_from_text!(@ [$($($generic)+)?] $type, $error, String);
        $crate::try_from_text!(@ [$($($generic)+)?] $type, $error, &String);
    };
    ($type:ty, $error:ty: $($text:ty),+) => {
        $($crate::try_from_text!(@ [] $type, $error, $text);)+
    };
}

/// The sources of options that consist of one value and of settings: options of the same kind, and the value's text.
#[doc(hidden)]
#[macro_export]
macro_rules! from_text {
    ($options:ident, $error:ty: $value:ty) => {
        impl From<&$options> for $options {
            fn from(options: &$options) -> Self {
                options.clone()
            }
        }

        impl std::str::FromStr for $options {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                text.parse().map(<$options as From<$value>>::from)
            }
        }

        $crate::try_from_text!($options, $error);
    };
}
