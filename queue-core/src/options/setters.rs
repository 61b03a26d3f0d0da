//! Setters of options, which consume and return them.

/// A setter in each row: its documentation, its name and parameters, and what it sets. The options follow `self`, the
/// word by which the rows name them. Documentation made by `concat!` begins with a space, as that behind `///` does.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($self:ident: $options:ty;
        $($(#[$attribute:meta])* $setter:ident($($value:ident: $type:ty),*) => $set:expr;)+) => {
        impl $options {
            $(
                $(#[$attribute])*
                #[must_use]
                pub fn $setter(mut $self, $($value: $type),*) -> Self {
                    $set;
                    $self
                }
            )+
        }
    };
}
