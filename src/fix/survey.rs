//! Compares the desired state with the machine and keeps what differs.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{Reversal, build, command, expected, reversal};
use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange};
use super::site::Site;
use crate::check::Ctx;
use crate::model::{
    Action, AttributeWrite, Bdf, Cause, ConfigWrite, Digest, FilePath, FileWrite, ModuleName,
    Operation, Plan, PlannedCommand, Repair, Step,
};
use crate::world::{Files, LARGEST};

pub fn plan(ctx: &Ctx<'_>, fixes: &[(&Fix, FixRequest<'_>)], files: &dyn Files) -> Plan {
    let mut survey = Survey {
        site: Site::new(files, ctx.facts),
        files: BTreeMap::new(),
        registers: BTreeMap::new(),
        loaded: BTreeSet::new(),
    };
    let mut repairs: Vec<Repair> =
        fixes.iter().map(|(fix, request)| survey.repair(fix, request)).collect();
    merge_rebuilds(&mut repairs);
    Plan::new(ctx.facts.host.clone(), repairs)
}

/// Keeps only the last of several equal rebuilds.
fn merge_rebuilds(repairs: &mut [Repair]) {
    let mut later: Vec<Action> = Vec::new();
    for repair in repairs.iter_mut().rev() {
        let mut steps = std::mem::take(&mut repair.steps);
        steps.reverse();
        steps.retain(|step| {
            let is_first = !is_rebuild(&step.action) || !later.contains(&step.action);
            later.push(step.action.clone());
            is_first
        });
        steps.reverse();
        repair.steps = steps;
    }
}

fn is_rebuild(action: &Action) -> bool {
    matches!(action, Action::Run(operation) if reversal(operation) == Reversal::Rerun)
}

/// The machine, as it will be after the steps so far.
struct Survey<'p> {
    site: Site<'p>,
    files: BTreeMap<String, Option<String>>,
    registers: BTreeMap<(Bdf, String, u16), u32>,
    loaded: BTreeSet<String>,
}

impl Survey<'_> {
    fn repair(&mut self, fix: &Fix, request: &FixRequest<'_>) -> Repair {
        let DesiredState { changes, warnings, afterwards, refused, unknown } =
            (fix.desired)(request);
        let mut repair = Repair {
            fix: fix.id.to_owned(),
            about: fix.about.to_owned(),
            findings: request
                .findings
                .iter()
                .map(|finding| Cause {
                    check: finding.id.clone(),
                    subject: finding.subject.clone(),
                })
                .collect(),
            warnings,
            refused,
            unknown: unknown.into_iter().collect(),
            ..Repair::default()
        };
        if repair.refused.is_some() || !repair.unknown.is_empty() {
            return repair;
        }
        for change in changes {
            match self.action(&change.target, !repair.steps.is_empty()) {
                Ok(None) => {}
                Ok(Some(action)) => repair.steps.push(Step {
                    about: change.about,
                    command: planned(&action),
                    action,
                }),
                Err(why) => {
                    // A partial repair is refused.
                    repair.steps.clear();
                    match why {
                        NoChange::Refused(why) => repair.refused = Some(why),
                        NoChange::Unknown(why) => repair.unknown.push(why),
                    }
                    return repair;
                }
            }
        }
        if !repair.steps.is_empty() {
            repair.afterwards = afterwards;
        }
        repair
    }

    /// The action for a change; `None` if it already holds. `changed`: an earlier step of this repair
    /// changes something.
    fn action(&mut self, target: &ChangeTarget, changed: bool) -> Result<Option<Action>, NoChange> {
        Ok(match target {
            ChangeTarget::Register { bdf, capability, offset, width, mask, value } => {
                let write = ConfigWrite {
                    bdf: *bdf,
                    capability: *capability,
                    offset: *offset,
                    width: *width,
                    mask: *mask,
                    old: 0,
                    new: *value,
                };
                let write = self.register(write)?;
                (write.new != write.old).then_some(Action::WriteConfig(write))
            }
            ChangeTarget::File { path, mode, content } => {
                let old = self.text(path)?;
                let new = content(old.as_deref())?;
                self.write(path, *mode, old, new)?
            }
            ChangeTarget::Mask { path, from, content } => {
                let old = self.text(path)?;
                let new = match &old {
                    Some(old) => content(Some(old))?,
                    None => content(self.text(from)?.as_deref())?,
                };
                self.write(path, 0o644, old, new)?
            }
            ChangeTarget::Attribute { path, value } => {
                let old = self.site.attribute(path)?;
                if old == *value {
                    None
                } else {
                    Some(Action::WriteAttribute(AttributeWrite {
                        path: file_path(path)?,
                        old,
                        new: value.clone(),
                    }))
                }
            }
            ChangeTarget::Image(build) => Some(Action::RebuildImage(build.clone())),
            ChangeTarget::Run(operation) => {
                let holds = match operation {
                    Operation::LoadModule { module } => self.is_loaded(module)?,
                    Operation::EnableUnit { unit } => self.site.is_enabled(unit.as_str())?,
                    operation => reversal(operation) == Reversal::Rerun && !changed,
                };
                (!holds).then(|| Action::Run(operation.clone()))
            }
        })
    }

    /// Fills in the present value of a register, and the new value of the bits outside of the mask.
    fn register(&mut self, write: ConfigWrite) -> Result<ConfigWrite, NoChange> {
        let key = (write.bdf, write.capability.setpci(), write.offset);
        let old = match self.registers.get(&key) {
            Some(old) => *old,
            None => self
                .site
                .register(write.bdf, write.capability, write.offset, write.width)?
                .ok_or_else(|| format!("{} has no {}", write.bdf, write.capability.setpci()))?,
        };
        let new = old & !write.mask | write.new & write.mask;
        self.registers.insert(key, new);
        Ok(ConfigWrite { old, new, ..write })
    }

    /// True if the module is loaded, or an earlier step loads it.
    fn is_loaded(&mut self, module: &ModuleName) -> Result<bool, NoChange> {
        let name = module.as_str().replace('-', "_");
        Ok(self.site.is_loaded(&name)? || !self.loaded.insert(name))
    }

    /// The write that gives a file its new content; `None` if it has it already.
    fn write(
        &mut self,
        path: &str,
        mode: u32,
        old: Option<String>,
        new: String,
    ) -> Result<Option<Action>, NoChange> {
        if old.as_ref() == Some(&new) {
            return Ok(None);
        }
        if u64::try_from(new.len()).is_ok_and(|size| size > LARGEST) {
            return Err(NoChange::Refused(format!(
                "{path} would have {} bytes, but gdr writes at most {LARGEST}",
                new.len()
            )));
        }
        self.files.insert(path.to_owned(), Some(new.clone()));
        Ok(Some(Action::WriteFile(FileWrite {
            path: file_path(path)?,
            old: old.map(|old| Digest::of(old.as_bytes())),
            content: new,
            mode,
        })))
    }

    /// A file's content after the steps so far.
    fn text(&self, path: &str) -> Result<Option<String>, NoChange> {
        match self.files.get(path) {
            Some(text) => Ok(text.clone()),
            None => self.site.file(path),
        }
    }
}

fn file_path(path: &str) -> Result<FilePath, String> {
    path.try_into().map_err(|invalid| format!("{path} is {invalid}"))
}

fn planned(action: &Action) -> Option<PlannedCommand> {
    let (command, expected) = match action {
        Action::Run(operation) => (command(operation), expected(operation)),
        Action::RebuildImage(image) => (build(image)?, &[0][..]),
        _ => return None,
    };
    Some(PlannedCommand { argv: command.words(), expected: expected.to_vec() })
}
