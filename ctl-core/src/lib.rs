//! What the queue tools share: arguments, settings, output formats, messages, exit codes, confirmation,
//! progress, bulk operations, and the REPL. It knows no queue.

pub mod args;
pub mod bulk;
pub mod check;
pub mod child;
pub mod color;
pub mod config;
pub mod confirm;
pub mod dial;
pub mod docs;
pub mod error;
pub mod escape;
pub mod feed;
pub mod files;
pub mod glob;
pub mod input;
pub mod messages;
pub mod notice;
pub mod output;
pub mod pid_file;
pub mod process;
pub mod program;
pub mod progress;
pub mod records;
pub mod repl;
pub mod serve;
pub mod shortage;
pub mod signals;
pub mod thresholds;
pub mod units;
pub mod watch;
