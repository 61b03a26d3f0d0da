//! Serde for what a caller chooses.

/// Serde for options that are made of one value that has to be given, and of fields with defaults.
///
/// They are written as a map without what is at its default, and as that value alone where nothing else was chosen. They
/// are read from either; a key that does not exist is an error. A row is a key, its type, how the value is got from the
/// options, and how options are made of others and the value. The calling crate depends on `serde`.
#[macro_export]
macro_rules! serde_options {
    ($options:ident, $error:ty, $given:ident: $given_type:ty = $get_given:expr;
        $($field:ident: $type:ty = $get:expr, $set:expr;)*) => {
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
                            let get: fn(&$options) -> $type = $get;
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
                                    let set: fn($options, $type) -> Result<$options, $error> = $set;
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

/// [`serde_options`](crate::serde_options) for a client's options of one server: what all clients have, and rows of its own.
///
/// Connectors are code, and what TLS needs is secret: neither is written.
#[macro_export]
macro_rules! serde_connect_options {
    ($options:ident, $error:ty, $address:ty; $($rows:tt)*) => {
        $crate::serde_options! {
            $options, $error, address: $address = |o| o.server.address.clone();
            connect_timeout: $crate::InSeconds =
                |o| $crate::InSeconds(o.connect_timeout), |o, v| Ok(o.connect_timeout(v.0));
            write_timeout: $crate::InSeconds =
                |o| $crate::InSeconds(o.write_timeout), |o, v| Ok(o.write_timeout(v.0));
            reply_timeout: $crate::InSeconds =
                |o| $crate::InSeconds(o.reply_timeout), |o, v| Ok(o.reply_timeout(v.0));
            total_timeout: $crate::OrNever =
                |o| $crate::OrNever(o.total_timeout), |o, v| Ok(o.total_timeout(v.0));
            retry: $crate::RetryPolicy = |o| o.retry, |o, v| Ok(o.retry(v));
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

    /// A duration as a number of seconds; read from text, too.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct InSeconds(#[serde(with = "seconds")] pub Duration);

    /// A duration as [`InSeconds`], or the word `never`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OrNever(pub Option<Duration>);

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

    /// The delays between attempts: the first, and the longest.
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

    /// One of two forms of the same.
    #[derive(Debug)]
    pub enum Either<G, F> {
        /// The value that has to be given, alone.
        Given(G),
        /// A map with more.
        Form(F),
    }

    impl<G, F> Either<G, F> {
        /// What one function or the other makes of it.
        pub fn either<T>(self, given: impl FnOnce(G) -> T, form: impl FnOnce(F) -> T) -> T {
            match self {
                Either::Given(value) => given(value),
                Either::Form(map) => form(map),
            }
        }
    }

    /// Reads a map as `F`, and text or a list as `G`.
    ///
    /// # Errors
    ///
    /// For what is neither.
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
