//! Doorbell registers of the program's own.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as raw;

use super::Devx;
use super::command::mlx5;
use crate::direct::words;
use crate::{Context, Error, Words};

/// A page of doorbell registers. Clones share it; it is freed with the last clone and the last user of its registers.
#[derive(Clone)]
pub struct Registers(Arc<Owned>);

struct Owned {
    raw: NonNull<raw::mlx5dv_devx_uar>,
    number: u32,
    kind: &'static str,
    /// Keeps the device open while the page is mapped.
    context: Context,
}

// SAFETY: only this value frees it, and the page is accessed only with atomic stores (`Words`).
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// Page kinds in the order of attempts, as in NVSHMEM and DOCA: uncached and exclusive, which a GPU can ring without the CPU's write
/// combining in between; uncached and shared in the context; write-combining.
const KINDS: [(raw::mlx5dv_uar_alloc_type, &str); 3] = [
    (raw::MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED, "not cached, dedicated"),
    (raw::MLX5DV_UAR_ALLOC_TYPE_NC, "not cached, shared"),
    (raw::MLX5DV_UAR_ALLOC_TYPE_BF, "write-combined"),
];

impl Devx {
    /// Allocates a page of doorbell registers, of the first supported kind.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] for the last kind, [`Error::Missing`].
    pub fn registers(&self) -> Result<Registers, Error> {
        let function = "mlx5dv_devx_alloc_uar";
        let allocate = raw::mlx5dv()?.mlx5dv_devx_alloc_uar.ok_or(Error::Missing { function })?;
        let context = self.context();
        mlx5(context)?;
        let one = |(flags, kind)| {
            // SAFETY: the context is open and an mlx5 device's.
            let raw =
                context.check_pointer(function, unsafe { allocate(context.as_raw(), flags) })?;
            // SAFETY: just allocated by the library, which keeps it until it is freed.
            let number = unsafe { raw.as_ref().page_id };
            let context = context.clone();
            Ok(Registers(Arc::new(Owned { raw, number, kind, context })))
        };
        let [first, second, third] = KINDS;
        one(first).or_else(|_: Error| one(second)).or_else(|_| one(third))
    }
}

impl Registers {
    /// Its number in commands.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Caching and sharing of the page, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// The 64-bit doorbell register and its page.
    ///
    /// # Errors
    ///
    /// [`Error::Layout`] if the register is invalid.
    pub fn register(&self) -> Result<Words, Error> {
        // SAFETY: the library keeps it until it is freed.
        let register = unsafe { self.0.raw.as_ref().reg_addr };
        words("a doorbell register", register, 8, Arc::clone(&self.0) as _)
    }

    /// The 64-bit doorbell register of queue pairs without a send doorbell record, and its page. Its place is that of rdma-core's test
    /// (v64.0, `DB_BF_DBR_LESS_BUF_OFFSET` of `tests/mlx5_base.py`).
    ///
    /// # Errors
    ///
    /// [`Error::Layout`] if the register is invalid.
    pub fn recordless_register(&self) -> Result<Words, Error> {
        const OFFSET: usize = 0x600;
        // SAFETY: the library keeps it until it is freed.
        let base = unsafe { self.0.raw.as_ref().base_addr };
        let register = if base.is_null() { base } else { base.wrapping_byte_add(OFFSET) };
        words("a doorbell register", register, 8, Arc::clone(&self.0) as _)
    }

    /// True if it belongs to this device.
    pub(super) fn is_of(&self, devx: &Devx) -> Result<(), Error> {
        if self.0.context.as_raw() == devx.context().as_raw() {
            Ok(())
        } else {
            Err(Error::Foreign { what: "registers" })
        }
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of doorbell registers ({})", self.number, self.kind)
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let free = raw::mlx5dv().ok().and_then(|library| library.mlx5dv_devx_free_uar);
        if let Some(free) = free {
            // SAFETY: allocated by the library, and freed only here; users of its registers hold it, so none is left.
            unsafe { free(self.raw.as_ptr()) };
        }
    }
}
