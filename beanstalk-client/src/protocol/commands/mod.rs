//! The protocol's commands as values.

mod admin;
mod consumer;
mod producer;
mod raw;
#[cfg(test)]
mod tests;

pub use self::{
    admin::{
        Kick, KickJob, ListTubeUsed, ListTubes, ListTubesWatched, PauseTube, Peek, PeekBuried,
        PeekDelayed, PeekReady, Quit, Stats, StatsJob, StatsTube,
    },
    consumer::{
        Bury, Delete, Ignore, Release, Reserve, ReserveJob, ReserveWithTimeout, Touch, Watch,
    },
    producer::{Put, Use},
    raw::{AnyCommand, RawCommand},
};
