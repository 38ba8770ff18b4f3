//! Per-process state that does not leak into forked children, without locks: a lock that another
//! thread holds during a fork stays locked in the child forever.
//!
//! - [`Process::current`] distinguishes a child from its parent, even with the same process ID
//!   (nested PID namespaces).
//! - [`PerProcess`] is a value that each process creates for itself: a lock in it is never
//!   inherited locked.
//! - [`SetOnce`] is set by the first caller without waiting, so no child waits for a thread that it
//!   does not have.
//! - [`write_error`] and [`os_text`] print messages without locks of the standard library or of the
//!   C library's locales.
//! - [`exports!`](crate::exports!) declares the C functions of libraries that live in other programs.
//!
//! It allocates: glibc's allocator works in a child that its `fork` made. A child of the bare
//! `clone` system call in a program with several threads may only run another program.

mod exports;
mod identity;
mod message;
mod value;

pub use identity::Process;
pub use message::{os_text, write_error};
pub use value::{PerProcess, SetOnce};
