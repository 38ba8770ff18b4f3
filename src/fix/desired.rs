//! The machine state that a fix asks for. Pure: nothing here reads the machine.

use crate::check::{Ctx, Judgement};
use crate::model::{Area, Bdf, Capability, Finding, ImageBuild, Invalid, Operation, Why};

/// A fix maps findings to a desired state.
pub struct Fix {
    /// The id that findings use.
    pub id: &'static str,
    /// What it repairs, in a sentence.
    pub about: &'static str,
    /// The checks whose findings name it. If one of them is unknown, so is whether there is something to repair.
    pub checks: &'static [&'static str],
    /// The fixes without which it has no effect. They run first.
    pub requires: &'static [&'static str],
    pub desired: fn(&FixRequest<'_>) -> DesiredState,
}

#[derive(Clone, Copy)]
pub struct FixRequest<'a> {
    /// The machine as the checks see it.
    pub ctx: &'a Ctx<'a>,
    /// The findings that name this fix.
    pub findings: &'a [&'a Finding],
    pub options: &'a Options,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Apply also what is refused for safety.
    pub force: bool,
    /// Ports that `acs` changes.
    pub ports: PortChoice,
    /// How `acs` survives a reboot; `None` if it does not.
    pub persist: Option<Persist>,
    /// The command that applies the same fix: absolute path of gdr, then its arguments.
    pub rerun: Vec<String>,
    /// Why root should not run that program at boot, if others can replace it.
    pub unsafe_program: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// Ports named by the findings.
    #[default]
    Judged,
    /// Ports between two devices, given by row name or address.
    Pair(String, String),
    Port(Bdf),
    /// Every bridge port of the machine.
    AllBridges,
}

/// How a change of ACS bits survives a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// A systemd unit repeats it at every boot.
    Unit,
    /// The kernel does it, by a parameter on its command line.
    CommandLine,
}

#[derive(Default)]
pub struct DesiredState {
    /// The changes, in order.
    pub changes: Vec<DesiredChange>,
    /// Shown before the repair.
    pub warnings: Vec<String>,
    /// What the user must do afterwards.
    pub afterwards: Vec<String>,
    /// Why the fix is refused.
    pub refused: Option<String>,
    /// What the fix needs to know and gdr cannot read.
    pub unknown: Option<String>,
}

/// Why a fix changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoChange {
    /// The machine is not to be changed so.
    Refused(String),
    /// Something that decides it cannot be read.
    Unknown(String),
}

impl NoChange {
    /// A source that cannot be read, and what makes it readable.
    pub fn unread(source: &str, why: Why) -> Self {
        let unknown = Judgement::unknown("", why, Area::Files, source);
        Self::from(&unknown)
    }
}

impl From<String> for NoChange {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

impl From<&Judgement> for NoChange {
    fn from(unknown: &Judgement) -> Self {
        Self::Unknown(open(&unknown.message, unknown.needs.as_deref()))
    }
}

/// A sentence about something unknown: what it is, and what would tell.
pub fn open(message: &str, needs: Option<&str>) -> String {
    let message = message.trim_end_matches('.');
    match needs {
        Some(needs) => format!("{message}; needs {needs}."),
        None => format!("{message}."),
    }
}

impl DesiredState {
    /// A refused repair.
    pub fn refused(why: impl Into<String>) -> Self {
        Self { refused: Some(why.into()), ..Self::default() }
    }

    /// A repair that is not made.
    pub fn none(why: NoChange) -> Self {
        match why {
            NoChange::Refused(why) => Self::refused(why),
            NoChange::Unknown(why) => Self { unknown: Some(why), ..Self::default() },
        }
    }

    pub fn change(&mut self, about: impl Into<String>, target: ChangeTarget) {
        self.changes.push(DesiredChange { about: about.into(), target });
    }

    /// Adds a program run. An invalid name makes the whole repair refused.
    pub fn run(&mut self, about: impl Into<String>, operation: Result<Operation, Invalid>) {
        let about = about.into();
        match operation {
            Ok(operation) => self.change(about, ChangeTarget::Run(operation)),
            Err(invalid) => {
                self.refused = Some(format!(
                    "{about} gdr cannot run this command: one of its names is {invalid}."
                ))
            }
        }
    }
}

pub struct DesiredChange {
    /// What the change does, in a sentence.
    pub about: String,
    pub target: ChangeTarget,
}

/// Maps a file's content (`None` if it does not exist) to its new content, or to an error.
pub type Edit = Box<dyn Fn(Option<&str>) -> Result<String, String>>;

pub enum ChangeTarget {
    /// Bits of a PCI configuration register.
    Register {
        bdf: Bdf,
        capability: Capability,
        /// Bytes from the start of the capability.
        offset: u16,
        /// In bytes: 1, 2 or 4.
        width: u8,
        mask: u32,
        value: u32,
    },
    File {
        path: String,
        /// Permissions of a new file.
        mode: u32,
        content: Edit,
    },
    /// A file that overrides one of the same name in another directory.
    Mask {
        path: String,
        /// The overridden file.
        from: String,
        /// Edits the present content of `path`, or else that of `from`.
        content: Edit,
    },
    /// A kernel attribute with this value.
    Attribute { path: String, value: String },
    /// Rebuilds an initramfs image and keeps the old one.
    Image(ImageBuild),
    /// Runs a program. Skipped if its result already holds (module loaded, unit enabled), or, for one
    /// that rebuilds or reloads something, if no earlier step changed anything.
    Run(Operation),
}

impl ChangeTarget {
    /// A file that only gdr writes.
    pub fn file(path: impl Into<String>, content: impl Into<String>) -> Self {
        let content = content.into();
        Self::File {
            path: path.into(),
            mode: 0o644,
            content: Box::new(move |_| Ok(content.clone())),
        }
    }
}
