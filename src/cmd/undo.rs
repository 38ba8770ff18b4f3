//! `gdr undo`: undoes a repair, or lists the repairs.

use std::io::Write;
use std::path::Path;

use anyhow::bail;

use super::fix::executor;
use super::machine::Machine;
use crate::cli::{Global, Undo, style};
use crate::fix::{self, Back, Journals, UndoOptions};
use crate::render;
use crate::world::World;

pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Undo,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let (Machine::World(world), Some(executor)) = (
        machine,
        executor(global, machine, options.tools.as_deref())?,
    ) else {
        bail!("a recorded machine has no repairs to undo");
    };
    if options.list {
        let mut read = Vec::new();
        if let Some(journals) = Journals::open(&executor)? {
            for number in journals.numbers()? {
                match journals.read(number) {
                    Ok(journal) => read.extend(journal),
                    Err(error) => super::remark(err, &error.to_string()),
                }
            }
        }
        super::print(out, &render::plan::list(&read, style(global.color)))?;
        return Ok(0);
    }
    let how = UndoOptions {
        number: options.number,
        boot: boot(world),
        force: options.force,
    };
    let undone = fix::undo(&executor, &how, &mut |line| super::remark(err, line))?;
    let mut text = String::new();
    for (at, back) in &undone.steps {
        let entry = &undone.journal.entries[*at];
        let became = match back {
            Back::Restored => "as it was before".to_owned(),
            Back::Already => "was as before already".to_owned(),
            Back::Reset => "a reboot has reset it already".to_owned(),
            Back::Nothing => "nothing to undo".to_owned(),
            Back::Printed(command) => format!("yours to run: {command}"),
            Back::Refused(why) => format!("NOT undone: {why} (--force restores it all the same)"),
        };
        text.push_str(&format!(
            "  {}: {}\n",
            render::printable(&fix::target(&entry.mutation)),
            render::printable(&became)
        ));
    }
    let number = undone.journal.number;
    text.push_str(&match undone.whole {
        true => format!("Repair {number} is undone.\n"),
        false => format!("Repair {number} is undone in part.\n"),
    });
    super::print(out, &text)?;
    Ok(u8::from(!undone.whole))
}

pub fn boot(world: &World) -> Option<String> {
    world
        .files
        .text(Path::new("/proc/sys/kernel/random/boot_id"))
        .ok()
}
