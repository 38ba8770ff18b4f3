//! How kernel modules are loaded: settings from modprobe.d, the kernel command line and the initramfs.
//!
//! [`super::Driver`] has the settings of the loaded modules; these are the settings for the next load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// Settings for the modules that GPUDirect needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Modprobe {
    /// Directories of modprobe.d that this machine's kmod reads, highest precedence first. They depend on the version
    /// of kmod, taken from its library if possible.
    pub directories: Vec<String>,
    /// Directives for those modules, in the order in which kmod reads them.
    pub directives: Fact<Vec<Directive>>,
    /// Files that kmod ignores because a directory of higher precedence has one of the same name; only for those
    /// modules.
    pub hidden: Vec<HiddenFile>,
    /// Directives on the kernel command line; kmod reads it after the files.
    pub command_line: Fact<Vec<Directive>>,
    /// Initramfs of the running kernel; none if it was not read, because no option that it could carry is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<Fact<Option<Initramfs>>>,
}

/// One directive, and its location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Directive {
    /// The file.
    pub source: String,
    /// Line number, from 1; 0 for the kernel command line.
    pub line: u32,
    /// The directive.
    #[serde(flatten)]
    pub command: Command,
}

/// A directive. Names of modules have underscores instead of dashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Parameters of a module.
    Options {
        /// Name of the module, or an alias.
        module: String,
        /// The parameters, as passed to the kernel.
        options: String,
    },
    /// Prevents loading by alias.
    Blacklist { module: String },
    /// Runs a shell command instead of loading the module.
    Install {
        /// Name of the module, or a pattern.
        module: String,
        /// The command.
        shell: String,
    },
    /// Another name of a module.
    Alias {
        /// The alias, or a pattern.
        name: String,
        module: String,
    },
    /// Modules to load before and after.
    Softdep {
        module: String,
        /// `pre: a b post: c`.
        modules: String,
    },
    /// The kernel does not load the module: `module_blacklist=`.
    Refuse { module: String },
}

/// A file that another file overrides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenFile {
    /// The file that is ignored.
    pub path: String,
    /// The file that is read instead.
    pub by: String,
}

/// NVIDIA modules and their settings in an initramfs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Initramfs {
    /// The image.
    pub path: String,
    /// Compression of its archives, in order: `none`, `gzip`, `xz`, `zstd`, `lz4`.
    pub packing: Vec<String>,
    /// Paths of the NVIDIA modules.
    pub modules: Vec<String>,
    /// Directives of its modprobe.d for these modules, in the order in which kmod reads them.
    pub directives: Vec<Directive>,
    /// What could not be read, as a sentence; the other fields are then incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}
