//! The serde output of a client's types.

/// Defines `is_written_as`, for values, and `options_are_written_as`, for what a service keeps in its configuration.
#[macro_export]
macro_rules! written_by_serde {
    () => {
        /// It is written like this, and read back.
        fn is_written_as<T>(value: T, shown: ::serde_json::Value)
        where
            T: ::serde::Serialize + ::serde::de::DeserializeOwned + PartialEq + ::std::fmt::Debug,
        {
            assert_eq!(::serde_json::to_value(&value).unwrap(), shown);
            assert_eq!(::serde_json::from_str::<T>(&shown.to_string()).unwrap(), value, "{shown}");
        }

        /// Options are written like this, and what is read back is written the same again, and does the same. An unknown
        /// key, at whatever depth, is an error that names it.
        fn options_are_written_as<T>(value: &T, shown: &::serde_json::Value)
        where
            T: ::serde::Serialize + ::serde::de::DeserializeOwned + ::std::fmt::Debug,
        {
            assert_eq!(&::serde_json::to_value(value).unwrap(), shown);
            let again: T = ::serde_json::from_str(&shown.to_string()).unwrap();
            assert_eq!(&::serde_json::to_value(&again).unwrap(), shown);
            assert_eq!(format!("{again:?}"), format!("{value:?}"));
            for strange in with_unknown_key(shown) {
                let error = ::serde_json::from_str::<T>(&strange.to_string()).unwrap_err();
                assert!(error.to_string().contains("unknown field `tries`"), "{strange}: {error}");
            }
        }

        /// The value with another key in it, for each map in it. A variant of an enum is the only key of its map.
        fn with_unknown_key(value: &::serde_json::Value) -> Vec<::serde_json::Value> {
            let mut found = Vec::new();
            let is_variant = ["release", "bury"].iter().any(|name| value.get(name).is_some());
            if value.is_object() && !is_variant {
                let mut more = value.clone();
                more["tries"] = 3.into();
                found.push(more);
            }
            // The keys of `slots_for` are names.
            let map = value.as_object().into_iter().flatten().map(|(key, _)| key);
            let map = map.filter(|key| *key != "slots_for").map(|key| format!("/{key}"));
            let list = 0..value.as_array().map_or(0, Vec::len);
            for place in map.chain(list.map(|at| format!("/{at}"))) {
                for strange in with_unknown_key(value.pointer(&place).unwrap()) {
                    let mut whole = value.clone();
                    *whole.pointer_mut(&place).unwrap() = strange;
                    found.push(whole);
                }
            }
            found
        }
    };
}
