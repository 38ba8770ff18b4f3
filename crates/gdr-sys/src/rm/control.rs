//! RM control calls: command numbers and exact parameter structures (ctrl0000gpu.h, ctrl0000unix.h,
//! ctrl0000client.h, ctrl0041.h). All are unprivileged in every release.

/// `NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2` with [`GpuIdInfo`], on the client.
pub const GPU_ID_INFO: u32 = 0x205;
/// `NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE` with [`AddressSpace`], on the client.
pub const ADDRESS_SPACE: u32 = 0xD01;
/// `NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD` with [`ImportObject`], on the client.
pub const IMPORT_OBJECT: u32 = 0x3D06;
/// `NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO` with [`ExportInfo`] or [`ExportInfoBefore545`],
/// on the client.
pub const EXPORT_INFO: u32 = 0x3D08;
/// `NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD` with [`ImportObjects`], on the client.
pub const IMPORT_OBJECTS: u32 = 0x3D0C;
/// `NV0041_CTRL_CMD_GET_SURFACE_INFO` with [`SurfaceInfo`], on the memory.
pub const SURFACE_INFO: u32 = 0x41_0110;

/// `NV2080_CTRL_CMD_FB_GET_STATIC_BAR1_INFO` with [`StaticBar1`], on the subdevice; from 570, not
/// in gVisor.
pub const STATIC_BAR1: u32 = 0x2080_1354;

/// Video memory in [`AddressSpace`] and [`SURFACE_ADDRESS_SPACE`].
pub const VIDEO_MEMORY: u32 = 2;
/// Video memory in [`ImportObjects::types`].
pub const IMPORTED_VIDEO_MEMORY: u8 = 1;
/// [`ExportInfo::gpu_instance`] without MIG.
pub const NO_GPU_INSTANCE: u32 = 0xFFFF_FFFF;
/// [`ExportInfo::device`] of a client object without a device.
pub const NO_DEVICE: u32 = 32;
/// Maximum number of objects in one export.
pub const IMPORTS: usize = 128;
/// [`ImportObject::kind`]: an RM object.
pub const IMPORT_RM: u32 = 1;

/// Index of [`SurfaceEntry`]: attributes; bit 1 says compressed.
pub const SURFACE_ATTRIBUTES: u32 = 1;
/// Index of [`SurfaceEntry`]: low word of the size in bytes.
pub const SURFACE_SIZE_LOW: u32 = 2;
/// Index of [`SurfaceEntry`]: high word of the size.
pub const SURFACE_SIZE_HIGH: u32 = 3;
/// Index of [`SurfaceEntry`]: address space, [`VIDEO_MEMORY`] for memory we map.
pub const SURFACE_ADDRESS_SPACE: u32 = 9;

/// `NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct GpuIdInfo {
    /// In: [`super::CardInfo::gpu_id`].
    pub gpu_id: u32,
    /// Out: flags.
    pub flags: u32,
    /// Out: device instance.
    pub device: u32,
    /// Out: subdevice instance.
    pub subdevice: u32,
    /// Out: SLI status.
    pub sli: u32,
    /// Out: board.
    pub board: u32,
    /// Out: GPU instance.
    pub gpu: u32,
    /// Out: NUMA node of the GPU memory, or -1.
    pub numa: i32,
}

/// `NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct AddressSpace {
    /// In: the memory.
    pub object: u32,
    /// In: zero.
    pub flags: u32,
    /// Out: 1 system, 2 video, 3 registers, 4 fabric.
    pub space: u32,
}

/// `NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS` from 545 on.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ExportInfo {
    /// In: the exported file.
    pub fd: i32,
    /// Out: device instance, or [`NO_DEVICE`].
    pub device: u32,
    /// Out: MIG instance, or [`NO_GPU_INSTANCE`].
    pub gpu_instance: u32,
    /// Out: upper bound of the objects in the file.
    pub objects: u16,
    /// Out: exporter metadata.
    pub metadata: [u8; 64],
    pub padding: [u8; 2],
}

