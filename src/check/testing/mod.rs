//! A small machine for the tests of checks, and how to change one thing about it.
//!
//! ```text
//! 00:01.0 root port ── 01:00.0 switch ┬─ 02:00.0 ── 03:00.0 GPU0, an H200
//!                                     └─ 02:01.0 ── 04:00.0 NIC0, mlx5_0
//! ```
//! Bare metal, x86, open driver 580.159.04, without faults.

mod machine;

pub use machine::{gpu, machine, node, options, rdma, root_port, two_gpus};

use super::{Ctx, find, run_those};
use crate::model::config::*;
use crate::model::*;
use crate::profile::{Expectations, Profile, SHIPPED};
use crate::topo::topology;

pub const GPU: &str = "0000:03:00.0";
pub const NIC: &str = "0000:04:00.0";
pub const ROOT_PORT: &str = "0000:00:01.0";
pub const GPU_PORT: &str = "0000:02:00.0";
pub const NIC_PORT: &str = "0000:02:01.0";
const BRIDGES: [&str; 4] = [ROOT_PORT, "0000:01:00.0", GPU_PORT, NIC_PORT];

pub fn bdf(text: &str) -> Bdf {
    text.parse().expect("an address")
}

/// The findings of one check under these profiles.
pub fn findings(id: &str, facts: &Facts, profiles: &[&str]) -> Vec<Finding> {
    let profiles: Vec<Profile> = SHIPPED
        .iter()
        .filter(|(name, _)| profiles.contains(name))
        .map(|(name, text)| Profile::parse(name, text, |_| true).expect("a profile"))
        .collect();
    let (topology, expectations) = (topology(facts), Expectations::of(&profiles));
    assert!(find(id).is_some(), "no check {id}");
    run_those(&Ctx::new(facts, &topology, &expectations), |check| check == id)
}

/// The one finding of a check without a profile.
pub fn only(id: &str, facts: &Facts) -> Finding {
    let mut found = findings(id, facts, &[]);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[track_caller]
pub fn assert_outcome(id: &str, facts: &Facts, outcome: Outcome) {
    assert_eq!(only(id, facts).outcome, outcome, "{id}");
}

#[track_caller]
pub fn assert_says(found: &Finding, words: &str) {
    assert!(found.message.contains(words), "{}", found.message);
}

/// Subject and outcome of each finding.
pub fn outcomes(found: &[Finding]) -> Vec<(&str, Outcome)> {
    found.iter().map(|finding| (finding.subject.as_str(), finding.outcome)).collect()
}

#[track_caller]
pub fn assert_fix_says(found: &Finding, words: &str) {
    let (_, text) = fix(found);
    assert!(text.contains(words), "{text}");
}

/// Id of the finding's fix (`advice` without one), and its command and advice.
pub fn fix(found: &Finding) -> (&str, String) {
    let fix = found.fix.as_ref().expect("a fix");
    (fix.id().unwrap_or("advice"), fix.text())
}

/// The machine with these libraries.
pub fn with_libraries(libraries: Vec<Library>) -> Facts {
    let mut facts = machine();
    facts.software.libraries = Fact::Known(libraries);
    facts
}

pub trait Edit {
    fn devices_mut(&mut self) -> &mut Vec<PciDevice>;
    fn device_mut(&mut self, bdf: &str) -> &mut PciDevice;
    fn attributes_mut(&mut self, bdf: &str) -> &mut Attributes;
    fn add(&mut self, device: PciDevice);
    fn nic_mut(&mut self) -> &mut RdmaDevice;
    fn param(&mut self, name: &str, value: &str);
    /// Replaces the open kernel modules by the proprietary ones, which export no dma-buf.
    fn set_proprietary(&mut self);
}

impl Edit for Facts {
    fn devices_mut(&mut self) -> &mut Vec<PciDevice> {
        match &mut self.pci {
            Fact::Known(devices) => devices,
            Fact::Unknown(_) => panic!("no devices"),
        }
    }

    fn device_mut(&mut self, bdf: &str) -> &mut PciDevice {
        let bdf = self::bdf(bdf);
        let found = self.devices_mut().iter_mut().find(|device| device.bdf == bdf);
        found.expect("the device")
    }

    fn attributes_mut(&mut self, bdf: &str) -> &mut Attributes {
        self.device_mut(bdf).attributes.as_mut().expect("attributes")
    }

    /// Adds a function, and a GPU to the driver's list.
    fn add(&mut self, device: PciDevice) {
        let is_gpu = device.ids.known().is_some_and(|ids| ids.is_nvidia_gpu());
        if let (true, Fact::Known(gpus)) = (is_gpu, &mut self.driver.gpus) {
            gpus.insert(device.bdf, DriverGpu::default());
        }
        self.devices_mut().push(device);
        self.devices_mut().sort_by_key(|device| device.bdf);
    }

    fn nic_mut(&mut self) -> &mut RdmaDevice {
        match &mut self.rdma {
            Fact::Known(devices) => &mut devices[0],
            Fact::Unknown(_) => panic!("no RDMA devices"),
        }
    }

    fn set_proprietary(&mut self) {
        let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03";
        self.driver.version_line = Fact::Known(Some(line.to_owned()));
    }

    fn param(&mut self, name: &str, value: &str) {
        match &mut self.driver.params {
            Fact::Known(Some(params)) => params.insert(name.to_owned(), value.to_owned()),
            _ => panic!("no parameters"),
        };
    }
}

pub fn bind(facts: &mut Facts, bdf: &str, driver: Option<&str>) {
    facts.attributes_mut(bdf).driver = Fact::Known(driver.map(str::to_owned));
}

pub fn set_device_id(facts: &mut Facts, bdf: &str, id: u16) {
    let device = facts.device_mut(bdf);
    device.ids = device.ids.clone().map(|ids| Ids { device: Some(id), ..ids });
}

/// Sets a port's ACS control register.
pub fn set_acs(facts: &mut Facts, bdf: &str, control: u16) {
    facts.device_mut(bdf).config.acs = Fact::Known(Some(Acs {
        offset: 0x148,
        capable: AcsBits(0x5f),
        control: AcsBits(control),
        egress_size: 0,
        egress_vector: Fact::Known(Vec::new()),
    }));
}

pub fn nvml_gpu(facts: &mut Facts, change: impl FnOnce(&mut NvmlGpu)) {
    match &mut facts.nvml {
        Fact::Known(NvmlOutcome::Read(nvml)) => change(&mut nvml.gpus[0]),
        _ => panic!("no NVML"),
    }
}

pub fn cuda_gpu(facts: &mut Facts, change: impl FnOnce(&mut CudaGpu)) {
    match &mut facts.cuda {
        Fact::Known(CudaOutcome::Read(cuda)) => change(&mut cuda.gpus[0]),
        _ => panic!("no CUDA"),
    }
}

/// A link: current speed and width, best speed and width.
pub fn set_link(facts: &mut Facts, bdf: &str, current: (u8, u8), max: (u8, u8)) {
    let device = facts.device_mut(bdf);
    device.config.express = machine::express(current, max);
}

impl crate::model::Remedy {
    /// Command and advice, for tests that look for words.
    pub fn text(&self) -> String {
        let manual = self.manual();
        [&manual.command, &manual.advice]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }
}
