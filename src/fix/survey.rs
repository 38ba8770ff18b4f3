//! From what is wanted to what is to be changed: each wish is held against what is there, and what is so already is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::command::{Reversal, build, command, expected, reversal};
use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use super::site::Site;
use crate::check::Ctx;
use crate::model::{
    Action, AttributeWrite, Bdf, Cause, ConfigWrite, Digest, FilePath, FileWrite, ModuleName,
    Operation, Plan, PlannedCommand, Repair, Step,
};
use crate::world::{Files, LARGEST};

/// The plan for these fixes.
pub fn plan(ctx: &Ctx<'_>, fixes: &[(&Fix, FixRequest<'_>)], files: &dyn Files) -> Plan {
    let mut survey = Survey {
        site: Site::new(files, ctx.facts),
        files: BTreeMap::new(),
        registers: BTreeMap::new(),
        loaded: BTreeSet::new(),
    };
    let mut repairs: Vec<Repair> = fixes
        .iter()
        .map(|(fix, request)| survey.repair(fix, request))
        .collect();
    once(&mut repairs);
    Plan::new(ctx.facts.host.clone(), repairs)
}

/// What makes one thing of others is run once, when the last of them is changed.
fn once(repairs: &mut [Repair]) {
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
    matches!(action, Action::Run(operation) if reversal(operation) == Reversal::Again)
}

/// What is there, and what the steps before will have made of it.
struct Survey<'p> {
    site: Site<'p>,
    files: BTreeMap<String, Option<String>>,
    registers: BTreeMap<(Bdf, String, u16), u32>,
    loaded: BTreeSet<String>,
}

impl Survey<'_> {
    fn repair(&mut self, fix: &Fix, request: &FixRequest<'_>) -> Repair {
        let DesiredState {
            desired_changes,
            warnings,
            afterwards,
            refused,
        } = (fix.desired)(request);
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
            ..Repair::default()
        };
        if repair.refused.is_some() {
            return repair;
        }
        for desired_change in desired_changes {
            match self.action(&desired_change.what, !repair.steps.is_empty()) {
                Ok(None) => {}
                Ok(Some(action)) => repair.steps.push(Step {
                    about: desired_change.about,
                    command: planned(&action),
                    action,
                }),
                Err(why) => {
                    // Half a repair is none.
                    repair.steps.clear();
                    repair.refused = Some(why);
                    return repair;
                }
            }
        }
        if !repair.steps.is_empty() {
            repair.afterwards = afterwards;
        }
        repair
    }

    /// What has to be done for a wish; none where it is so already. `changed` says that the repair changes something before.
    fn action(&mut self, want: &ChangeTarget, changed: bool) -> Result<Option<Action>, String> {
        Ok(match want {
            ChangeTarget::Register {
                bdf,
                capability,
                offset,
                width,
                mask,
                value,
            } => {
                let key = (*bdf, capability.setpci(), *offset);
                let old = match self.registers.get(&key) {
                    Some(old) => *old,
                    None => self
                        .site
                        .register(*bdf, *capability, *offset, *width)?
                        .ok_or_else(|| format!("{bdf} has no {}", capability.setpci()))?,
                };
                let new = old & !mask | value & mask;
                self.registers.insert(key, new);
                (new != old).then_some(Action::WriteConfig(ConfigWrite {
                    bdf: *bdf,
                    capability: *capability,
                    offset: *offset,
                    width: *width,
                    mask: *mask,
                    old,
                    new,
                }))
            }
            ChangeTarget::File {
                path,
                mode,
                content,
            } => {
                let old = self.text(path)?;
                let new = content(old.as_deref())?;
                self.write(path, *mode, old, new)?
            }
            ChangeTarget::Mask {
                path,
                from,
                content,
            } => {
                let old = self.text(path)?;
                let new = match &old {
                    Some(old) => content(Some(old))?,
                    None => content(self.text(from)?.as_deref())?,
                };
                self.write(path, 0o644, old, new)?
            }
            ChangeTarget::NoFile { path } => {
                let old = self.text(path)?;
                self.files.insert(path.clone(), None);
                match old {
                    Some(old) => Some(Action::RemoveFile {
                        path: file_path(path)?,
                        old: Digest::of(old.as_bytes()),
                    }),
                    None => None,
                }
            }
            ChangeTarget::Attribute { path, value } => {
                let old = self.site.attribute(path)?;
                match old == *value {
                    true => None,
                    false => Some(Action::WriteAttribute(AttributeWrite {
                        path: file_path(path)?,
                        old,
                        new: value.clone(),
                    })),
                }
            }
            ChangeTarget::Image(build) => Some(Action::RebuildImage(build.clone())),
            ChangeTarget::Run(operation) => {
                let holds = match operation {
                    Operation::LoadModule { module } => self.is_loaded(module)?,
                    Operation::EnableUnit { unit } => self.site.is_enabled(unit.as_str())?,
                    operation => reversal(operation) == Reversal::Again && !changed,
                };
                (!holds).then(|| Action::Run(operation.clone()))
            }
        })
    }

    /// Whether a module is loaded, or will be by a step before.
    fn is_loaded(&mut self, module: &ModuleName) -> Result<bool, String> {
        let name = module.as_str().replace('-', "_");
        Ok(self.site.is_loaded(&name)? || !self.loaded.insert(name))
    }

    /// The step that makes a file's text another; none where it is that already.
    fn write(
        &mut self,
        path: &str,
        mode: u32,
        old: Option<String>,
        new: String,
    ) -> Result<Option<Action>, String> {
        if old.as_ref() == Some(&new) {
            return Ok(None);
        }
        if u64::try_from(new.len()).is_ok_and(|size| size > LARGEST) {
            return Err(format!(
                "{path} would have {} bytes, and gdr writes at most {LARGEST}",
                new.len()
            ));
        }
        self.files.insert(path.to_owned(), Some(new.clone()));
        Ok(Some(Action::WriteFile(FileWrite {
            path: file_path(path)?,
            old: old.map(|old| Digest::of(old.as_bytes())),
            content: new,
            mode,
        })))
    }

    /// A file's text as it will be when the steps before are done.
    fn text(&self, path: &str) -> Result<Option<String>, String> {
        match self.files.get(path) {
            Some(text) => Ok(text.clone()),
            None => self.site.file(path),
        }
    }
}

fn file_path(path: &str) -> Result<FilePath, String> {
    path.try_into()
        .map_err(|invalid| format!("{path} is {invalid}"))
}

/// The command line of what a program does.
fn planned(action: &Action) -> Option<PlannedCommand> {
    let (command, expected) = match action {
        Action::Run(operation) => (command(operation), expected(operation)),
        Action::RebuildImage(image) => (build(image)?, &[0][..]),
        _ => return None,
    };
    Some(PlannedCommand {
        argv: command.words(),
        expected: expected.to_vec(),
    })
}
