//! `bsctl`: the beanstalkd tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    bsctl::main_with(std::env::args_os()).into()
}
