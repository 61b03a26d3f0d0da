//! Events of a producer.

use std::{fmt, time::Duration};

use queue_core::DurationText;

use crate::{Address, Error};

queue_core::server_event! {
    /// An event of a producer. See [`ProducerOptions::on_event`](crate::ProducerOptions::on_event). With the feature
    /// `serde` it can only be serialized, because it holds errors of this process.
    ProducerEvent: ProducerEventKind, Address
}

/// What happened. Events count puts; the outcome of a single put goes to its caller.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum ProducerEventKind {
    /// A connection was made and its server has answered, so puts go out.
    Connected,
    /// No connection could be made, or it was lost. Each kind of error is reported once until a connection succeeds.
    Disconnected(Error),
    /// The server is not tried again until this time has passed, unless a put needs it. Reported for each failure.
    BackingOff(#[cfg_attr(feature = "serde", serde(with = "queue_core::seconds"))] Duration),
    /// The server currently accepts no jobs: `DRAINING` or `OUT_OF_MEMORY`. They go to another server, or wait for one
    /// that took jobs before and has lost its connection. Without such a server they fail.
    Refused {
        /// The error of the first refused put.
        error: Error,
        /// The number of puts.
        puts: u64,
    },
    /// Puts meant for this server went to another one.
    Moved {
        /// The number of puts.
        puts: u64,
    },
    /// Puts of unknown fate are resent; see [`Delivery::AtLeastOnce`](crate::Delivery::AtLeastOnce).
    Resent {
        /// The number of puts.
        puts: u64,
    },
    /// Puts have failed whose callers do not learn of it, because they have dropped the receipts or the futures.
    Failed {
        /// The error of the first one. Its [fate](Error::fate) says whether the job may exist.
        error: Error,
        /// The number of puts.
        puts: u64,
    },
}

impl fmt::Display for ProducerEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProducerEventKind::Connected => f.write_str("connected"),
            ProducerEventKind::Disconnected(error) => {
                write!(f, "disconnected: {}", error.to_string().escape_debug())
            }
            ProducerEventKind::BackingOff(time) => {
                write!(f, "skipped for {}", DurationText::rounded(*time))
            }
            ProducerEventKind::Refused { error, puts } => {
                let puts = counted(*puts, "was refused", "were refused");
                write!(f, "{puts}: {}", error.to_string().escape_debug())
            }
            ProducerEventKind::Moved { puts } => {
                let puts = counted(*puts, "goes to another server", "go to another server");
                f.write_str(&puts)
            }
            ProducerEventKind::Resent { puts } => {
                let (one, many) =
                    ("of unknown fate is sent again", "of unknown fate are sent again");
                f.write_str(&counted(*puts, one, many))
            }
            ProducerEventKind::Failed { error, puts } => {
                let puts = counted(*puts, "failed", "failed");
                write!(f, "{puts}: {}", error.to_string().escape_debug())
            }
        }
    }
}

fn counted(puts: u64, one: &str, many: &str) -> String {
    if puts == 1 { format!("1 put {one}") } else { format!("{puts} puts {many}") }
}

impl ProducerEventKind {
    /// Merges another event of the same kind into this one, if such events are counted.
    pub(crate) fn takes_in(&mut self, other: &Self) -> bool {
        use ProducerEventKind as Kind;

        match (self, other) {
            (Kind::Refused { error, puts }, Kind::Refused { error: other, puts: more }) => {
                let is_same = error.kind() == other.kind();
                *puts += if is_same { *more } else { 0 };
                is_same
            }
            (Kind::Failed { error, puts }, Kind::Failed { error: other, puts: more }) => {
                let is_same = (error.kind(), error.fate()) == (other.kind(), other.fate());
                *puts += if is_same { *more } else { 0 };
                is_same
            }
            (Kind::Moved { puts }, Kind::Moved { puts: more })
            | (Kind::Resent { puts }, Kind::Resent { puts: more }) => {
                *puts += more;
                true
            }
            _ => false,
        }
    }
}
