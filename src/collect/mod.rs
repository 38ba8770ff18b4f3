//! World → Facts, one file per area. A collector reads and parses; it judges nothing.

mod boot;
mod driver;
mod environment;
mod fabric;
mod imex;
mod kernel;
mod limits;
mod loaded;
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

use crate::model::{Bdf, DriverGpu, Fact, Facts, Ids, Note, PciDevice, RdmaDevice, Why};
use crate::world::{NetworkQuery, NvmlQuery, Reading, VerbsQuery, World};

/// What to collect.
#[derive(Debug, Clone, Copy, Default)]
pub struct CollectOptions {
    /// NVMe controllers are topology devices.
    pub nvme: bool,
    /// NVML's queries, and the number of GPUs from which they are worth the time.
    pub nvml: NvmlQuery,
    /// Kernel, process and device nodes.
    pub system: bool,
    /// With `system`: modprobe.d, the initramfs and kernel module files.
    pub modules: bool,
    /// With `system`: libraries and programs in user space.
    pub software: bool,
    /// With `system`: settings in the NICs' firmware.
    pub settings: bool,
    /// CUDA's device attributes, without a context.
    pub cuda: bool,
    /// Libibverbs' view of the RDMA devices, with trials if requested.
    pub verbs: Option<VerbsQuery>,
    /// The kernel's view of the network interfaces of RDMA ports, and counters that rise.
    pub network: Option<NetworkQuery>,
    /// Try to map GPU memory for the CPU.
    pub mapping: bool,
    /// Try to register GPU memory with RDMA devices.
    pub registration: bool,
    /// Read the initramfs even if no option is set: a repair may set one.
    pub initramfs: bool,
}

impl CollectOptions {
    /// What any command may need, but the initramfs that only repairs read; `live` adds tests of the hardware.
    pub const fn everything(live: bool) -> Self {
        Self {
            nvme: true,
            nvml: NvmlQuery::EVERYTHING,
            system: true,
            modules: true,
            software: true,
            settings: true,
            cuda: true,
            verbs: Some(VerbsQuery { trials: live }),
            network: Some(NetworkQuery { twice: live }),
            mapping: live,
            registration: live,
            initramfs: false,
        }
    }
}

pub fn facts(world: &World, options: CollectOptions) -> Facts {
    let mut notes = Vec::new();
    let files = world.files.as_ref();
    let driver = driver::driver(files, &mut notes);
    // NVML takes ten milliseconds or more to start, so it runs in parallel.
    let nvml = needs_nvml(&driver.gpus, options.nvml).then(|| world.libraries.nvml(options.nvml));
    let cuda = options.cuda.then(|| world.libraries.cuda(&one_per_model(&driver.gpus)));
    let mapping = options.mapping.then(|| world.libraries.mapping());

    let mut pci = pci::devices(files, &mut notes);
    let numa = kernel::numa(files, &mut notes);
    let gpus: BTreeSet<Bdf> = functions(&pci, Ids::is_nvidia_gpu).collect();
    let mut rdma = rdma::devices(files, &pci, gpus.len(), &mut notes);
    let has_rdma = rdma.known().is_some_and(|devices| !devices.is_empty());
    let registration = options.registration && has_rdma && !gpus.is_empty();
    let verbs = options.verbs.filter(|_| has_rdma);
    let verbs = verbs.map(|options| world.libraries.verbs(options));
    let network = options
        .network
        .filter(|query| has_rdma && (query.twice || rdma::has_roce(&rdma)))
        .map(|query| world.libraries.network(query));
    let nvme = if options.nvme { pci::nvme(files, &mut notes) } else { Fact::default() };
    let mut interest = endpoints(gpus, &rdma, &nvme).collect();
    add_related(&mut interest, &pci, options);
    if let Fact::Known(devices) = &mut pci {
        pci::second_pass(files, devices, &interest, &mut notes);
    }

    if options.system {
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
    system(world, options, &pci, &mut facts, &mut notes);
    if let Fact::Known(devices) = &mut facts.rdma
        && options.system
        && options.settings
        && settings_matter(options, &pci)
    {
        let pci = pci.known().map_or(&[][..], Vec::as_slice);
        rdma::settings(world, &facts.process.uid, pci, devices, &mut notes);
    }
    facts.pci = pci;
    loaded::driver(&mut facts);
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
    if let Some(reading) = network {
        facts.network = finish(reading, "network interfaces", &mut notes);
    }
    facts.mapping = mapping.map(|reading| finish(reading, "CUDA", &mut notes));
    // A GPU may be in exclusive mode, so the trials run one after the other.
    let registration = registration.then(|| world.libraries.registration());
    facts.registration = registration.map(|reading| finish(reading, "CUDA and verbs", &mut notes));
    notes.sort();
    notes.dedup();
    facts.notes = notes;
    facts
}

fn add_related(interest: &mut BTreeSet<Bdf>, pci: &Fact<Vec<PciDevice>>, options: CollectOptions) {
    // One RDMA device serves all ports of a bond.
    let card = |bdf: &Bdf| (bdf.domain, bdf.bus, bdf.device);
    let cards: BTreeSet<_> = interest.iter().map(card).collect();
    interest.extend(functions(pci, Ids::is_nvidia_nic).filter(|bdf| cards.contains(&card(bdf))));
    // The IOMMU groups of Data Direct functions matter.
    interest.extend(functions(pci, Ids::is_data_direct));
    if options.system {
        // A NIC without an RDMA device may be assigned to a guest or lack its module.
        interest.extend(functions(pci, Ids::is_nvidia_nic));
    }
}

/// The PCI addresses of GPUs, RDMA devices and NVMe controllers.
fn endpoints<'a>(
    gpus: BTreeSet<Bdf>,
    rdma: &'a Fact<Vec<RdmaDevice>>,
    nvme: &'a Fact<Vec<(String, Bdf)>>,
) -> impl Iterator<Item = Bdf> + use<'a> {
    let nics = rdma.known().into_iter().flatten();
    let nvme = nvme.known().into_iter().flatten();
    gpus.into_iter()
        .chain(nics.filter_map(|nic| nic.place.present().copied()))
        .chain(nvme.map(|(_, bdf)| *bdf))
}

