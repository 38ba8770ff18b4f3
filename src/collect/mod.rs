//! World → Facts, one file an area. A collector reads and parses; it judges nothing.

mod boot;
mod driver;
mod environment;
mod fabric;
mod kernel;
mod limits;
mod modprobe;
mod modules;
mod pci;
mod platform;
mod process;
mod rdma;
mod read;
mod software;

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use crate::model::{Bdf, DriverGpu, Fact, Facts, Note, PciDevice, Why};
use crate::world::{NvmlQuery, Reading, VerbsQuery, World};

/// What a command needs to know. What nobody asked for is not read.
#[derive(Debug, Clone, Copy, Default)]
pub struct CollectOptions {
    /// NVMe controllers are devices of interest.
    pub nvme: bool,
    /// What to ask NVML, and from how many GPUs on it is worth its time.
    pub nvml: NvmlQuery,
    /// The machine around the devices: kernel, process, platform, nodes.
    pub system: bool,
    /// With `system`: modprobe.d, the initramfs and the files of kernel modules.
    pub modules: bool,
    /// With `system`: libraries and programs in user space.
    pub software: bool,
    /// With `system`: settings in the NICs' firmware, where they matter.
    pub settings: bool,
    /// What CUDA says of the GPUs without a context.
    pub cuda: bool,
    /// Which RDMA devices user space serves, and whether each is opened and tried; asked where there are any.
    pub verbs: Option<VerbsQuery>,
    /// GPU memory is mapped for the CPU, as a trial.
    pub mapping: bool,
    /// GPU memory is registered with RDMA devices, as a trial; where there are both.
    pub registration: bool,
    /// The initramfs is looked into also where no option is set that it could carry: a repair may set one.
    pub initramfs: bool,
}

pub fn facts(world: &World, want: CollectOptions) -> Facts {
    let mut notes = Vec::new();
    let files = world.files.as_ref();
    let driver = driver::driver(files, &mut notes);
    // NVML takes ten milliseconds and more to start: it does so while we read.
    let nvml =
        nvml_is_worth_asking(&driver.gpus, want.nvml).then(|| world.libraries.nvml(want.nvml));
    let cuda = want
        .cuda
        .then(|| world.libraries.cuda(&one_of_each(&driver.gpus)));
    let mapping = want.mapping.then(|| world.libraries.mapping());

    let mut pci = pci::devices(files, &mut notes);
    let numa = kernel::numa(files, &mut notes);
    let gpus = gpus(&pci);
    let mut rdma = rdma::devices(files, &pci, gpus.len(), &mut notes);
    let there_are_some = rdma.known().is_some_and(|devices| !devices.is_empty());
    let registration = want.registration && there_are_some && !gpus.is_empty();
    let verbs = want.verbs.filter(|_| there_are_some);
    let verbs = verbs.map(|want| world.libraries.verbs(want));
    let nvme = match want.nvme {
        true => pci::nvme(files, &mut notes),
        false => Fact::default(),
    };
    let interest = gpus
        .into_iter()
        .chain(
            rdma.known()
                .into_iter()
                .flatten()
                .filter_map(|d| d.place.present().copied()),
        )
        .chain(nvme.known().into_iter().flatten().map(|(_, bdf)| *bdf))
        .chain(data_direct(&pci))
        .chain(nvidia_nics(&pci).filter(|_| want.system))
        .collect();
    if let Fact::Known(devices) = &mut pci {
        pci::look_closely(files, devices, &interest, &mut notes);
    }

    if want.system {
        rdma::details(files, &mut rdma, &mut notes);
    }
    let mut facts = Facts {
        host: world.host(),
        driver,
        numa,
        rdma,
        nvme,
        online_cpus: kernel::online_cpus(files, &mut notes),
        ..Facts::default()
    };
    if want.system {
        system(world, want, &pci, &mut facts, &mut notes);
    }
    if let Fact::Known(devices) = &mut facts.rdma
        && want.system
        && want.settings
        && settings_matter(want, &pci)
    {
        let pci = pci.known().map_or(&[][..], Vec::as_slice);
        rdma::settings(world, &facts.process.uid, pci, devices, &mut notes);
    }
    facts.pci = pci;
    facts.nvml = match nvml {
        Some(reading) => finish(reading, "NVML", &mut notes),
        None => Fact::Unknown(Why::NotCovered),
    };
    if let Some(reading) = cuda {
        facts.cuda = finish(reading, "CUDA", &mut notes);
    }
    if let Some(reading) = verbs {
        facts.verbs = finish(reading, "verbs", &mut notes);
    }
    facts.mapping = mapping.map(|reading| finish(reading, "CUDA", &mut notes));
    // A GPU may be for one process at a time: the trials take turns.
    let registration = registration.then(|| world.libraries.registration());
    facts.registration = registration.map(|reading| finish(reading, "CUDA and verbs", &mut notes));
    notes.sort();
    notes.dedup();
    facts.notes = notes;
    facts
}

