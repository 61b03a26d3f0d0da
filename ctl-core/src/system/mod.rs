//! Processes, signals, files and sockets of the operating system.

pub mod at_once;
pub(crate) mod attention;
pub mod child;
pub(crate) mod family;
pub mod files;
pub(crate) mod listen;
pub mod notice;
pub mod pid_file;
pub mod process;
pub mod shortage;
pub mod signals;
pub(crate) mod socket;
