//! Our numbers and layouts against those that cudarc took from cuda.h 13.0 with bindgen. Calls
//! nothing of cudarc, which panics without a driver.

use std::ffi::c_uint;
use std::mem::{offset_of, size_of};

use cudarc::driver::sys as theirs;
use gdr_sys::cuda as ours;

macro_rules! same {
    ($( $ours:expr => $theirs:expr; )*) => { $( assert_eq!($ours as u64, $theirs as u64, stringify!($ours)); )* };
}

#[test]
fn result_codes() {
    same! {
        ours::CuResult::SUCCESS.0 => theirs::CUresult::CUDA_SUCCESS;
        ours::CuResult::INVALID_VALUE.0 => theirs::CUresult::CUDA_ERROR_INVALID_VALUE;
        ours::CuResult::OUT_OF_MEMORY.0 => theirs::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        ours::CuResult::NOT_INITIALIZED.0 => theirs::CUresult::CUDA_ERROR_NOT_INITIALIZED;
        ours::CuResult::DEINITIALIZED.0 => theirs::CUresult::CUDA_ERROR_DEINITIALIZED;
        ours::CuResult::PROFILER_DISABLED.0 => theirs::CUresult::CUDA_ERROR_PROFILER_DISABLED;
        ours::CuResult::PROFILER_NOT_INITIALIZED.0 => theirs::CUresult::CUDA_ERROR_PROFILER_NOT_INITIALIZED;
        ours::CuResult::PROFILER_ALREADY_STARTED.0 => theirs::CUresult::CUDA_ERROR_PROFILER_ALREADY_STARTED;
        ours::CuResult::PROFILER_ALREADY_STOPPED.0 => theirs::CUresult::CUDA_ERROR_PROFILER_ALREADY_STOPPED;
        ours::CuResult::STUB_LIBRARY.0 => theirs::CUresult::CUDA_ERROR_STUB_LIBRARY;
        ours::CuResult::CALL_REQUIRES_NEWER_DRIVER.0 => theirs::CUresult::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
        ours::CuResult::DEVICE_UNAVAILABLE.0 => theirs::CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE;
        ours::CuResult::NO_DEVICE.0 => theirs::CUresult::CUDA_ERROR_NO_DEVICE;
        ours::CuResult::INVALID_DEVICE.0 => theirs::CUresult::CUDA_ERROR_INVALID_DEVICE;
        ours::CuResult::DEVICE_NOT_LICENSED.0 => theirs::CUresult::CUDA_ERROR_DEVICE_NOT_LICENSED;
        ours::CuResult::INVALID_IMAGE.0 => theirs::CUresult::CUDA_ERROR_INVALID_IMAGE;
        ours::CuResult::INVALID_CONTEXT.0 => theirs::CUresult::CUDA_ERROR_INVALID_CONTEXT;
        ours::CuResult::CONTEXT_ALREADY_CURRENT.0 => theirs::CUresult::CUDA_ERROR_CONTEXT_ALREADY_CURRENT;
        ours::CuResult::MAP_FAILED.0 => theirs::CUresult::CUDA_ERROR_MAP_FAILED;
        ours::CuResult::UNMAP_FAILED.0 => theirs::CUresult::CUDA_ERROR_UNMAP_FAILED;
        ours::CuResult::ARRAY_IS_MAPPED.0 => theirs::CUresult::CUDA_ERROR_ARRAY_IS_MAPPED;
        ours::CuResult::ALREADY_MAPPED.0 => theirs::CUresult::CUDA_ERROR_ALREADY_MAPPED;
        ours::CuResult::NO_BINARY_FOR_GPU.0 => theirs::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU;
        ours::CuResult::ALREADY_ACQUIRED.0 => theirs::CUresult::CUDA_ERROR_ALREADY_ACQUIRED;
        ours::CuResult::NOT_MAPPED.0 => theirs::CUresult::CUDA_ERROR_NOT_MAPPED;
        ours::CuResult::NOT_MAPPED_AS_ARRAY.0 => theirs::CUresult::CUDA_ERROR_NOT_MAPPED_AS_ARRAY;
        ours::CuResult::NOT_MAPPED_AS_POINTER.0 => theirs::CUresult::CUDA_ERROR_NOT_MAPPED_AS_POINTER;
        ours::CuResult::ECC_UNCORRECTABLE.0 => theirs::CUresult::CUDA_ERROR_ECC_UNCORRECTABLE;
        ours::CuResult::UNSUPPORTED_LIMIT.0 => theirs::CUresult::CUDA_ERROR_UNSUPPORTED_LIMIT;
        ours::CuResult::CONTEXT_ALREADY_IN_USE.0 => theirs::CUresult::CUDA_ERROR_CONTEXT_ALREADY_IN_USE;
        ours::CuResult::PEER_ACCESS_UNSUPPORTED.0 => theirs::CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        ours::CuResult::INVALID_PTX.0 => theirs::CUresult::CUDA_ERROR_INVALID_PTX;
        ours::CuResult::INVALID_GRAPHICS_CONTEXT.0 => theirs::CUresult::CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
        ours::CuResult::NVLINK_UNCORRECTABLE.0 => theirs::CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE;
        ours::CuResult::JIT_COMPILER_NOT_FOUND.0 => theirs::CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
        ours::CuResult::UNSUPPORTED_PTX_VERSION.0 => theirs::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        ours::CuResult::JIT_COMPILATION_DISABLED.0 => theirs::CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED;
        ours::CuResult::UNSUPPORTED_EXEC_AFFINITY.0 => theirs::CUresult::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
        ours::CuResult::UNSUPPORTED_DEVSIDE_SYNC.0 => theirs::CUresult::CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC;
        ours::CuResult::CONTAINED.0 => theirs::CUresult::CUDA_ERROR_CONTAINED;
        ours::CuResult::INVALID_SOURCE.0 => theirs::CUresult::CUDA_ERROR_INVALID_SOURCE;
        ours::CuResult::FILE_NOT_FOUND.0 => theirs::CUresult::CUDA_ERROR_FILE_NOT_FOUND;
        ours::CuResult::SHARED_OBJECT_SYMBOL_NOT_FOUND.0 => theirs::CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
        ours::CuResult::SHARED_OBJECT_INIT_FAILED.0 => theirs::CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
        ours::CuResult::OPERATING_SYSTEM.0 => theirs::CUresult::CUDA_ERROR_OPERATING_SYSTEM;
        ours::CuResult::INVALID_HANDLE.0 => theirs::CUresult::CUDA_ERROR_INVALID_HANDLE;
        ours::CuResult::ILLEGAL_STATE.0 => theirs::CUresult::CUDA_ERROR_ILLEGAL_STATE;
        ours::CuResult::LOSSY_QUERY.0 => theirs::CUresult::CUDA_ERROR_LOSSY_QUERY;
        ours::CuResult::NOT_FOUND.0 => theirs::CUresult::CUDA_ERROR_NOT_FOUND;
        ours::CuResult::NOT_READY.0 => theirs::CUresult::CUDA_ERROR_NOT_READY;
        ours::CuResult::ILLEGAL_ADDRESS.0 => theirs::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
        ours::CuResult::LAUNCH_OUT_OF_RESOURCES.0 => theirs::CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        ours::CuResult::LAUNCH_TIMEOUT.0 => theirs::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT;
        ours::CuResult::LAUNCH_INCOMPATIBLE_TEXTURING.0 => theirs::CUresult::CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING;
        ours::CuResult::PEER_ACCESS_ALREADY_ENABLED.0 => theirs::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
        ours::CuResult::PEER_ACCESS_NOT_ENABLED.0 => theirs::CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
        ours::CuResult::PRIMARY_CONTEXT_ACTIVE.0 => theirs::CUresult::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
        ours::CuResult::CONTEXT_IS_DESTROYED.0 => theirs::CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED;
        ours::CuResult::ASSERT.0 => theirs::CUresult::CUDA_ERROR_ASSERT;
        ours::CuResult::TOO_MANY_PEERS.0 => theirs::CUresult::CUDA_ERROR_TOO_MANY_PEERS;
        ours::CuResult::HOST_MEMORY_ALREADY_REGISTERED.0 => theirs::CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        ours::CuResult::HOST_MEMORY_NOT_REGISTERED.0 => theirs::CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        ours::CuResult::HARDWARE_STACK_ERROR.0 => theirs::CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR;
        ours::CuResult::ILLEGAL_INSTRUCTION.0 => theirs::CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION;
        ours::CuResult::MISALIGNED_ADDRESS.0 => theirs::CUresult::CUDA_ERROR_MISALIGNED_ADDRESS;
        ours::CuResult::INVALID_ADDRESS_SPACE.0 => theirs::CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE;
        ours::CuResult::INVALID_PC.0 => theirs::CUresult::CUDA_ERROR_INVALID_PC;
        ours::CuResult::LAUNCH_FAILED.0 => theirs::CUresult::CUDA_ERROR_LAUNCH_FAILED;
        ours::CuResult::COOPERATIVE_LAUNCH_TOO_LARGE.0 => theirs::CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
        ours::CuResult::TENSOR_MEMORY_LEAK.0 => theirs::CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK;
        ours::CuResult::NOT_PERMITTED.0 => theirs::CUresult::CUDA_ERROR_NOT_PERMITTED;
        ours::CuResult::NOT_SUPPORTED.0 => theirs::CUresult::CUDA_ERROR_NOT_SUPPORTED;
        ours::CuResult::SYSTEM_NOT_READY.0 => theirs::CUresult::CUDA_ERROR_SYSTEM_NOT_READY;
        ours::CuResult::SYSTEM_DRIVER_MISMATCH.0 => theirs::CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
        ours::CuResult::COMPAT_NOT_SUPPORTED_ON_DEVICE.0 => theirs::CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE;
        ours::CuResult::MPS_CONNECTION_FAILED.0 => theirs::CUresult::CUDA_ERROR_MPS_CONNECTION_FAILED;
        ours::CuResult::MPS_RPC_FAILURE.0 => theirs::CUresult::CUDA_ERROR_MPS_RPC_FAILURE;
        ours::CuResult::MPS_SERVER_NOT_READY.0 => theirs::CUresult::CUDA_ERROR_MPS_SERVER_NOT_READY;
        ours::CuResult::MPS_MAX_CLIENTS_REACHED.0 => theirs::CUresult::CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
        ours::CuResult::MPS_MAX_CONNECTIONS_REACHED.0 => theirs::CUresult::CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED;
        ours::CuResult::MPS_CLIENT_TERMINATED.0 => theirs::CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED;
        ours::CuResult::CDP_NOT_SUPPORTED.0 => theirs::CUresult::CUDA_ERROR_CDP_NOT_SUPPORTED;
        ours::CuResult::CDP_VERSION_MISMATCH.0 => theirs::CUresult::CUDA_ERROR_CDP_VERSION_MISMATCH;
        ours::CuResult::STREAM_CAPTURE_UNSUPPORTED.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        ours::CuResult::STREAM_CAPTURE_INVALIDATED.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        ours::CuResult::STREAM_CAPTURE_MERGE.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE;
        ours::CuResult::STREAM_CAPTURE_UNMATCHED.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        ours::CuResult::STREAM_CAPTURE_UNJOINED.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        ours::CuResult::STREAM_CAPTURE_ISOLATION.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        ours::CuResult::STREAM_CAPTURE_IMPLICIT.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        ours::CuResult::CAPTURED_EVENT.0 => theirs::CUresult::CUDA_ERROR_CAPTURED_EVENT;
        ours::CuResult::STREAM_CAPTURE_WRONG_THREAD.0 => theirs::CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
        ours::CuResult::TIMEOUT.0 => theirs::CUresult::CUDA_ERROR_TIMEOUT;
        ours::CuResult::GRAPH_EXEC_UPDATE_FAILURE.0 => theirs::CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        ours::CuResult::EXTERNAL_DEVICE.0 => theirs::CUresult::CUDA_ERROR_EXTERNAL_DEVICE;
        ours::CuResult::INVALID_CLUSTER_SIZE.0 => theirs::CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE;
        ours::CuResult::FUNCTION_NOT_LOADED.0 => theirs::CUresult::CUDA_ERROR_FUNCTION_NOT_LOADED;
        ours::CuResult::INVALID_RESOURCE_TYPE.0 => theirs::CUresult::CUDA_ERROR_INVALID_RESOURCE_TYPE;
        ours::CuResult::INVALID_RESOURCE_CONFIGURATION.0 => theirs::CUresult::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        ours::CuResult::KEY_ROTATION.0 => theirs::CUresult::CUDA_ERROR_KEY_ROTATION;
        ours::CuResult::UNKNOWN.0 => theirs::CUresult::CUDA_ERROR_UNKNOWN;
    }
}

