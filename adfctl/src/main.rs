//! `adfctl`: the Adf.QueueServer tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    adfctl::main::<adfctl::Adfctl>(std::env::args_os()).into()
}
