//! Long-running commands that run others of the tool: live views, and web pages.

pub(crate) mod own;
pub mod top;
pub mod web;