#[test]
fn device_attributes() {
    same! {
        ours::DeviceAttribute::MAX_THREADS_PER_BLOCK.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        ours::DeviceAttribute::CLOCK_RATE.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE;
        ours::DeviceAttribute::MULTIPROCESSOR_COUNT.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        ours::DeviceAttribute::INTEGRATED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED;
        ours::DeviceAttribute::CAN_MAP_HOST_MEMORY.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY;
        ours::DeviceAttribute::COMPUTE_MODE.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
        ours::DeviceAttribute::ECC_ENABLED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED;
        ours::DeviceAttribute::PCI_BUS_ID.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;
        ours::DeviceAttribute::PCI_DEVICE_ID.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;
        ours::DeviceAttribute::MEMORY_CLOCK_RATE.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE;
        ours::DeviceAttribute::GLOBAL_MEMORY_BUS_WIDTH.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH;
        ours::DeviceAttribute::L2_CACHE_SIZE.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        ours::DeviceAttribute::ASYNC_ENGINE_COUNT.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT;
        ours::DeviceAttribute::UNIFIED_ADDRESSING.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
        ours::DeviceAttribute::PCI_DOMAIN_ID.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;
        ours::DeviceAttribute::COMPUTE_CAPABILITY_MAJOR.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        ours::DeviceAttribute::COMPUTE_CAPABILITY_MINOR.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        ours::DeviceAttribute::MANAGED_MEMORY.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY;
        ours::DeviceAttribute::HOST_NATIVE_ATOMIC_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED;
        ours::DeviceAttribute::PAGEABLE_MEMORY_ACCESS.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS;
        ours::DeviceAttribute::CONCURRENT_MANAGED_ACCESS.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS;
        ours::DeviceAttribute::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
        ours::DeviceAttribute::CAN_USE_STREAM_MEM_OPS_V1.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1;
        ours::DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS_V1.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1;
        ours::DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR_V1.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1;
        ours::DeviceAttribute::CAN_FLUSH_REMOTE_WRITES.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES;
        ours::DeviceAttribute::HOST_REGISTER_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED;
        ours::DeviceAttribute::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
        ours::DeviceAttribute::DIRECT_MANAGED_MEM_ACCESS_FROM_HOST.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST;
        ours::DeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        ours::DeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
        ours::DeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        ours::DeviceAttribute::READ_ONLY_HOST_REGISTER_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
        ours::DeviceAttribute::MEMORY_POOLS_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        ours::DeviceAttribute::GPU_DIRECT_RDMA_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;
        ours::DeviceAttribute::GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;
        ours::DeviceAttribute::GPU_DIRECT_RDMA_WRITES_ORDERING.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
        ours::DeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
        ours::DeviceAttribute::CAN_USE_64_BIT_STREAM_MEM_OPS.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS;
        ours::DeviceAttribute::CAN_USE_STREAM_WAIT_VALUE_NOR.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR;
        ours::DeviceAttribute::DMA_BUF_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
        ours::DeviceAttribute::IPC_EVENT_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;
        ours::DeviceAttribute::HANDLE_TYPE_FABRIC_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;
        ours::DeviceAttribute::NUMA_CONFIG.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_NUMA_CONFIG;
        ours::DeviceAttribute::NUMA_ID.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_NUMA_ID;
        ours::DeviceAttribute::MULTICAST_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;
        ours::DeviceAttribute::MPS_ENABLED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MPS_ENABLED;
        ours::DeviceAttribute::HOST_NUMA_ID.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
        ours::DeviceAttribute::HOST_ALLOC_DMA_BUF_SUPPORTED.0 => theirs::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED;
    }
}

