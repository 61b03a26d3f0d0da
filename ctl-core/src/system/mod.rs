//! Processes, signals, files and sockets of the operating system.

pub mod at_once;
pub mod child;
pub mod env;
pub(crate) mod family;
pub mod files;
pub(crate) mod listen;
pub(crate) mod manager;
pub(crate) mod pause;
pub mod process;
pub mod signals;
pub(crate) mod socket;
