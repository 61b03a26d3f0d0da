//! Typed server statistics.
//!
//! The keys, and the quoting of text, depend on the server's version. Every received key is kept as text, in the
//! server's order; known keys are also typed fields.

use std::{fmt, str::FromStr};

use crate::{
    Error, JobId, Priority, TubeName,
    protocol::stats_text::{self, Pairs},
};

/// Declares a statistics type from the table of its keys.
macro_rules! stats {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $key:literal $field:ident: $type:ty,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
            entries: Pairs,
        }

        impl $name {
            /// The keys known to this crate, in the order of the newest server.
            pub const KEYS: &'static [&'static str] = &[$($key),+];

            /// Reads the text of the server's `OK` reply.
            ///
            /// # Errors
            ///
            /// `Protocol` when a line is not `key: value`, a key occurs twice, or a known key's value has the wrong
            /// type.
            pub fn parse(text: &[u8]) -> Result<Self, Error> {
                let entries = stats_text::map(text)?;
                let mut stats = $name { $($field: Field::missing(),)+ entries };
                for (key, value) in stats.entries.iter() {
                    match key {
                        $($key => stats.$field = Field::read(value).ok_or_else(|| bad_value(key, value))?,)+
                        _ => {}
                    }
                }
                Ok(stats)
            }

            /// Every key sent by the server, as text, in the server's order. The field of a key that is missing here
            /// has its default value.
            pub fn entries(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
                self.entries.iter()
            }

            /// The text of one key, if the server sent it.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<&str> {
                self.entries().find_map(|(known, value)| (known == key).then_some(value))
            }
        }

        /// Serializes as a map of the received keys, in the server's order. Known keys are numbers or booleans where
        /// the field is one. Of other keys, an unquoted whole number is a number, and the rest is text.
        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(Some(self.entries().len()))?;
                for (key, value, is_quoted) in self.entries.iter_quoted() {
                    match key {
                        $($key => map.serialize_entry(key, &self.$field)?,)+
                        _ if is_quoted => map.serialize_entry(key, value)?,
                        _ => match (queue_core::decimal(value.as_bytes()), negative(value)) {
                            (Some(number), _) => map.serialize_entry(key, &number)?,
                            (_, Some(number)) => map.serialize_entry(key, &number)?,
                            (None, None) => map.serialize_entry(key, value)?,
                        },
                    }
                }
                map.end()
            }
        }

        /// Deserializes such a map. A missing key has its default, as in a reply that lacks it.
        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = stats_text::StatsText::deserialize(deserializer)?;
                Self::parse(text.0.as_bytes()).map_err(serde::de::Error::custom)
            }
        }
    };
}