#[test]
fn pointer_and_pair_attributes() {
    same! {
        ours::PointerAttribute::CONTEXT.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
        ours::PointerAttribute::MEMORY_TYPE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        ours::PointerAttribute::DEVICE_POINTER.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
        ours::PointerAttribute::HOST_POINTER.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER;
        ours::PointerAttribute::P2P_TOKENS.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_P2P_TOKENS;
        ours::PointerAttribute::SYNC_MEMOPS.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
        ours::PointerAttribute::BUFFER_ID.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID;
        ours::PointerAttribute::IS_MANAGED.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED;
        ours::PointerAttribute::DEVICE_ORDINAL.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        ours::PointerAttribute::IS_LEGACY_CUDA_IPC_CAPABLE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
        ours::PointerAttribute::RANGE_START_ADDR.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
        ours::PointerAttribute::RANGE_SIZE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        ours::PointerAttribute::MAPPED.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPED;
        ours::PointerAttribute::ALLOWED_HANDLE_TYPES.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
        ours::PointerAttribute::IS_GPU_DIRECT_RDMA_CAPABLE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
        ours::PointerAttribute::ACCESS_FLAGS.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
        ours::PointerAttribute::MEMPOOL_HANDLE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
        ours::PointerAttribute::MAPPING_SIZE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPING_SIZE;
        ours::PointerAttribute::MAPPING_BASE_ADDR.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR;
        ours::PointerAttribute::MEMORY_BLOCK_ID.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID;
        ours::PointerAttribute::IS_HW_DECOMPRESS_CAPABLE.0 => theirs::CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
        ours::P2pAttribute::PERFORMANCE_RANK.0 => theirs::CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
        ours::P2pAttribute::ACCESS_SUPPORTED.0 => theirs::CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
        ours::P2pAttribute::NATIVE_ATOMIC_SUPPORTED.0 => theirs::CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
        ours::P2pAttribute::CUDA_ARRAY_ACCESS_SUPPORTED.0 => theirs::CUdevice_P2PAttribute::CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED;
    }
}

