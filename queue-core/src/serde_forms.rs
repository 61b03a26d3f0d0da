//! How what clients share is written and read by serde.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor},
};

use crate::{Address, Failure, OneServer, Servers, System};

crate::serde_as_text!(Address<S>; [S: System] where S::Error: fmt::Display);

/// A list of addresses. What else was chosen for the servers is not written.
impl<O: OneServer> Serialize for Servers<O> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(self.addresses())
    }
}

/// A list of addresses, or text with commas between them. Everything else has its default.
impl<'de, O: OneServer> Deserialize<'de> for Servers<O>
where
    Failure<O>: fmt::Display,
{
    fn deserialize<Z: Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
        struct Addresses<O>(std::marker::PhantomData<O>);

        impl<'de, O: OneServer> Visitor<'de> for Addresses<O>
        where
            Failure<O>: fmt::Display,
        {
            type Value = Servers<O>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of addresses, or text with commas between them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Servers<O>, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Servers<O>, A::Error> {
                let mut servers: Vec<O> = Vec::new();
                while let Some(address) = list.next_element::<Address<O::System>>()? {
                    servers.push(O::from(address));
                }
                Servers::of(servers).map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Addresses(std::marker::PhantomData))
    }
}

/// Durations as numbers of seconds: whole ones as whole numbers.
pub mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Writes the seconds.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<Z: Serializer>(time: &Duration, serializer: Z) -> Result<Z::Ok, Z::Error> {
        match time.subsec_nanos() {
            0 => serializer.serialize_u64(time.as_secs()),
            _ => serializer.serialize_f64(time.as_secs_f64()),
        }
    }

    /// Reads seconds.
    ///
    /// # Errors
    ///
    /// For what is no number from 0 on, and for one that is too large.
    pub fn deserialize<'de, Z: Deserializer<'de>>(deserializer: Z) -> Result<Duration, Z::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds).map_err(|error| {
            de::Error::custom(format!(
                "{seconds} is no number of seconds that can be used: {error}"
            ))
        })
    }
}

/// Counts by kind, as a map with the kinds' names for keys.
pub mod counts {
    use std::{fmt, marker::PhantomData};

    use serde::{
        Deserialize, Deserializer, Serialize, Serializer,
        de::{MapAccess, Visitor},
    };

    /// Writes the map.
    ///
    /// # Errors
    ///
    /// Those of the serializer.
    pub fn serialize<K: Serialize, Z: Serializer>(
        counts: &[(K, u64)],
        serializer: Z,
    ) -> Result<Z::Ok, Z::Error> {
        serializer.collect_map(counts.iter().map(|(kind, count)| (kind, count)))
    }

    /// Reads the map.
    ///
    /// # Errors
    ///
    /// For what is no such map.
    pub fn deserialize<'de, K, Z>(deserializer: Z) -> Result<Vec<(K, u64)>, Z::Error>
    where
        K: Deserialize<'de>,
        Z: Deserializer<'de>,
    {
        deserializer.deserialize_map(Counts(PhantomData))
    }

    struct Counts<K>(PhantomData<K>);

    impl<'de, K: Deserialize<'de>> Visitor<'de> for Counts<K> {
        type Value = Vec<(K, u64)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of counts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut counts = Vec::new();
            while let Some(count) = map.next_entry()? {
                counts.push(count);
            }
            Ok(counts)
        }
    }
}
