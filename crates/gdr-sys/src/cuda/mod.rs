//! CUDA driver API (`libcuda.so.1`): loader, functions, constants and structures.
//!
//! Source: `cuda.h` of CUDA 13.0. Functions use the symbol to which the header maps their name
//! (`cuMemAlloc` is `cuMemAlloc_v2`), in the legacy-default-stream variant.

mod attribute;
mod flags;
mod functions;
mod library;
mod result;
mod types;

pub use attribute::{DeviceAttribute, P2pAttribute, PointerAttribute};
pub use flags::*;
pub use functions::Functions;
pub use library::{Library, OpenError, library};
pub use result::CuResult;
pub use types::{
    Context, Device, Event, Function, GenericHandle, Graph, IpcMemHandle, MemAccessDesc,
    MemAllocationFlags, MemAllocationProp, MemLocation, MemPoolProps, MemoryPool, Module, Stream,
    StreamMemOp, Uuid,
};
