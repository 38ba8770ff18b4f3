//! The inline functions of `verbs.h`: calls through a context's function table, and two choices between an old and a new function.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

use crate::device::{context_of_cq, context_of_qp, context_of_srq, ops};
use crate::library::not_implemented;
use crate::{
    _ibv_query_gid_ex, _ibv_query_gid_table, AllocParentDomain, AllocTd, DeallocTd,
    IBV_ACCESS_OPTIONAL_RANGE, QueryDeviceEx, functions, ibv_context, ibv_cq, ibv_device_attr_ex,
    ibv_gid_entry, ibv_mr, ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_query_device, ibv_recv_wr, ibv_reg_mr_iova2, ibv_send_wr, ibv_srq, ibv_td,
    ibv_td_init_attr, ibv_wc, verbs_context,
};

/// Polls completions: returns their number, or a negative number.
///
/// # Safety
///
/// The queue is null or alive, and `completions` has room for `entries`.
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, entries: c_int, completions: *mut ibv_wc) -> c_int {
    // SAFETY: the queue, if not null, is alive, and so is its context.
    match unsafe { ops(context_of_cq(cq)) }.and_then(|ops| ops.poll_cq) {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(poll) => unsafe { poll(cq, entries, completions) },
        None => {
            not_implemented();
            -1
        }
    }
}

/// Requests an event for the next completion.
///
/// # Safety
///
/// The queue is null or alive.
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: as for `ibv_poll_cq`.
    match unsafe { ops(context_of_cq(cq)) }.and_then(|ops| ops.req_notify_cq) {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(request) => unsafe { request(cq, solicited_only) },
        None => not_implemented(),
    }
}

/// Posts send requests; `bad` is set to the first that failed.
///
/// # Safety
///
/// The queue pair is null or alive; the requests and their memory meet the conditions of the manual page.
pub unsafe fn ibv_post_send(
    qp: *mut ibv_qp,
    work: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: as for `ibv_poll_cq`.
    match unsafe { ops(context_of_qp(qp)) }.and_then(|ops| ops.post_send) {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(post) => unsafe { post(qp, work, bad) },
        None => not_implemented(),
    }
}

/// Posts receive requests; `bad` is set to the first that failed.
///
/// # Safety
///
/// The queue pair is null or alive; the requests and their memory meet the conditions of the manual page.
pub unsafe fn ibv_post_recv(
    qp: *mut ibv_qp,
    work: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as for `ibv_poll_cq`.
    match unsafe { ops(context_of_qp(qp)) }.and_then(|ops| ops.post_recv) {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(post) => unsafe { post(qp, work, bad) },
        None => not_implemented(),
    }
}

/// Posts requests to a shared receive queue; `bad` is set to the first that failed.
///
/// # Safety
///
/// The queue is null or alive; the requests and their memory meet the conditions of the manual page.
pub unsafe fn ibv_post_srq_recv(
    srq: *mut ibv_srq,
    work: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: as for `ibv_poll_cq`.
    match unsafe { ops(context_of_srq(srq)) }.and_then(|ops| ops.post_srq_recv) {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(post) => unsafe { post(srq, work, bad) },
        None => not_implemented(),
    }
}

/// Queries a port: through the extended context's function, which fills every field, or through the library's, which fills the old ones.
///
/// # Safety
///
/// The context is open, and `attributes` is valid for a write.
pub unsafe fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the context is open.
    if let Some(query) = unsafe { extended_query_port(context) } {
        // SAFETY: the provider's function, with the caller's arguments and the structure's size.
        return unsafe { query(context, port, attributes, size_of::<ibv_port_attr>()) };
    }
    let Some(query) = functions().and_then(|functions| functions.ibv_query_port) else {
        return not_implemented();
    };
    // SAFETY: valid for a write by the caller's guarantee. The library leaves the newer fields alone.
    unsafe { attributes.write(ibv_port_attr::default()) };
    // SAFETY: the library's function, with the caller's arguments; it writes the old fields.
    unsafe { query(context, port, attributes) }
}

