//! One file per command.

pub mod bench;
pub mod check;
pub mod clear;
pub mod delete;
pub mod drain;
pub mod export;
pub mod exporter;
pub mod finish;
pub mod import;
pub mod job;
pub mod jobs;
pub mod kick;
pub mod pause;
pub mod peek;
pub mod pop;
pub mod put;
pub mod raw;
pub mod reserve;
pub mod server;
pub mod smoke;
pub mod stats;
pub mod tap;
pub mod top;
pub mod tubes;
pub mod wait;
pub mod work;
