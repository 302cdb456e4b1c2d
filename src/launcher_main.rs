//! The command `par-launcher`: kept minimal, since every child of a call is a copy of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(par::launcher::main())
}
