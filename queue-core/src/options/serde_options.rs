//! Serde for options.

/// Serde for options with one required value, and fields with defaults.
///
/// They are serialized as a map without the fields that have their defaults, or as the required value alone if all
/// have. They are deserialized from either; an unknown key is an error. A row is a key and its type, for a field with a
/// setter of this name; or also the field, which is set as it is; or how to get the value from the options, and how to
/// set it. The calling crate depends on `serde`.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_options {
    (@get $options:ident $key:ident) => { |options: &$options| options.$key.clone().into() };
    (@get $options:ident $key:ident $field:ident) => { |options: &$options| options.$field.clone() };
    (@get $options:ident $key:ident $get:expr, $set:expr) => { $get };
    (@set $options:ident $key:ident) => { |options: $options, value| Ok(options.$key(value.into())) };
    (@set $options:ident $key:ident $field:ident) => {
        |mut options: $options, value| {
            options.$field = value;
            Ok(options)
        }
    };
    (@set $options:ident $key:ident $get:expr, $set:expr) => { $set };
    ($options:ident, $error:ty, $given:ident: $given_type:ty = $get_given:expr;
        $($field:ident: $type:ty $(=> $set_field:ident)? $(= $get:expr, $set:expr)?;)*) => {
        const _: () = {
            #[derive(serde::Serialize, serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            struct Form {
                $given: $given_type,
                $(
                    #[serde(default, skip_serializing_if = "Option::is_none")]
                    $field: Option<$type>,
                )*
            }

            impl serde::Serialize for $options {
                fn serialize<Z: serde::Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                    let get_given: fn(&$options) -> $given_type = $get_given;
                    let given = get_given(self);
                    let default = $options::from(given.clone());
                    let form = Form {
                        $given: given,
                        $($field: {
                            let get: fn(&$options) -> $type =
                                $crate::serde_options!(@get $options $field $($set_field)? $($get, $set)?);
                            let value = get(self);
                            (value != get(&default)).then_some(value)
                        },)*
                    };
                    if $(form.$field.is_none() &&)* true {
                        return form.$given.serialize(serializer);
                    }
                    form.serialize(serializer)
                }
            }

            impl<'de> serde::Deserialize<'de> for $options {
                fn deserialize<Z: serde::Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
                    $crate::given_or_form::<$given_type, Form, Z>(deserializer)?
                        .either(
                            |given| Ok($options::from(given)),
                            |form| {
                                let mut options = $options::from(form.$given);
                                $(if let Some(value) = form.$field {
                                    let set: fn($options, $type) -> Result<$options, $error> =
                                        $crate::serde_options!(@set $options $field $($set_field)? $($get, $set)?);
                                    options = set(options, value).map_err(serde::de::Error::custom)?;
                                })*
                                Ok(options)
                            },
                        )
                }
            }
        };
    };
}

/// [`serde_options`](crate::serde_options) for a client's options of one server: the common rows, and the client's own.
///
/// Connectors are code and TLS options are secret, so neither is serialized.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_connect_options {
    ($options:ident, $error:ty, $address:ty; $($rows:tt)*) => {
        $crate::serde_options! {
            $options, $error, address: $address = |o| o.server.address.clone();
            connect_timeout: $crate::InSeconds;
            write_timeout: $crate::InSeconds;
            reply_timeout: $crate::InSeconds;
            total_timeout: $crate::OrNever;
            retry: $crate::RetryPolicy;
            require_tls: bool = |o| o.dial.require_tls, |o, v| Ok(o.require_tls(v));
            dead_peer_after: $crate::InSeconds =
                |o| $crate::InSeconds(o.dial.dead_peer_after), |o, v| Ok(o.dead_peer_after(v.0));
            $($rows)*
        }
    };
}

#[cfg(feature = "serde")]
pub use with_serde::{Delays, Either, InSeconds, OrNever, given_or_form};

#[cfg(feature = "serde")]
mod with_serde {
    use std::{fmt, marker::PhantomData, time::Duration};

    use serde::{
        Deserialize, Deserializer, Serialize, Serializer,
        de::{
            self, IntoDeserializer, MapAccess, SeqAccess, Visitor,
            value::{MapAccessDeserializer, SeqAccessDeserializer},
        },
    };

    use crate::seconds;

    /// A duration as a number of seconds; deserializes from text, too.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct InSeconds(#[serde(with = "seconds")] pub Duration);

    impl From<Duration> for InSeconds {
        fn from(time: Duration) -> Self {
            InSeconds(time)
        }
    }

    impl From<InSeconds> for Duration {
        fn from(time: InSeconds) -> Self {
            time.0
        }
    }

    /// As [`InSeconds`], or the word `never`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OrNever(pub Option<Duration>);

    impl From<Option<Duration>> for OrNever {
        fn from(time: Option<Duration>) -> Self {
            OrNever(time)
        }
    }

    impl From<OrNever> for Option<Duration> {
        fn from(time: OrNever) -> Self {
            time.0
        }
    }

    impl Serialize for OrNever {
        fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
            match &self.0 {
                Some(time) => seconds::serialize(time, serializer),
                None => serializer.serialize_str("never"),
            }
        }
    }

    impl<'de> Deserialize<'de> for OrNever {
        fn deserialize<Z: Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
            seconds::or_never(deserializer).map(OrNever)
        }
    }

    /// The first and the longest delay between attempts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Delays {
        /// The first.
        #[serde(with = "seconds")]
        pub base: Duration,
        /// The longest.
        #[serde(with = "seconds")]
        pub cap: Duration,
    }

    impl From<(Duration, Duration)> for Delays {
        fn from((base, cap): (Duration, Duration)) -> Self {
            Delays { base, cap }
        }
    }

    /// One of two forms of the same value.
    #[derive(Debug)]
    pub enum Either<G, F> {
        /// The required value alone.
        Given(G),
        /// A map with all settings.
        Form(F),
    }

    impl<G, F> Either<G, F> {
        /// Converts either form with its function.
        pub fn either<T>(self, given: impl FnOnce(G) -> T, form: impl FnOnce(F) -> T) -> T {
            match self {
                Either::Given(value) => given(value),
                Either::Form(map) => form(map),
            }
        }
    }

    /// Deserializes a map as `F`, and text or a list as `G`.
    ///
    /// # Errors
    ///
    /// For any other value.
    pub fn given_or_form<'de, G, F, Z>(deserializer: Z) -> Result<Either<G, F>, Z::Error>
    where
        G: Deserialize<'de>,
        F: Deserialize<'de>,
        Z: Deserializer<'de>,
    {
        struct Forms<G, F>(PhantomData<(G, F)>);

        impl<'de, G: Deserialize<'de>, F: Deserialize<'de>> Visitor<'de> for Forms<G, F> {
            type Value = Either<G, F>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, or a map of options")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                G::deserialize(text.to_owned().into_deserializer()).map(Either::Given)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                G::deserialize(SeqAccessDeserializer::new(list)).map(Either::Given)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                F::deserialize(MapAccessDeserializer::new(map)).map(Either::Form)
            }
        }

        deserializer.deserialize_any(Forms(PhantomData))
    }
}