/// The machine around the devices, as far as it is wanted.
fn system(
    world: &World,
    want: CollectOptions,
    pci: &Fact<Vec<PciDevice>>,
    facts: &mut Facts,
    notes: &mut Vec<Note>,
) {
    let files = world.files.as_ref();
    facts.nvidia_nodes = driver::nodes(files);
    facts.peer_memory = driver::peer_memory(files, notes);
    facts.fabric = fabric::fabric(files, notes);
    facts.gdrdrv = driver::gdrdrv(files, notes);
    facts.kernel = kernel::kernel(files, pci, notes);
    facts.boot = boot::boot(files);
    facts.process = process::process(files, notes);
    facts.platform = platform::platform(files, pci, notes);
    facts.rdma_stack = rdma::stack(files, notes);
    if want.modules {
        facts.modprobe =
            modprobe::modprobe(files, &facts.driver, &facts.kernel, want.initramfs, notes);
        facts.module_files = modules::modules(files, &facts.kernel.release, notes);
    }
    facts.limits = limits::limits(files, notes);
    facts.environment = environment::environment(files, notes);
    if want.software {
        facts.software = software::software(world, &facts.environment, notes);
    }
    facts.tools = tools(world);
}

/// The tools that the fixes of findings name, or run.
const TOOLS: [&str; 13] = [
    "setpci",
    "modprobe",
    "mlxconfig",
    "mstconfig",
    "systemctl",
    "update-initramfs",
    "dracut",
    "mkinitcpio",
    "update-grub",
    "grub-mkconfig",
    "grub2-mkconfig",
    "grubby",
    "kernel-install",
];

fn tools(world: &World) -> BTreeMap<String, Fact<Option<String>>> {
    let locate = |name: &str| {
        let path = world.tools.locate(world.files.as_ref(), name);
        path.map(|path| path.map(|path| path.display().to_string()))
    };
    TOOLS.map(|name| (name.to_owned(), locate(name))).into()
}

/// One GPU of each model, by UUID, where more than two are alike and the driver names all of them; else none.
fn one_of_each(gpus: &Fact<BTreeMap<Bdf, DriverGpu>>) -> Vec<String> {
    let gpus = gpus.known().into_iter().flat_map(BTreeMap::values);
    let named: Option<Vec<(&String, &String)>> = gpus
        .map(|gpu| Some((gpu.model.as_ref()?, gpu.uuid.as_ref()?)))
        .collect();
    let named = named.unwrap_or_default();
    let mut models: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (model, uuid) in named {
        models.entry(model).or_default().push(uuid);
    }
    match models.values().any(|alike| alike.len() > 2) {
        true => models
            .values()
            .filter_map(|alike| alike.first())
            .map(|uuid| (*uuid).clone())
            .collect(),
        false => Vec::new(),
    }
}

