//! `libgdrapi.so.2`: the 17 functions of gdrcopy 2.6 for C, over the crate `gdrcopy`.
//!
//! The public text of the interface is `include/gdrapi.h`; [`abi`] holds its shapes. There is no
//! logic here beyond the border itself: which pointers and handles are believed, which errno a
//! failure becomes, what is logged.
//!
//! Rules of this crate, which lives in other people's processes:
//! - Every function that C calls catches panics (`EIO`) and returns 0 or a positive errno.
//! - No `gdr_t` and no handle is followed before it was found among the live ones; a handle is never used twice, a `gdr_t` only after
//!   thousands of others.
//! - A copy takes no lock and makes no system call.
//! - What crosses the border as a pointer to write to or read from is checked for NULL and otherwise the caller's promise,
//!   as it is with every C function.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod buffer;
mod call_error;
mod copies;
mod guard;
mod log;
mod sessions;
mod slots;

mod buffer_calls;
mod copy_calls;
mod session_calls;

pub use buffer_calls::{
    gdr_get_callback_flag, gdr_get_info, gdr_get_info_v2, gdr_map, gdr_map_v2, gdr_pin_buffer,
    gdr_pin_buffer_v2, gdr_unmap, gdr_unpin_buffer,
};
pub use copy_calls::{gdr_copy_from_mapping, gdr_copy_to_mapping};
pub use session_calls::{
    gdr_close, gdr_driver_get_version, gdr_get_attribute, gdr_get_mapping_type_string, gdr_open,
    gdr_runtime_get_version,
};