#[test]
fn flags() {
    same! {
        ours::STREAM_MEM_OP_WAIT_VALUE_32 => theirs::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32;
        ours::STREAM_MEM_OP_WRITE_VALUE_32 => theirs::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ours::STREAM_MEM_OP_FLUSH_REMOTE_WRITES => theirs::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
        ours::STREAM_MEM_OP_WAIT_VALUE_64 => theirs::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_64;
        ours::STREAM_MEM_OP_WRITE_VALUE_64 => theirs::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_64;
        ours::STREAM_MEM_OP_BARRIER => theirs::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_BARRIER;
        ours::STREAM_WAIT_VALUE_GEQ => theirs::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ;
        ours::STREAM_WAIT_VALUE_EQ => theirs::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ;
        ours::STREAM_WAIT_VALUE_AND => theirs::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_AND;
        ours::STREAM_WAIT_VALUE_NOR => theirs::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_NOR;
        ours::STREAM_WAIT_VALUE_FLUSH => theirs::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_FLUSH;
        ours::STREAM_WRITE_VALUE_DEFAULT => theirs::CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT;
        ours::STREAM_WRITE_VALUE_NO_MEMORY_BARRIER => theirs::CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
        ours::STREAM_MEMORY_BARRIER_TYPE_SYS => theirs::CUstreamMemoryBarrier_flags::CU_STREAM_MEMORY_BARRIER_TYPE_SYS;
        ours::STREAM_MEMORY_BARRIER_TYPE_GPU => theirs::CUstreamMemoryBarrier_flags::CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
        ours::FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER => theirs::CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER;
        ours::FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES => theirs::CUflushGPUDirectRDMAWritesScope::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES;
        ours::FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX => theirs::CUflushGPUDirectRDMAWritesTarget::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX;
        ours::MEM_HANDLE_TYPE_NONE => theirs::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE.0;
        ours::MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR => theirs::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;
        ours::MEM_HANDLE_TYPE_FABRIC => theirs::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC.0;
        ours::MEM_ALLOCATION_TYPE_PINNED => theirs::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        ours::MEM_LOCATION_TYPE_DEVICE => theirs::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        ours::MEM_ACCESS_FLAGS_PROT_READWRITE => theirs::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        ours::MEM_ALLOC_GRANULARITY_MINIMUM => theirs::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        ours::MEM_ALLOC_GRANULARITY_RECOMMENDED => theirs::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        ours::MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD => theirs::CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        ours::MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE => theirs::CUmemRangeFlags::CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
        ours::MEM_ATTACH_GLOBAL => theirs::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL;
        ours::MEMORYTYPE_HOST => theirs::CUmemorytype::CU_MEMORYTYPE_HOST;
        ours::MEMORYTYPE_DEVICE => theirs::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        ours::MEMORYTYPE_ARRAY => theirs::CUmemorytype::CU_MEMORYTYPE_ARRAY;
        ours::MEMORYTYPE_UNIFIED => theirs::CUmemorytype::CU_MEMORYTYPE_UNIFIED;
        ours::STREAM_NON_BLOCKING => theirs::CUstream_flags::CU_STREAM_NON_BLOCKING;
        ours::EVENT_BLOCKING_SYNC => theirs::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        ours::EVENT_DISABLE_TIMING => theirs::CUevent_flags::CU_EVENT_DISABLE_TIMING;
        ours::STREAM_CAPTURE_MODE_GLOBAL => theirs::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        ours::STREAM_CAPTURE_MODE_THREAD_LOCAL => theirs::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        ours::STREAM_CAPTURE_MODE_RELAXED => theirs::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        ours::STREAM_CAPTURE_STATUS_NONE => theirs::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        ours::COMPUTEMODE_DEFAULT => theirs::CUcomputemode::CU_COMPUTEMODE_DEFAULT;
        ours::COMPUTEMODE_PROHIBITED => theirs::CUcomputemode::CU_COMPUTEMODE_PROHIBITED;
        ours::COMPUTEMODE_EXCLUSIVE_PROCESS => theirs::CUcomputemode::CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
        ours::MEMHOSTALLOC_PORTABLE => theirs::CU_MEMHOSTALLOC_PORTABLE;
        ours::MEMHOSTALLOC_DEVICEMAP => theirs::CU_MEMHOSTALLOC_DEVICEMAP;
        ours::MEMHOSTALLOC_WRITECOMBINED => theirs::CU_MEMHOSTALLOC_WRITECOMBINED;
        ours::MEMHOSTREGISTER_PORTABLE => theirs::CU_MEMHOSTREGISTER_PORTABLE;
        ours::MEMHOSTREGISTER_DEVICEMAP => theirs::CU_MEMHOSTREGISTER_DEVICEMAP;
        ours::MEMHOSTREGISTER_IOMEMORY => theirs::CU_MEMHOSTREGISTER_IOMEMORY;
        ours::MEMHOSTREGISTER_READ_ONLY => theirs::CU_MEMHOSTREGISTER_READ_ONLY;
    }
}

