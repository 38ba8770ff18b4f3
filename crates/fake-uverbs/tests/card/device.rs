//! An open device, its completion queues and its registered memory, through libibverbs alone.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use ibverbs_sys as ib;

/// Longer than any wait of the NIC.
const LONGEST: Duration = Duration::from_secs(20);

pub const ALL: i32 = 0xf;

/// An open device with a protection domain. Nothing is given back by itself: the process ends with the test.
#[derive(Clone, Copy)]
pub struct Device {
    pub context: *mut ib::ibv_context,
    pub pd: *mut ib::ibv_pd,
}

#[derive(Clone, Copy)]
pub struct Queue(pub *mut ib::ibv_cq);

/// Registered memory. It is read and written through a pointer, for the NIC does so too.
#[derive(Clone, Copy)]
pub struct Memory {
    pub start: *mut u8,
    pub length: usize,
    pub region: *mut ib::ibv_mr,
    pub key: u32,
}

impl Device {
    /// Opens the only device there is.
    pub fn open() -> Self {
        let context = Self::try_open().expect("ibv_open_device");
        // SAFETY: the open context.
        let pd = unsafe { ib::ibv_alloc_pd(context) };
        assert!(
            !pd.is_null(),
            "ibv_alloc_pd: {}",
            std::io::Error::last_os_error()
        );
        Self { context, pd }
    }

    /// Opens it, where that succeeds.
    pub fn try_open() -> Option<*mut ib::ibv_context> {
        let mut count: c_int = 0;
        // SAFETY: room for a number.
        let list = unsafe { ib::ibv_get_device_list(&mut count) };
        assert!(
            !list.is_null() && count == 1,
            "{count} devices; the double has one"
        );
        // SAFETY: the list has one device, opened before the list is given back.
        let context = unsafe { ib::ibv_open_device(*list) };
        // SAFETY: the list of above.
        unsafe { ib::ibv_free_device_list(list) };
        (!context.is_null()).then_some(context)
    }

    /// A completion queue of at least so many entries.
    pub fn queue(&self, entries: i32) -> Queue {
        // SAFETY: the open context; no channel.
        let cq = unsafe { ib::ibv_create_cq(self.context, entries - 1, null_mut(), null_mut(), 0) };
        assert!(
            !cq.is_null(),
            "ibv_create_cq: {}",
            std::io::Error::last_os_error()
        );
        Queue(cq)
    }

    /// So many bytes of zero, registered with these rights.
    pub fn memory(&self, length: usize, access: i32) -> Memory {
        let words = vec![0_u64; length.div_ceil(8)];
        let start: *mut u8 = Box::leak(words.into_boxed_slice()).as_mut_ptr().cast();
        // SAFETY: the live domain; the memory is never given back.
        let region = unsafe { ib::ibv_reg_mr(self.pd, start.cast(), length, access) };
        assert!(
            !region.is_null(),
            "ibv_reg_mr: {}",
            std::io::Error::last_os_error()
        );
        // SAFETY: the live region.
        let key = unsafe { (*region).rkey };
        Memory {
            start,
            length,
            region,
            key,
        }
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

    /// The next completion, where there is one.
    pub fn poll(&self) -> Option<ib::ibv_wc> {
        let mut wc = ib::ibv_wc::default();
        // SAFETY: the live queue, and room for one completion.
        let count = unsafe { ib::ibv_poll_cq(self.0, 1, &mut wc) };
        assert!(count >= 0, "ibv_poll_cq: {count}");
        (count == 1).then_some(wc)
    }

    /// The next completion is a success; its request.
    pub fn success(&self) -> u64 {
        let wc = self.wait();
        assert_eq!(wc.error(), None, "request {}", wc.wr_id());
        wc.wr_id()
    }

    /// The next completion is an error; its request and its status.
    pub fn failure(&self) -> (u64, u32) {
        let wc = self.wait();
        (wc.wr_id(), wc.error().expect("a failure").0)
    }
}

impl Memory {
    /// Its address, as requests name it.
    pub fn address(&self, offset: usize) -> u64 {
        self.start as u64 + offset as u64
    }

    pub fn piece(&self, offset: usize, length: usize) -> ib::ibv_sge {
        ib::ibv_sge {
            addr: self.address(offset),
            length: u32::try_from(length).expect("a length"),
            lkey: self.key,
        }
    }

    /// Puts bytes at an offset.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: within the memory, as just checked, which no request of the NIC is using now.
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

    /// Takes it out of registration; its key is dead after that.
    pub fn deregister(&self) {
        // SAFETY: a region that is not used after this.
        assert_eq!(unsafe { ib::ibv_dereg_mr(self.region) }, 0);
    }
}
