//! The device list, which lives as long as the library is loaded, and the attributes of a device.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::without_provenance_mut;
use std::sync::LazyLock;

use ibverbs_sys::{
    __be64, IBV_NODE_CA, IBV_NODE_RNIC, IBV_NODE_UNSPECIFIED, IBV_ODP_SUPPORT,
    IBV_ODP_SUPPORT_ATOMIC, IBV_ODP_SUPPORT_IMPLICIT, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV,
    IBV_ODP_SUPPORT_SEND, IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE, ibv_context,
    ibv_context_ops, ibv_device, ibv_device_attr, ibv_device_attr_ex, ibv_odp_caps, verbs_context,
};

use crate::answer::{Errno, infallible, pointer_or_null, put, status};
use crate::machine::{device, devices, efa, guid, limit, of_device, ports};
use crate::objects::{Context, EventCounter, Shared, objects};
use crate::{completion, post};

static DEVICES: LazyLock<Vec<Shared<ibv_device>>> =
    LazyLock::new(|| (0..devices()).map(|index| Shared::new(described(index))).collect());

pub fn name(index: usize) -> String {
    let name = device(index)["name"].as_str();
    name.map_or_else(|| format!("fake_{index}"), str::to_owned)
}

fn described(index: usize) -> ibv_device {
    let is_efa = !efa(index).is_null();
    let (node_type, transport_type) = if is_efa {
        (IBV_NODE_UNSPECIFIED, 4) // IBV_TRANSPORT_UNSPECIFIED
    } else if of_device(index, "iwarp") == true {
        (IBV_NODE_RNIC, 1) // IBV_TRANSPORT_IWARP
    } else {
        (IBV_NODE_CA, 0)
    };
    let mut device =
        ibv_device { node_type: node_type.cast_signed(), transport_type, ..ibv_device::default() };
    let name = name(index);
    text(&mut device.name, &name);
    text(&mut device.dev_name, &format!("uverbs{index}"));
    text(&mut device.dev_path, &format!("/sys/class/infiniband_verbs/uverbs{index}"));
    text(&mut device.ibdev_path, &format!("/sys/class/infiniband/{name}"));
    device
}

/// Writes a string with its NUL, truncated to fit.
fn text(room: &mut [c_char], text: &str) {
    let last = room.len() - 1;
    for (place, byte) in room[..last].iter_mut().zip(text.bytes()) {
        *place = c_char::from_ne_bytes([byte]);
    }
}

pub fn index(device: *mut ibv_device) -> Result<usize, Errno> {
    let place = DEVICES.iter().position(|known| known.pointer() == device);
    place.ok_or(libc::EINVAL)
}

/// # Safety
///
/// `count` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    pointer_or_null("ibv_get_device_list", || {
        let room = DEVICES.len() + 1;
        // SAFETY: calloc accepts any two numbers.
        let list: *mut *mut ibv_device = unsafe { libc::calloc(room, size_of::<usize>()) }.cast();
        if list.is_null() {
            return Err(libc::ENOMEM);
        }
        for (place, device) in DEVICES.iter().enumerate() {
            // SAFETY: the list has room for each device and the final NULL.
            unsafe { list.add(place).write(device.pointer()) };
        }
        // SAFETY: the caller's guarantee. The error is ignored: a null `count` is allowed.
        let _ = unsafe { put(count, c_int::try_from(DEVICES.len()).unwrap_or(0)) };
        Ok(list)
    })
}

/// # Safety
///
/// `list` is null or came from [`ibv_get_device_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    infallible("ibv_free_device_list", (), || {
        // SAFETY: the caller's guarantee: `calloc` allocated it.
        unsafe { libc::free(list.cast()) };
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    pointer_or_null("ibv_get_device_name", || {
        let device = DEVICES[index(device)?].pointer();
        // SAFETY: one of this library's devices, which are never freed; no reference is made.
        Ok(unsafe { &raw mut (*device).name }.cast())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> __be64 {
    infallible("ibv_get_device_guid", 0, || Ok(guid(index(device)?).to_be()))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer_or_null("ibv_open_device", || {
        let index = index(device)?;
        let counter = EventCounter::new()?;
        let raw = Shared::new(verbs_context {
            query_device_ex: Some(query_device_ex),
            sz: size_of::<verbs_context>(),
            context: ibv_context {
                device,
                ops: ibv_context_ops {
                    poll_cq: Some(completion::poll),
                    req_notify_cq: Some(completion::request_notification),
                    post_send: Some(post::send),
                    post_recv: Some(post::receive),
                    ..ibv_context_ops::default()
                },
                cmd_fd: -1,
                async_fd: counter.number(),
                num_comp_vectors: 1,
                // The mark of an extended context.
                abi_compat: without_provenance_mut(usize::MAX),
                ..ibv_context::default()
            },
            ..verbs_context::default()
        });
        let context = Context { raw, device: index, counter, events: Default::default() };
        let pointer = context.pointer();
        objects().contexts.insert(pointer.addr(), context);
        Ok(pointer)
    })
}

/// Destroys all objects of the context, as the kernel does.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    status("ibv_close_device", || {
        let mut objects = objects();
        let context = context.addr();
        objects.contexts.remove(&context).ok_or(libc::EINVAL)?;
        objects.pairs.retain(|_, pair| pair.context != context);
        objects.queues.retain(|_, queue| queue.context != context);
        objects.channels.retain(|_, channel| channel.context != context);
        let gone: Vec<usize> = objects
            .domains
            .values()
            .filter(|domain| domain.context == context)
            .map(|domain| domain.raw.address())
            .collect();
        objects.handles.retain(|_, handle| !gone.contains(&handle.domain));
        objects.regions.retain(|_, region| !gone.contains(&region.domain));
        objects.domains.retain(|domain, _| !gone.contains(domain));
        let left: Vec<usize> = objects.regions.keys().copied().collect();
        objects.keys.retain(|_, region| left.contains(region));
        Ok(())
    })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    out: *mut ibv_device_attr,
) -> c_int {
    status("ibv_query_device", || {
        let device = objects().context(context)?.device;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, attributes(device)) }
    })
}

