//! Two outputs of one program that are of different machines, although nothing names them: other GPUs, or other host names; and programs
//! that print of several machines.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::{Cut, Section};
use super::{KINDS, Kind, cluster, job, kernel_log, lines, machines, nccl, other, smi};
use crate::import::{find, lspci, matrix};
use crate::model::Bdf;
use crate::model::limited::MAX_GPUS;

/// What a section says that no other section of the same machine contradicts.
struct Shown<'a> {
    section: &'a Section,
    gpus: Vec<(Bdf, String)>,
}

/// Words that say which sections contradict each other.
pub fn found(cut: &Cut) -> Option<String> {
    let sections = &cut.sections;
    gpus(sections)
        .or_else(|| matrices(sections))
        .or_else(|| hosts(sections))
        .or_else(|| functions(&cut.lspci))
}

/// GPUs of other models at one address of lspci.
fn functions(lspci: &[u8]) -> Option<String> {
    let mut known: BTreeMap<Bdf, (usize, lspci::Named<'_>)> = BTreeMap::new();
    let lines = find::lines(lspci).enumerate();
    let lines = lines.filter_map(|(at, line)| Some((at, str::from_utf8(line).ok()?)));
    for (at, (bdf, named)) in lines.filter_map(|(at, line)| Some((at, lspci::gpu(line)?))) {
        if let Some((first, other)) = known.get(&bdf) {
            if named.contradicts(other) {
                let (first, second) = (first + 1, at + 1);
                return Some(format!(
                    "lspci shows another GPU at {bdf} on line {second} than on line {first}: these may be several machines; give \
                     what one of them shows: {}",
                    machines::one_of(first, second)
                ));
            }
        } else if known.len() < MAX_GPUS {
            known.insert(bdf, (at, named));
        }
    }
    None
}

/// The machines of which NCCL, its tests and scripts of perftest print. Their devices are not those of one.
pub fn launched(sections: &[Section]) -> BTreeSet<&str> {
    let lines = |kind| of(sections, kind).flat_map(|section| section.text.lines().map(str::trim));
    let of_tests = lines(&job::TESTS).filter_map(job::host);
    let hosts: BTreeSet<&str> =
        of_tests.chain(lines(&nccl::LOG).filter_map(nccl::host_of)).collect();
    // Numbers of another process may stand before a name without a blank.
    let is_part = |name: &&str| {
        let before = hosts.iter().filter_map(|host| name.strip_suffix(host));
        let mut numbers = before.filter(|before| !before.is_empty());
        numbers.any(|before| before.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    hosts.iter().copied().filter(|name| !is_part(name)).collect()
}

fn of<'a>(sections: &'a [Section], kind: &'static Kind) -> impl Iterator<Item = &'a Section> {
    sections.iter().filter(move |section| KINDS[section.kind].name == kind.name)
}

/// Lists of GPUs of which each has one that the other lacks, or another model at one address.
fn gpus(sections: &[Section]) -> Option<String> {
    let of_smi = of(sections, &smi::TABLE).chain(of(sections, &smi::QUERY));
    // A part without a head need not show all GPUs.
    let of_smi = of_smi.filter(|section| has_head(section));
    let lists: Vec<Shown<'_>> = of_smi
        .chain(of(sections, &smi::XML))
        .map(shown)
        .filter(|shown| !shown.gpus.is_empty())
        .take(MOST)
        .collect();
    for (at, a) in lists.iter().enumerate() {
        for b in &lists[at + 1..] {
            if let Some(words) = two_lists(a, b) {
                return Some(words);
            }
        }
    }
    let parts = of(sections, &smi::QUERY).filter(|section| !has_head(section)).take(MOST);
    let mut parts = parts.map(shown);
    parts.find_map(|part| {
        let whole = lists.iter().find(|list| is_whole(list) && lacks(&part, list))?;
        Some(several(&part, whole))
    })
}

fn shown(section: &Section) -> Shown<'_> {
    Shown { section, gpus: smi::gpus(KINDS[section.kind].name, &section.text) }
}

fn has_head(section: &Section) -> bool {
    match KINDS[section.kind].name {
        name if name == smi::QUERY.name => section.text.contains("NVSMI LOG"),
        _ => smi::has_head(&section.text),
    }
}

/// True for a list with as many GPUs as its head says.
fn is_whole(shown: &Shown<'_>) -> bool {
    let mut counts = shown.section.text.lines().filter_map(|line| line.split_once(':'));
    let count = counts.find(|(key, _)| key.trim() == "Attached GPUs");
    count.and_then(|(_, count)| count.trim().parse().ok()) == Some(shown.gpus.len())
}

/// True if `from` has a GPU that `other` lacks.
fn lacks(from: &Shown<'_>, other: &Shown<'_>) -> bool {
    from.gpus.iter().any(|(bdf, _)| !other.gpus.iter().any(|(known, _)| known == bdf))
}

/// Sections that are compared with each other.
const MOST: usize = 64;

fn two_lists(a: &Shown<'_>, b: &Shown<'_>) -> Option<String> {
    let differs = a.gpus.iter().any(|(bdf, name)| {
        b.gpus.iter().any(|(other, of_other)| {
            // Long names are cut, and then none stands here.
            other == bdf && !name.is_empty() && !of_other.is_empty() && name != of_other
        })
    });
    (differs || lacks(a, b) && lacks(b, a) || differ_in_driver(a, b)).then(|| several(a, b))
}

/// True for two whole lists of which one lacks a GPU, with another driver. An update takes away no GPU, and a fault no driver.
fn differ_in_driver(a: &Shown<'_>, b: &Shown<'_>) -> bool {
    let is_complete =
        |shown: &Shown<'_>| is_whole(shown) || shown.section.text.contains("| Processes:");
    let drivers = driver(a).zip(driver(b));
    drivers.is_some_and(|(a, b)| a != b)
        && (lacks(a, b) || lacks(b, a))
        && is_complete(a)
        && is_complete(b)
}

/// The version of the driver in the head of a list.
fn driver<'a>(shown: &'a Shown<'_>) -> Option<&'a str> {
    let (_, rest) = shown.section.text.split_once("Driver Version")?;
    rest.trim_start_matches([' ', ':']).split_ascii_whitespace().next()
}

fn several(a: &Shown<'_>, b: &Shown<'_>) -> String {
    let (first, second) = (a.section.line.min(b.section.line), a.section.line.max(b.section.line));
    format!(
        "nvidia-smi lists other GPUs from line {second} than from line {first}: these are several machines; give what one of them \
         shows: {}",
        machines::one_of(first, second)
    )
}

/// Matrices of different numbers of GPUs.
fn matrices(sections: &[Section]) -> Option<String> {
    let count = |section: &Section| {
        let head = section.text.lines().find(|line| (smi::MATRIX.begins)(line.trim()))?;
        let number =
            |word: &&str| word.strip_prefix("GPU").is_some_and(|n| n.parse::<u32>().is_ok());
        Some(head.split_ascii_whitespace().filter(number).count())
    };
    let all: Vec<(&Section, usize)> = of(sections, &smi::MATRIX)
        .filter_map(|section| Some((section, count(section)?)))
        .take(MOST)
        .collect();
    let (first, count) = *all.first()?;
    let Some((other, different)) = all.iter().find(|(_, of_other)| *of_other != count) else {
        return legends(&all);
    };
    Some(format!(
        "nvidia-smi topo shows {count} GPUs from line {} and {different} from line {}: these are several machines; give what one \
         of them shows: {}",
        first.line,
        other.line,
        machines::one_of(first.line, other.line)
    ))
}

/// Legends of which each names a NIC that the other lacks.
fn legends(matrices: &[(&Section, usize)]) -> Option<String> {
    let names = |section: &Section| -> BTreeSet<String> {
        matrix::legends(&section.text).map(str::to_owned).collect()
    };
    let (first, known) = matrices
        .iter()
        .map(|(section, _)| (section, names(section)))
        .find(|(_, names)| !names.is_empty())?;
    let (other, _) = matrices
        .iter()
        .map(|(section, _)| (section, names(section)))
        .find(|(_, names)| !names.is_subset(&known) && !known.is_subset(names))?;
    Some(format!(
        "nvidia-smi topo names other NICs from line {} than from line {}: these may be several machines; give what one of them \
         shows: {}",
        other.line,
        first.line,
        machines::one_of(first.line, other.line)
    ))
}

/// Names of machines that uname and kubectl print.
fn hosts(sections: &[Section]) -> Option<String> {
    let mut names = machines::Machines::default();
    for section in of(sections, &other::UNAME) {
        if let Some(name) = section.text.split_ascii_whitespace().nth(1).and_then(machines::machine)
        {
            names.shows(&name, section.line);
        }
    }
    for section in of(sections, &cluster::KUBECTL) {
        let label = section.text.split("kubernetes.io/hostname=").nth(1);
        let name = label.and_then(|rest| rest.split_ascii_whitespace().next());
        if let Some(name) = name.and_then(machines::machine) {
            names.shows(&name, section.line);
        }
    }
    names.several().or_else(|| logs(sections))
}

/// Kernel logs of two machines in one. A machine may get its name while it boots, but does not change it back.
fn logs(sections: &[Section]) -> Option<String> {
    let lines = of(sections, &kernel_log::KERNEL_LOG).flat_map(|section| section.text.lines());
    let mut hosts: Vec<&str> = lines.filter_map(lines::host).collect();
    hosts.dedup();
    let names: BTreeSet<&str> = hosts.iter().copied().collect();
    (hosts.len() > names.len()).then(|| machines::launched(&names))
}
