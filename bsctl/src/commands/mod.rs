//! One file per command, or per family of commands: `bury_release` has `bury`, `release` and `touch`, `pause` has
//! `resume`, `stats` has `stats-tube`, and `transfer` has `move`, `copy` and `requeue`.

pub mod bench;
pub mod bury_all;
pub mod bury_release;
pub mod check;
pub mod clear;
pub mod delete;
pub mod drain;
pub mod export;
pub mod exporter;
pub mod import;
pub mod job;
pub mod jobs;
pub mod kick;
pub mod pause;
pub mod peek;
pub mod pop;
pub mod populate;
pub mod put;
pub mod raw;
pub mod reserve;
pub mod retry;
pub mod server;
pub mod smoke;
pub mod stats;
pub mod tail;
pub mod tap;
pub mod top;
pub mod transfer;
pub mod tubes;
pub mod wait;
pub mod web;
pub mod work;
