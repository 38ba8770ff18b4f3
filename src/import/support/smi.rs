//! Output of nvidia-smi → answers of NVML: `nvidia-smi -q`, `nvlink --status` and `nvlink --remotelinkinfo`.
//!
//! The layout is that of drivers 331 to 580 in public bug reports. What is not in the text is unknown.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Order as _;
use crate::model::limited::MAX_GPUS;
use crate::model::{
    Attributes, Bar1, Bdf, Config, FabricRegistration, Fact, Ids, Link, LinkSpeed, LinkState,
    NvLink, Nvml, NvmlGpu, NvmlOutcome, PciDevice, Why,
};

/// Limit of a field's path: nvidia-smi's are shorter.
const LONGEST: usize = 256;

/// Reads the output of nvidia-smi; `None` if it has neither a whole list of GPUs nor a reason why there is none.
///
/// A pasted text may hold some sections or some GPUs; its list is then partial.
pub(super) fn outcome(text: &str, pasted: bool) -> Option<NvmlOutcome> {
    let failed =
        |code, reason: &str| NvmlOutcome::Failed { code: Some(code), reason: reason.to_owned() };
    let unreachable: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with("Unable to determine the device handle for"))
        .map(str::to_owned)
        .collect();
    if let Some((_, list)) = text.split_once("NVSMI LOG") {
        return nvml(list, text, unreachable, pasted).map(|nvml| NvmlOutcome::Read(Box::new(nvml)));
    }
    if let Some(line) = text.lines().find(|line| line.contains("couldn't find libnvidia-ml.so")) {
        return Some(NvmlOutcome::Absent { reason: line.to_owned() });
    }
    if !unreachable.is_empty() || text.contains("No devices were found") {
        // A pasted line about one GPU says nothing of the others.
        let partial = pasted && !unreachable.is_empty();
        return Some(NvmlOutcome::Read(Box::new(Nvml { partial, unreachable, ..Nvml::default() })));
    }
    text.lines().find_map(|line| {
        if line.starts_with("NVIDIA-SMI has failed because it couldn't communicate with") {
            return Some(failed(9, line));
        }
        let reason = line.strip_prefix("Failed to initialize NVML: ")?;
        Some(failed(code(reason)?, reason))
    })
}

/// The return code of NVML with this text (nvmlErrorString).
fn code(reason: &str) -> Option<u32> {
    const CODES: [(&str, u32); 6] = [
        ("Success", 0),
        ("Insufficient Permissions", 4),
        ("Driver Not Loaded", 9),
        ("Driver/library version mismatch", 18),
        ("Insufficient Resources", 23),
        ("Unknown Error", 999),
    ];
    let known = CODES.iter().find(|(text, _)| reason.eq_ignore_ascii_case(text));
    known.map(|(_, code)| *code)
}

/// The fields of a GPU or of the head, by their path of headings: `BAR1 Memory Usage/Total`.
pub(super) type Fields<'a> = BTreeMap<String, &'a str>;

fn nvml(list: &str, text: &str, unreachable: Vec<String>, pasted: bool) -> Option<Nvml> {
    let (head, gpus) = blocks(list);
    let links = Links::new(text);
    let count: Option<usize> = head.get("Attached GPUs").and_then(|count| count.parse().ok());
    let all: BTreeSet<Bdf> = gpus.iter().map(|(bdf, _)| *bdf).collect();
    // A cut list would make GPUs look absent.
    let is_whole = gpus.len() <= MAX_GPUS
        && count.is_some_and(|count| gpus.len() + unreachable.len() >= count)
        && gpus.last().is_none_or(|(_, fields)| fields.contains_key("Performance State"));
    (is_whole || pasted).then(|| Nvml {
        partial: !is_whole,
        driver_version: text_of(&head, "Driver Version"),
        cuda_version: fact(&head, "CUDA Version", |version| {
            let (major, minor) = version.split_once('.')?;
            Some(major.parse::<u32>().ok()? * 1000 + minor.parse::<u32>().ok()? * 10)
        }),
        confidential_compute: confidential(&gpus),
        gpus: gpus
            .iter()
            .zip(0..)
            .map(|((bdf, fields), index)| gpu(index, *bdf, fields, &links, &all))
            .collect(),
        unreachable,
        ..Nvml::default()
    })
}

