//! Bodies alone, for `xargs -0`.

use clap::Args;

use super::record::Shape;
use super::{Format, Output};
use crate::error::CliError;

/// Flags of commands that show bodies.
#[derive(Debug, Clone, Default, Args)]
pub struct BodiesArgs {
    /// Print only bodies, each ended by NUL, for xargs -0
    #[arg(short = '0', long = "null")]
    null: bool,
}

impl BodiesArgs {
    /// Configures the output for results of this shape.
    ///
    /// # Errors
    /// An unknown column: exit 2.
    pub fn prepare(&self, out: &mut Output, shape: &'static Shape) -> Result<(), CliError> {
        if self.null {
            out.style.format = Format::Raw;
            out.style.null = true;
        }
        out.expect(shape)
    }
}
