//! What NCCL decides on a machine: paths, peer to peer, GPUDirect RDMA and NICs, by the rules of NCCL 2.18 to 2.30 (src/graph/paths.cc). The
//! job is assumed to use all GPUs of the machine.

mod nics;
mod paths;
mod rules;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;

use self::rules::Rules;
pub use self::variables::number as nccl_number;
use self::variables::{number, variables};
use super::Topology;
use crate::model::{
    Facts, Kind, NcclDecisions, NcclGpuPair, NcclLevel, NcclPath, NcclVersion, NcclVersionSource,
    P2pCapability, P2pStatus,
};

/// The library whose version counts.
const LIBRARY: &str = "libnccl.so.2";

/// Decides as NCCL does; an error for a version whose rules gdr does not know.
pub fn nccl_decisions(
    topology: &Topology<'_>,
    version: Option<&str>,
) -> Result<NcclDecisions, String> {
    let (version, rules) = chosen(topology.facts, version)?;
    let set = variables(topology.facts);
    let job = Job { topology, rules, set: set.clone().unwrap_or_default() };
    let p2p_level = job.p2p_level();
    let gdr_level = job.gdr_level();
    let gpus: Vec<usize> = topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let mut gpu_pairs = Vec::new();
    for (index, a) in gpus.iter().enumerate() {
        for b in &gpus[index + 1..] {
            gpu_pairs.push(job.gpu_pair(*a, *b, &p2p_level));
        }
    }
    let (nic_pairs, uses) = nics::nics(&job, &gdr_level);
    Ok(NcclDecisions { version, variables: set, p2p_level, gdr_level, gpu_pairs, nic_pairs, uses })
}

/// A level of NCCL's variables, as the newest version reads it.
pub fn nccl_level(value: &str) -> Option<NcclPath> {
    Rules::newest().level(value)
}

fn chosen(facts: &Facts, asked: Option<&str>) -> Result<(NcclVersion, &'static Rules), String> {
    let library = facts.software.usable(LIBRARY).find(|library| library.version.is_some());
    let installed = library.and_then(|library| library.version.clone());
    let newest = Rules::newest().tag.trim_start_matches('v').trim_end_matches("-1");
    let (number, from) = match (asked, installed) {
        (Some(asked), _) => (asked.to_owned(), NcclVersionSource::Option),
        (None, Some(installed)) => (installed, NcclVersionSource::Installed),
        (None, None) => (newest.to_owned(), NcclVersionSource::NewestKnown),
    };
    let rules = Rules::of(&number).ok_or_else(|| {
        format!("no rules for NCCL '{number}': gdr knows 2.18 to 2.30, as in --nccl=2.27.3")
    })?;
    let library = library.map(|library| library.path.clone());
    Ok((NcclVersion { number, from, library, tag: rules.tag.to_owned() }, rules))
}

/// One job of NCCL.
struct Job<'a> {
    topology: &'a Topology<'a>,
    rules: &'static Rules,
    set: BTreeMap<String, String>,
}