fn nvml_is_worth_asking<T>(gpus: &Fact<BTreeMap<Bdf, T>>, want: NvmlQuery) -> bool {
    want.is_any()
        && match gpus {
            Fact::Known(gpus) => gpus.len() >= want.from_gpus,
            Fact::Unknown(_) => true,
        }
}

fn finish<T: DeserializeOwned>(
    reading: Reading<T>,
    source: &str,
    notes: &mut Vec<Note>,
) -> Fact<T> {
    match reading.finish() {
        Ok(outcome) => outcome,
        Err((why, message)) => {
            read::note(notes, source, message);
            Fact::Unknown(why)
        }
    }
}

/// Whether a NIC's settings are worth the time that asking takes: where a GPU is older than Pascal, and under `--live`.
fn settings_matter(want: CollectOptions, pci: &Fact<Vec<PciDevice>>) -> bool {
    let old = |device: &PciDevice| device.ids.known().is_some_and(|ids| ids.is_before_pascal());
    want.verbs.is_some_and(|want| want.trials)
        || pci.known().is_some_and(|devices| devices.iter().any(old))
}

/// What mlxconfig or mstconfig printed of one device; none where it is no such text.
pub use rdma::parse_settings;

/// NVIDIA's NICs: one that is no RDMA device may be handed to a virtual machine, or lack its module.
fn nvidia_nics(pci: &Fact<Vec<PciDevice>>) -> impl Iterator<Item = Bdf> {
    let devices = pci.known().into_iter().flatten();
    let devices = devices.filter(|d| d.ids.known().is_some_and(|ids| ids.is_nvidia_nic()));
    devices.map(|d| d.bdf)
}

/// The Data Direct functions of ConnectX-8: their IOMMU groups matter.
fn data_direct(pci: &Fact<Vec<PciDevice>>) -> impl Iterator<Item = Bdf> {
    let devices = pci.known().into_iter().flatten();
    let devices = devices.filter(|d| d.ids.known().is_some_and(|ids| ids.is_data_direct()));
    devices.map(|d| d.bdf)
}

fn gpus(pci: &Fact<Vec<PciDevice>>) -> BTreeSet<Bdf> {
    pci.known()
        .into_iter()
        .flatten()
        .filter(|d| d.ids.known().is_some_and(|ids| ids.is_nvidia_gpu()))
        .map(|d| d.bdf)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(gpus: &[(&str, Option<&str>)]) -> Fact<BTreeMap<Bdf, DriverGpu>> {
        let gpu = |(at, (model, uuid)): (u8, &(&str, Option<&str>))| {
            let bdf = format!("0000:{at:02x}:00.0").parse().expect("an address");
            let gpu = DriverGpu {
                model: Some((*model).to_owned()),
                uuid: uuid.map(str::to_owned),
                minor: None,
            };
            (bdf, gpu)
        };
        Fact::Known((1..).zip(gpus).map(gpu).collect())
    }

    #[test]
    fn of_many_gpus_alike_one_is_shown_to_cuda() {
        let (a, b, c, d) = (Some("GPU-a"), Some("GPU-b"), Some("GPU-c"), Some("GPU-d"));
        assert_eq!(
            one_of_each(&gpus(&[("H200", a), ("H200", b), ("H200", c)])),
            ["GPU-a"]
        );
        let mixed = gpus(&[("T4", a), ("H200", b), ("H200", c), ("H200", d)]);
        assert_eq!(one_of_each(&mixed), ["GPU-b", "GPU-a"]);
        // Two are asked both, and what the driver does not name is not guessed.
        assert!(one_of_each(&gpus(&[("H200", a), ("H200", b)])).is_empty());
        assert!(one_of_each(&gpus(&[("H200", a), ("H200", None), ("H200", c)])).is_empty());
        assert!(one_of_each(&Fact::default()).is_empty());
    }
}
