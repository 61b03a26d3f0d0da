//! The context of every command, and what a session of this tool remembers.

use adf_queue_client::Delivery;
use ctl_core::context::Context;

/// This tool.
#[derive(Debug)]
pub enum Adfctl {}

/// The context of every command.
pub type Tool = Context<Adfctl>;

/// What a session remembers between its lines: the messages that its connection has pulled and not settled, the last one
/// at the end.
pub type Session = Vec<Delivery>;
