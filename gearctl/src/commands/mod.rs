//! One file per command, or per family of commands: `peek_export` has `peek` and `export`, `jobs` has `unique-jobs`,
//! `drain` has `clear` and `move`, and `server` has `version`, `pid` and `verbose`.

pub mod bench;
pub mod cancel;
pub mod check;
pub mod drain;
pub mod exporter;
pub mod function;
pub mod functions;
pub mod import;
pub mod job;
pub mod jobs;
pub mod map;
pub mod peek_export;
pub mod raw;
pub mod run;
pub mod server;
pub mod shutdown;
pub mod smoke;
pub mod submit;
pub mod tap;
pub mod top;
pub mod wait;
pub mod web;
pub mod work;
pub mod workers;
