//! `gearctl`: the Gearman tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    gearctl::main_with(std::env::args_os()).into()
}
