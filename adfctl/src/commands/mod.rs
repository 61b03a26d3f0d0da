//! One file per command, or per family of commands: `settle` has `delete`, `lcancel`, `rcancel` and `recover`, and
//! `transfer` has `move` and `copy`.

pub mod bench;
pub mod check;
pub mod clear;
pub mod count;
pub mod drain;
pub mod export;
pub mod exporter;
pub mod import;
pub mod pop;
pub mod pull;
pub mod push;
pub mod queue;
pub mod queues;
pub mod raw;
pub mod settle;
pub mod smoke;
pub mod tap;
pub mod top;
pub mod transfer;
pub mod wait;
pub mod web;
pub mod work;
