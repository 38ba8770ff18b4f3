//! From what is wanted to what is to be changed: each wish is held against what is there, and what is so already is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{Draft, Fix, Need, Want};
use super::site::Site;
use super::step::sha256;
use crate::check::Ctx;
use crate::model::{Action, Bdf, Cause, ConfigWrite, FileWrite, Plan, Repair, Reversal, Step};
use crate::world::Files;

/// The plan for these fixes.
pub fn plan(ctx: &Ctx<'_>, fixes: &[(&Fix, Need<'_>)], files: &dyn Files) -> Plan {
    let mut survey = Survey {
        site: Site::new(files, ctx.facts),
        files: BTreeMap::new(),
        registers: BTreeMap::new(),
        loaded: BTreeSet::new(),
    };
    let mut repairs: Vec<Repair> = fixes.iter().map(|(fix, need)| survey.repair(fix, need)).collect();
    once(&mut repairs);
    Plan::new(ctx.facts.host.clone(), repairs)
}

/// What makes one thing of others is run once, when the last of them is changed.
fn once(repairs: &mut [Repair]) {
    let mut later: Vec<Action> = Vec::new();
    for repair in repairs.iter_mut().rev() {
        let mut steps = std::mem::take(&mut repair.steps);
        steps.reverse();
        steps.retain(|step| match &step.action {
            Action::RunCommand {
                undo: Reversal::Again, ..
            } => {
                let is_first = !later.contains(&step.action);
                later.push(step.action.clone());
                is_first
            }
            _ => true,
        });
        steps.reverse();
        repair.steps = steps;
    }
}

/// What is there, and what the steps before will have made of it.
struct Survey<'p> {
    site: Site<'p>,
    files: BTreeMap<String, Option<String>>,
    registers: BTreeMap<(Bdf, String, u16), u32>,
    loaded: BTreeSet<String>,
}

impl Survey<'_> {
    fn repair(&mut self, fix: &Fix, need: &Need<'_>) -> Repair {
        let Draft {
            wishes,
            warnings,
            afterwards,
            refused,
        } = (fix.draft)(need);
        let mut repair = Repair {
            fix: fix.id.to_owned(),
            about: fix.about.to_owned(),
            findings: need
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
        for wish in wishes {
            match self.action(&wish.what, !repair.steps.is_empty()) {
                Ok(None) => {}
                Ok(Some(action)) => repair.steps.push(Step {
                    about: wish.about,
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
    fn action(&mut self, want: &Want, changed: bool) -> Result<Option<Action>, String> {
        Ok(match want {
            Want::Register {
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
            Want::File { path, mode, content } => {
                let old = self.text(path)?;
                let new = content(old.as_deref())?;
                self.write(path, *mode, old, new)
            }
            Want::Mask { path, from, content } => {
                let old = self.text(path)?;
                let new = match &old {
                    Some(old) => content(Some(old))?,
                    None => content(self.text(from)?.as_deref())?,
                };
                self.write(path, 0o644, old, new)
            }
            Want::NoFile { path } => {
                let old = self.text(path)?;
                self.files.insert(path.clone(), None);
                old.map(|old| Action::RemoveFile {
                    path: path.clone(),
                    old: sha256(old.as_bytes()),
                })
            }
            Want::Attribute { path, value } => {
                let old = self.site.attribute(path)?;
                (old != *value).then(|| Action::WriteAttribute {
                    path: path.clone(),
                    old,
                    new: value.clone(),
                })
            }
            Want::Command {
                argv,
                undo,
                follows,
                expected,
            } => (changed || !follows).then(|| Action::RunCommand {
                argv: argv.clone(),
                expected: expected.clone(),
                undo: undo.clone(),
            }),
            Want::Module { name } => {
                let loaded = self.site.is_loaded(name)? || !self.loaded.insert(name.replace('-', "_"));
                (!loaded).then(|| Action::LoadModule { module: name.clone() })
            }
            Want::Unit { name } => {
                let enabled = self.site.is_enabled(name)?;
                (!enabled).then(|| Action::EnableUnit { unit: name.clone() })
            }
            Want::KernelParameter { old, new } => (old.as_ref() != Some(new)).then(|| Action::SetKernelParameter {
                old: old.clone(),
                new: new.clone(),
            }),
        })
    }

    /// The step that makes a file's text another; none where it is that already.
    fn write(&mut self, path: &str, mode: u32, old: Option<String>, new: String) -> Option<Action> {
        if old.as_ref() == Some(&new) {
            return None;
        }
        self.files.insert(path.to_owned(), Some(new.clone()));
        Some(Action::WriteFile(FileWrite {
            path: path.to_owned(),
            old: old.map(|old| sha256(old.as_bytes())),
            content: new,
            mode,
        }))
    }

    /// A file's text as it will be when the steps before are done.
    fn text(&self, path: &str) -> Result<Option<String>, String> {
        match self.files.get(path) {
            Some(text) => Ok(text.clone()),
            None => self.site.file(path),
        }
    }
}