/// What the old query gives and on-demand paging; all else is 0.
///
/// # Safety
///
/// `out` is null or valid for a write of `length` bytes.
unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    _input: *const c_void,
    out: *mut ibv_device_attr_ex,
    length: usize,
) -> c_int {
    status("ibv_query_device_ex", || {
        let device = objects().context(context)?.device;
        if out.is_null() || length < size_of::<ibv_device_attr>() {
            return Err(libc::EINVAL);
        }
        let all = ibv_device_attr_ex {
            orig_attr: attributes(device),
            odp_caps: on_demand_paging(device),
            ..ibv_device_attr_ex::default()
        };
        let known = size_of::<ibv_device_attr_ex>().min(length);
        let from: *const ibv_device_attr_ex = &raw const all;
        // SAFETY: the caller's guarantee: as much as both know.
        unsafe { from.cast::<u8>().copy_to(out.cast(), known) };
        Ok(())
    })
}

/// What a device offers for on-demand paging; nothing unless the machine file says so.
pub fn on_demand_paging(device: usize) -> ibv_odp_caps {
    let odp = of_device(device, "odp");
    if odp.is_null() {
        return ibv_odp_caps::default();
    }
    let bits = |transport: &str| {
        let bit = |name: &serde_json::Value| match name.as_str() {
            Some("send") => IBV_ODP_SUPPORT_SEND,
            Some("recv") => IBV_ODP_SUPPORT_RECV,
            Some("write") => IBV_ODP_SUPPORT_WRITE,
            Some("read") => IBV_ODP_SUPPORT_READ,
            Some("atomic") => IBV_ODP_SUPPORT_ATOMIC,
            Some("srq_recv") => IBV_ODP_SUPPORT_SRQ_RECV,
            _ => 0,
        };
        let names = odp[transport].as_array();
        names.map_or(0, |names| names.iter().fold(0, |all, name| all | bit(name)))
    };
    let implicit = if odp["implicit"] == true { IBV_ODP_SUPPORT_IMPLICIT } else { 0 };
    ibv_odp_caps {
        general_caps: u64::from(IBV_ODP_SUPPORT | implicit),
        rc_odp_caps: bits("rc"),
        uc_odp_caps: bits("uc"),
        ud_odp_caps: bits("ud"),
    }
}

/// Attributes of a device; those without a value or a default are 0.
pub fn attributes(device: usize) -> ibv_device_attr {
    let mut all = ibv_device_attr::default();
    text(&mut all.fw_ver, of_device(device, "fw_ver").as_str().unwrap_or("0.0.0"));
    all.node_guid = guid(device).to_be();
    all.sys_image_guid = all.node_guid;
    all.phys_port_cnt = ports(device);
    macro_rules! limits {
        ($($name:ident: $default:expr),* $(,)?) => { $( all.$name = limit(device, stringify!($name), $default); )* };
    }
    limits!(
        max_mr_size: u64::MAX, page_size_cap: 0xffff_ffff_ffff_f000, vendor_id: 0x02c9, vendor_part_id: 0, hw_ver: 0,
        max_qp: 1 << 17, max_qp_wr: 1 << 15, device_cap_flags: 0, max_sge: 30, max_sge_rd: 30, max_cq: 1 << 24,
        max_cqe: (1 << 22) - 1, max_mr: 1 << 24, max_pd: 1 << 23, max_qp_rd_atom: 16, max_res_rd_atom: 1 << 21,
        max_qp_init_rd_atom: 16, atomic_cap: 1, max_mw: 0, max_mcast_grp: 0, max_ah: i32::MAX, max_srq: 0, max_srq_wr: 0,
        max_srq_sge: 0, max_pkeys: 128, local_ca_ack_delay: 16,
    );
    all
}
