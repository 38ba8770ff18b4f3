//! Protection domains, memory regions and key checks.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use fakes::dmabuf::PAGE;
use ibverbs_sys::{IBV_ACCESS_OPTIONAL_RANGE, ibv_access_flags, ibv_context, ibv_mr, ibv_pd};
use serde_json::json;

use crate::answer::{Errno, note, pointer_or_null, status};
use crate::bytes::Segment;
use crate::device::attributes;
use crate::machine::{efa, efa_has, of_device, verbs};
use crate::maps::{Mapping, check, is_device_memory, is_out_of_reach};
use crate::objects::{Domain, Objects, Region, Sge, Shared, objects};

const LOCAL_WRITE: u32 = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
const REMOTE_WRITE: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
const REMOTE_READ: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;
const REMOTE_ATOMIC: u32 = ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;
const ZERO_BASED: u32 = ibv_access_flags::IBV_ACCESS_ZERO_BASED.0;
const ON_DEMAND: u32 = ibv_access_flags::IBV_ACCESS_ON_DEMAND.0;
/// Without huge pages.
const KNOWN: u32 = 0x3f | ON_DEMAND | IBV_ACCESS_OPTIONAL_RANGE;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer_or_null("ibv_alloc_pd", || {
        let mut objects = objects();
        let device = objects.context(context)?.device;
        let count = objects.domains.values().filter(|domain| domain.device == device).count();
        if count >= usize::try_from(attributes(device).max_pd).unwrap_or(0) {
            return Err(libc::ENOMEM);
        }
        let handle = objects.handle();
        let raw = Shared::new(ibv_pd { context, handle });
        let pointer = raw.pointer();
        let domain = Domain { raw, context: context.addr(), device };
        objects.domains.insert(pointer.addr(), domain);
        Ok(pointer)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    status("ibv_dealloc_pd", || {
        let mut objects = objects();
        objects.domain(pd)?;
        let address = pd.addr();
        let is_used = objects.regions.values().any(|region| region.domain == address)
            || objects.pairs.values().any(|pair| pair.domain == address)
            || objects.handles.values().any(|handle| handle.domain == address);
        if is_used {
            return Err(libc::EBUSY);
        }
        objects.domains.remove(&address);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    start: *mut c_void,
    bytes: usize,
    access: c_int,
) -> *mut ibv_mr {
    pointer_or_null("ibv_reg_mr", || {
        // A bit mask; the sign does not matter.
        register(pd, start, bytes, start.addr() as u64, access as c_uint)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    start: *mut c_void,
    bytes: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer_or_null("ibv_reg_mr_iova2", || register(pd, start, bytes, iova, access))
}

fn register(
    pd: *mut ibv_pd,
    start: *mut c_void,
    bytes: usize,
    iova: u64,
    access: u32,
) -> Result<*mut ibv_mr, Errno> {
    let device = objects().domain(pd)?.device;
    let address = start.expose_provenance();
    allow(device, bytes, access)?;
    let end = address.checked_add(bytes).ok_or(libc::EINVAL)? as u64;
    check(address as u64, bytes as u64, access & LOCAL_WRITE != 0)?;
    let ends = [address as u64, end - 1];
    let is_device_memory = ends.iter().any(|at| is_device_memory(*at));
    let has_peer =
        || of_device(device, "peermem") != false && !ends.iter().any(|at| is_out_of_reach(*at));
    // The kernel looks for pages on demand among those of the process.
    if is_device_memory && (access & ON_DEMAND != 0 || !has_peer()) {
        return Err(libc::EFAULT);
    }
    let pages = end.next_multiple_of(PAGE) - address as u64 / PAGE * PAGE;
    let is_pinned = !is_device_memory && access & ON_DEMAND == 0;
    let locked = if is_pinned { pages } else { 0 };
    objects().enter(pd, (start, address, bytes), iova, access, is_device_memory, locked, None)
}

/// Registers a dma-buf. `mapping` names what it is exported with, or who accesses it.
pub fn register_file(
    pd: *mut ibv_pd,
    (offset, bytes, iova): (u64, usize, u64),
    file: c_int,
    access: c_uint,
    mapping: &str,
) -> Result<*mut ibv_mr, Errno> {
    let device = objects().domain(pd)?.device;
    let failure = |value: &serde_json::Value| {
        let code = value.as_i64().filter(|code| *code != 0)?;
        Some(Errno::try_from(code).unwrap_or(libc::EIO))
    };
    let fails = |key: &str| failure(&of_device(device, key)[mapping]).map_or(Ok(()), Err);
    if let Some(code) = failure(of_device(device, "dmabuf")) {
        return Err(code);
    }
    if offset % PAGE != iova % PAGE {
        return Err(libc::EINVAL);
    }
    // The kernel checks the file before the length.
    if bytes == 0 {
        Mapping::of(file, 0, 0, false)?;
    }
    if access & ON_DEMAND != 0 {
        return Err(libc::EINVAL);
    }
    allow(device, bytes, access)?;
    let mapped = Mapping::of(file, offset, bytes, access & LOCAL_WRITE != 0)?;
    fails("attach")?;
    fails("registration")?;
    let at = (null_mut(), mapped.address(), bytes);
    objects().enter(pd, at, iova, access, true, 0, Some(mapped))
}

/// Checks the length and access rights of a registration.
fn allow(device: usize, bytes: usize, access: u32) -> Result<(), Errno> {
    let needs_local = access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
    if !efa(device).is_null() {
        let can = |ability, flag| if efa_has(device, ability) { flag } else { 0 };
        let able = LOCAL_WRITE | can("read", REMOTE_READ) | can("write", REMOTE_WRITE);
        if access & !(able | IBV_ACCESS_OPTIONAL_RANGE) != 0 {
            return Err(libc::EOPNOTSUPP);
        }
    }
    if access & ON_DEMAND != 0 {
        let odp = of_device(device, "odp");
        let code = odp["registration"].as_i64().filter(|code| *code != 0);
        if let Some(code) = code {
            return Err(Errno::try_from(code).unwrap_or(libc::EIO));
        }
        if odp.is_null() {
            return Err(libc::EOPNOTSUPP);
        }
    }
    let is_sound = access & !KNOWN == 0 && (!needs_local || access & LOCAL_WRITE != 0);
    if is_sound && bytes > 0 && bytes as u64 <= attributes(device).max_mr_size {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status("ibv_dereg_mr", || {
        let mut objects = objects();
        let region = objects.regions.remove(&mr.addr()).ok_or(libc::EINVAL)?;
        note(&json!({"deregistered": region.rkey}));
        objects.keys.remove(&region.lkey);
        objects.keys.remove(&region.rkey);
        Ok(())
    })
}

impl Objects {
    #[allow(clippy::too_many_arguments)] // One per member of `ibv_mr` and `Region`.
    pub fn enter(
        &mut self,
        pd: *mut ibv_pd,
        (shown, start, bytes): (*mut c_void, usize, usize),
        iova: u64,
        access: u32,
        is_device_memory: bool,
        locked: u64,
        mapping: Option<Mapping>,
    ) -> Result<*mut ibv_mr, Errno> {
        let domain = self.domain(pd)?;
        let (context, device) = (domain.context, domain.device);
        let context = self.contexts.get(&context).ok_or(libc::EINVAL)?.pointer();
        let all: u64 = self.regions.values().map(|region| region.locked).sum();
        let existing = self.regions.values().filter(|region| region.device == device).count();
        let is_too_much =
            locked > 0 && verbs()["memlock"].as_u64().is_some_and(|most| all + locked > most);
        if is_too_much || existing >= usize::try_from(attributes(device).max_mr).unwrap_or(0) {
            return Err(libc::ENOMEM);
        }
        let handle = self.handle();
        // Distinct keys: NICs that use one key for both purposes hide it when a program swaps them.
        let (lkey, rkey) = (handle << 8 | 1, handle << 8 | 2);
        let raw =
            Shared::new(ibv_mr { context, pd, addr: shown, length: bytes, handle, lkey, rkey });
        let pointer = raw.pointer();
        let region = Region {
            raw,
            domain: pd.addr(),
            device,
            start,
            iova: if access & ZERO_BASED != 0 { 0 } else { iova },
            bytes,
            access,
            lkey,
            rkey,
            is_device_memory,
            locked,
            _mapping: mapping,
        };
        note(&json!({"registered": rkey, "access": access, "bytes": bytes}));
        self.keys.insert(lkey, region.raw.address());
        self.keys.insert(rkey, region.raw.address());
        self.regions.insert(region.raw.address(), region);
        Ok(pointer)
    }

    /// The memory of the SGEs, if their lkeys allow access.
    pub fn local(&self, domain: usize, sges: &[Sge], writes: bool) -> Option<Vec<Segment>> {
        let rights = if writes { LOCAL_WRITE } else { 0 };
        let sges = sges.iter().filter(|sge| sge.bytes > 0);
        let segment = |sge: &Sge| {
            let region = self.region(sge.lkey).filter(|region| region.lkey == sge.lkey)?;
            region.segment(domain, sge.address, sge.bytes, rights)
        };
        sges.map(segment).collect()
    }

    /// The memory that an rkey opens with these rights. The key of a zero-length access is not checked.
    pub fn remote(
        &self,
        domain: usize,
        address: u64,
        bytes: u32,
        rkey: u32,
        rights: u32,
    ) -> Option<Vec<Segment>> {
        if bytes == 0 {
            return Some(Vec::new());
        }
        let region = self.region(rkey).filter(|region| region.rkey == rkey)?;
        region.segment(domain, address, bytes, rights).map(|segment| vec![segment])
    }

    fn region(&self, key: u32) -> Option<&Region> {
        self.regions.get(self.keys.get(&key)?)
    }
}

impl Region {
    fn segment(&self, domain: usize, address: u64, bytes: u32, rights: u32) -> Option<Segment> {
        let into = usize::try_from(address.checked_sub(self.iova)?).ok()?;
        let bytes = bytes as usize;
        let fits = into.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let may = self.domain == domain && self.access & rights == rights;
        (fits && may).then(|| Segment {
            address: self.start + into,
            bytes,
            is_device_memory: self.is_device_memory,
        })
    }
}
