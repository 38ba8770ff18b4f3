//! The real GPU: CUDA's driver through `gdr-sys`.

pub(crate) mod context;
pub(crate) mod driver;
