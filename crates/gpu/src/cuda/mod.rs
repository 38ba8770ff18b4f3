//! The real GPU: CUDA's driver through `gdr-sys`.

pub(crate) mod allocate;
pub(crate) mod context;
pub(crate) mod driver;
mod gpu;
mod kernels;
mod operations;
mod peer;
mod work;

pub(crate) use gpu::CudaGpu;
