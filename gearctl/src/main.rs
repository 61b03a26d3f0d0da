//! `gearctl`: the Gearman tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    gearctl::main::<gearctl::Gearctl>(std::env::args_os()).into()
}
