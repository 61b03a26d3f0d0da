//! The serialized forms of what clients share.

use std::{fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{
        self, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
    ser::SerializeMap,
};

use crate::{Address, ClientError, OneServer, Servers, System};

crate::serde_as_text!(Address<S>; [S: System] where S::Error: fmt::Display);

/// Serializes as a list of the servers' options, or of addresses where everything else has its default. With another
/// selection than the default, it is a map of `servers`, which is that list, and `selection`.
impl<O: OneServer + Serialize> Serialize for Servers<O>
where
    O::Selection: Serialize + PartialEq,
{
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        if self.selected() == O::Selection::default() {
            return serializer.collect_seq(self.options());
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("servers", self.options())?;
        map.serialize_entry("selection", &self.selected())?;
        map.end()
    }
}

/// Deserializes such a list or map, or comma-separated addresses.
impl<'de, O: OneServer + Deserialize<'de>> Deserialize<'de> for Servers<O>
where
    ClientError<O>: fmt::Display,
    O::Selection: Deserialize<'de>,
{
    fn deserialize<Z: Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Form<L, S> {
            servers: L,
            #[serde(default)]
            selection: S,
        }

        let either = given_or_form::<List<O>, Form<List<O>, O::Selection>, Z>(deserializer)?;
        Ok(match either {
            Either::Given(List(servers)) => servers,
            Either::Form(form) => form.servers.0.selection(form.selection),
        })
    }
}

/// A list of servers, or text.
struct List<O: OneServer>(Servers<O>);

impl<'de, O: OneServer + Deserialize<'de>> Deserialize<'de> for List<O>
where
    ClientError<O>: fmt::Display,
{
    fn deserialize<Z: Deserializer<'de>>(deserializer: Z) -> Result<Self, Z::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData)).map(List)
    }
}

struct ListVisitor<O>(PhantomData<O>);

impl<'de, O: OneServer + Deserialize<'de>> Visitor<'de> for ListVisitor<O>
where
    ClientError<O>: fmt::Display,
{
    type Value = Servers<O>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses, or comma-separated text")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Servers<O>, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Servers<O>, A::Error> {
        let servers = Vec::deserialize(SeqAccessDeserializer::new(list))?;
        Servers::of(servers).map_err(de::Error::custom)
    }
}

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

/// Durations as numbers of seconds, whole ones as integers.
pub mod seconds {
    use std::{fmt, time::Duration};

    use serde::{
        Deserializer, Serializer,
        de::{self, Visitor},
    };

    /// Serializes the seconds.
    ///
    /// # Errors
    ///
    /// The errors of the serializer.
    pub fn serialize<Z: Serializer>(time: &Duration, serializer: Z) -> Result<Z::Ok, Z::Error> {
        match time.subsec_nanos() {
            0 => serializer.serialize_u64(time.as_secs()),
            _ => serializer.serialize_f64(time.as_secs_f64()),
        }
    }

    /// Deserializes seconds, or text in the syntax of [`read_duration`](crate::read_duration).
    ///
    /// # Errors
    ///
    /// For a negative number, any other value, or a time that is too long.
    pub fn deserialize<'de, Z: Deserializer<'de>>(deserializer: Z) -> Result<Duration, Z::Error> {
        let time = deserializer.deserialize_any(Time(false))?;
        time.ok_or_else(|| de::Error::custom("a duration is missing"))
    }

    /// Deserializes the same, or the word `never`.
    ///
    /// # Errors
    ///
    /// As [`deserialize`].
    pub fn or_never<'de, Z: Deserializer<'de>>(
        deserializer: Z,
    ) -> Result<Option<Duration>, Z::Error> {
        deserializer.deserialize_any(Time(true))
    }

    /// Whether the word `never` is allowed.
    struct Time(bool);

    impl Visitor<'_> for Time {
        type Value = Option<Duration>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of seconds, or text such as 250ms or 5m")?;
            if self.0 { f.write_str(", or never") } else { Ok(()) }
        }

        fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Self::Value, E> {
            Ok(Some(Duration::from_secs(seconds)))
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Self::Value, E> {
            self.visit_f64(seconds as f64)
        }

        fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Self::Value, E> {
            let time = Duration::try_from_secs_f64(seconds).map_err(|error| {
                E::custom(format!("{seconds} is not a usable number of seconds: {error}"))
            });
            time.map(Some)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            match text {
                "never" if self.0 => Ok(None),
                text => crate::read_duration("duration", text).map(Some).map_err(E::custom),
            }
        }
    }

    /// Optional durations.
    pub mod optional {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        use crate::InSeconds;

        /// Serializes the seconds, or nothing.
        ///
        /// # Errors
        ///
        /// The errors of the serializer.
        pub fn serialize<Z: Serializer>(
            time: &Option<Duration>,
            serializer: Z,
        ) -> Result<Z::Ok, Z::Error> {
            time.map(InSeconds).serialize(serializer)
        }

        /// Deserializes a duration, or nothing.
        ///
        /// # Errors
        ///
        /// As for a required duration.
        pub fn deserialize<'de, Z: Deserializer<'de>>(
            deserializer: Z,
        ) -> Result<Option<Duration>, Z::Error> {
            Ok(Option::<InSeconds>::deserialize(deserializer)?.map(|InSeconds(time)| time))
        }
    }
}

/// Counts by kind, as a map keyed by the kinds' names.
pub mod counts {
    use std::{fmt, marker::PhantomData};

    use serde::{
        Deserialize, Deserializer, Serialize, Serializer,
        de::{MapAccess, Visitor},
    };

    /// Serializes the map.
    ///
    /// # Errors
    ///
    /// The errors of the serializer.
    pub fn serialize<K: Serialize, Z: Serializer>(
        counts: &[(K, u64)],
        serializer: Z,
    ) -> Result<Z::Ok, Z::Error> {
        serializer.collect_map(counts.iter().map(|(kind, count)| (kind, count)))
    }

    /// Deserializes the map.
    ///
    /// # Errors
    ///
    /// For anything that is not such a map.
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
            std::iter::from_fn(|| map.next_entry().transpose()).collect()
        }
    }
}
