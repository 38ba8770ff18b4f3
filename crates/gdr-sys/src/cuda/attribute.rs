//! Attributes of devices, device pairs and pointers, as integers.

macro_rules! attributes {
    ($(#[$doc:meta])* $type:ident, $prefix:literal: $( $name:ident = $value:literal; )*) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub u32);

        impl $type {
            $(
                #[doc = concat!("`", $prefix, stringify!($name), "`")]
                pub const $name: Self = Self($value);
            )*

            /// The constants above, by name.
            pub const NAMED: &[(&str, Self)] = &[ $( (stringify!($name), Self($value)), )* ];
        }
    };
}

attributes! {
    /// `CUdevice_attribute` values relevant to GPUDirect.
    DeviceAttribute, "CU_DEVICE_ATTRIBUTE_":
    MAX_THREADS_PER_BLOCK = 1;
    CLOCK_RATE = 13;
    MULTIPROCESSOR_COUNT = 16;
    INTEGRATED = 18;
    CAN_MAP_HOST_MEMORY = 19;
    COMPUTE_MODE = 20;
    ECC_ENABLED = 32;
    PCI_BUS_ID = 33;
    PCI_DEVICE_ID = 34;
    MEMORY_CLOCK_RATE = 36;
    GLOBAL_MEMORY_BUS_WIDTH = 37;
    L2_CACHE_SIZE = 38;
    ASYNC_ENGINE_COUNT = 40;
    UNIFIED_ADDRESSING = 41;
    PCI_DOMAIN_ID = 50;
    COMPUTE_CAPABILITY_MAJOR = 75;
    COMPUTE_CAPABILITY_MINOR = 76;
    MANAGED_MEMORY = 83;
    HOST_NATIVE_ATOMIC_SUPPORTED = 86;
    PAGEABLE_MEMORY_ACCESS = 88;
    CONCURRENT_MANAGED_ACCESS = 89;
    CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91;
    CAN_USE_STREAM_MEM_OPS_V1 = 92;
    CAN_USE_64_BIT_STREAM_MEM_OPS_V1 = 93;
    CAN_USE_STREAM_WAIT_VALUE_NOR_V1 = 94;
    CAN_FLUSH_REMOTE_WRITES = 98;
    HOST_REGISTER_SUPPORTED = 99;
    PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100;
    DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101;
    VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102;
    HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103;
    GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110;
    READ_ONLY_HOST_REGISTER_SUPPORTED = 113;
    MEMORY_POOLS_SUPPORTED = 115;
    GPU_DIRECT_RDMA_SUPPORTED = 116;
    GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117;
    GPU_DIRECT_RDMA_WRITES_ORDERING = 118;
    MEMPOOL_SUPPORTED_HANDLE_TYPES = 119;
    CAN_USE_64_BIT_STREAM_MEM_OPS = 122;
    CAN_USE_STREAM_WAIT_VALUE_NOR = 123;
    DMA_BUF_SUPPORTED = 124;
    IPC_EVENT_SUPPORTED = 125;
    HANDLE_TYPE_FABRIC_SUPPORTED = 128;
    NUMA_CONFIG = 130;
    NUMA_ID = 131;
    MULTICAST_SUPPORTED = 132;
    MPS_ENABLED = 133;
    HOST_NUMA_ID = 134;
    HOST_ALLOC_DMA_BUF_SUPPORTED = 146;
}

attributes! {
    /// `CUpointer_attribute`.
    PointerAttribute, "CU_POINTER_ATTRIBUTE_":
    CONTEXT = 1;
    MEMORY_TYPE = 2;
    DEVICE_POINTER = 3;
    HOST_POINTER = 4;
    P2P_TOKENS = 5;
    SYNC_MEMOPS = 6;
    BUFFER_ID = 7;
    IS_MANAGED = 8;
    DEVICE_ORDINAL = 9;
    IS_LEGACY_CUDA_IPC_CAPABLE = 10;
    RANGE_START_ADDR = 11;
    RANGE_SIZE = 12;
    MAPPED = 13;
    ALLOWED_HANDLE_TYPES = 14;
    IS_GPU_DIRECT_RDMA_CAPABLE = 15;
    ACCESS_FLAGS = 16;
    MEMPOOL_HANDLE = 17;
    MAPPING_SIZE = 18;
    MAPPING_BASE_ADDR = 19;
    MEMORY_BLOCK_ID = 20;
    IS_HW_DECOMPRESS_CAPABLE = 21;
}

attributes! {
    /// `CUdevice_P2PAttribute`.
    P2pAttribute, "CU_DEVICE_P2P_ATTRIBUTE_":
    PERFORMANCE_RANK = 1;
    ACCESS_SUPPORTED = 2;
    NATIVE_ATOMIC_SUPPORTED = 3;
    CUDA_ARRAY_ACCESS_SUPPORTED = 4;
}
