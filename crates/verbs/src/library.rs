//! The library and its devices.

use std::path::Path;

use crate::Error;

/// The machine's libibverbs.
#[derive(Debug, Clone, Copy)]
pub struct Library(&'static ibverbs_sys::Library);

impl Library {
    /// Opens the library on first use.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] if it cannot be opened.
    pub fn open() -> Result<Self, Error> {
        Ok(Self(ibverbs_sys::library()?))
    }

    /// Its file.
    #[must_use]
    pub fn path(self) -> &'static Path {
        self.0.path()
    }

    /// True if it has `ibv_reg_dmabuf_mr`: rdma-core since version 34 (symbol version `IBVERBS_1.12`). Vendors number their builds
    /// differently, so the symbol decides.
    #[must_use]
    pub fn knows_dmabuf(self) -> bool {
        self.0.functions().ibv_reg_dmabuf_mr.is_some()
    }

    /// The functions that this crate uses and the library lacks.
    #[must_use]
    pub fn missing(self) -> Vec<&'static str> {
        self.0.functions().missing()
    }
}

/// The names of the devices with a provider, in the library's order. A kernel device that is missing here lacks its provider's library or
/// its uverbs node.
///
/// # Errors
///
/// [`Error::Library`] and [`Error::List`].
pub fn device_names() -> Result<Vec<String>, Error> {
    Library::open()?;
    let devices = ibverbs::devices().map_err(|source| Error::List { source })?;
    let names = devices.iter().filter_map(|device| device.name());
    Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
}
