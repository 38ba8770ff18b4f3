//! Plans and journals for people; [`script`] writes a plan as a shell script.

mod script;

pub use script::script;

use super::Style;
use super::text::{Tone, printable, wrap};
use crate::model::{
    AcsBits, Action, AttributeWrite, Capability, ConfigWrite, Journal, JournalState, Left, Plan,
    Repair, Step,
};

/// A plan, repair by repair, and what it leaves. `of_all`: it is for all failures.
pub fn table(plan: &Plan, of_all: bool, style: Style) -> String {
    let mut page = String::new();
    let mut number = 0;
    for repair in &plan.repairs {
        page.push_str(&self::repair(repair, &mut number, style));
        page.push('\n');
    }
    page.push_str(&rest(plan, of_all, style));
    page
}

/// The failures that the plan leaves, and what is unknown.
fn rest(plan: &Plan, of_all: bool, style: Style) -> String {
    let mut page = String::new();
    let mut line = |text: &str, indent: usize| {
        let next = " ".repeat(indent + 2);
        page.push_str(&" ".repeat(indent));
        page.push_str(&wrap(&printable(text), style.width, indent, &next));
        page.push('\n');
    };
    let failures = plan.failures.unwrap_or_default();
    let left: usize = plan.left.iter().map(|left| left.subjects.len()).sum();
    let repaired = failures.saturating_sub(left);
    let noun = if failures == 1 { "failure" } else { "failures" };
    match (of_all, failures, left) {
        (true, 0, _) if plan.unknown.is_empty() => {
            line("No check failed: there is nothing to repair.", 0)
        }
        (true, 0, _) => line("No check failed, but not all could be made:", 0),
        (true, _, 0) => {
            line(&format!("{repaired} of {failures} {noun} can be repaired by gdr."), 0)
        }
        (true, ..) => {
            line(&format!("{repaired} of {failures} {noun} can be repaired by gdr. By hand:"), 0)
        }
        (false, _, 0) => {}
        (false, ..) => {
            line(&format!("This plan repairs {repaired} of {failures} {noun}. It leaves:"), 0)
        }
    }
    for left in &plan.left {
        line(&self::left(left), 2);
    }
    for unknown in &plan.unknown {
        line(&format!("unknown: {unknown}"), 2);
    }
    page
}

/// A failure that is left, with its next step.
fn left(left: &Left) -> String {
    const SHOWN: usize = 4;
    let subjects: Vec<&str> = left.subjects.iter().map(String::as_str).collect();
    let (shown, more) = subjects.split_at(subjects.len().min(SHOWN));
    let more = match more.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!("{} {}{more}: {}", left.check, shown.join(", "), left.next)
}

fn repair(repair: &Repair, number: &mut usize, style: Style) -> String {
    let mut page = format!("{}\n", style.paint(Tone::Strong, &printable(&repair.fix)));
    let mut line = |text: &str, indent: usize, mark: &str| {
        let next = " ".repeat(indent + mark.len());
        page.push_str(&" ".repeat(indent));
        page.push_str(mark);
        page.push_str(&wrap(&printable(text), style.width, indent + mark.len(), &next));
        page.push('\n');
    };
    line(&repair.about, 2, "");
    for cause in &repair.findings {
        line(&format!("{} {}", cause.check, cause.subject), 2, "for ");
    }
    if let Some(why) = &repair.refused {
        line(why, 2, "not made: ");
        return page;
    }
    if repair.steps.is_empty() && repair.unknown.is_empty() {
        line("Nothing to change.", 2, "");
    }
    for unknown in &repair.unknown {
        line(unknown, 2, "unknown: ");
    }
    for warning in &repair.warnings {
        line(warning, 2, "caution: ");
    }
    for step in &repair.steps {
        *number += 1;
        line(&step.about, 2, &format!("{number}. "));
        for what in what(step) {
            line(&what, 6, "");
        }
    }
    for afterwards in &repair.afterwards {
        line(afterwards, 2, "then: ");
    }
    page
}

/// The commands that do the same by hand.
fn what(step: &Step) -> Vec<String> {
    let command = step.command.iter().map(|command| command.argv.join(" "));
    match &step.action {
        Action::WriteConfig(write) => {
            let command = format!("{}  (it reads {} now)", setpci(write), value(write, write.old));
            acs_lines(write).into_iter().chain([command]).collect()
        }
        Action::WriteFile(write) => {
            let is = match write.old {
                Some(_) => "changed",
                None => "new",
            };
            let mut lines = vec![format!("{} ({is}, mode {:04o}):", write.path, write.mode)];
            lines.extend(write.content.lines().map(|line| format!("  | {line}")));
            lines
        }
        Action::RemoveFile { path, .. } => vec![format!("rm {path}")],
        Action::WriteAttribute(AttributeWrite { path, old, new }) => {
            vec![format!("echo {new} > {path}  (it reads '{old}' now)")]
        }
        Action::RebuildImage(image) => {
            let keep = format!("cp -p {} {}", image.path, image.kept());
            std::iter::once(keep).chain(command).collect()
        }
        Action::Run(_) => command.collect(),
    }
}

/// Old and new value in lspci's notation of the ACS control register.
fn acs_lines(write: &ConfigWrite) -> Vec<String> {
    let line = |when: &str, value: u32| format!("{when} ACSCtl: {}", AcsBits(value as u16));
    match (write.capability, write.offset) {
        (Capability::ACS, 6) => vec![line("now: ", write.old), line("then:", write.new)],
        _ => Vec::new(),
    }
}

/// A setpci command with value and mask of the bits that change.
pub(super) fn setpci(write: &ConfigWrite) -> String {
    format!(
        "setpci -s {} {}={}:{}",
        write.bdf,
        register(write),
        value(write, write.new & write.mask),
        value(write, write.mask)
    )
}

/// Name of a register in setpci.
pub(super) fn register(write: &ConfigWrite) -> String {
    let capability: Capability = write.capability;
    let size = match write.width {
        1 => "b",
        2 => "w",
        _ => "l",
    };
    format!("{}+{:#x}.{size}", capability.setpci(), write.offset)
}

/// A register value with all its hexadecimal digits.
pub(super) fn value(write: &ConfigWrite, value: u32) -> String {
    format!("{value:0width$x}", width = usize::from(write.width) * 2)
}

/// The available fixes: id and purpose.
pub fn fixes<'f>(fixes: impl Iterator<Item = (&'f str, &'f str)>, style: Style) -> String {
    let indent = " ".repeat(17);
    let line =
        |(id, about): (&str, &str)| format!("{id:<16} {}\n", wrap(about, style.width, 17, &indent));
    fixes.map(line).collect()
}

/// One line per journal.
pub fn list(journals: &[Journal], style: Style) -> String {
    if journals.is_empty() {
        return "no repairs on this machine\n".to_owned();
    }
    let mut page = String::new();
    for journal in journals {
        let mut fixes: Vec<&str> = journal.entries.iter().map(|entry| entry.fix.as_str()).collect();
        fixes.dedup();
        let (done, steps) = (journal.entries.len(), journal.steps);
        let state = match &journal.state {
            JournalState::Open => format!("interrupted after {done} of {steps} steps"),
            JournalState::Applied => format!("made, {steps} steps"),
            JournalState::Stopped(why) => format!("stopped after {done} of {steps} steps: {why}"),
            JournalState::Undone => "undone".to_owned(),
        };
        let line =
            format!("{:>4}  {}  {}: {state}", journal.number, journal.taken, fixes.join(", "));
        page.push_str(&wrap(&printable(&line), style.width, 0, "      "));
        page.push('\n');
    }
    page
}
