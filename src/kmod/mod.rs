//! modprobe.d and the kernel command line as kmod reads them, and module options as the kernel does.
//!
//! Pure, after modprobe.d(5) and libkmod; `tests/gdr/kmod.rs` compares it with `modprobe --showconfig`.

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
