//! Commands common to all tools, and the engines of commands that several tools have.

pub mod bench;
pub mod bulk;
pub mod check;
pub mod exporter;
pub mod latency;
pub mod leaving;
pub(crate) mod own;
pub mod ping;
pub mod serve;
pub mod smoke;
pub mod tap;
pub mod top;
pub mod twice;
pub mod wait;
pub mod watch;
pub mod web;
pub mod work;