/// Everything but the devices, as far as the options ask for it.
fn system(
    world: &World,
    options: CollectOptions,
    pci: &Fact<Vec<PciDevice>>,
    facts: &mut Facts,
    notes: &mut Vec<Note>,
) {
    let files = world.files.as_ref();
    // Always: a guest's PCI tree is the hypervisor's.
    facts.platform = platform::platform(files, pci, notes);
    if !options.system {
        return;
    }
    facts.nvidia_nodes = driver::nodes(files);
    facts.peer_memory = driver::peer_memory(files, notes);
    facts.fabric = fabric::fabric(world, notes);
    facts.gdrdrv = driver::gdrdrv(files, notes);
    facts.kernel = kernel::kernel(files, pci, notes);
    facts.boot = boot::boot(files);
    facts.process = process::process(files, notes);
    platform::surroundings(files, &mut facts.platform, notes);
    facts.rdma_stack = rdma::stack(files, notes);
    if options.modules {
        facts.modprobe =
            modprobe::modprobe(files, &facts.driver, &facts.kernel, options.initramfs, notes);
        facts.module_files = modules::modules(files, &facts.kernel.release, notes);
    }
    facts.limits = limits::limits(files, notes);
    facts.environment = environment::environment(files, notes);
    if options.software {
        facts.software = software::software(world, &facts.environment, notes);
    }
    facts.tools = tools(world);
}

/// Tools that the fixes name or run.
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

/// One GPU per model, by UUID, if there are more than two alike and the driver names all; else none.
fn one_per_model(gpus: &Fact<BTreeMap<Bdf, DriverGpu>>) -> Vec<String> {
    let gpus = gpus.known().into_iter().flat_map(BTreeMap::values);
    let named: Option<Vec<(&String, &String)>> =
        gpus.map(|gpu| Some((gpu.model.as_ref()?, gpu.uuid.as_ref()?))).collect();
    let named = named.unwrap_or_default();
    let mut models: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (model, uuid) in named {
        models.entry(model).or_default().push(uuid);
    }
    if models.values().any(|alike| alike.len() > 2) {
        models.values().filter_map(|alike| alike.first()).map(|uuid| (*uuid).clone()).collect()
    } else {
        Vec::new()
    }
}

fn needs_nvml<T>(gpus: &Fact<BTreeMap<Bdf, T>>, options: NvmlQuery) -> bool {
    options.is_any()
        && match gpus {
            Fact::Known(gpus) => gpus.len() >= options.from_gpus,
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

/// True if firmware settings are worth the slow query: for GPUs older than Pascal, and under `--live`.
fn settings_matter(options: CollectOptions, pci: &Fact<Vec<PciDevice>>) -> bool {
    let old = |device: &PciDevice| device.ids.known().is_some_and(|ids| ids.is_before_pascal());
    options.verbs.is_some_and(|options| options.trials)
        || pci.known().is_some_and(|devices| devices.iter().any(old))
}

pub use rdma::parse_settings;

/// The functions whose ids satisfy the predicate.
fn functions(pci: &Fact<Vec<PciDevice>>, is_wanted: fn(&Ids) -> bool) -> impl Iterator<Item = Bdf> {
    let devices = pci.known().into_iter().flatten();
    let wanted = devices.filter(move |device| device.ids.known().is_some_and(is_wanted));
    wanted.map(|device| device.bdf)
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
    fn one_of_many_equal_gpus_is_queried() {
        let (a, b, c, d) = (Some("GPU-a"), Some("GPU-b"), Some("GPU-c"), Some("GPU-d"));
        assert_eq!(one_per_model(&gpus(&[("H200", a), ("H200", b), ("H200", c)])), ["GPU-a"]);
        let mixed = gpus(&[("T4", a), ("H200", b), ("H200", c), ("H200", d)]);
        assert_eq!(one_per_model(&mixed), ["GPU-b", "GPU-a"]);
        // Two are both queried; unnamed GPUs are not grouped.
        assert!(one_per_model(&gpus(&[("H200", a), ("H200", b)])).is_empty());
        assert!(one_per_model(&gpus(&[("H200", a), ("H200", None), ("H200", c)])).is_empty());
        assert!(one_per_model(&Fact::default()).is_empty());
    }
}