/// Confidential computing protects memory; while it is off, nvidia-smi prints 0 MiB
/// (<https://github.com/NVIDIA/k8s-test-infra/issues/711>), and without it N/A or no such line.
fn confidential(gpus: &[(Bdf, Fields<'_>)]) -> Fact<bool> {
    let protected = |(_, fields): &(Bdf, Fields<'_>)| {
        mebibytes(fields.get("Conf Compute Protected Memory Usage/Total")?)
    };
    match gpus.iter().filter_map(protected).max() {
        Some(most) => Fact::Known(most > 0),
        None => Fact::Unknown(Why::NotCovered),
    }
}

/// The fields before the first GPU, and those of each GPU.
pub(super) fn blocks(list: &str) -> (Fields<'_>, Vec<(Bdf, Fields<'_>)>) {
    let (mut head, mut gpus) = (Fields::new(), Vec::<(Bdf, Fields<'_>)>::new());
    let mut headings: Vec<(usize, &str)> = Vec::new();
    let mut numbers: BTreeMap<Bdf, usize> = BTreeMap::new();
    // The GPU of the next fields; none is the head, and a number that no GPU has is other output.
    let mut current: Option<usize> = None;
    for line in list.lines() {
        let name = line.trim_start();
        let indent = line.len() - name.len();
        if indent == 0 {
            let bdf = line.strip_prefix("GPU ").and_then(|bdf| bdf.trim().parse().ok());
            match bdf {
                // One more means that there are too many.
                Some(_) if gpus.len() > MAX_GPUS => break,
                Some(bdf) => {
                    // Sections of one GPU may be printed one by one.
                    current = match numbers.get(&bdf) {
                        Some(at) => Some(*at),
                        None => {
                            numbers.insert(bdf, gpus.len());
                            gpus.push((bdf, Fields::new()));
                            Some(gpus.len() - 1)
                        }
                    };
                }
                None if line.contains("NVSMI LOG") => current = None,
                // Output of another command, or the head.
                None if current.is_some() && !line.is_empty() => current = Some(usize::MAX),
                None => {}
            }
            headings.clear();
        }
        while headings.last().is_some_and(|(outer, _)| *outer >= indent) {
            headings.pop();
        }
        match name.split_once(" : ") {
            Some((key, value)) => {
                let fields = match current {
                    None => &mut head,
                    Some(at) => match gpus.get_mut(at) {
                        Some((_, fields)) => fields,
                        None => continue,
                    },
                };
                // A heading stands in the path of each field below it.
                let above: usize = headings.iter().map(|(_, part)| part.len() + 1).sum();
                if above + key.len() > LONGEST {
                    continue;
                }
                let mut path: String = headings.iter().flat_map(|(_, part)| [part, "/"]).collect();
                path.push_str(key.trim());
                // Drivers before 440.
                let path = path.replace("Virtualization mode", "Virtualization Mode");
                fields.entry(path).or_insert(value.trim());
            }
            None if indent > 0 => headings.push((indent, name.trim_end())),
            None => {}
        }
    }
    (head, gpus)
}

fn gpu(
    index: u32,
    bdf: Bdf,
    fields: &Fields<'_>,
    links: &Links<'_>,
    all: &BTreeSet<Bdf>,
) -> NvmlGpu {
    let mebibytes = |path| fact(fields, path, mebibytes);
    let uuid = text_of(fields, "GPU UUID");
    NvmlGpu {
        index,
        bdf,
        name: text_of(fields, "Product Name"),
        minor: fact(fields, "Minor Number", |minor| minor.parse().ok()),
        active_links: match &uuid {
            Fact::Known(uuid) => links.of(uuid, all),
            Fact::Unknown(why) => Fact::Unknown(*why),
        },
        uuid,
        inactive_links: Fact::default(),
        link_errors: Fact::default(),
        memory_node: Fact::default(),
        bar1: mebibytes("BAR1 Memory Usage/Total")
            .and_then(|total| mebibytes("BAR1 Memory Usage/Used").map(|used| Bar1 { total, used })),
        memory_total: mebibytes("FB Memory Usage/Total"),
        persistence: fact(fields, "Persistence Mode", is_enabled),
        mig: fact(fields, "MIG Mode/Current", is_enabled),
        fabric: fact(fields, "Fabric/State", |state| {
            Some(match state {
                // The GPU has no fabric.
                "N/A" | "Not Supported" => "not_supported",
                "Not Started" => "not_started",
                "In Progress" => "in_progress",
                "Completed" => "completed",
                _ => return None,
            })
        })
        .map(str::to_owned),
        fabric_registration: registration(fields),
        performance_state: fact(fields, "Performance State", |state| {
            state.strip_prefix('P')?.parse().ok()
        }),
        virtualization: fact(fields, "GPU Virtualization Mode/Virtualization Mode", |mode| {
            Some(match mode {
                "None" => "none",
                "Pass-Through" => "passthrough",
                "VGPU" => "vgpu",
                "Host VGPU" => "host_vgpu",
                "Host VSGA" => "host_vsga",
                _ => return None,
            })
        })
        .map(str::to_owned),
        architecture: fact(fields, "Product Architecture", |name| {
            name.split(' ').next().map(str::to_ascii_lowercase)
        }),
    }
}

/// The GPUs as PCI functions, by address: nvidia-smi prints no class, place or configuration space.
pub(super) fn functions(text: &str) -> Vec<PciDevice> {
    let Some((_, list)) = text.split_once("NVSMI LOG") else {
        return Vec::new();
    };
    let (_, mut gpus) = blocks(list);
    gpus.order_by_key(|(bdf, _)| *bdf);
    gpus.iter().map(|(bdf, fields)| function(*bdf, fields)).collect()
}

fn function(bdf: Bdf, fields: &Fields<'_>) -> PciDevice {
    // `0x233010DE`: device and vendor.
    let id = fields
        .get("PCI/Device Id")
        .and_then(|id| u32::from_str_radix(id.strip_prefix("0x")?, 16).ok());
    let device = id.filter(|id| *id & 0xffff == u32::from(Ids::NVIDIA));
    PciDevice {
        bdf,
        place: Fact::default(),
        ids: Fact::Known(Ids {
            vendor: Ids::NVIDIA,
            device: device.and_then(|id| u16::try_from(id >> 16).ok()),
            // A 3D controller; NCCL takes the same where it cannot read the class.
            class: 0x03_0200,
        }),
        numa_node: Fact::default(),
        config: Config::default(),
        attributes: link(fields).map(|link| {
            Box::new(Attributes { link: Fact::Known(Some(link)), ..Attributes::default() })
        }),
    }
}

/// The link of a GPU. The maximum is what the GPU and the port above support.
fn link(fields: &Fields<'_>) -> Option<LinkState> {
    let field = |name: &str| fields.get(format!("PCI/GPU Link Info/{name}").as_str()).copied();
    let speed = |name: &str| field(name)?.parse().ok().filter(|speed| (1..8).contains(speed));
    let width = |name: &str| field(name)?.trim_end_matches('x').parse().ok();
    let link = |speed_of: &str, width_of: &str| {
        Some(Link { speed: LinkSpeed(speed(speed_of)?), width: width(width_of)? })
    };
    let current = link("PCIe Generation/Current", "Link Width/Current")?;
    let max = link("PCIe Generation/Max", "Link Width/Max")?;
    // The lanes of the port above are not in the text, so fewer than the GPU's are not a fault.
    (current.width == max.width).then_some(LinkState { current, max })
}

fn registration(fields: &Fields<'_>) -> Fact<FabricRegistration> {
    let status = fact(fields, "Fabric/Status", code);
    let clique = fact(fields, "Fabric/CliqueId", |clique| clique.parse().ok());
    let cluster = fact(fields, "Fabric/ClusterUUID", |uuid| {
        Some(uuid.bytes().any(|byte| !matches!(byte, b'0' | b'-')))
    });
    status.and_then(|status| {
        clique.and_then(|clique| {
            cluster.map(|cluster| FabricRegistration {
                status,
                clique,
                cluster,
                // nvidia-smi names the summary since driver 570.
                health: fields
                    .get("Fabric/Health/Summary")
                    .map(|health| health.to_ascii_lowercase().replace(' ', "_"))
                    .filter(|health| health != "n/a"),
            })
        })
    })
}

fn fact<'a, T>(fields: &Fields<'a>, path: &str, read: impl Fn(&'a str) -> Option<T>) -> Fact<T> {
    match fields.get(path) {
        Some(value) => read(value).map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
        None => Fact::Unknown(Why::NotCovered),
    }
}

fn text_of(fields: &Fields<'_>, path: &str) -> Fact<String> {
    let is_text = |text: &&str| !matches!(*text, "" | "N/A" | "[N/A]" | "Unknown Error");
    fact(fields, path, |text| Some(text).filter(is_text).map(str::to_owned))
}

fn mebibytes(value: &str) -> Option<u64> {
    value.strip_suffix(" MiB")?.parse::<u64>().ok()?.checked_mul(1 << 20)
}

fn is_enabled(value: &str) -> Option<bool> {
    match value {
        "Enabled" => Some(true),
        // The GPU does not have the mode.
        "Disabled" | "N/A" => Some(false),
        _ => None,
    }
}

/// Output of `nvidia-smi nvlink`: lines `Link N: …` below a line with the UUID of the GPU.
#[derive(Default)]
struct Links<'a> {
    /// Active links by UUID; GPUs without an entry are unknown.
    active: BTreeMap<&'a str, BTreeSet<u32>>,
    remotes: BTreeMap<(&'a str, u32), Bdf>,
}

impl<'a> Links<'a> {
    fn new(text: &'a str) -> Self {
        let mut links = Self::default();
        let mut gpu = None;
        for line in text.lines().map(str::trim) {
            if line.starts_with("GPU ") {
                gpu = line.split_once("(UUID: ").map(|(_, uuid)| uuid.trim_end_matches(')'));
            }
            let Some(uuid) = gpu else { continue };
            if line.ends_with("NVLink information as all links are inActive") {
                links.active.entry(uuid).or_default();
            }
            let link = line.strip_prefix("Link ").and_then(|link| link.split_once(": "));
            let Some((Ok(index), state)) = link.map(|(index, state)| (index.parse(), state)) else {
                continue;
            };
            if state == "<inactive>" {
                links.active.entry(uuid).or_default();
            } else if state.ends_with(" GB/s") {
                links.active.entry(uuid).or_default().insert(index);
            } else if let Some(remote) = state.strip_prefix("Remote Device ")
                && let Ok(remote) = remote.split(": ").next().unwrap_or_default().parse()
            {
                links.remotes.insert((uuid, index), remote);
            }
        }
        links
    }

    fn of(&self, uuid: &str, gpus: &BTreeSet<Bdf>) -> Fact<Vec<NvLink>> {
        let Some(active) = self.active.get(uuid) else {
            return Fact::Unknown(Why::NotCovered);
        };
        let link = |index: &u32| {
            let remote = self.remotes.get(&(uuid, *index)).copied();
            NvLink {
                index: *index,
                remote: match remote {
                    Some(remote) if gpus.contains(&remote) => Fact::Known("gpu".to_owned()),
                    _ => Fact::Unknown(Why::NotCovered),
                },
                remote_bdf: remote.map_or(Fact::Unknown(Why::NotCovered), Fact::Known),
            }
        };
        Fact::Known(active.iter().map(link).collect())
    }
}
