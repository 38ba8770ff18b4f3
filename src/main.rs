#![forbid(unsafe_code)]
//! gdr: parse, run, exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use gdr::{cli::Cli, cmd, probe, world};

/// Usage or internal error.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let answered = world::answer_for_parent(&arguments, &mut io::stdout().lock())
        .or_else(|| probe::answer_for_parent(&arguments, &mut io::stdout().lock()));
    if let Some(answered) = answered {
        return if answered.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match cmd::run(Cli::parse(), &mut io::stdout().lock(), &mut io::stderr().lock()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Nobody is left to tell where this fails too.
            let _ = writeln!(io::stderr(), "gdr: {error:#}");
            ExitCode::from(TROUBLE)
        }
    }
}