#[test]
fn layouts() {
    same! {
        size_of::<ours::Uuid>() => size_of::<theirs::CUuuid>();
        size_of::<ours::IpcMemHandle>() => size_of::<theirs::CUipcMemHandle>();
        size_of::<ours::MemLocation>() => size_of::<theirs::CUmemLocation>();
        size_of::<ours::MemAllocationProp>() => size_of::<theirs::CUmemAllocationProp>();
        offset_of!(ours::MemAllocationProp, alloc_flags) => offset_of!(theirs::CUmemAllocationProp, allocFlags);
        offset_of!(ours::MemAllocationProp, location) => offset_of!(theirs::CUmemAllocationProp, location);
        size_of::<ours::MemAccessDesc>() => size_of::<theirs::CUmemAccessDesc>();
        size_of::<ours::MemPoolProps>() => size_of::<theirs::CUmemPoolProps>();
        offset_of!(ours::MemPoolProps, max_size) => offset_of!(theirs::CUmemPoolProps, maxSize);
        offset_of!(ours::MemPoolProps, usage) => offset_of!(theirs::CUmemPoolProps, usage);
        size_of::<ours::StreamMemOp>() => size_of::<theirs::CUstreamBatchMemOpParams>();
        offset_of!(ours::StreamMemOp, address) => offset_of!(theirs::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st, address);
        offset_of!(ours::StreamMemOp, flags) => offset_of!(theirs::CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st, flags);
        offset_of!(ours::StreamMemOp, alias) => offset_of!(theirs::CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st, alias);
        offset_of!(ours::StreamMemOp, leading_flags) => offset_of!(theirs::CUstreamBatchMemOpParams_union_CUstreamMemOpMemoryBarrierParams_st, flags);
    }
}