/// Extended attributes of a device; a provider without them gives those of [`ibv_query_device`], and zero for all others.
///
/// # Safety
///
/// The context is null or open, and `attributes` is valid for a write.
pub unsafe fn ibv_query_device_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_device_attr_ex,
) -> c_int {
    // SAFETY: valid for a write by the caller's guarantee. An older library leaves the newer fields alone.
    unsafe { attributes.write(ibv_device_attr_ex::default()) };
    let offset = offset_of!(verbs_context, query_device_ex);
    // SAFETY: the context is null or open, and the member is of this type.
    if let Some(query) = unsafe { member::<QueryDeviceEx>(context, offset) } {
        let size = size_of::<ibv_device_attr_ex>();
        // SAFETY: the provider's function, with the structure's size and no input.
        let errno = unsafe { query(context, std::ptr::null(), attributes, size) };
        if errno != libc::EOPNOTSUPP && errno != libc::ENOSYS {
            return errno;
        }
        // SAFETY: as above. What the provider wrote before it failed is not an answer.
        unsafe { attributes.write(ibv_device_attr_ex::default()) };
    }
    // SAFETY: the context is null or open, and the member is within the caller's structure.
    unsafe { ibv_query_device(context, &raw mut (*attributes).orig_attr) }
}

/// Allocates a thread domain.
///
/// # Safety
///
/// The context is null or open, and `attributes` is valid.
pub unsafe fn ibv_alloc_td(
    context: *mut ibv_context,
    attributes: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    // SAFETY: the context is null or open, and the member is of this type.
    match unsafe { member::<AllocTd>(context, offset_of!(verbs_context, alloc_td)) } {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(allocate) => unsafe { allocate(context, attributes) },
        None => {
            unsupported();
            std::ptr::null_mut()
        }
    }
}

/// Frees a thread domain.
///
/// # Safety
///
/// The domain is alive, and no parent domain uses it.
pub unsafe fn ibv_dealloc_td(domain: *mut ibv_td) -> c_int {
    // SAFETY: the domain is alive, and so is its context.
    let context = unsafe { (*domain).context };
    // SAFETY: as above, and the member is of this type.
    match unsafe { member::<DeallocTd>(context, offset_of!(verbs_context, dealloc_td)) } {
        // SAFETY: the provider's function, with the caller's argument.
        Some(give_back) => unsafe { give_back(domain) },
        None => unsupported(),
    }
}

/// Allocates a parent domain: a protection domain together with a thread domain.
///
/// # Safety
///
/// The context is null or open; `attributes` is valid, and its domains are alive.
pub unsafe fn ibv_alloc_parent_domain(
    context: *mut ibv_context,
    attributes: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: the context is null or open, and the member is of this type.
    match unsafe {
        member::<AllocParentDomain>(context, offset_of!(verbs_context, alloc_parent_domain))
    } {
        // SAFETY: the provider's function, with the caller's arguments.
        Some(allocate) => unsafe { allocate(context, attributes) },
        None => {
            unsupported();
            std::ptr::null_mut()
        }
    }
}

/// The result of `verbs.h` for a function that the provider lacks.
fn unsupported() -> c_int {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
    libc::EOPNOTSUPP
}

/// # Safety
///
/// The context is null or open.
unsafe fn extended_query_port(context: *mut ibv_context) -> Option<crate::QueryPort> {
    // SAFETY: the caller's guarantee, and the member's type.
    unsafe { member(context, offset_of!(verbs_context, query_port)) }
}

/// A function of the extended context at an offset of `verbs_context`, if the library's structure includes it.
///
/// # Safety
///
/// The context is null or open, and the member at `offset` is an optional function of type `F`.
unsafe fn member<F>(context: *mut ibv_context, offset: usize) -> Option<F> {
    // SAFETY: the caller's guarantee.
    if unsafe { context.as_ref() }?.abi_compat as usize != usize::MAX {
        return None;
    }
    // SAFETY: this mark means that the context is the last member of a `verbs_context`.
    let size = unsafe {
        context.byte_sub(offset_of!(verbs_context, context) - offset_of!(verbs_context, sz))
    };
    // SAFETY: `sz` directly precedes the context.
    let size = unsafe { size.cast::<usize>().read() };
    if size < size_of::<verbs_context>() - offset {
        return None;
    }
    // SAFETY: by its size the library's structure includes the member.
    let member = unsafe { context.byte_sub(offset_of!(verbs_context, context) - offset) };
    // SAFETY: as above; the type is the caller's guarantee.
    unsafe { member.cast::<Option<F>>().read() }
}

/// Registers memory. Access flags that the kernel may ignore go through [`ibv_reg_mr_iova2`], as in `verbs.h`.
///
/// # Safety
///
/// The protection domain is null or alive; the memory stays mapped while it is registered.
pub unsafe fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // A bit mask; the sign does not matter.
    let bits = access as c_uint;
    if bits & IBV_ACCESS_OPTIONAL_RANGE != 0 {
        // SAFETY: the caller's guarantee covers this call.
        return unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, bits) };
    }
    match functions().and_then(|functions| functions.ibv_reg_mr) {
        // SAFETY: the library's function, with the caller's arguments.
        Some(register) => unsafe { register(pd, addr, length, access) },
        None => {
            not_implemented();
            std::ptr::null_mut()
        }
    }
}

