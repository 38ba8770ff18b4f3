//! What kmod makes of modprobe.d and the kernel's command line, and what the kernel makes of a module's options.
//!
//! Pure: texts in, directives out. The rules are those of modprobe.d(5) and libkmod, and `modprobe --showconfig` is
//! the judge in `tests/gdr/kmod.rs`. Which files there are is the collector's to find, what follows the checks' to say.

pub mod acs;
mod command_line;
mod config;
mod directive;
mod directories;
pub mod edit;
pub mod initramfs;
mod line;
mod masked;
pub mod nvidia;
mod options;
mod pattern;

pub use command_line::{command_line, words};
pub use config::{Config, Load, NotLoaded};
pub use directive::{concerns, directives, kept};
pub use directories::{NEWEST, directories, version_of_library};
pub use line::module_name;
pub use masked::{masked, masked_image};
pub use options::{Parameter, parameters, unsigned};
