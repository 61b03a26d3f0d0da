//! What producers and workers cost besides the work itself: memory, silence, and the time after a server returned.

mod idle;
mod memory;
mod reconnect;

use anyhow::Result;
use clap::Args;

pub use self::memory::{MemoryProbeOptions, run_memory_probe};
use crate::figures::Figures;

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct CostsOptions {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Shorter, for a first impression
    #[arg(long)]
    quick: bool,
    /// Only the parts whose name contains this: memory, idle, reconnect
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Measures, and prints a line for each figure.
pub fn run_costs(options: &CostsOptions) -> Result<()> {
    let figures = Figures { json: options.json };
    let wanted = |part: &str| options.only.as_ref().is_none_or(|only| part.contains(only.as_str()));
    if wanted("memory") {
        memory::measure(figures)?;
    }
    if wanted("idle") {
        idle::measure(figures, options.quick)?;
    }
    if wanted("reconnect") {
        reconnect::measure(figures, options.quick)?;
    }
    Ok(())
}
