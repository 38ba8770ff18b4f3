//! `libgdsync.so.2`: the functions of libgdsync 2.2 for C, over the crate `gdsync`. So far those that need no card: words of memory
//! that a CUDA stream writes and waits for.
//!
//! The public text of the interface is `include/`; [`abi`] holds its shapes. There is no logic here beyond the border itself:
//! which arguments are believed, where the GPU and the CPU find a word, which errno a failure becomes, what is said.
//!
//! Rules of this crate, which lives in other people's processes:
//! - Every function that C calls catches panics (`EIO`) and returns 0 or a positive errno. None ends the process.
//! - A list is looked at as a whole before anything of it is done.
//! - No context is made or changed: what needs one takes the calling thread's.
//! - What crosses the border as a pointer is checked for NULL and alignment, and otherwise the caller's promise, as it is with
//!   every C function. A `gds_mem_desc_t` is looked up before anything is freed.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod cpu;
mod device;
mod environment;
mod flags;
mod guard;
mod list;
mod log;
mod mapped;
mod refusal;
mod registry;

mod memory_calls;
mod post_calls;
mod prepare_calls;
mod query_calls;

#[doc(hidden)]
pub use mapped::simulate;
pub use memory_calls::{gds_alloc_mapped_memory, gds_free_mapped_memory, gds_mlx5_get_dword_wait_info};
pub use post_calls::{gds_post_descriptors, gds_stream_post_descriptors};
pub use prepare_calls::{gds_prepare_wait_value32, gds_prepare_write_memory, gds_prepare_write_value32};
pub use query_calls::gds_query_param;
