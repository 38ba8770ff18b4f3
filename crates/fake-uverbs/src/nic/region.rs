//! Memory regions, keys and access rights.

use std::ffi::c_int;

use crate::bytes::{Answer, Request};
use crate::nic::memory::Segment;
use crate::nic::objects::Objects;

/// `enum ibv_access_flags`.
pub mod right {
    pub const LOCAL_WRITE: u32 = 1;
    pub const REMOTE_WRITE: u32 = 1 << 1;
    pub const REMOTE_READ: u32 = 1 << 2;
    pub const REMOTE_ATOMIC: u32 = 1 << 3;
}

/// The key of handle 0; its bytes are distinct.
const FIRST_KEY: u32 = 0x001a_2b00;

pub struct Region {
    pub context: c_int,
    pub domain: u32,
    /// The address of its first byte in requests.
    named: u64,
    start: u64,
    length: u64,
    access: u32,
}

impl Objects {
    /// `REG_MR`: `struct ib_uverbs_reg_mr`, answered with `struct ib_uverbs_reg_mr_resp`. lkey and rkey are equal, as on a NIC.
    pub fn register(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let region = Region {
            context,
            start: request.u64(8),
            length: request.u64(16),
            named: request.u64(24),
            domain: request.u32(32),
            access: request.u32(36),
        };
        self.check_domain(context, region.domain)?;
        let needs_write = right::REMOTE_WRITE | right::REMOTE_ATOMIC;
        if region.access & needs_write != 0 && region.access & right::LOCAL_WRITE == 0 {
            return Err(libc::EINVAL);
        }
        // `struct mlx5_ib_reg_mr` is empty. The NIC translates whole pages, so both addresses need the same offset in a page.
        if region.start.checked_add(region.length).is_none()
            || region.named.checked_add(region.length).is_none()
        {
            return Err(libc::EINVAL);
        }
        if !is_memory(region.start, region.length) {
            return Err(libc::EFAULT);
        }
        let handle = self.next();
        self.regions.insert(handle, region);
        let mut answer = Answer::new();
        answer.u32(0, handle);
        answer.u32(4, key(handle));
        answer.u32(8, key(handle));
        Ok(answer)
    }

    /// `DEREG_MR`: invalidates the key.
    pub fn deregister(&mut self, context: c_int, request: Request) -> Result<Answer, c_int> {
        let handle = request.u32(0);
        let known = self.regions.get(&handle).is_some_and(|region| region.context == context);
        known.then(|| self.regions.remove(&handle)).ok_or(libc::EINVAL)?;
        Ok(Answer::new())
    }

    /// The memory at an address, if the key belongs to the protection domain, has the rights, and covers the length.
    pub fn segment(
        &self,
        domain: u32,
        key: u32,
        address: u64,
        bytes: usize,
        rights: u32,
    ) -> Option<Segment> {
        let handle = key.wrapping_sub(FIRST_KEY) >> 8;
        let region = self.regions.get(&handle).filter(|_| key & 0xff == FIRST_KEY & 0xff)?;
        let offset = address.checked_sub(region.named)?;
        let end = offset.checked_add(bytes as u64)?;
        let allowed =
            region.domain == domain && region.access & rights == rights && end <= region.length;
        let address = usize::try_from(region.start + offset).ok()?;
        allowed.then_some(Segment { address, bytes })
    }
}

/// True if the first and last byte are readable in this process: GPU addresses are not, as for a kernel without a peer memory client.
fn is_memory(start: u64, length: u64) -> bool {
    let last = start.wrapping_add(length.saturating_sub(1));
    [start, last].into_iter().all(|address| {
        let mut byte = 0_u8;
        let to = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let from = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
        // SAFETY: a 1-byte buffer; an unreadable source is an error of the call.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
        // If the call itself is not permitted, assume that the memory is valid.
        // SAFETY: the C library gives each thread its own errno.
        length == 0 || read == 1 || unsafe { *libc::__errno_location() } != libc::EFAULT
    })
}

fn key(handle: u32) -> u32 {
    FIRST_KEY.wrapping_add(handle << 8)
}
