//! Driver versions, module flavours and GPU generations.

use crate::model::{Fact, Facts, Ids, PciDevice};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Open modules: Turing and later; only these export dma-buf.
    Open,
    Proprietary,
}

/// GPU generation, as far as it decides the kernel module flavour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Maxwell, Pascal, Volta and before: proprietary modules only.
    BeforeTuring,
    /// Turing to Hopper and Ada: either flavour.
    TuringToHopper,
    /// Grace Hopper, Blackwell and later: open modules only.
    OpenOnly,
}

impl Generation {
    /// NVIDIA assigns device ids by generation. In pci.ids display ids below 0x1e00 are Volta or
    /// older and all others are newer; the open modules' list of supported parts starts at 0x1e02.
    /// Blackwell starts at 0x2900 (GB100); pci.ids of 2024 does not list it yet.
    pub fn of(ids: &Ids) -> Option<Self> {
        match ids.device {
            _ if ids.is_coherent_gpu() => Some(Self::OpenOnly),
            _ if ids.is_unknown_gpu() => None,
            Some(0..0x1e00) => Some(Self::BeforeTuring),
            Some(0x1e00..0x2900) => Some(Self::TuringToHopper),
            Some(0x2900..) => Some(Self::OpenOnly),
            None => None,
        }
    }

    pub fn of_device(device: &PciDevice) -> Option<Self> {
        device.ids.known().and_then(Self::of)
    }
}

/// Version of the loaded driver, such as `580.159.04`; `None` if it is not loaded.
pub fn driver(facts: &Facts) -> Fact<Option<String>> {
    facts.driver.version()
}

/// The branch: the first number of a driver version.
pub fn branch(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// Flavour of the loaded modules; `None` if they are not loaded.
pub fn flavour(facts: &Facts) -> Fact<Option<Flavour>> {
    facts.driver.version_line.as_ref().map(|line| {
        line.as_ref().map(|line| {
            if line.contains("Open Kernel Module") { Flavour::Open } else { Flavour::Proprietary }
        })
    })
}

/// Major and minor number of a kernel release, as in `6.18.44-generic`.
pub fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The kernel without `.map_resource` in `struct dma_map_ops`: 14cb413af00c, posted in October 2025 after 6.18-rc1.
pub const MAP_PHYS: (u32, u32) = (6, 19);

/// The numbers of a driver version, for comparison.
pub fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// Whether a driver's modules use `.map_phys` where the kernel has it (conftest.sh: dma_map_ops_has_map_phys); unknown for releases
/// of 535 and 570 that are newer than the tags of NVIDIA/open-gpu-kernel-modules that were read.
pub fn has_map_phys(driver: &str) -> Option<bool> {
    let numbers = numbers(driver);
    let before = |limit: [u32; 3]| numbers.as_slice() < limit.as_slice();
    match numbers.first()? {
        535 if !before([535, 288, 2]) => None,
        ..570 => Some(false),
        570 if before([570, 211, 2]) => Some(false),
        570 => None,
        571..580 => Some(false),
        580 if before([580, 94, 16]) => Some(false),
        580 if before([580, 95, 0]) => Some(true),
        580 => Some(!before([580, 126, 9])),
        581..=590 => Some(!before([590, 48, 1])),
        _ => Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Why;

    #[test]
    fn reads_driver_version_from_either_file() {
        let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023";
        let read = |module: Fact<Option<String>>, line: Fact<Option<String>>| {
            let mut facts = Facts::default();
            facts.driver.module_version = module;
            facts.driver.version_line = line;
            driver(&facts)
        };
        let version = Fact::Known(Some("535.129.03".to_owned()));
        let unknown = Fact::Unknown(Why::Denied);
        assert_eq!(read(version.clone(), unknown.clone()), version);
        assert_eq!(read(Fact::Known(None), Fact::Known(Some(line.to_owned()))), version);
        assert_eq!(read(Fact::Known(None), Fact::Known(None)), Fact::Known(None));
        assert_eq!(read(Fact::Known(None), unknown.clone()), unknown);
    }

    #[test]
    fn reads_flavour_from_version_line() {
        let read = |line: &str| {
            let mut facts = Facts::default();
            facts.driver.version_line = Fact::Known(Some(line.to_owned()));
            flavour(&facts)
        };
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build";
        assert_eq!(read(open), Fact::Known(Some(Flavour::Open)));
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03";
        assert_eq!(read(closed), Fact::Known(Some(Flavour::Proprietary)));
    }

    #[test]
    fn device_ids_give_generation() {
        let generation =
            |device| Generation::of(&Ids { vendor: Ids::NVIDIA, device, class: 0x03_0200 });
        // P100, V100, T4, A100, H100, L40, GH200, B200, RTX 5090.
        assert_eq!(generation(Some(0x15f8)), Some(Generation::BeforeTuring));
        assert_eq!(generation(Some(0x1db4)), Some(Generation::BeforeTuring));
        assert_eq!(generation(Some(0x1eb8)), Some(Generation::TuringToHopper));
        assert_eq!(generation(Some(0x20b0)), Some(Generation::TuringToHopper));
        assert_eq!(generation(Some(0x2330)), Some(Generation::TuringToHopper));
        assert_eq!(generation(Some(0x26b5)), Some(Generation::TuringToHopper));
        assert_eq!(generation(Some(0x2342)), Some(Generation::OpenOnly));
        assert_eq!(generation(Some(0x2901)), Some(Generation::OpenOnly));
        assert_eq!(generation(Some(0x2b85)), Some(Generation::OpenOnly));
        // B300, GB300, GB10; and an id that no list has.
        for listed in [0x3182, 0x31c2, 0x2e12] {
            assert_eq!(generation(Some(listed)), Some(Generation::OpenOnly));
        }
        assert_eq!(generation(Some(0x3041)), None);
    }

    #[test]
    fn reads_releases() {
        assert_eq!(kernel("6.18.44-fc-v657-gpu"), Some((6, 18)));
        assert_eq!(kernel("5.12-rc1"), Some((5, 12)));
        assert_eq!(kernel("6"), None);
        assert_eq!((branch("580.159.04"), branch("x")), (Some(580), None));
    }
}
