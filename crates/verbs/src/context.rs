//! Device contexts.

use std::ffi::{CStr, c_int};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use ibverbs_sys as raw;

use crate::{Error, Gid, Library, Limits, Port, ProtectionDomain};

/// An open device. Clones share it; it is closed with the last clone and the last object created from it.
#[derive(Debug, Clone)]
pub struct Context(Arc<Open>);

#[derive(Debug)]
struct Open {
    raw: NonNull<raw::ibv_context>,
    name: String,
    /// The program opened it, and closes it.
    is_foreign: bool,
}

// SAFETY: verbs may be called from any thread, and only this value closes the context.
unsafe impl Send for Open {}
// SAFETY: libibverbs locks what its functions share: "The InfiniBand verbs are thread safe" (verbs.7).
unsafe impl Sync for Open {}

/// The device's answer to a registration of dma-buf memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dmabuf {
    /// Supported: it rejected the invalid test file with this error number.
    Registers(i32),
    /// Unsupported: by the provider's library (95, EOPNOTSUPP) or the kernel (93, EPROTONOSUPPORT).
    Refuses(i32),
}

/// Maximum of GID table entries to read: devices have 16 to 512 per port.
const MAX_GIDS: usize = 65536;

/// EIO, for results that are not an error number.
const NO_NUMBER: c_int = 5;

/// EOPNOTSUPP: unsupported by the provider's library.
const NO_PROVIDER: i32 = 95;

/// EPROTONOSUPPORT: unsupported by the kernel.
const NO_KERNEL: i32 = 93;

impl Context {
    /// Opens a device by name, whatever the state of its ports.
    ///
    /// # Errors
    ///
    /// [`Error::Library`], [`Error::List`], [`Error::NoDevice`], [`Error::Open`].
    pub fn open(name: &str) -> Result<Self, Error> {
        Self::open_by(name, |device| {
            // SAFETY: the device is in the list, which is alive; an open context does not need the list.
            unsafe { raw::ibv_open_device(device) }
        })
    }

    /// Opens a device with a function that takes an entry of the library's list and returns a new context, or null with `errno`.
    pub(crate) fn open_by(
        name: &str,
        open: impl FnOnce(*mut raw::ibv_device) -> *mut raw::ibv_context,
    ) -> Result<Self, Error> {
        Library::open()?;
        let list = List::new()?;
        let device = list.find(name).ok_or_else(|| Error::NoDevice { name: name.to_owned() })?;
        match NonNull::new(open(device)) {
            Some(raw) => {
                let name = name.to_owned();
                let is_foreign = false;
                Ok(Self(Arc::new(Open { raw, name, is_foreign })))
            }
            None => Err(Error::Open { name: name.to_owned(), source: io::Error::last_os_error() }),
        }
    }

    /// Wraps a device that the program opened and closes itself.
    ///
    /// # Errors
    ///
    /// [`Error::Library`].
    ///
    /// # Safety
    ///
    /// `raw` is open, from the machine's libibverbs, until the last clone of this and the last object created from it are dropped.
    pub unsafe fn foreign(raw: NonNull<raw::ibv_context>) -> Result<Self, Error> {
        Library::open()?;
        // SAFETY: an open context points to its device.
        let name = unsafe { name_of((*raw.as_ptr()).device) };
        let name = name.map_or_else(|| "a device without a name".to_owned(), str::to_owned);
        let is_foreign = true;
        Ok(Self(Arc::new(Open { raw, name, is_foreign })))
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The C object, for calls that this crate does not wrap. Valid as long as this value.
    #[must_use]
    pub fn as_raw(&self) -> *mut raw::ibv_context {
        self.0.raw.as_ptr()
    }

    /// The device's `enum ibv_node_type`.
    pub(crate) fn node_type(&self) -> raw::ibv_node_type {
        // SAFETY: an open context points to its device.
        let node = unsafe { (*(*self.as_raw()).device).node_type };
        node.cast_unsigned()
    }

    /// True if its queue pairs are iWARP's: only the connection manager (librdmacm) connects them.
    #[must_use]
    pub fn is_iwarp(&self) -> bool {
        self.node_type() == raw::IBV_NODE_RNIC
    }

    /// The device's attributes and limits.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn limits(&self) -> Result<Limits, Error> {
        let mut limits = raw::ibv_device_attr::default();
        // SAFETY: the context is open, and the output is valid.
        let errno = unsafe { raw::ibv_query_device(self.as_raw(), &mut limits) };
        self.check_errno("ibv_query_device", errno)?;
        Ok(Limits::of(&limits))
    }

