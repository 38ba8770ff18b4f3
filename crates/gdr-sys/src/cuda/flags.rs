//! Flags and small enumerations, as integers: `cuda.h` of CUDA 13.0 without its `CU_` prefix.

macro_rules! constants {
    ($( $(#[$doc:meta])* $name:ident: $type:ty = $value:expr; )*) => { $(
        $(#[$doc])*
        #[doc = concat!("\n\n`CU_", stringify!($name), "`.")]
        pub const $name: $type = $value;
    )* };
}

constants! {
    /// Wait until a 32-bit word satisfies the condition.
    STREAM_MEM_OP_WAIT_VALUE_32: u32 = 1;
    /// Write a 32-bit word.
    STREAM_MEM_OP_WRITE_VALUE_32: u32 = 2;
    /// Wait until remote writes are visible.
    STREAM_MEM_OP_FLUSH_REMOTE_WRITES: u32 = 3;
    /// Wait until a 64-bit word satisfies the condition.
    STREAM_MEM_OP_WAIT_VALUE_64: u32 = 4;
    /// Write a 64-bit word.
    STREAM_MEM_OP_WRITE_VALUE_64: u32 = 5;
    /// A memory barrier; v2 only.
    STREAM_MEM_OP_BARRIER: u32 = 6;

    /// `(int32_t)(*addr - value) >= 0`, or the same in 64 bits: cyclic.
    STREAM_WAIT_VALUE_GEQ: u32 = 0;
    /// `*addr == value`.
    STREAM_WAIT_VALUE_EQ: u32 = 1;
    /// `(*addr & value) != 0`.
    STREAM_WAIT_VALUE_AND: u32 = 2;
    /// `~(*addr | value) != 0`.
    STREAM_WAIT_VALUE_NOR: u32 = 3;
    /// Follow the wait with a flush of outstanding remote writes.
    STREAM_WAIT_VALUE_FLUSH: u32 = 1 << 30;

    /// A fence comes before the write.
    STREAM_WRITE_VALUE_DEFAULT: u32 = 0;
    /// No fence; v1 only.
    STREAM_WRITE_VALUE_NO_MEMORY_BARRIER: u32 = 1;

    /// System-wide, like `__threadfence_system`.
    STREAM_MEMORY_BARRIER_TYPE_SYS: u32 = 0;
    /// Of this GPU, like `__threadfence`.
    STREAM_MEMORY_BARRIER_TYPE_GPU: u32 = 1;

    /// The writes become visible to the context that owns the data.
    FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER: u32 = 100;
    /// The writes become visible to all CUDA devices.
    FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES: u32 = 200;
    /// Of the current context's device.
    FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX: u32 = 0;

    /// No handle can be exported.
    MEM_HANDLE_TYPE_NONE: u32 = 0;
    /// A file descriptor can be exported.
    MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: u32 = 1;
    /// A fabric handle can be exported.
    MEM_HANDLE_TYPE_FABRIC: u32 = 8;
    /// Memory that does not migrate.
    MEM_ALLOCATION_TYPE_PINNED: u32 = 1;
    MEM_LOCATION_TYPE_DEVICE: u32 = 1;
    /// Readable and writable.
    MEM_ACCESS_FLAGS_PROT_READWRITE: u32 = 3;
    /// Minimum granularity.
    MEM_ALLOC_GRANULARITY_MINIMUM: u32 = 0;
    /// Granularity with the best performance.
    MEM_ALLOC_GRANULARITY_RECOMMENDED: u32 = 1;
    /// A range is exported as a dma-buf.
    MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD: u32 = 1;
    /// The dma-buf maps over PCIe even where a coherent link exists.
    MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE: u64 = 1;

    /// Managed memory accessible from any stream.
    MEM_ATTACH_GLOBAL: u32 = 1;

    /// Pinned for all contexts.
    MEMHOSTALLOC_PORTABLE: u32 = 1;
    /// Mapped into the device's address space.
    MEMHOSTALLOC_DEVICEMAP: u32 = 2;
    /// Write-combined for the CPU.
    MEMHOSTALLOC_WRITECOMBINED: u32 = 4;
    /// Registered for all contexts.
    MEMHOSTREGISTER_PORTABLE: u32 = 1;
    /// Mapped into the device's address space.
    MEMHOSTREGISTER_DEVICEMAP: u32 = 2;
    /// The range is device registers, not memory.
    MEMHOSTREGISTER_IOMEMORY: u32 = 4;
    /// The device only reads it.
    MEMHOSTREGISTER_READ_ONLY: u32 = 8;

    /// System memory.
    MEMORYTYPE_HOST: u32 = 1;
    /// A device's memory.
    MEMORYTYPE_DEVICE: u32 = 2;
    MEMORYTYPE_ARRAY: u32 = 3;
    /// Unified memory.
    MEMORYTYPE_UNIFIED: u32 = 4;

    /// Waiting threads poll.
    CTX_SCHED_SPIN: u32 = 1;
    /// Waiting threads poll, and let other threads run.
    CTX_SCHED_YIELD: u32 = 2;
    /// Waiting threads sleep.
    CTX_SCHED_BLOCKING_SYNC: u32 = 4;

    /// Does not synchronise with the legacy default stream.
    STREAM_NON_BLOCKING: u32 = 1;
    /// Waiting threads sleep.
    EVENT_BLOCKING_SYNC: u32 = 1;
    /// The event has no time stamp.
    EVENT_DISABLE_TIMING: u32 = 2;

    /// Unsafe calls fail while any thread captures.
    STREAM_CAPTURE_MODE_GLOBAL: u32 = 0;
    /// Unsafe calls fail while this thread captures.
    STREAM_CAPTURE_MODE_THREAD_LOCAL: u32 = 1;
    /// Calls fail only on a capturing stream.
    STREAM_CAPTURE_MODE_RELAXED: u32 = 2;
    /// The stream does not capture.
    STREAM_CAPTURE_STATUS_NONE: u32 = 0;

    /// Several contexts may use the device.
    COMPUTEMODE_DEFAULT: u32 = 0;
    /// No context may use it.
    COMPUTEMODE_PROHIBITED: u32 = 2;
    /// One process may use it.
    COMPUTEMODE_EXCLUSIVE_PROCESS: u32 = 3;
}
