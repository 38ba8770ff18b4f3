//! The real GPU: CUDA's driver through `gdr-sys`.

mod allocate;
pub(crate) mod context;
pub(crate) mod driver;
mod gpu;
mod kernels;
mod peer;
mod work;

pub(crate) use gpu::CudaGpu;