stats! {
    /// The answer to `stats`: 51 keys in server 1.12 and later, 48 before.
    ///
    /// Counters start at 0 when the server starts. The server does not count `kick-job` and `reserve-job`.
    ServerStats {
        /// Ready jobs with a priority below 1024.
        "current-jobs-urgent" current_jobs_urgent: u64,
        /// Ready jobs.
        "current-jobs-ready" current_jobs_ready: u64,
        /// Jobs reserved by any connection.
        "current-jobs-reserved" current_jobs_reserved: u64,
        /// Delayed jobs.
        "current-jobs-delayed" current_jobs_delayed: u64,
        /// Buried jobs.
        "current-jobs-buried" current_jobs_buried: u64,
        /// `put` commands, including refused ones.
        "cmd-put" cmd_put: u64,
        /// `peek` commands.
        "cmd-peek" cmd_peek: u64,
        /// `peek-ready` commands.
        "cmd-peek-ready" cmd_peek_ready: u64,
        /// `peek-delayed` commands.
        "cmd-peek-delayed" cmd_peek_delayed: u64,
        /// `peek-buried` commands.
        "cmd-peek-buried" cmd_peek_buried: u64,
        /// `reserve` commands.
        "cmd-reserve" cmd_reserve: u64,
        /// `reserve-with-timeout` commands.
        "cmd-reserve-with-timeout" cmd_reserve_with_timeout: u64,
        /// `delete` commands.
        "cmd-delete" cmd_delete: u64,
        /// `release` commands.
        "cmd-release" cmd_release: u64,
        /// `use` commands.
        "cmd-use" cmd_use: u64,
        /// `watch` commands.
        "cmd-watch" cmd_watch: u64,
        /// `ignore` commands.
        "cmd-ignore" cmd_ignore: u64,
        /// `bury` commands.
        "cmd-bury" cmd_bury: u64,
        /// `kick` commands.
        "cmd-kick" cmd_kick: u64,
        /// `touch` commands.
        "cmd-touch" cmd_touch: u64,
        /// `stats` commands, including this one.
        "cmd-stats" cmd_stats: u64,
        /// `stats-job` commands.
        "cmd-stats-job" cmd_stats_job: u64,
        /// `stats-tube` commands.
        "cmd-stats-tube" cmd_stats_tube: u64,
        /// `list-tubes` commands.
        "cmd-list-tubes" cmd_list_tubes: u64,
        /// `list-tube-used` commands.
        "cmd-list-tube-used" cmd_list_tube_used: u64,
        /// `list-tubes-watched` commands.
        "cmd-list-tubes-watched" cmd_list_tubes_watched: u64,
        /// `pause-tube` commands.
        "cmd-pause-tube" cmd_pause_tube: u64,
        /// Expired reservations.
        "job-timeouts" job_timeouts: u64,
        /// Jobs put since the server started.
        "total-jobs" total_jobs: u64,
        /// The largest body a `put` may have, in bytes.
        "max-job-size" max_job_size: u64,
        /// Existing tubes.
        "current-tubes" current_tubes: u64,
        /// Open connections.
        "current-connections" current_connections: u64,
        /// Open connections that have put a job.
        "current-producers" current_producers: u64,
        /// Open connections that have reserved.
        "current-workers" current_workers: u64,
        /// Open connections that wait in a reserve.
        "current-waiting" current_waiting: u64,
        /// Connections since the server started.
        "total-connections" total_connections: u64,
        /// The server's process id.
        "pid" pid: i64,
        /// The server's version.
        "version" version: String,
        /// Processor time spent in the server, in seconds.
        "rusage-utime" rusage_utime: f64,
        /// Processor time spent in the system for the server, in seconds.
        "rusage-stime" rusage_stime: f64,
        /// Seconds since the server started.
        "uptime" uptime: u64,
        /// Number of the oldest write-ahead log file still needed; 0 without a log.
        "binlog-oldest-index" binlog_oldest_index: i64,
        /// Number of the write-ahead log file being written; 0 without a log.
        "binlog-current-index" binlog_current_index: i64,
        /// Records written while the log was compacted.
        "binlog-records-migrated" binlog_records_migrated: i64,
        /// Records written to the log.
        "binlog-records-written" binlog_records_written: i64,
        /// The size of one log file, in bytes.
        "binlog-max-size" binlog_max_size: i64,
        /// Whether the server is in drain mode and accepts no new jobs. Not reported before 1.12.
        "draining" draining: Option<bool>,
        /// A random text that changes when the server restarts.
        "id" id: String,
        /// The server's host name.
        "hostname" hostname: String,
        /// The server's operating system version. Not reported before 1.12.
        "os" os: Option<String>,
        /// The server's processor architecture. Not reported before 1.12.
        "platform" platform: Option<String>,
    }
}

stats! {
    /// The answer to `stats-tube`: 14 keys.
    ///
    /// A tube's counters vanish with the tube: when it has no jobs and no client uses or watches it.
    TubeStats {
        /// The tube's name.
        "name" name: TubeName,
        /// Ready jobs with a priority below 1024.
        "current-jobs-urgent" current_jobs_urgent: u64,
        /// Ready jobs.
        "current-jobs-ready" current_jobs_ready: u64,
        /// Jobs reserved by any connection.
        "current-jobs-reserved" current_jobs_reserved: u64,
        /// Delayed jobs.
        "current-jobs-delayed" current_jobs_delayed: u64,
        /// Buried jobs.
        "current-jobs-buried" current_jobs_buried: u64,
        /// Jobs put into this tube since it was created.
        "total-jobs" total_jobs: u64,
        /// Connections that use the tube.
        "current-using" current_using: u64,
        /// Connections that watch the tube.
        "current-watching" current_watching: u64,
        /// Connections that wait in a reserve and watch the tube.
        "current-waiting" current_waiting: u64,
        /// Jobs deleted from this tube.
        "cmd-delete" cmd_delete: u64,
        /// `pause-tube` commands for this tube.
        "cmd-pause-tube" cmd_pause_tube: u64,
        /// The length of the current pause, in seconds; 0 when not paused.
        "pause" pause: u64,
        /// The rest of the current pause, in seconds.
        "pause-time-left" pause_time_left: i64,
    }
}

stats! {
    /// The answer to `stats-job`: 14 keys.
    JobStats {
        /// The job's number.
        "id" id: JobId,
        /// The tube it was put into.
        "tube" tube: TubeName,
        /// Its state.
        "state" state: JobState,
        /// Its priority.
        "pri" pri: Priority,
        /// Seconds since the put.
        "age" age: i64,
        /// The delay of its last put or release, in seconds; unchanged after the job has become ready.
        "delay" delay: i64,
        /// Its time to run, in seconds.
        "ttr" ttr: i64,
        /// Whole seconds left of the reservation or the delay; 0 in other states.
        "time-left" time_left: i64,
        /// Number of the oldest write-ahead log file that contains it; 0 without a log.
        "file" file: i64,
        /// How often it was reserved.
        "reserves" reserves: u64,
        /// How often a reservation expired.
        "timeouts" timeouts: u64,
        /// How often it was released.
        "releases" releases: u64,
        /// How often it was buried.
        "buries" buries: u64,
        /// How often it was kicked.
        "kicks" kicks: u64,
    }
}

