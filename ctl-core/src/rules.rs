//! The small languages of rules about values: filters, thresholds, and expectations.

pub mod expect;
pub mod filter;
pub mod metrics;
pub mod preset;
pub mod thresholds;
