//! `gdr undo`: undoes a repair, or lists the repairs.

use std::io::{self, IsTerminal as _, Write};

use anyhow::{anyhow, bail};
use rustix::process::geteuid;

use super::machine::Machine;
use super::repair::{UNDONE, boot_id, confirmed, executor};
use crate::cli::{Global, Undo, style};
use crate::fix::{self, Back, Journals, UndoOptions, UndoReport};
use crate::model::{Journal, Why};
use crate::render::{self, Style};
use crate::world::Executor;

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Undo,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let (Machine::World(world), Some(executor)) =
        (machine, executor(global, machine, options.tools.as_deref())?)
    else {
        bail!("a recorded machine has no repairs to undo");
    };
    let style = style(global.color);
    if options.list {
        super::print(out, &render::plan::list(&journals(&executor, err)?, style))?;
        return Ok(0);
    }
    let mut number = options.number;
    // A script that runs this command intends it.
    if !options.yes && io::stdin().is_terminal() {
        let journal = fix::find_repair(&executor, number).map_err(with_root_hint)?;
        super::print(out, &render::plan::list(std::slice::from_ref(&journal), style))?;
        if !confirmed("Undo this repair? [y/N] ", err)? {
            super::remark(err, "nothing was changed");
            return Ok(UNDONE);
        }
        number = Some(journal.number);
    }
    let how = UndoOptions { number, boot: boot_id(world), force: options.force };
    let undone =
        fix::undo(&executor, &how, &mut |line| super::remark(err, line)).map_err(with_root_hint)?;
    super::print(out, &report(&undone, how.force, style))?;
    Ok(u8::from(!undone.whole))
}

/// Journals of all repairs; unreadable ones are reported.
fn journals(executor: &Executor, err: &mut dyn Write) -> anyhow::Result<Vec<Journal>> {
    let mut read = Vec::new();
    let Some(journals) = Journals::open(executor).map_err(with_root_hint)? else {
        return Ok(read);
    };
    for number in journals.numbers()? {
        match journals.read(number) {
            Ok(journal) => read.extend(journal),
            Err(error) => super::remark(err, &error.to_string()),
        }
    }
    Ok(read)
}

/// Adds that root is required to a permission error.
fn with_root_hint(error: fix::Error) -> anyhow::Error {
    match &error {
        fix::Error::File(file) if file.why() == Why::Denied && !geteuid().is_root() => {
            anyhow!("{error}. Run it as root: sudo gdr undo")
        }
        _ => error.into(),
    }
}

/// Result of each step. `forced`: --force was given.
pub fn report(undone: &UndoReport, forced: bool, style: Style) -> String {
    let mut text = String::new();
    for (at, back) in &undone.steps {
        let entry = &undone.journal.entries[*at];
        let result = match back {
            Back::Restored => "restored".to_owned(),
            Back::Already => "already restored".to_owned(),
            Back::Reset => "already reset by a reboot".to_owned(),
            Back::Nothing => "nothing to undo".to_owned(),
            Back::Printed(command) => format!("run this yourself: {command}"),
            Back::RestoredBut(what) => format!("restored; {what}"),
            Back::Accepted(why) => format!("NOT verified: {why}; --force counts it as undone"),
            Back::Refused(why) if !forced => {
                format!("NOT undone: {why} (--force restores it anyway)")
            }
            Back::Refused(why) | Back::Failed(why) => format!("NOT undone: {why}"),
        };
        let line = render::printable(&format!("{}: {result}", fix::target(&entry.mutation)));
        text.push_str(&format!("  {}\n", render::wrap(&line, style.width, 2, "      ")));
    }
    let number = undone.journal.number;
    text.push_str(&if undone.whole {
        format!("Repair {number} is undone.\n")
    } else {
        format!("Repair {number} is partly undone.\n")
    });
    text
}
