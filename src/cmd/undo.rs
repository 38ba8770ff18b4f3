//! `gdr undo`: a repair is taken back, or the repairs are listed.

use std::io::Write;
use std::path::Path;

use anyhow::bail;

use super::fix::hands;
use super::machine::Machine;
use crate::cli::{Global, Undo, style};
use crate::fix::{self, Back, Journals};
use crate::render;
use crate::world::World;

/// Takes a repair back.
pub fn run(
    machine: &Machine,
    global: &Global,
    options: &Undo,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let (Machine::World(world), Some(hands)) = (machine, hands(global, machine, options.tools.as_deref())?) else {
        bail!("a recorded machine has no repairs to take back");
    };
    if options.list {
        let journals = Journals::of(&hands);
        let mut read = Vec::new();
        for number in journals.numbers()? {
            match journals.read(number) {
                Ok(journal) => read.push(journal),
                Err(error) => super::remark(err, &error.to_string()),
            }
        }
        super::print(out, &render::plan::list(&read, style(global.color)))?;
        return Ok(0);
    }
    let undone = fix::undo(&hands, options.number, boot(world).as_deref(), options.force)?;
    let mut text = String::new();
    for (at, back) in &undone.steps {
        let what = render::plan::target(&undone.journal.entries[*at].step.action);
        let became = match back {
            Back::Restored => "as it was before".to_owned(),
            Back::Already => "was as before already".to_owned(),
            Back::Reset => "a reboot has reset it already".to_owned(),
            Back::Nothing => "nothing to take back".to_owned(),
            Back::Printed(argv) => format!("yours to run: {}", argv.join(" ")),
            Back::Refused(why) => format!("NOT taken back: {why} (--force restores it all the same)"),
        };
        text.push_str(&format!(
            "  {}: {}\n",
            render::printable(&what),
            render::printable(&became)
        ));
    }
    let number = undone.journal.number;
    text.push_str(&match undone.whole {
        true => format!("Repair {number} is taken back.\n"),
        false => format!("Repair {number} is taken back in part.\n"),
    });
    super::print(out, &text)?;
    Ok(u8::from(!undone.whole))
}

/// The present boot.
pub fn boot(world: &World) -> Option<String> {
    world.files.text(Path::new("/proc/sys/kernel/random/boot_id")).ok()
}
