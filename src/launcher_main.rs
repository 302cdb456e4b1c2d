//! The command `par-launcher`: what every child of a call is a copy of, and so as little as it can be.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(par::launcher::main())
}