impl ServerStats {
    /// The version as numbers, such as `(1, 13)`; `None` if the text does not start with two numbers.
    #[must_use]
    pub fn version_numbers(&self) -> Option<(u32, u32)> {
        let mut parts = self.version.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// Waits to be reserved.
    Ready,
    /// Becomes ready when its delay ends.
    Delayed,
    /// Held by a connection.
    Reserved,
    /// Set aside until it is kicked.
    Buried,
    /// Its body is still arriving.
    Invalid,
    /// A state that this crate does not know.
    Other(String),
}

impl JobState {
    /// The server's word for this state.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            JobState::Ready => "ready",
            JobState::Delayed => "delayed",
            JobState::Reserved => "reserved",
            JobState::Buried => "buried",
            JobState::Invalid => "invalid",
            JobState::Other(word) => word,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<&str> for JobState {
    fn from(word: &str) -> Self {
        match word {
            "ready" => JobState::Ready,
            "delayed" => JobState::Delayed,
            "reserved" => JobState::Reserved,
            "buried" => JobState::Buried,
            "invalid" => JobState::Invalid,
            other => JobState::Other(other.to_owned()),
        }
    }
}

impl FromStr for JobState {
    type Err = std::convert::Infallible;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Ok(word.into())
    }
}

#[cfg(feature = "serde")]
queue_core::serde_as_text!(JobState);

/// A negative whole number.
#[cfg(feature = "serde")]
fn negative(value: &str) -> Option<i64> {
    let digits = queue_core::decimal(value.strip_prefix('-')?.as_bytes())?;
    0_i64.checked_sub_unsigned(digits).filter(|number| *number < 0)
}

fn bad_value(key: &str, value: &str) -> Error {
    Error::protocol(format!(
        "the stats reply has an unexpected value for {key}: {}",
        crate::error::excerpt(value.as_bytes())
    ))
}

/// A value in the server's format.
trait Field: Sized {
    fn read(text: &str) -> Option<Self>;

    /// The value when the server does not send the key.
    fn missing() -> Self;
}

macro_rules! field_from_str {
    ($($type:ty = $missing:expr,)+) => {$(
        impl Field for $type {
            fn read(text: &str) -> Option<Self> {
                <$type>::from_str(text).ok()
            }

            fn missing() -> Self {
                $missing
            }
        }
    )+};
}

field_from_str! {
    u64 = 0,
    i64 = 0,
    f64 = 0.0,
    bool = false,
    String = String::new(),
    JobId = 0.into(),
    Priority = Priority::default(),
    TubeName = TubeName::default(),
}

impl Field for JobState {
    fn read(text: &str) -> Option<Self> {
        Some(text.into())
    }

    fn missing() -> Self {
        JobState::Other(String::new())
    }
}

impl<T: Field> Field for Option<T> {
    fn read(text: &str) -> Option<Self> {
        T::read(text).map(Some)
    }

    fn missing() -> Self {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "---\nid: 1\ntube: 1e5\nstate: delayed\npri: 10\nage: 3\ndelay: 60\nttr: 60\n\
        time-left: 57\nfile: 0\nreserves: 0\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n";

    #[test]
    fn version_1_10_is_text_and_missing_keys_are_absent() {
        let stats = ServerStats::parse(b"---\nversion: 1.10\nid: 1e5\nuptime: 4\n").unwrap();
        assert_eq!(stats.version, "1.10");
        assert_eq!(stats.version_numbers(), Some((1, 10)));
        assert_eq!(stats.id, "1e5");
        assert_eq!((stats.draining, stats.os.as_deref()), (None, None));
        assert_eq!(stats.get("draining"), None);
    }

    #[test]
    fn unknown_keys_and_states_survive() {
        let text = JOB.replace("state: delayed", "state: parked\ngroup: g1");
        let stats = JobStats::parse(text.as_bytes()).unwrap();
        assert_eq!(stats.state, JobState::Other("parked".into()));
        assert_eq!(stats.get("group"), Some("g1"));
    }

    #[test]
    fn a_known_key_of_another_type_is_named() {
        let error = JobStats::parse(JOB.replace("pri: 10", "pri: ten").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the stats reply has an unexpected value for pri: \"ten\"");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn values_of_unknown_keys_that_read_as_whole_numbers_are_numbers() {
        let extra = "---\nid: 0e1\nshards: 12\ndrift: -3\nbig: 18446744073709551615\nname: \"7\"\nload: 1.10\nzip: 007\nnone: \nminus: -0\n";
        let stats = ServerStats::parse(extra.as_bytes()).unwrap();
        assert_eq!(
            serde_json::to_string(&stats).unwrap(),
            r#"{"id":"0e1","shards":12,"drift":-3,"big":18446744073709551615,"name":"7","load":"1.10","zip":"007","none":"","minus":"-0"}"#
        );
        assert_eq!(stats.get("shards"), Some("12"));
    }
}
