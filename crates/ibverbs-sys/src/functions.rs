//! The library's functions: each is looked up once, and called through a function of the same name that fails if it is missing.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::library::not_implemented;
use crate::{
    __be16, __be64, ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_device, ibv_device_attr, ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr,
};

/// One function per line: documentation, C signature, and result if the library lacks it; then those that `verbs.h` wraps inline
/// (`inline.rs`).
macro_rules! functions {
    ({ $(
        $(#[$doc:meta])*
        fn $name:ident( $( $argument:ident: $type:ty ),* $(,)? ) $( -> $result:ty )? = $absent:expr;
    )* } wrapped { $(
        fn $inner:ident( $( $inner_type:ty ),* ) -> $inner_result:ty;
    )* }) => {
        /// All functions that this crate knows; `None` if the library lacks one.
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
            /// Looks up all functions; `symbol` returns the address of an exported function, or `None`.
            ///
            /// # Safety
            ///
            /// A pointer that `symbol` returns for a verbs name is that function, with the signature of `infiniband/verbs.h`, and stays callable while
            /// the result is in use.
            pub unsafe fn resolve(symbol: impl Fn(&str) -> Option<*mut c_void>) -> Self {
                Self { $(
                    $name: symbol(stringify!($name)).map(|address| {
                        // SAFETY: the address is not null, and by the caller's guarantee that of a function with the signature of verbs.h.
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

            /// The names of the missing functions.
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
            /// The conditions of its manual page: pointers are valid during the call.
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                match crate::functions().and_then(|functions| functions.$name) {
                    // SAFETY: the library's function with this signature; the arguments meet the conditions of its manual page by the caller's guarantee.
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
    /// The devices with a provider, in a null-terminated array.
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device = null();
    /// Frees that array.
    fn ibv_free_device_list(list: *mut *mut ibv_device) = ();
    /// A device's name, such as `mlx5_0`.
    fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char = null();
    /// The kernel's index of a device; -1 if it has none.
    fn ibv_get_device_index(device: *mut ibv_device) -> c_int = minus_one();
    /// A device's GUID in network byte order; 0 on failure.
    fn ibv_get_device_guid(device: *mut ibv_device) -> __be64 = { not_implemented(); 0 };
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context = null();
    /// Closes a device.
    fn ibv_close_device(context: *mut ibv_context) -> c_int = minus_one();
    /// Attributes and limits of a device.
    fn ibv_query_device(context: *mut ibv_context, attributes: *mut ibv_device_attr) -> c_int = not_implemented();
    fn ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int = minus_one();
    /// A P_Key of a port.
    fn ibv_query_pkey(context: *mut ibv_context, port: u8, index: c_int, key: *mut __be16) -> c_int = minus_one();
    /// An entry of a port's GID table; `size` is that of the entry.
    fn _ibv_query_gid_ex(
        context: *mut ibv_context, port: u32, index: u32, entry: *mut ibv_gid_entry, flags: u32, size: usize,
    ) -> c_int = not_implemented();
    /// The nonempty GID entries of all ports, or a negative error number; `size` is that of an entry.
    fn _ibv_query_gid_table(
        context: *mut ibv_context, entries: *mut ibv_gid_entry, most: usize, flags: u32, size: usize,
    ) -> isize = { not_implemented(); -(libc::ENOSYS as isize) };

    /// Allocates a protection domain.
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd = null();
    /// Frees a protection domain.
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int = not_implemented();
    /// Registers memory at an IOVA, with access flags that the kernel may ignore.
    fn ibv_reg_mr_iova2(pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint)
        -> *mut ibv_mr = null();
    /// Registers memory of a dma-buf.
    fn ibv_reg_dmabuf_mr(pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int)
        -> *mut ibv_mr = null();
    /// Deregisters memory.
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int = not_implemented();

    /// Creates a completion channel.
    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel = null();
    /// Destroys a completion channel.
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int = not_implemented();
    /// Waits for a completion event; returns the queue and its `cq_context`.
    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, cq_context: *mut *mut c_void,
    ) -> c_int = minus_one();
    /// Acknowledges events: a queue can be destroyed only after all are acknowledged.
    fn ibv_ack_cq_events(cq: *mut ibv_cq, count: c_uint) = ();
    /// Waits for an asynchronous event.
    fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int = minus_one();
    /// Acknowledges an event: its subject can be destroyed only afterwards.
    fn ibv_ack_async_event(event: *mut ibv_async_event) = ();
    /// Creates an address handle.
    fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah = null();
    /// Destroys an address handle.
    fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int = not_implemented();
    /// Creates a completion queue.
    fn ibv_create_cq(
        context: *mut ibv_context, entries: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq = null();
    /// Destroys a completion queue.
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int = not_implemented();
    /// Creates a queue pair.
    fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp = null();
    /// Queries a queue pair; `mask` names the wanted attributes.
    fn ibv_query_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int, made: *mut ibv_qp_init_attr) -> c_int
        = not_implemented();
    /// Changes a queue pair's attributes.
    fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int = not_implemented();
    /// The extended queue pair of one that was created with `send_ops_flags`, else NULL; since rdma-core 22.
    fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex = null();
    /// Destroys a queue pair.
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int = not_implemented();
} wrapped {
    fn ibv_query_port(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    fn ibv_reg_mr(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
} }
