//! Settings and their sources: flag, then environment, then context, then file, then default. The source of the
//! effective value is kept.

pub mod file;
pub mod keys;
mod settings;

pub(crate) use self::settings::CONTEXT;
pub use self::settings::{Chosen, Settings, SettingsArgs};
