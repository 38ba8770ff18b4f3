//! What a fix wants of a machine, before anybody has looked what is there: pure.

use crate::check::Ctx;
use crate::model::{Bdf, Capability, Finding, ImageBuild, Invalid, Operation};

/// A fix: from findings to the desired state.
pub struct Fix {
    /// Its id, as findings name it.
    pub id: &'static str,
    /// What it mends, in a sentence.
    pub about: &'static str,
    pub desired: fn(&FixRequest<'_>) -> DesiredState,
}

/// What a fix is asked for.
#[derive(Clone, Copy)]
pub struct FixRequest<'a> {
    /// The machine, as the checks saw it.
    pub ctx: &'a Ctx<'a>,
    /// The findings that name this fix.
    pub findings: &'a [&'a Finding],
    pub options: &'a Options,
}

/// How repairs are made.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Also what is refused for safety.
    pub force: bool,
    /// Which ports `acs` is about.
    pub ports: PortChoice,
    /// How `acs` lasts over a reboot; none where it does not.
    pub persist: Option<Persist>,
    /// The command that makes the same again: gdr's binary by its absolute path, and its arguments.
    pub again: Vec<String>,
    /// Why root should not run that program at boot, where others may exchange it.
    pub unsafe_program: Option<String>,
}

/// Which ports' access control services are changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// Those that the findings name.
    #[default]
    Judged,
    /// Those between two devices, by the names of their rows or their addresses.
    Pair(String, String),
    Port(Bdf),
    /// Every bridge port of the machine.
    AllBridges,
}

/// How a change of access control services lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// A unit of systemd makes it again at every boot.
    Unit,
    /// The kernel makes it, told on its command line.
    CommandLine,
}

/// What a fix wants.
#[derive(Default)]
pub struct DesiredState {
    /// The changes, in order.
    pub desired_changes: Vec<DesiredChange>,
    /// What the user should know before.
    pub warnings: Vec<String>,
    /// What is left to do after it.
    pub afterwards: Vec<String>,
    /// Why it is not made.
    pub refused: Option<String>,
}

impl DesiredState {
    /// A repair that is not made, for this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            refused: Some(why.into()),
            ..Self::default()
        }
    }

    pub fn desired_change(&mut self, about: impl Into<String>, what: ChangeTarget) {
        self.desired_changes.push(DesiredChange {
            about: about.into(),
            what,
        });
    }

    /// Adds a program's run; one of whose names is no argument for a program makes the whole repair refused.
    pub fn run(&mut self, about: impl Into<String>, operation: Result<Operation, Invalid>) {
        let about = about.into();
        match operation {
            Ok(operation) => self.desired_change(about, ChangeTarget::Run(operation)),
            Err(invalid) => {
                self.refused = Some(format!(
                    "{about} gdr does not run it: one of its names is {invalid}."
                ))
            }
        }
    }
}

/// One change that is wanted.
pub struct DesiredChange {
    /// What it does, in a sentence.
    pub about: String,
    pub what: ChangeTarget,
}

/// What a file should hold, by what it holds now (none where it is not there); an error says why it cannot be told.
pub type Edit = Box<dyn Fn(Option<&str>) -> Result<String, String>>;

pub enum ChangeTarget {
    /// Bits of a register.
    Register {
        bdf: Bdf,
        /// The capability that the register belongs to.
        capability: Capability,
        /// The register's place from the start of the capability, in bytes.
        offset: u16,
        /// Its width in bytes: 1, 2 or 4.
        width: u8,
        /// The bits.
        mask: u32,
        value: u32,
    },
    /// A file with this content.
    File {
        path: String,
        /// Its permissions, where it is new.
        mode: u32,
        content: Edit,
    },
    /// A file that takes the place of one of the same name in another directory.
    Mask {
        path: String,
        /// The file whose place it takes.
        from: String,
        /// Its content, by what it holds now, or else by what the other one holds.
        content: Edit,
    },
    /// No such file.
    NoFile { path: String },
    /// A kernel attribute with this value.
    Attribute { path: String, value: String },
    /// An initramfs image is built again, and the image before it kept.
    Image(ImageBuild),
    /// A program has run. One that makes one thing of another (`systemctl daemon-reload`) runs only where something changed before
    /// it, a module or a unit only where it is not loaded or enabled yet.
    Run(Operation),
}

impl ChangeTarget {
    /// A file that is ours alone.
    pub fn file(path: impl Into<String>, content: impl Into<String>) -> Self {
        let content = content.into();
        Self::File {
            path: path.into(),
            mode: 0o644,
            content: Box::new(move |_| Ok(content.clone())),
        }
    }
}