/// An entry of a port's GID table.
///
/// # Safety
///
/// The context is null or open, and `entry` is valid for a write.
pub unsafe fn ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's guarantee covers this call.
    unsafe { _ibv_query_gid_ex(context, port, index, entry, flags, size_of::<ibv_gid_entry>()) }
}

/// The nonempty GID entries of all ports: their number, or a negative error number.
///
/// # Safety
///
/// The context is null or open; `entries` has room for `most`.
pub unsafe fn ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    most: usize,
    flags: u32,
) -> isize {
    // SAFETY: the caller's guarantee covers this call.
    unsafe { _ibv_query_gid_table(context, entries, most, flags, size_of::<ibv_gid_entry>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn answers(
        context: *mut ibv_context,
        port: u8,
        attributes: *mut ibv_port_attr,
        length: usize,
    ) -> c_int {
        // SAFETY: the test's own context.
        unsafe { (*attributes).lid = u16::from(port) };
        c_int::from(context.is_null() || length != size_of::<ibv_port_attr>())
    }

    fn extended(size: usize) -> verbs_context {
        let mut whole =
            verbs_context { query_port: Some(answers), sz: size, ..verbs_context::default() };
        whole.context.abi_compat = usize::MAX as *mut c_void;
        whole
    }

    #[test]
    fn large_extended_context() {
        let mut whole = extended(size_of::<verbs_context>());
        let base: *mut verbs_context = &raw mut whole;
        let context = base.wrapping_byte_add(offset_of!(verbs_context, context)).cast();
        let mut port = ibv_port_attr::default();
        // SAFETY: the context is part of an extended one.
        assert_eq!(unsafe { ibv_query_port(context, 3, &mut port) }, 0);
        assert_eq!(port.lid, 3);
    }

    #[test]
    fn small_extended_context() {
        for (size, mark) in
            [(size_of::<verbs_context>() - 8, usize::MAX), (size_of::<verbs_context>(), 0)]
        {
            let mut whole = extended(size);
            whole.context.abi_compat = mark as *mut c_void;
            let base: *mut verbs_context = &raw mut whole;
            let context = base.wrapping_byte_add(offset_of!(verbs_context, context)).cast();
            // SAFETY: the context is part of an extended one.
            assert!(unsafe { extended_query_port(context) }.is_none());
        }
    }

    unsafe extern "C" fn describes(
        _: *mut ibv_context,
        input: *const c_void,
        attributes: *mut ibv_device_attr_ex,
        length: usize,
    ) -> c_int {
        if !input.is_null() || length != size_of::<ibv_device_attr_ex>() {
            return libc::EINVAL;
        }
        // SAFETY: the test's own structure.
        unsafe { (*attributes).odp_caps.rc_odp_caps = 31 };
        0
    }

    #[test]
    fn extended_attributes() {
        let mut whole = extended(size_of::<verbs_context>());
        whole.query_device_ex = Some(describes);
        let base: *mut verbs_context = &raw mut whole;
        let context = base.wrapping_byte_add(offset_of!(verbs_context, context)).cast();
        let mut attributes = ibv_device_attr_ex::default();
        // What an earlier call left is not an answer.
        attributes.odp_caps.general_caps = u64::MAX;
        // SAFETY: the context is part of an extended one.
        let errno = unsafe { ibv_query_device_ex(context, &mut attributes) };
        let odp = attributes.odp_caps;
        assert_eq!((errno, odp.general_caps, odp.rc_odp_caps), (0, 0, 31));
    }

    #[test]
    fn null_and_missing_functions() {
        let null: *mut c_void = std::ptr::null_mut();
        let mut queue = ibv_cq::default();
        let mut context = ibv_context::default();
        queue.context = &raw mut context;
        // SAFETY: null is allowed, and the queue's context has no functions.
        unsafe {
            assert_eq!(ibv_poll_cq(null.cast(), 1, null.cast()), -1);
            assert_eq!(ibv_poll_cq(&raw mut queue, 0, null.cast()), -1);
            assert_eq!(ibv_req_notify_cq(&raw mut queue, 0), libc::ENOSYS);
            assert_eq!(ibv_post_send(null.cast(), null.cast(), null.cast()), libc::ENOSYS);
            assert_eq!(ibv_post_recv(null.cast(), null.cast(), null.cast()), libc::ENOSYS);
            assert_eq!(ibv_post_srq_recv(null.cast(), null.cast(), null.cast()), libc::ENOSYS);
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
    }
}
