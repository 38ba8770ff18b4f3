//! What decides the memory paths of a GPU and a NIC: NVLink-C2C, the PCI path between them, and the NIC's Data Direct function.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gpu::{Attribute, DeviceMemory};
use ibverbs_sys as raw;

use crate::{Context, Error, MemoryPath};

/// What is known of a GPU, a NIC and the path between them. The default is that nothing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathFacts {
    /// The GPU's memory is coherent with the CPU's over NVLink-C2C; none if unknown.
    pub c2c: Option<bool>,
    /// GPU and NIC have a PCI bridge in common, so that traffic need not pass the CPU; none if unknown.
    pub below_one_bridge: Option<bool>,
    /// libmlx5 names a Data Direct function of the NIC, and it is not known to be away from the GPU.
    pub data_direct: bool,
}

impl PathFacts {
    /// The memory paths to try, in order, as NCCL chooses: Data Direct and the PCIe mapping only for a GPU with NVLink-C2C, because other GPUs
    /// have one mapping, the default one. The PCIe mapping needs a PCI path that does not pass the CPU: elsewhere the driver refuses it, or,
    /// without IOMMU groups to compare, grants it and the traffic takes the slow path.
    #[must_use]
    pub fn memory_paths(self) -> Vec<MemoryPath> {
        let is_tried = |memory_path: &MemoryPath| match memory_path {
            MemoryPath::DataDirect => self.data_direct && self.c2c != Some(false),
            MemoryPath::DmabufPcie => self.c2c == Some(true) && self.below_one_bridge == Some(true),
            MemoryPath::Dmabuf | MemoryPath::Peermem => true,
        };
        MemoryPath::ALL.into_iter().filter(is_tried).collect()
    }

    /// Reads the facts from CUDA, libmlx5 and sysfs. What cannot be read is unknown.
    #[must_use]
    pub fn read(nic: &Context, memory: &DeviceMemory) -> Self {
        let sys = Path::new("/sys");
        let device = memory.gpu().device();
        let gpu = device.pci.and_then(|pci| function(sys, &pci.to_string()));
        let function_of_nic = sys.join("class/infiniband").join(nic.name()).join("device");
        let own = function_of_nic.canonicalize().ok();
        let is_near = |other: Option<&PathBuf>| Some(below_one_bridge(gpu.as_ref()?, other?));
        Self {
            c2c: c2c(device),
            below_one_bridge: is_near(own.as_ref()),
            data_direct: nic.data_direct().ok().flatten().is_some_and(|named| {
                let name = named.file_name().and_then(|name| name.to_str());
                let placed = name.and_then(|name| function(sys, name));
                is_near(placed.as_ref()) != Some(false)
            }),
        }
    }
}

impl Context {
    /// The sysfs path of the NIC's Data Direct function, with which a ConnectX-8 or later reaches GPU memory over PCIe beside its main path;
    /// none without one.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] below rdma-core 54; [`Error::Call`], also below Linux 6.12.
    pub fn data_direct(&self) -> Result<Option<PathBuf>, Error> {
        if !self.is_mlx5() {
            return Ok(None);
        }
        let function = "mlx5dv_get_data_direct_sysfs_path";
        let ask =
            raw::mlx5dv()?.mlx5dv_get_data_direct_sysfs_path.ok_or(Error::Missing { function })?;
        let mut path = [0_u8; 4096];
        // SAFETY: the context is open and an mlx5 device's, and the buffer has the length passed.
        let errno = unsafe { ask(self.as_raw(), path.as_mut_ptr().cast(), path.len()) };
        if errno == libc::ENODEV {
            return Ok(None);
        }
        self.check_errno(function, errno)?;
        let end = path.iter().position(|byte| *byte == 0);
        let path = OsStr::from_bytes(&path[..end.unwrap_or(path.len())]);
        // The library leaves out the mount point.
        let below = Path::new(path).strip_prefix("/").unwrap_or(Path::new(path));
        Ok(Some(Path::new("/sys").join(below)))
    }
}

