//! `libgdsync.so.2`: the functions of libgdsync 2.2 for C, over the crate `gdsync`: words of memory that a CUDA stream writes and waits
//! for, and queue pairs whose sends and completions are such words.
//!
//! The public text of the interface is `include/`; [`abi`] holds its shapes. There is no logic here beyond the border itself:
//! which arguments are believed, where the GPU and the CPU find a word, which errno a failure becomes, what is said.
//!
//! Rules of this crate, which lives in other people's processes:
//! - Every function that C calls catches panics (`EIO`) and returns 0 or a positive errno. None ends the process.
//! - A list is looked at as a whole before anything of it is done.
//! - No context is made or changed: what needs one takes the calling thread's.
//! - What crosses the border as a pointer is checked for NULL and alignment, and otherwise the caller's promise, as it is with
//!   every C function. A `gds_mem_desc_t`, a `struct gds_qp`, a `struct gds_cq` and what is in a request are looked up before anything is
//!   followed: those that are gone are refused.
//! - A queue pair that is destroyed leaves no stream waiting, and no memory that a stream may still write is given back.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod behind;
mod call_error;
mod claims;
mod completed;
mod cpu;
mod environment;
mod flags;
mod guard;
mod list;
mod log;
mod mapped;
mod pair;
mod pairs;
mod registry;
mod request;
mod stream;
mod work;

mod create_calls;
mod memory_calls;
mod post_calls;
mod prepare_calls;
mod query_calls;
mod raw_calls;
mod send_calls;
mod wait_calls;

pub use create_calls::{gds_create_qp, gds_destroy_qp, gds_modify_qp};
#[doc(hidden)]
pub use mapped::simulate;
pub use memory_calls::{
    gds_alloc_mapped_memory, gds_free_mapped_memory, gds_mlx5_get_dword_wait_info,
};
pub use post_calls::{gds_post_descriptors, gds_stream_post_descriptors};
pub use prepare_calls::{
    gds_prepare_wait_value32, gds_prepare_write_memory, gds_prepare_write_value32,
};
pub use query_calls::gds_query_param;
pub use raw_calls::{gds_mlx5_get_send_info, gds_mlx5_get_wait_info};
pub use send_calls::{
    gds_post_recv, gds_post_send, gds_prepare_send, gds_stream_post_send, gds_stream_post_send_all,
    gds_stream_queue_send,
};
pub use wait_calls::{
    gds_append_wait_cq, gds_poll_cq, gds_post_wait_cq, gds_prepare_wait_cq,
    gds_stream_post_wait_cq, gds_stream_post_wait_cq_all, gds_stream_wait_cq,
};
