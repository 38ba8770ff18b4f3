//! How kernel modules are loaded: what modprobe.d, the kernel's command line and the initramfs say.
//!
//! What is loaded stands in [`super::Driver`]; here is what the next load will use, and what the initramfs carries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// What decides how the modules that GPUDirect needs are loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Modprobe {
    /// The directories of modprobe.d that this machine's kmod reads, the first over the later; by kmod's version, where
    /// its library tells that.
    pub directories: Vec<String>,
    /// What the files in them say of those modules, in the order in which kmod reads it.
    pub directives: Fact<Vec<Directive>>,
    /// Files that are not read because one of the same name is in a directory before theirs; of those modules alone.
    pub hidden: Vec<HiddenFile>,
    /// What the kernel's command line says of those modules; kmod reads it after the files.
    pub command_line: Fact<Vec<Directive>>,
    /// The image of the running kernel; none where nobody looked, because no option is set that it could carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<Fact<Option<Initramfs>>>,
}

/// One directive, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Directive {
    /// The file.
    pub source: String,
    /// Its first line, from 1; 0 for the kernel's command line.
    pub line: u32,
    /// What it says.
    #[serde(flatten)]
    pub command: Command,
}

/// What a directive says. Names of modules have underscores for dashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Parameters for a module.
    Options {
        /// Its name, or the alias by which it is asked for.
        module: String,
        /// The parameters, as the kernel gets them.
        options: String,
    },
    /// No loading by alias.
    Blacklist {
        /// The module's name.
        module: String,
    },
    /// A shell command instead of loading.
    Install {
        /// The module's name, which may be a pattern.
        module: String,
        /// The command.
        shell: String,
    },
    /// Another name for a module.
    Alias {
        /// The name, which may be a pattern.
        name: String,
        /// The module's name.
        module: String,
    },
    /// Modules to load before and after.
    Softdep {
        /// The module's name.
        module: String,
        /// `pre: a b post: c`.
        modules: String,
    },
    /// The kernel refuses the module: `module_blacklist=`.
    Refuse {
        /// The module's name.
        module: String,
    },
}

/// A file that another one hides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenFile {
    /// The file that is not read.
    pub path: String,
    /// The file that is read in its place.
    pub by: String,
}

/// What an initramfs carries of the NVIDIA modules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Initramfs {
    /// The image.
    pub path: String,
    /// How its archives are packed, in order: `none`, `gzip`, `xz`, `zstd`, `lz4`.
    pub packing: Vec<String>,
    /// The NVIDIA modules in it, by path.
    pub modules: Vec<String>,
    /// What its modprobe.d says of the modules, in the order in which kmod reads it.
    pub directives: Vec<Directive>,
    /// What of it could not be read, in a sentence; what is above is then a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
