//! Optional driver functions.

use std::ffi::{c_char, c_int, c_void};

use super::{
    Context, CuResult, Device, Event, Function, GenericHandle, Graph, IpcMemHandle, MemAccessDesc,
    MemAllocationProp, MemPoolProps, MemoryPool, Module, Stream, StreamMemOp, Uuid,
};

/// Each line: field name, symbols (the first one found is used; all have this signature), type.
macro_rules! functions {
    ($( $name:ident = $($symbol:literal)|+ ( $($argument:ty),* $(,)? ); )*) => {
        /// All functions this crate knows; `None` if the library lacks one.
        #[derive(Debug, Default)]
        #[allow(non_snake_case)]
        #[non_exhaustive]
        pub struct Functions {
            $(
                #[doc = concat!("`", stringify!($name), "` of `cuda.h`.")]
                pub $name: Option<unsafe extern "C" fn($($argument),*) -> CuResult>,
            )*
        }

        impl Functions {
            /// Resolves all functions; `symbol` returns the address of an exported function, or
            /// `None`.
            ///
            /// # Safety
            ///
            /// A pointer that `symbol` returns for a CUDA driver API name must be that function,
            /// with CUDA's signature, and stay callable while the result is used.
            pub unsafe fn resolve(symbol: impl Fn(&str) -> Option<*mut c_void>) -> Self {
                Self { $(
                    $name: [$($symbol),+].into_iter().find_map(&symbol).map(|address| {
                        // SAFETY: the address is non-null (`symbol` found it) and has the signature
                        // that cuda.h gives this name (precondition of this function).
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> CuResult>(address)
                        }
                    }),
                )* }
            }

            /// Names of the missing functions.
            #[must_use]
            pub fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $( if self.$name.is_none() { missing.push(stringify!($name)); } )*
                missing
            }
        }
    };
}

