//! What a fix wants of a machine, before anybody has looked what is there: pure.

use super::step::MISSING;
use crate::check::Ctx;
use crate::model::{Bdf, Capability, Finding, Reversal};

/// A fix: findings in, wishes out.
pub struct Fix {
    /// Its id, as findings name it.
    pub id: &'static str,
    /// What it mends, in a sentence.
    pub about: &'static str,
    /// What it wants.
    pub draft: fn(&Need<'_>) -> Draft,
}

/// What a fix is asked for.
#[derive(Clone, Copy)]
pub struct Need<'a> {
    /// The machine, as the checks saw it.
    pub ctx: &'a Ctx<'a>,
    /// The findings that name this fix.
    pub findings: &'a [&'a Finding],
    /// How.
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
}

/// Which ports' access control services are changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PortChoice {
    /// Those that the findings name.
    #[default]
    Judged,
    /// Those between two devices, by the names of their rows or their addresses.
    Pair(String, String),
    /// This port.
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
pub struct Draft {
    /// The changes, in order.
    pub wishes: Vec<Wish>,
    /// What the user should know before.
    pub warnings: Vec<String>,
    /// What is left to do after it.
    pub afterwards: Vec<String>,
    /// Why it is not made.
    pub refused: Option<String>,
}

impl Draft {
    /// A repair that is not made, for this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            refused: Some(why.into()),
            ..Self::default()
        }
    }

    /// Adds a wish.
    pub fn wish(&mut self, about: impl Into<String>, what: Want) {
        self.wishes.push(Wish {
            about: about.into(),
            what,
        });
    }
}

/// One change that is wanted.
pub struct Wish {
    /// What it does, in a sentence.
    pub about: String,
    /// What is wanted.
    pub what: Want,
}

/// What a file should hold, by what it holds now (none where it is not there); an error says why it cannot be told.
pub type Edit = Box<dyn Fn(Option<&str>) -> Result<String, String>>;

/// What is wanted.
pub enum Want {
    /// Bits of a register.
    Register {
        /// The function.
        bdf: Bdf,
        /// The capability that the register belongs to.
        capability: Capability,
        /// The register's place from the start of the capability, in bytes.
        offset: u16,
        /// Its width in bytes: 1, 2 or 4.
        width: u8,
        /// The bits.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// A file with this content.
    File {
        /// The file.
        path: String,
        /// Its permissions, where it is new.
        mode: u32,
        /// Its content.
        content: Edit,
    },
    /// A file that takes the place of one of the same name in another directory.
    Mask {
        /// The file.
        path: String,
        /// The file whose place it takes.
        from: String,
        /// Its content, by what it holds now, or else by what the other one holds.
        content: Edit,
    },
    /// No such file.
    NoFile {
        /// The file.
        path: String,
    },
    /// A kernel attribute with this value.
    Attribute {
        /// The attribute.
        path: String,
        /// The value.
        value: String,
    },
    /// A program has run.
    Command {
        /// Its name and arguments.
        argv: Vec<String>,
        /// What takes it back.
        undo: Reversal,
        /// Only after something else was changed: it makes one thing of another.
        follows: bool,
        /// The exit statuses that mean success.
        expected: Vec<i32>,
    },
    /// A module is loaded.
    Module {
        /// Its name.
        name: String,
    },
    /// A unit starts at every boot.
    Unit {
        /// Its name.
        name: String,
    },
    /// A word is on the kernel's command line of the boots to come, put there by grubby.
    KernelParameter {
        /// The word that it replaces, as it stands there.
        old: Option<String>,
        /// The word.
        new: String,
    },
}

impl Want {
    /// A file that is ours alone.
    pub fn file(path: impl Into<String>, content: impl Into<String>) -> Self {
        let content = content.into();
        Self::File {
            path: path.into(),
            mode: 0o644,
            content: Box::new(move |_| Ok(content.clone())),
        }
    }

    /// A command whose change another takes back, as a reboot does, too.
    pub fn until_reboot(argv: &[&str], undo: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self::Command {
            argv: owned(argv),
            undo: Reversal::UntilReboot(owned(undo)),
            follows: false,
            expected: vec![0],
        }
    }

    /// A command that makes one thing of another, again whenever that changes.
    pub fn rebuild(argv: &[&str]) -> Self {
        Self::Command {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            undo: Reversal::Again,
            follows: true,
            expected: vec![0],
        }
    }

    /// A command that tells somebody of a change who may not be there, and finds out by itself later. `deaf` are the exit
    /// statuses for that.
    pub fn tell(argv: &[&str], deaf: &[i32]) -> Self {
        Self::Command {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            undo: Reversal::Again,
            follows: true,
            expected: [0].iter().chain(deaf).chain([MISSING].iter()).copied().collect(),
        }
    }
}