/// Whether the GPU has NVLink-C2C. A GPU whose page tables are the CPU's has it. Where the driver keeps the GPU's memory to itself (CDMM), one
/// that has it does not show it, so no answer means no only on a CPU that no GPU has NVLink-C2C with.
fn c2c(device: &gpu::Device) -> Option<bool> {
    let attribute = Attribute::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    match device.attribute(attribute).ok()?? {
        0 => cfg!(target_arch = "x86_64").then_some(false),
        _ => Some(true),
    }
}

/// The path of a PCI function among the bridges above it.
fn function(sys: &Path, bdf: &str) -> Option<PathBuf> {
    sys.join("bus/pci/devices").join(bdf).canonicalize().ok()
}

/// True if two functions, by their paths below `/sys/devices`, have a bridge in common.
fn below_one_bridge(a: &Path, b: &Path) -> bool {
    let bridges = |path: &Path| -> Vec<String> {
        let names = path.iter().filter_map(|name| name.to_str());
        let names = names.skip_while(|name| !name.starts_with("pci"));
        names.map(str::to_owned).collect()
    };
    let (a, b) = (bridges(a), bridges(b));
    // The host bridge alone is not enough: `pci0000:00`, `0000:00:01.0`.
    a.len() > 2 && b.len() > 2 && a[..2] == b[..2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryPath::{DataDirect, Dmabuf, DmabufPcie, Peermem};

    #[test]
    fn memory_paths_of_each_machine() {
        let plain = [Dmabuf, Peermem];
        for (machine, c2c, below_one_bridge, data_direct, expected) in [
            ("nothing is known", None, None, false, &plain[..]),
            ("H200", Some(false), Some(true), false, &plain),
            ("H200, ConnectX-8", Some(false), Some(true), true, &plain),
            ("GH200", Some(true), Some(false), false, &plain),
            ("C2C, unknown path", Some(true), None, false, &plain),
            ("unknown GPU", None, Some(true), false, &plain),
            ("GB300", Some(true), Some(true), false, &[DmabufPcie, Dmabuf, Peermem]),
            ("GB300, Data Direct", Some(true), Some(false), true, &[DataDirect, Dmabuf, Peermem]),
            ("CDMM, Data Direct", None, None, true, &[DataDirect, Dmabuf, Peermem]),
            ("all", Some(true), Some(true), true, &MemoryPath::ALL),
        ] {
            let facts = PathFacts { c2c, below_one_bridge, data_direct };
            assert_eq!(facts.memory_paths(), expected, "{machine}");
        }
    }

    #[test]
    fn bridges_in_common() {
        let gpu = "/sys/devices/pci0009:00/0009:00:00.0/0009:01:00.0/0009:02:01.0/0009:06:00.0";
        for (other, expected) in [
            // Below the same switch, below the same root port.
            ("/sys/devices/pci0009:00/0009:00:00.0/0009:01:00.0/0009:02:02.0/0009:03:00.0", true),
            ("/sys/devices/pci0009:00/0009:00:00.0/0009:01:00.1", true),
            // Another root port, another root bus, on the root bus itself.
            ("/sys/devices/pci0009:00/0009:00:01.0/0009:03:00.0", false),
            ("/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0", false),
            ("/sys/devices/pci0009:00/0009:00:00.0", false),
            // A software NIC.
            ("/sys/devices/virtual/infiniband/rxe0", false),
        ] {
            assert_eq!(below_one_bridge(Path::new(gpu), Path::new(other)), expected, "{other}");
        }
        // Behind a hypervisor's or a platform's bus.
        let arm = "/sys/devices/platform/soc/pci0001:00/0001:00:00.0/0001:01:00.0";
        let beside = "/sys/devices/platform/soc/pci0001:00/0001:00:00.0/0001:01:00.1";
        assert!(below_one_bridge(Path::new(arm), Path::new(beside)));
    }
}
