//! Doorbell registers of one's own.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as raw;

use super::Devx;
use super::command::mlx5;
use crate::direct::words;
use crate::{Context, Error, Words};

/// A page of doorbell registers. Clones are the same; it is given back when the last of them, of what is told of it and of what rings
/// it, is dropped.
#[derive(Clone)]
pub struct Registers(Arc<Owned>);

struct Owned {
    raw: NonNull<raw::mlx5dv_devx_uar>,
    number: u32,
    kind: &'static str,
    /// The device is open for as long as its page is mapped.
    context: Context,
}

// SAFETY: it is given back by this value alone, and the page is reached by atomic stores alone (`Words`).
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

/// The kinds, in the order in which they are tried: a page of one's own that is not cached, which a GPU rings without the CPU's write
/// combining between; one that the context's others share; one that is write-combined. So do NVSHMEM and DOCA.
const KINDS: [(raw::mlx5dv_uar_alloc_type, &str); 3] = [
    (
        raw::MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED,
        "not cached, dedicated",
    ),
    (raw::MLX5DV_UAR_ALLOC_TYPE_NC, "not cached, shared"),
    (raw::MLX5DV_UAR_ALLOC_TYPE_BF, "write-combined"),
];

impl Devx {
    /// A page of doorbell registers, of the first kind that there is.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] for the last kind, [`Error::Missing`].
    pub fn registers(&self) -> Result<Registers, Error> {
        let function = "mlx5dv_devx_alloc_uar";
        let allocate = raw::mlx5dv()?
            .mlx5dv_devx_alloc_uar
            .ok_or(Error::Missing { function })?;
        let context = self.context();
        mlx5(context)?;
        let one = |(flags, kind)| {
            // SAFETY: the context is open and an mlx5 device's.
            let raw = context.made(function, unsafe { allocate(context.as_raw(), flags) })?;
            // SAFETY: the library has just made it, and keeps it until it is given back.
            let number = unsafe { raw.as_ref().page_id };
            let context = context.clone();
            Ok(Registers(Arc::new(Owned {
                raw,
                number,
                kind,
                context,
            })))
        };
        let [first, second, third] = KINDS;
        one(first)
            .or_else(|_: Error| one(second))
            .or_else(|_| one(third))
    }
}

impl Registers {
    /// What commands name the page by.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// How it is mapped, and whether others ring it, in words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }

    /// The doorbell register, of 64 bits, in its page.
    ///
    /// # Errors
    ///
    /// [`Error::Layout`] for a register that cannot be.
    pub fn register(&self) -> Result<Words, Error> {
        // SAFETY: the library keeps it until it is given back.
        let register = unsafe { self.0.raw.as_ref().reg_addr };
        words("a doorbell register", register, 8, Arc::clone(&self.0) as _)
    }

    /// Whether it is of this device.
    pub(super) fn is_of(&self, devx: &Devx) -> Result<(), Error> {
        match self.0.context.as_raw() == devx.context().as_raw() {
            true => Ok(()),
            false => Err(Error::Foreign { what: "registers" }),
        }
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "page {} of doorbell registers ({})",
            self.number, self.kind
        )
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let free = raw::mlx5dv()
            .ok()
            .and_then(|library| library.mlx5dv_devx_free_uar);
        if let Some(free) = free {
            // SAFETY: it was made by the library, and is given back here alone; who rings it held it, and is gone.
            unsafe { free(self.raw.as_ptr()) };
        }
    }
}
