//! Code shared by `gdr fix` and `gdr undo`.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::machine::Machine;
use crate::cli::Global;
use crate::world::{Executor, World};

/// Timeout of a program that a repair runs: rebuilding an initramfs takes minutes.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Exit status: nothing was changed, because root or the user's consent is missing.
pub const UNDONE: u8 = 3;

/// The executor that changes the machine. `None` for a recorded machine.
pub fn executor(
    global: &Global,
    machine: &Machine,
    tools: Option<&Path>,
) -> anyhow::Result<Option<Executor>> {
    Ok(match &global.sysroot {
        Some(root) => Some(Executor::directory(root, tools, TIMEOUT).context("--sysroot")?),
        None if machine.is_live() => Some(Executor::live(TIMEOUT)?),
        None => None,
    })
}

/// Asks on the terminal; without a terminal the answer is no.
pub fn agreed(question: &str, err: &mut dyn Write) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        super::remark(
            err,
            "no terminal to ask on: use --yes to make the changes without confirmation",
        );
        return Ok(false);
    }
    confirmed(question, err)
}

/// Asks on standard input.
pub fn confirmed(question: &str, err: &mut dyn Write) -> anyhow::Result<bool> {
    write!(err, "{question}")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The kernel's id of this boot.
pub fn boot_id(world: &World) -> Option<String> {
    world.files.text(Path::new("/proc/sys/kernel/random/boot_id")).ok()
}
