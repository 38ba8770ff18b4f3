//! The functions: each is looked up once, and called through a function of the same name that fails where it is missing.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::library::not_implemented;
use crate::{
    __be16, __be64, ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_device, ibv_device_attr, ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_qp_attr, ibv_qp_init_attr,
};

/// One function a line: what it does, its C signature, and its result where the library lacks it; then those that `verbs.h`
/// wraps in functions of the same name (`inline.rs`).
macro_rules! functions {
    ({ $(
        $(#[$doc:meta])*
        fn $name:ident( $( $argument:ident: $type:ty ),* $(,)? ) $( -> $result:ty )? = $absent:expr;
    )* } wrapped { $(
        fn $inner:ident( $( $inner_type:ty ),* ) -> $inner_result:ty;
    )* }) => {
        /// Every function that this crate knows, `None` where the library lacks it.
        #[derive(Debug, Default)]
        #[non_exhaustive]
        pub struct Functions {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub $name: Option<unsafe extern "C" fn($($type),*) $(-> $result)?>,
            )*
            $(
                #[doc = concat!("`", stringify!($inner), "`.")]
                pub $inner: Option<unsafe extern "C" fn($($inner_type),*) -> $inner_result>,
            )*
        }

        impl Functions {
            /// Looks every function up; `symbol` gives the address of an exported function, or `None`.
            ///
            /// # Safety
            ///
            /// A pointer that `symbol` gives for a name of verbs must be that function, of the signature in
            /// `infiniband/verbs.h`, and stay callable for as long as the result is used.
            pub unsafe fn resolve(symbol: impl Fn(&str) -> Option<*mut c_void>) -> Self {
                Self { $(
                    $name: symbol(stringify!($name)).map(|address| {
                        // SAFETY: the address is not null (`symbol` found it) and is that of a function with the signature
                        // that verbs.h gives under this name (this function's own condition).
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>(address)
                        }
                    }),
                )* $(
                    $inner: symbol(stringify!($inner)).map(|address| {
                        // SAFETY: as above.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($inner_type),*) -> $inner_result>(
                                address,
                            )
                        }
                    }),
                )* }
            }

            /// The names of the functions that are missing.
            #[must_use]
            pub fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $( if self.$name.is_none() { missing.push(stringify!($name)); } )*
                $( if self.$inner.is_none() { missing.push(stringify!($inner)); } )*
                missing
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// The conditions of its manual page: pointers lead to what they say for the time of the call.
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                match crate::functions().and_then(|functions| functions.$name) {
                    // SAFETY: the library's function of this name and signature; the arguments are the caller's, under
                    // the conditions of its manual page.
                    Some(function) => unsafe { function($($argument),*) },
                    None => $absent,
                }
            }
        )*
    };
}

/// NULL, with `errno`.
fn null<T>() -> *mut T {
    not_implemented();
    null_mut()
}

/// -1, with `errno`.
fn minus_one() -> c_int {
    not_implemented();
    -1
}

functions! { {
    /// The devices that a provider serves, in an array that ends with NULL.
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device = null();
    /// Gives that array back.
    fn ibv_free_device_list(list: *mut *mut ibv_device) = ();
    /// A device's name, as in `mlx5_0`.
    fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char = null();
    /// The kernel's number of a device; -1 where it has none.
    fn ibv_get_device_index(device: *mut ibv_device) -> c_int = minus_one();
    /// A device's GUID in network byte order; 0 where it cannot be had.
    fn ibv_get_device_guid(device: *mut ibv_device) -> __be64 = { not_implemented(); 0 };
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context = null();
    /// Closes it.
    fn ibv_close_device(context: *mut ibv_context) -> c_int = minus_one();
    /// What a device holds.
    fn ibv_query_device(context: *mut ibv_context, attributes: *mut ibv_device_attr) -> c_int = not_implemented();
    fn ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int = minus_one();
    /// A partition key of a port.
    fn ibv_query_pkey(context: *mut ibv_context, port: u8, index: c_int, key: *mut __be16) -> c_int = minus_one();
    /// An entry of a port's GID table; `size` is that of the entry.
    fn _ibv_query_gid_ex(
        context: *mut ibv_context, port: u32, index: u32, entry: *mut ibv_gid_entry, flags: u32, size: usize,
    ) -> c_int = not_implemented();
    /// The GID entries of all ports that are not empty, or a negative error number; `size` is that of an entry.
    fn _ibv_query_gid_table(
        context: *mut ibv_context, entries: *mut ibv_gid_entry, most: usize, flags: u32, size: usize,
    ) -> isize = { not_implemented(); -(libc::ENOSYS as isize) };

    /// A protection domain.
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd = null();
    /// Gives it back.
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int = not_implemented();
    /// Registers memory at an address of the caller's choice, with bits of access that a kernel may ignore.
    fn ibv_reg_mr_iova2(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint)
        -> *mut ibv_mr = null();
    /// Registers memory that a dma-buf leads to.
    fn ibv_reg_dmabuf_mr(pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int)
        -> *mut ibv_mr = null();
    /// Ends a registration.
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int = not_implemented();

    /// A channel for events.
    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel = null();
    /// Gives it back.
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int = not_implemented();
    /// Waits for a completion event; `cq` is then the queue, and `cq_context` what it was made with.
    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void,
    ) -> c_int = minus_one();
    /// Acknowledges so many of its events: a queue is not destroyed before all are.
    fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) = ();
    /// Waits for an asynchronous event.
    fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int = minus_one();
    /// Acknowledges it: what it is about is not destroyed before it is.
    fn ibv_ack_async_event(event: *mut ibv_async_event) = ();
    /// The address of a datagram.
    fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah = null();
    /// Gives it back.
    fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int = not_implemented();
    /// A completion queue.
    fn ibv_create_cq(
        context: *mut ibv_context, entries: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq = null();
    /// Gives it back.
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int = not_implemented();
    /// A queue pair.
    fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp = null();
    /// What it is; `mask` says what of `attributes` is wanted.
    fn ibv_query_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int, made: *mut ibv_qp_init_attr) -> c_int
        = not_implemented();
    /// Changes it.
    fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int = not_implemented();
    /// Gives it back.
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int = not_implemented();
} wrapped {
    fn ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    fn ibv_reg_mr(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
} }
