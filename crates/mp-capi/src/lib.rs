//! `libmp.so.2`: the C functions of libmp 2.0 and of its comm library, implemented by the crate `mp`.
//!
//! The headers in `include/` document the interface. This crate checks arguments, keeps handles, translates addresses, and converts
//! errors to numbers and messages.
//!
//! Rules:
//! - Every C function catches panics and returns `MP_SUCCESS`, `MP_FAILURE` or a positive errno. None ends the process.
//! - Handles are numbers that are looked up, never pointers that are followed.
//! - Pointers to buffers, words and handles are checked for NULL and alignment; otherwise they are the caller's promise, as in every C
//!   function.
//! - No CUDA context is created if the thread has one. MPI is found in the process; none is linked.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod buffer;
mod call_error;
mod environment;
mod guard;
mod handles;
mod library;
mod log;
mod stream;
mod words;

mod comm_calls;
mod comm_kernel_calls;
mod device_calls;
mod init_calls;
mod memory_calls;
mod message_calls;
mod queue_calls;
mod stream_calls;
mod wait_calls;
mod window_calls;

pub use comm_calls::{
    comm_deregister, comm_finalize, comm_flush, comm_init, comm_irecv, comm_isend,
    comm_isend_on_stream, comm_progress, comm_register, comm_select_device, comm_send_ready,
    comm_send_ready_on_stream, comm_test_ready, comm_use_comm, comm_use_model_ki,
    comm_use_model_sa, comm_wait, comm_wait_all, comm_wait_all_on_stream, comm_wait_ready,
    comm_wait_ready_on_stream,
};
pub use comm_kernel_calls::{
    comm_prepare_isend, comm_prepare_wait_all, comm_prepare_wait_ready, comm_prepared_requests,
};
pub use device_calls::{get_send_descriptor, get_wait_descriptor, get_word_descriptor};
pub use init_calls::{mp_finalize, mp_init, mp_query_param};
pub use memory_calls::{mp_deregister, mp_register};
pub use message_calls::{mp_irecv, mp_irecv_on_stream, mp_irecvv, mp_isend, mp_isendv};
pub use queue_calls::{
    mp_desc_queue_add_send, mp_desc_queue_add_wait_recv, mp_desc_queue_add_wait_send,
    mp_desc_queue_add_wait_value32, mp_desc_queue_add_write_value32, mp_desc_queue_alloc,
    mp_desc_queue_free, mp_desc_queue_post_on_stream,
};
pub use stream_calls::{
    mp_isend_on_stream, mp_isend_post_all_on_stream, mp_isend_post_on_stream, mp_isendv_on_stream,
    mp_send_on_stream, mp_send_post_all_on_stream, mp_send_post_on_stream, mp_send_prepare,
    mp_sendv_prepare,
};
pub use wait_calls::{
    mp_progress_all, mp_wait, mp_wait_all, mp_wait_all_on_stream, mp_wait_on_stream, mp_wait32,
    mp_wait32_on_stream,
};
pub use window_calls::{
    mp_iget, mp_iget_on_stream, mp_iput, mp_iput_on_stream, mp_iput_post_all_on_stream,
    mp_iput_post_on_stream, mp_put_prepare, mp_window_create, mp_window_destroy,
};
#[doc(hidden)]
pub use {comm_calls::comm_init_with, init_calls::mp_init_with, library::simulate, log::silence};