/// The layout before 545: four bytes shorter, without the MIG instance.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ExportInfoBefore545 {
    /// In: the exported file.
    pub fd: i32,
    /// Out: device instance.
    pub device: u32,
    /// Out: upper bound of the objects in the file.
    pub objects: u16,
    /// Out: exporter metadata.
    pub metadata: [u8; 64],
    pub padding: [u8; 2],
}

/// `NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct ImportObject {
    /// In: the exported file.
    pub fd: i32,
    /// In: [`IMPORT_RM`].
    pub kind: u32,
    /// In: our device.
    pub device: u32,
    /// In: parent of the new object, our device.
    pub parent: u32,
    /// In: the new handle.
    pub object: u32,
}

/// `NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ImportObjects {
    /// In: the exported file.
    pub fd: i32,
    /// In: our device.
    pub parent: u32,
    /// In: new handles; zero entries are skipped.
    pub objects: [u32; IMPORTS],
    /// Out: 1 video memory, 2 system memory, 3 fabric, 4 fabric multicast.
    pub types: [u8; IMPORTS],
    /// In: number of objects.
    pub count: u16,
    /// In: index of the first object in the file.
    pub index: u16,
}

/// `NV0041_CTRL_GET_SURFACE_INFO_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct SurfaceInfo {
    /// In: number of entries.
    pub count: u32,
    pub padding: u32,
    /// In: address of the [`SurfaceEntry`] array.
    pub list: u64,
}

/// `NV0041_CTRL_SURFACE_INFO`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct SurfaceEntry {
    /// In: queried attribute.
    pub index: u32,
    /// Out: value.
    pub data: u32,
}

/// `NV2080_CTRL_FB_GET_STATIC_BAR1_INFO_PARAMS`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct StaticBar1 {
    /// Out: nonzero if BAR1 maps all of the memory.
    pub enabled: u8,
    /// Out, from 580: nonzero if write-combined.
    pub write_combining: u8,
    pub padding: [u8; 6],
    /// Out: offset in BAR1.
    pub start: u64,
    /// Out: size in bytes.
    pub size: u64,
}

impl ExportInfo {
    /// Query for this file.
    pub const fn of(fd: i32) -> Self {
        Self { fd, device: 0, gpu_instance: 0, objects: 0, metadata: [0; 64], padding: [0; 2] }
    }
}

impl ExportInfoBefore545 {
    /// Query for this file.
    pub const fn of(fd: i32) -> Self {
        Self { fd, device: 0, objects: 0, metadata: [0; 64], padding: [0; 2] }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(
        size_of::<GpuIdInfo>() == 32
            && offset_of!(GpuIdInfo, device) == 8
            && offset_of!(GpuIdInfo, numa) == 28
    );
    assert!(size_of::<AddressSpace>() == 12 && offset_of!(AddressSpace, space) == 8);
    assert!(size_of::<ExportInfo>() == 80 && offset_of!(ExportInfo, gpu_instance) == 8);
    assert!(offset_of!(ExportInfo, objects) == 12 && offset_of!(ExportInfo, metadata) == 14);
    assert!(
        size_of::<ExportInfoBefore545>() == 76 && offset_of!(ExportInfoBefore545, objects) == 8
    );
    assert!(offset_of!(ExportInfoBefore545, metadata) == 10);
    assert!(size_of::<ImportObject>() == 20 && offset_of!(ImportObject, object) == 16);
    assert!(size_of::<ImportObjects>() == 652 && offset_of!(ImportObjects, objects) == 8);
    assert!(offset_of!(ImportObjects, types) == 520 && offset_of!(ImportObjects, count) == 648);
    assert!(offset_of!(ImportObjects, index) == 650);
    assert!(size_of::<SurfaceInfo>() == 16 && offset_of!(SurfaceInfo, list) == 8);
    assert!(size_of::<SurfaceEntry>() == 8);
    assert!(
        size_of::<StaticBar1>() == 24
            && offset_of!(StaticBar1, start) == 8
            && offset_of!(StaticBar1, size) == 16
    );
};
