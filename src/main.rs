//! The binary `par`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(par::cli::main())
}
