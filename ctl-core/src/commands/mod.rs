//! Commands common to all tools, and the engines of commands that several tools have.

pub(crate) mod address;
pub mod bench;
pub mod check;
pub mod exporter;
pub mod leaving;
pub mod ping;
pub mod roundtrip;
pub mod serve;
pub mod settings;
pub mod shortage;
pub mod tap;
pub mod wait;
pub mod work;
