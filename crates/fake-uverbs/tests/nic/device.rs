//! An open device, completion queues and registered memory, through libibverbs.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ibverbs_sys as ib;

/// Longer than any wait of the NIC.
const LONGEST: Duration = Duration::from_secs(20);

pub const ALL: i32 = 0xf;

/// An open device with a protection domain. Never closed: the process ends with the test.
#[derive(Clone, Copy)]
pub struct Device {
    pub context: *mut ib::ibv_context,
    pub pd: *mut ib::ibv_pd,
}

#[derive(Clone, Copy)]
pub struct Queue(pub *mut ib::ibv_cq);

/// Registered memory, accessed through a pointer because the NIC accesses it too.
#[derive(Clone, Copy)]
pub struct Memory {
    pub start: *mut u8,
    pub length: usize,
    pub region: *mut ib::ibv_mr,
    pub key: u32,
}

impl Device {
    /// Opens the only device.
    pub fn open() -> Self {
        let context = Self::try_open().expect("ibv_open_device");
        // SAFETY: an open context.
        let pd = unsafe { ib::ibv_alloc_pd(context) };
        assert!(!pd.is_null(), "ibv_alloc_pd: {}", std::io::Error::last_os_error());
        Self { context, pd }
    }

    /// Opens it, or none on failure.
    pub fn try_open() -> Option<*mut ib::ibv_context> {
        let mut count: c_int = 0;
        // SAFETY: room for a number.
        let list = unsafe { ib::ibv_get_device_list(&mut count) };
        assert!(!list.is_null() && count == 1, "{count} devices; the fake has one");
        // SAFETY: the list has one device, opened before the list is freed.
        let context = unsafe { ib::ibv_open_device(*list) };
        // SAFETY: the list from above.
        unsafe { ib::ibv_free_device_list(list) };
        (!context.is_null()).then_some(context)
    }

    /// A completion queue of at least `entries` entries.
    pub fn queue(&self, entries: i32) -> Queue {
        // SAFETY: an open context; no channel.
        let cq = unsafe { ib::ibv_create_cq(self.context, entries - 1, null_mut(), null_mut(), 0) };
        assert!(!cq.is_null(), "ibv_create_cq: {}", std::io::Error::last_os_error());
        Queue(cq)
    }

    /// `length` zero bytes, registered with these access flags.
    pub fn memory(&self, length: usize, access: i32) -> Memory {
        let words = vec![0_u64; length.div_ceil(8)];
        let start: *mut u8 = Box::leak(words.into_boxed_slice()).as_mut_ptr().cast();
        // SAFETY: a live domain; the memory is never freed.
        let region = unsafe { ib::ibv_reg_mr(self.pd, start.cast(), length, access) };
        assert!(!region.is_null(), "ibv_reg_mr: {}", std::io::Error::last_os_error());
        // SAFETY: a live region.
        let key = unsafe { (*region).rkey };
        Memory { start, length, region, key }
    }
}

impl Queue {
    pub fn wait(&self) -> ib::ibv_wc {
        let since = Instant::now();
        loop {
            if let Some(wc) = self.poll() {
                return wc;
            }
            assert!(since.elapsed() < LONGEST, "no completion");
            std::thread::yield_now();
        }
    }

    /// The next completion, if there is one.
    pub fn poll(&self) -> Option<ib::ibv_wc> {
        let mut wc = ib::ibv_wc::default();
        // SAFETY: a live queue, and room for one completion.
        let count = unsafe { ib::ibv_poll_cq(self.0, 1, &mut wc) };
        assert!(count >= 0, "ibv_poll_cq: {count}");
        (count == 1).then_some(wc)
    }

    /// Expects a success; returns its request's id.
    pub fn success(&self) -> u64 {
        let wc = self.wait();
        assert_eq!(wc.error(), None, "request {}", wc.wr_id());
        wc.wr_id()
    }

    /// Expects an error; returns its request's id and status.
    pub fn failure(&self) -> (u64, u32) {
        let wc = self.wait();
        (wc.wr_id(), wc.error().expect("a failure").0)
    }
}

impl Memory {
    /// An address for requests.
    pub fn address(&self, offset: usize) -> u64 {
        self.start as u64 + offset as u64
    }

    pub fn sge(&self, offset: usize, length: usize) -> ib::ibv_sge {
        ib::ibv_sge {
            addr: self.address(offset),
            length: u32::try_from(length).expect("a length"),
            lkey: self.key,
        }
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: within the memory, as just checked, which no request uses now.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len())
        };
    }

    /// Bytes at an offset.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.length);
        let mut bytes = vec![0; length];
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.add(offset), bytes.as_mut_ptr(), length)
        };
        bytes
    }

    /// Deregisters it, which invalidates the key.
    pub fn deregister(&self) {
        // SAFETY: the region is not used afterwards.
        assert_eq!(unsafe { ib::ibv_dereg_mr(self.region) }, 0);
    }
}
