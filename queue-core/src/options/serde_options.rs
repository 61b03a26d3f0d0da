//! Serde for options.

/// Serde for options with one required value, and fields with defaults.
///
/// They are serialized as a map without the fields that have their defaults, or as the required value alone if all
/// have. They are deserialized from either; an unknown key is an error. A row is a key and its type, for a field and a
/// setter of this name; `=> field` sets that field without a setter; `= get, set` says how to get the value from the
/// options, and how to set it. The calling crate depends on `serde`.
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
                    match $crate::given_or_form::<$given_type, Form, Z>(deserializer)? {
                        $crate::Either::Given(given) => Ok($options::from(given)),
                        $crate::Either::Form(form) => {
                            let mut options = $options::from(form.$given);
                            $(if let Some(value) = form.$field {
                                let set: fn($options, $type) -> Result<$options, $error> =
                                    $crate::serde_options!(@set $options $field $($set_field)? $($get, $set)?);
                                options = set(options, value).map_err(serde::de::Error::custom)?;
                            })*
                            Ok(options)
                        }
                    }
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