    /// Allocates a protection domain.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn domain(&self) -> Result<ProtectionDomain, Error> {
        ProtectionDomain::new(self)
    }

    /// A port, from 1.
    ///
    /// # Errors
    ///
    /// [`Error::Call`], also if there is no such port.
    pub fn port(&self, number: u8) -> Result<Port, Error> {
        let mut port = raw::ibv_port_attr::default();
        // SAFETY: the context is open, and the output is valid.
        let errno = unsafe { raw::ibv_query_port(self.as_raw(), number, &mut port) };
        self.check_errno("ibv_query_port", errno)?;
        Ok(Port::of(number, &port))
    }

    /// The P_Key at an index of a port's table.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], [`Error::Call`], also if there is no such index.
    pub fn pkey(&self, port: u8, index: u16) -> Result<u16, Error> {
        self.needs("ibv_query_pkey", |functions| functions.ibv_query_pkey.is_some())?;
        let mut key = 0;
        // SAFETY: the context is open, and the output is valid.
        let failed = unsafe { raw::ibv_query_pkey(self.as_raw(), port, index.into(), &mut key) };
        self.check_errno("ibv_query_pkey", failed)?;
        Ok(u16::from_be(key))
    }

    /// The nonempty entries of all ports' GID tables; `room` is the maximum number, from [`Port::gids`].
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] below rdma-core 32, [`Error::Call`].
    pub fn gids(&self, room: u32) -> Result<Vec<Gid>, Error> {
        self.needs("_ibv_query_gid_table", |functions| functions._ibv_query_gid_table.is_some())?;
        let mut entries = vec![raw::ibv_gid_entry::default(); (room as usize).min(MAX_GIDS)];
        // SAFETY: the context is open, and the buffer has the length passed.
        let count = unsafe {
            raw::ibv_query_gid_table(self.as_raw(), entries.as_mut_ptr(), entries.len(), 0)
        };
        let Ok(count) = usize::try_from(count) else {
            let errno = count.checked_neg().and_then(|errno| c_int::try_from(errno).ok());
            let errno = errno.unwrap_or(NO_NUMBER);
            return self.check_errno("ibv_query_gid_table", errno).map(|()| Vec::new());
        };
        entries.truncate(count);
        Ok(entries.iter().map(Gid::of).collect())
    }

    /// Probes dma-buf support by registering zero bytes of file -1, as NCCL does. Two error numbers mean unsupported; all others are about
    /// the invalid file.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if the library lacks the function, [`Error::Call`] if no protection domain can be allocated.
    pub fn dmabuf(&self) -> Result<Dmabuf, Error> {
        self.needs("ibv_reg_dmabuf_mr", |functions| functions.ibv_reg_dmabuf_mr.is_some())?;
        let domain = self.domain()?;
        // SAFETY: the protection domain is alive; no memory is registered.
        let region = unsafe { raw::ibv_reg_dmabuf_mr(domain.as_raw(), 0, 0, 0, -1, 0) };
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        if !region.is_null() {
            // SAFETY: just created.
            unsafe { raw::ibv_dereg_mr(region) };
        }
        Ok(match errno {
            NO_PROVIDER | NO_KERNEL if region.is_null() => Dmabuf::Refuses(errno),
            errno => Dmabuf::Registers(errno),
        })
    }

    pub(crate) fn needs(
        &self,
        function: &'static str,
        is_there: fn(&raw::Functions) -> bool,
    ) -> Result<(), Error> {
        if raw::functions().is_some_and(is_there) {
            Ok(())
        } else {
            Err(Error::Missing { function })
        }
    }

    /// Zero is success; some functions return an error number, some old ones -1 with `errno`.
    pub(crate) fn check_errno(&self, function: &'static str, errno: c_int) -> Result<(), Error> {
        match errno {
            0 => Ok(()),
            -1 => Err(self.call(function, io::Error::last_os_error())),
            errno => Err(self.call(function, io::Error::from_raw_os_error(errno))),
        }
    }

    /// Null is a failure, with `errno`.
    pub(crate) fn check_pointer<T>(
        &self,
        function: &'static str,
        pointer: *mut T,
    ) -> Result<NonNull<T>, Error> {
        NonNull::new(pointer).ok_or_else(|| self.call(function, io::Error::last_os_error()))
    }

    pub(crate) fn call(&self, function: &'static str, source: io::Error) -> Error {
        Error::Call { name: self.0.name.clone(), function, source }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_foreign {
            return;
        }
        // SAFETY: open, and closed only here. Ignored: a failure to close cannot be handled.
        unsafe { raw::ibv_close_device(self.raw.as_ptr()) };
    }
}

/// The library's device list, freed on drop.
struct List {
    devices: *mut *mut raw::ibv_device,
    count: usize,
}

impl List {
    fn new() -> Result<Self, Error> {
        let mut count = 0;
        // SAFETY: the output is valid.
        let devices = unsafe { raw::ibv_get_device_list(&mut count) };
        if devices.is_null() {
            Err(Error::List { source: io::Error::last_os_error() })
        } else {
            Ok(Self { devices, count: usize::try_from(count).unwrap_or(0) })
        }
    }

    fn find(&self, wanted: &str) -> Option<*mut raw::ibv_device> {
        (0..self.count)
            // SAFETY: the array has `count` devices, and this value keeps it.
            .map(|at| unsafe { self.devices.add(at).read() })
            // SAFETY: the device is in the list, which is alive.
            .find(|device| unsafe { name_of(*device) } == Some(wanted))
    }
}

/// A device's name, if it is UTF-8.
///
/// # Safety
///
/// The device is null or known to the library while the name is in use.
unsafe fn name_of<'a>(device: *mut raw::ibv_device) -> Option<&'a str> {
    if device.is_null() {
        return None;
    }
    // SAFETY: the caller's guarantee.
    let name = unsafe { raw::ibv_get_device_name(device) };
    if name.is_null() {
        return None;
    }
    // SAFETY: the name is a C string that lives as long as the device.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: allocated by the library, and freed only here.
        unsafe { raw::ibv_free_device_list(self.devices) };
        self.devices = null_mut();
    }
}
