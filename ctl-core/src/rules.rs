//! Rules about values, `KEY OP VALUE`: filters, thresholds, conditions and limits.

pub(crate) mod comparison;
pub mod filter;
pub mod metrics;
pub mod preset;
pub mod thresholds;