/// The compiler compares the types, which are equal except for their names.
#[test]
fn functions_of_peers() {
    let functions = ours::Functions::default();
    let _: unsafe fn(theirs::CUcontext, c_uint) -> theirs::CUresult = theirs::cuCtxEnablePeerAccess;
    let _: Option<unsafe extern "C" fn(ours::Context, u32) -> ours::CuResult> =
        functions.cuCtxEnablePeerAccess;
    let _: unsafe fn(theirs::CUcontext) -> theirs::CUresult = theirs::cuCtxDisablePeerAccess;
    let _: Option<unsafe extern "C" fn(ours::Context) -> ours::CuResult> =
        functions.cuCtxDisablePeerAccess;
    let _: unsafe fn(
        theirs::CUdeviceptr,
        theirs::CUcontext,
        theirs::CUdeviceptr,
        theirs::CUcontext,
        usize,
        theirs::CUstream,
    ) -> theirs::CUresult = theirs::cuMemcpyPeerAsync;
    let _: Option<
        unsafe extern "C" fn(
            u64,
            ours::Context,
            u64,
            ours::Context,
            usize,
            ours::Stream,
        ) -> ours::CuResult,
    > = functions.cuMemcpyPeerAsync;
    let _: unsafe fn(*mut i32, theirs::CUdevice, theirs::CUdevice) -> theirs::CUresult =
        theirs::cuDeviceCanAccessPeer;
    let _: Option<unsafe extern "C" fn(*mut i32, ours::Device, ours::Device) -> ours::CuResult> =
        functions.cuDeviceCanAccessPeer;
    same! {
        size_of::<ours::Context>() => size_of::<theirs::CUcontext>();
        size_of::<ours::Stream>() => size_of::<theirs::CUstream>();
        size_of::<ours::Device>() => size_of::<theirs::CUdevice>();
        size_of::<u64>() => size_of::<theirs::CUdeviceptr>();
        size_of::<ours::CuResult>() => size_of::<theirs::CUresult>();
    }
}
