//! The library itself, and the devices it serves.

use std::path::Path;

use crate::Error;

/// The machine's library of verbs.
#[derive(Debug, Clone, Copy)]
pub struct Library(&'static ibverbs_sys::Library);

impl Library {
    /// The library, opened if it is not yet.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] where there is none.
    pub fn open() -> Result<Self, Error> {
        Ok(Self(ibverbs_sys::library()?))
    }

    /// The file it is.
    #[must_use]
    pub fn path(self) -> &'static Path {
        self.0.path()
    }

    /// Whether it has `ibv_reg_dmabuf_mr`: rdma-core has since version 34 (symbol version `IBVERBS_1.12`). Version numbers
    /// of vendors' builds do not compare; the symbol does.
    #[must_use]
    pub fn knows_dmabuf(self) -> bool {
        self.0.functions().ibv_reg_dmabuf_mr.is_some()
    }

    /// The functions that this crate may call and the library lacks.
    #[must_use]
    pub fn missing(self) -> Vec<&'static str> {
        self.0.functions().missing()
    }
}

/// The names of the devices that a provider serves, in the library's order. A device that the kernel has and that is not
/// among them lacks its provider's library, or its verbs node.
///
/// # Errors
///
/// [`Error::Library`] and [`Error::List`].
pub fn device_names() -> Result<Vec<String>, Error> {
    Library::open()?;
    let devices = ibverbs::devices().map_err(|source| Error::List { source })?;
    let names = devices.iter().filter_map(|device| device.name());
    Ok(names
        .map(|name| name.to_string_lossy().into_owned())
        .collect())
}