impl Job<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        number(self.set.get(name)?)
    }

    /// A level by a variable.
    fn by_variable(&self, name: &str, line: u32) -> Option<NcclLevel> {
        let value = self.set.get(name)?;
        let level = self.rules.level(value)?;
        Some(self.level(Some(level), format!("{name}={value}"), line))
    }

    fn level(&self, level: Option<NcclPath>, reason: String, line: u32) -> NcclLevel {
        NcclLevel { level, reason, source: self.rules.line(line) }
    }

    fn p2p_level(&self) -> NcclLevel {
        let line = self.rules.p2p_level;
        if self.number("NCCL_P2P_DISABLE") == Some(1) {
            return self.level(Some(NcclPath::Loc), "NCCL_P2P_DISABLE=1".to_owned(), line);
        }
        if let Some(level) = self.by_variable("NCCL_P2P_LEVEL", line) {
            return level;
        }
        let gpus = self.topology.rows_of(Kind::Gpu).count();
        let (level, reason) = match cpu(self.topology.facts) {
            None => (None, "unknown: the maker of the CPU, which decides the default".to_owned()),
            Some(Cpu::Amd) if self.rules.minor < 23 => {
                (Some(NcclPath::Sys), "default with AMD's CPUs".to_owned())
            }
            Some(Cpu::Amd) if gpus <= 2 => {
                (Some(NcclPath::Sys), "default with AMD's CPUs and at most two GPUs".to_owned())
            }
            Some(Cpu::Power) if self.rules.minor < 23 => {
                (Some(NcclPath::Sys), "default with POWER".to_owned())
            }
            Some(_) => (Some(NcclPath::Pxb), "default".to_owned()),
        };
        self.level(level, reason, line)
    }

    fn uses_c2c(&self) -> bool {
        let default = i64::from(self.rules.minor >= 27);
        self.rules.minor >= 26 && self.number("NCCL_NET_GDR_C2C").unwrap_or(default) != 0
    }

    fn gdr_level(&self) -> NcclLevel {
        let line = self.rules.gdr_level;
        if let Some(level) = self.by_variable("NCCL_NET_GDR_LEVEL", line) {
            return level;
        }
        let level = match self.rules.minor {
            29.. if self.uses_c2c() => NcclPath::P2c,
            _ => NcclPath::Pxb,
        };
        self.level(Some(level), "default".to_owned(), line)
    }

    fn gpu_pair(&self, a: usize, b: usize, level: &NcclLevel) -> NcclGpuPair {
        let nvb = self.number("NCCL_NVB_DISABLE").unwrap_or(0) == 0;
        let path = paths::gpus(self.topology, self.rules, a, b, nvb);
        let (mut p2p, mut reason) = match (path, level.level) {
            (None, _) => {
                (None, "unknown: the path, as PCI tree, NUMA node or NVLinks are".to_owned())
            }
            (_, None) => match path {
                // Every default allows this.
                Some(path) if path <= NcclPath::Pxb => {
                    (Some(true), "within every default".to_owned())
                }
                _ => (None, level.reason.clone()),
            },
            (Some(path), Some(most)) if path <= most => {
                (Some(true), format!("within {} ({})", most.letters(), level.reason))
            }
            (Some(path), Some(most)) => (
                Some(false),
                match level.reason.as_str() {
                    "NCCL_P2P_DISABLE=1" => "NCCL_P2P_DISABLE=1".to_owned(),
                    reason => format!(
                        "farther than {} ({reason}); NCCL_P2P_LEVEL={} allows it",
                        most.letters(),
                        path.letters()
                    ),
                },
            ),
        };
        let checks_driver = self.number("NCCL_IGNORE_DISABLED_P2P") != Some(2);
        if p2p == Some(true) && checks_driver {
            match self.driver(a, b) {
                Some(P2pStatus::Ok) => {}
                Some(status) => {
                    p2p = Some(false);
                    reason = format!("the driver says: {}", status.words());
                }
                None => reason.push_str("; whether the driver grants it is unknown"),
            }
        }
        let name = |row: usize| self.topology.rows[row].name.clone();
        let source = self.rules.line(self.rules.p2p);
        NcclGpuPair { from: name(a), to: name(b), path, p2p, reason, source }
    }

    /// The driver's answer for reads and writes between two GPUs: the first that is not granted.
    fn driver(&self, a: usize, b: usize) -> Option<P2pStatus> {
        let nvml = self.topology.facts.nvml()?;
        let index = |row: usize| {
            let bdf = self.topology.rows[row].bdf?;
            nvml.gpus.iter().find(|gpu| gpu.bdf == bdf).map(|gpu| gpu.index)
        };
        let (from, to) = (index(a)?, index(b)?);
        let pair = nvml.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to))?;
        let asked = [P2pCapability::Read, P2pCapability::Write];
        let answers = asked.map(|capability| pair.p2p.get(&capability)?.known().copied());
        let rejected = answers.iter().flatten().find(|status| **status != P2pStatus::Ok);
        rejected.copied().or(answers[0].and(answers[1]))
    }
}

/// Who made the CPUs, as far as NCCL distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cpu {
    Amd,
    Power,
    /// Intel, Arm, Zhaoxin.
    Other,
}

fn cpu(facts: &Facts) -> Option<Cpu> {
    let in_file = facts.nccl.as_ref().and_then(|system| {
        let mut cpus = system.of_tag("cpu").filter_map(|cpu| cpu.attribute("vendor"));
        cpus.next()
    });
    match (in_file, facts.platform.architecture.known().map(String::as_str)) {
        (Some("AuthenticAMD"), _) => return Some(Cpu::Amd),
        (Some(_), _) | (_, Some("aarch64")) => return Some(Cpu::Other),
        (_, Some("ppc64le")) => return Some(Cpu::Power),
        _ => {}
    }
    let brand = facts.host.cpu.as_deref()?;
    match brand {
        _ if brand.starts_with("AMD") => Some(Cpu::Amd),
        _ if brand.contains("Intel") || brand.contains("ZHAOXIN") => Some(Cpu::Other),
        _ => None,
    }
}
