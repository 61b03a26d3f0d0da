//! `bsctl`: the beanstalkd tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    bsctl::main::<bsctl::Bsctl>(std::env::args_os()).into()
}
