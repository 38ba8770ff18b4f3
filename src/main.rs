#![forbid(unsafe_code)]
//! gdr: parse, run, exit code.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write as _};
use std::process::ExitCode;

use gdr::{cli, cmd, keeper, output, probe, world};

/// Exit status that Rust's run time gives a panic.
const PANICKED: i32 = 101;

fn main() -> ExitCode {
    if let Some(limit) = cmd::limits::unusable() {
        // Ignored: stderr is gone.
        let _ = writeln!(output::stderr(), "gdr: {limit}");
        return ExitCode::from(cmd::ERROR);
    }
    // A panic's message may repeat what it met.
    std::panic::set_hook(Box::new(|panic| {
        let message = output::printable(&panic.to_string());
        let mut err = output::stderr();
        // Ignored: stderr is gone.
        let _ = writeln!(err, "gdr: {message}");
        let limits = cmd::limits::tight();
        for limit in &limits {
            let _ = writeln!(err, "gdr: {limit}");
        }
        // Where a limit is the cause, the place in the program is not.
        let backtrace =
            if limits.is_empty() { Backtrace::capture() } else { Backtrace::disabled() };
        if backtrace.status() == BacktraceStatus::Captured {
            let _ = writeln!(err, "{backtrace}");
        }
        if cfg!(panic = "abort") {
            // As if it had been unwound, and without a core file.
            std::process::exit(PANICKED);
        }
    }));
    if let Some(kept) = keeper::keep(std::env::args_os()) {
        return kept;
    }
    if let Some(failed) = cmd::become_job(std::env::args_os(), &mut output::stderr()) {
        return failed;
    }
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let answered = world::answer_for_parent(&arguments).or_else(|| {
        probe::answer_for_parent(&arguments, &mut output::escaped(io::stdout().lock()))
    });
    if let Some(answered) = answered {
        return if answered.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(message) => return show(&message),
    };
    let status = cmd::run(cli, &mut output::stdout(), &mut output::stderr());
    probe::interrupts::end_by(status)
}

/// Prints help, the version, or what is wrong with the arguments.
fn show(message: &clap::Error) -> ExitCode {
    match message.print().and_then(|()| io::stdout().flush()) {
        // A reader that has seen enough changes nothing.
        Err(error) if !message.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            // Ignored: stderr is gone.
            let _ = writeln!(output::stderr(), "gdr: cannot write the output: {error}");
            ExitCode::from(cmd::ERROR)
        }
        _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(cmd::ERROR)),
    }
}