functions! {
    cuInit = "cuInit"(u32);
    cuDriverGetVersion = "cuDriverGetVersion"(*mut c_int);
    cuGetErrorName = "cuGetErrorName"(CuResult, *mut *const c_char);
    cuGetErrorString = "cuGetErrorString"(CuResult, *mut *const c_char);

    cuDeviceGet = "cuDeviceGet"(*mut Device, c_int);
    cuDeviceGetCount = "cuDeviceGetCount"(*mut c_int);
    cuDeviceGetName = "cuDeviceGetName"(*mut c_char, c_int, Device);
    // v2 distinguishes MIG instances; v1 returns the whole GPU's UUID.
    cuDeviceGetUuid = "cuDeviceGetUuid_v2" | "cuDeviceGetUuid"(*mut Uuid, Device);
    cuDeviceGetAttribute = "cuDeviceGetAttribute"(*mut c_int, u32, Device);
    cuDeviceGetPCIBusId = "cuDeviceGetPCIBusId"(*mut c_char, c_int, Device);
    cuDeviceTotalMem = "cuDeviceTotalMem_v2"(*mut usize, Device);
    cuDeviceGetP2PAttribute = "cuDeviceGetP2PAttribute"(*mut c_int, u32, Device, Device);
    cuDeviceCanAccessPeer = "cuDeviceCanAccessPeer"(*mut c_int, Device, Device);

    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain"(*mut Context, Device);
    cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease_v2" | "cuDevicePrimaryCtxRelease"(Device);
    cuDevicePrimaryCtxSetFlags = "cuDevicePrimaryCtxSetFlags_v2" | "cuDevicePrimaryCtxSetFlags"(Device, u32);
    cuDevicePrimaryCtxGetState = "cuDevicePrimaryCtxGetState"(Device, *mut u32, *mut c_int);
    // cuda.h 13.0 maps the name to v4, which takes one more parameter; v2 remains exported.
    cuCtxCreate_v2 = "cuCtxCreate_v2"(*mut Context, u32, Device);
    cuCtxDestroy = "cuCtxDestroy_v2"(Context);
    cuCtxPushCurrent = "cuCtxPushCurrent_v2"(Context);
    cuCtxPopCurrent = "cuCtxPopCurrent_v2"(*mut Context);
    cuCtxGetCurrent = "cuCtxGetCurrent"(*mut Context);
    cuCtxSetCurrent = "cuCtxSetCurrent"(Context);
    cuCtxGetDevice = "cuCtxGetDevice"(*mut Device);
    cuCtxSynchronize = "cuCtxSynchronize"();
    cuCtxEnablePeerAccess = "cuCtxEnablePeerAccess"(Context, u32);
    cuCtxDisablePeerAccess = "cuCtxDisablePeerAccess"(Context);

    cuPointerGetAttribute = "cuPointerGetAttribute"(*mut c_void, u32, u64);
    cuPointerGetAttributes = "cuPointerGetAttributes"(u32, *mut u32, *mut *mut c_void, u64);
    cuPointerSetAttribute = "cuPointerSetAttribute"(*const c_void, u32, u64);
    cuMemGetAddressRange = "cuMemGetAddressRange_v2"(*mut u64, *mut usize, u64);
    cuMemGetHandleForAddressRange = "cuMemGetHandleForAddressRange"(*mut c_void, u64, usize, u32, u64);
    cuIpcGetMemHandle = "cuIpcGetMemHandle"(*mut IpcMemHandle, u64);

    cuMemGetInfo = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    cuMemAlloc = "cuMemAlloc_v2"(*mut u64, usize);
    cuMemAllocManaged = "cuMemAllocManaged"(*mut u64, usize, u32);
    cuMemFree = "cuMemFree_v2"(u64);
    cuMemHostAlloc = "cuMemHostAlloc"(*mut *mut c_void, usize, u32);
    cuMemFreeHost = "cuMemFreeHost"(*mut c_void);
    cuMemHostRegister = "cuMemHostRegister_v2" | "cuMemHostRegister"(*mut c_void, usize, u32);
    cuMemHostUnregister = "cuMemHostUnregister"(*mut c_void);
    cuMemHostGetDevicePointer = "cuMemHostGetDevicePointer_v2"(*mut u64, *mut c_void, u32);

    cuMemCreate = "cuMemCreate"(*mut GenericHandle, usize, *const MemAllocationProp, u64);
    cuMemRelease = "cuMemRelease"(GenericHandle);
    cuMemAddressReserve = "cuMemAddressReserve"(*mut u64, usize, usize, u64, u64);
    cuMemAddressFree = "cuMemAddressFree"(u64, usize);
    cuMemMap = "cuMemMap"(u64, usize, usize, GenericHandle, u64);
    cuMemUnmap = "cuMemUnmap"(u64, usize);
    cuMemSetAccess = "cuMemSetAccess"(u64, usize, *const MemAccessDesc, usize);
    cuMemGetAllocationGranularity = "cuMemGetAllocationGranularity"(*mut usize, *const MemAllocationProp, u32);
    cuMemRetainAllocationHandle = "cuMemRetainAllocationHandle"(*mut GenericHandle, *mut c_void);
    cuMemExportToShareableHandle = "cuMemExportToShareableHandle"(*mut c_void, GenericHandle, u32, u64);
    cuMemGetAllocationPropertiesFromHandle =
        "cuMemGetAllocationPropertiesFromHandle"(*mut MemAllocationProp, GenericHandle);

    cuMemPoolCreate = "cuMemPoolCreate"(*mut MemoryPool, *const MemPoolProps);
    cuMemPoolDestroy = "cuMemPoolDestroy"(MemoryPool);
    cuMemPoolExportToShareableHandle = "cuMemPoolExportToShareableHandle"(*mut c_void, MemoryPool, u32, u64);
    cuMemPoolExportPointer = "cuMemPoolExportPointer"(*mut [u8; 64], u64);
    cuMemAllocFromPoolAsync = "cuMemAllocFromPoolAsync"(*mut u64, usize, MemoryPool, Stream);
    cuMemFreeAsync = "cuMemFreeAsync"(u64, Stream);
    cuDeviceGetDefaultMemPool = "cuDeviceGetDefaultMemPool"(*mut MemoryPool, Device);

    cuMemcpyHtoD = "cuMemcpyHtoD_v2"(u64, *const c_void, usize);
    cuMemcpyDtoH = "cuMemcpyDtoH_v2"(*mut c_void, u64, usize);
    cuMemcpyDtoD = "cuMemcpyDtoD_v2"(u64, u64, usize);
    cuMemcpyHtoDAsync = "cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Stream);
    cuMemcpyDtoHAsync = "cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, Stream);
    cuMemcpyDtoDAsync = "cuMemcpyDtoDAsync_v2"(u64, u64, usize, Stream);
    cuMemcpyPeerAsync = "cuMemcpyPeerAsync"(u64, Context, u64, Context, usize, Stream);
    cuMemsetD8Async = "cuMemsetD8Async"(u64, u8, usize, Stream);
    cuMemsetD32Async = "cuMemsetD32Async"(u64, u32, usize, Stream);

    cuStreamCreate = "cuStreamCreate"(*mut Stream, u32);
    cuStreamDestroy = "cuStreamDestroy_v2"(Stream);
    cuStreamSynchronize = "cuStreamSynchronize"(Stream);
    cuStreamQuery = "cuStreamQuery"(Stream);
    cuStreamWaitEvent = "cuStreamWaitEvent"(Stream, Event, u32);
    cuStreamIsCapturing = "cuStreamIsCapturing"(Stream, *mut u32);
    cuStreamBeginCapture = "cuStreamBeginCapture_v2"(Stream, u32);
    cuStreamEndCapture = "cuStreamEndCapture"(Stream, *mut Graph);
    cuGraphDestroy = "cuGraphDestroy"(Graph);
    cuThreadExchangeStreamCaptureMode = "cuThreadExchangeStreamCaptureMode"(*mut u32);

    cuEventCreate = "cuEventCreate"(*mut Event, u32);
    cuEventDestroy = "cuEventDestroy_v2"(Event);
    cuEventRecord = "cuEventRecord"(Event, Stream);
    cuEventQuery = "cuEventQuery"(Event);
    cuEventSynchronize = "cuEventSynchronize"(Event);
    cuEventElapsedTime = "cuEventElapsedTime_v2" | "cuEventElapsedTime"(*mut f32, Event, Event);

    // The v1 memory operations are off by default and have different restrictions, so they are
    // separate functions.
    cuStreamBatchMemOp_v2 = "cuStreamBatchMemOp_v2"(Stream, u32, *mut StreamMemOp, u32);
    cuStreamBatchMemOp_v1 = "cuStreamBatchMemOp"(Stream, u32, *mut StreamMemOp, u32);
    cuStreamWriteValue32_v2 = "cuStreamWriteValue32_v2"(Stream, u64, u32, u32);
    cuStreamWaitValue32_v2 = "cuStreamWaitValue32_v2"(Stream, u64, u32, u32);
    cuStreamWriteValue64_v2 = "cuStreamWriteValue64_v2"(Stream, u64, u64, u32);
    cuStreamWaitValue64_v2 = "cuStreamWaitValue64_v2"(Stream, u64, u64, u32);

    cuModuleLoadData = "cuModuleLoadData"(*mut Module, *const c_void);
    cuModuleLoadDataEx = "cuModuleLoadDataEx"(*mut Module, *const c_void, u32, *mut u32, *mut *mut c_void);
    cuModuleUnload = "cuModuleUnload"(Module);
    cuModuleGetFunction = "cuModuleGetFunction"(*mut Function, Module, *const c_char);
    cuLaunchKernel = "cuLaunchKernel"(
        Function, u32, u32, u32, u32, u32, u32, u32, Stream, *mut *mut c_void, *mut *mut c_void,
    );
    cuFlushGPUDirectRDMAWrites = "cuFlushGPUDirectRDMAWrites"(u32, u32);
}
