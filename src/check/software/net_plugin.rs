//! sw.net-plugin: NCCL, its network plugin, libfabric and the memory paths are compatible.

use std::ops::RangeInclusive;

use crate::check::memory_path;
use crate::check::{Check, Ctx, Hint, Judgement, Source, or_skip, unknown_if, unread_library};
use crate::model::{ActionClass, Area, Fact, Library, Severity};

const SOURCE: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH, Python packages";

/// The first NCCL that registers dma-bufs (tag v2.13.4-1).
const DMA_BUF: [u32; 3] = [2, 13, 4];

/// Plugin interfaces that NCCL supports from each version on (tags of github.com/NVIDIA/nccl).
const INTERFACES: [([u32; 3], RangeInclusive<u32>); 9] = [
    ([2, 30, 3], 6..=12),
    ([2, 28, 3], 6..=11),
    ([2, 26, 2], 6..=10),
    ([2, 24, 3], 5..=9),
    ([2, 20, 3], 5..=8),
    ([2, 19, 1], 5..=7),
    ([2, 13, 4], 4..=6),
    ([2, 12, 7], 4..=5),
    ([2, 8, 3], 4..=4),
];

pub const CHECK: Check = Check {
    id: "sw.net-plugin",
    rule: "The NCCL that the loader picks, and each NCCL in a Python package, supports the \
        memory path to GPU memory that works here, and the network plugin; the plugin finds \
        the libfabric that it needs.",
    sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, strings in libnccl-net.so and \
        libfabric.so.1",
    severity: Severity::Info,
    why: "NCCL before 2.13.4 supports only nvidia-peermem. NCCL silently ignores a plugin \
        whose interfaces are all newer or older than those that it supports, or that needs a \
        newer libfabric, and falls back to its own InfiniBand transport or to sockets.",
    remedy: "Update NCCL, or use the plugin made for it, with the libfabric that the plugin was \
        built with.",
    action: ActionClass::Install
        .running("https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/plugin/net.cc"),
    references: &[
        "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/plugin/net.cc",
        "https://github.com/aws/aws-ofi-nccl",
        "https://github.com/ofiwg/libfabric/blob/v2.6.0/libfabric.map.in",
    ],
    reads: &[Source::Software],
    hint: Some(Hint {
        cause: "NCCL or libfabric lacks the plugin or provider for this network.",
        words: "net-plugin=5 ofi=5 missing=1 nccl=1 failure=1 fallback=1 mismatch=1 socket-net=1 unsupported=1",
    }),
    judge: net_plugin,
    ..Check::DEFAULT
};

/// One judgement for each NCCL that a program may load, and one for the plugin's libfabric.
fn net_plugin(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, SOURCE) {
        return vec![unknown];
    }
    let plugin = software.picked("libnccl-net.so");
    let libraries = software.usable("libnccl.so.2");
    let mut judgements: Vec<Judgement> = libraries.map(|nccl| judge(ctx, nccl, plugin)).collect();
    if let (Some(plugin), false) = (plugin, judgements.is_empty()) {
        judgements.extend(fabric(plugin, software.picked("libfabric.so.1")));
    }
    judgements.extend(unread_library(ctx, "libnccl.so.2"));
    or_skip(judgements, "No NCCL is found.")
}

fn judge(ctx: &Ctx<'_>, nccl: &Library, plugin: Option<&Library>) -> Judgement {
    let subject = nccl.path.clone();
    let Some(version) = nccl.version.as_deref().and_then(numbers) else {
        return Judgement::undetermined(subject, "No version in its file name.")
            .evidence(&nccl.path, "no version")
            .needs("NCCL_DEBUG=VERSION with a program that uses it");
    };
    let release = nccl.version.as_deref().unwrap_or_default();
    if version < DMA_BUF
        && let Some(judgement) = without_dma_buf(ctx, nccl, release)
    {
        return judgement;
    }
    let Some(plugin) = plugin else {
        let pass = Judgement::pass(
            subject,
            format!(
                "NCCL {release}, without a network plugin: it uses its own InfiniBand transport."
            ),
        );
        return pass.evidence(&nccl.path, release);
    };
    let offered = match &plugin.words {
        Fact::Known(words) => interfaces(words),
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, Area::Files, &plugin.path),
    };
    let supported = INTERFACES
        .iter()
        .find(|(since, _)| version >= *since)
        .map_or(3..=3, |(_, interfaces)| interfaces.clone());
    let list = offered.iter().map(|number| format!("v{number}")).collect::<Vec<_>>().join(", ");
    let judgement = match offered.first() {
        None => Judgement::undetermined(subject, "libnccl-net.so has no interface that gdr knows.")
            .needs("NCCL_DEBUG=INFO with a program that uses it"),
        Some(_) if offered.iter().any(|interface| supported.contains(interface)) => {
            Judgement::pass(
                subject,
                format!("NCCL {release} and its network plugin have an interface in common."),
            )
        }
        Some(oldest) => {
            let advice = if oldest > supported.end() {
                "Use an older release of the plugin, or a newer NCCL."
            } else {
                "Use a newer release of the plugin."
            };
            Judgement::broken(
                subject,
                format!(
                    "NCCL {release} supports network plugins from v{} to v{}, and libnccl-net.so offers only {list}: NCCL ignores it.",
                    supported.start(),
                    supported.end()
                ),
            )
            .advice(advice)
        }
    };
    judgement
        .evidence(&nccl.path, release)
        .evidence(&plugin.path, if list.is_empty() { "no ncclNetPlugin" } else { &list })
}

/// The judgement of an NCCL that registers no dma-bufs, where nvidia-peermem does not work or may not.
fn without_dma_buf(ctx: &Ctx<'_>, nccl: &Library, release: &str) -> Option<Judgement> {
    match memory_path::dma_buf_alone(ctx) {
        Ok(false) => None,
        Ok(true) => {
            let message = format!(
                "NCCL {release} supports only nvidia-peermem, and on this machine only dma-buf works: it copies through the host."
            );
            Some(
                Judgement::broken(&nccl.path, message)
                    .evidence(&nccl.path, release)
                    .advice("Use NCCL 2.13.4 or later, or load nvidia-peermem."),
            )
        }
        Err(missing) => Some(Judgement::missing(&nccl.path, missing)),
    }
}

/// The judgement if the plugin needs a later libfabric than the loader picks, by symbol versions.
fn fabric(plugin: &Library, fabric: Option<&Library>) -> Option<Judgement> {
    let last = |library: &Library| {
        library.words.known().and_then(|words| numbered(words, "FABRIC_1.").last().copied())
    };
    let needs = last(plugin)?;
    if let Some((library, why)) = fabric.and_then(|library| Some((library, library.words.why()?))) {
        let subject = plugin.path.as_str();
        return Some(Judgement::unknown(subject, why, Area::Files, &library.path));
    }
    let (found, has) = match fabric {
        None => ("there is none".to_owned(), "no libfabric.so.1".to_owned()),
        Some(fabric) => {
            let has = last(fabric).filter(|has| *has < needs)?;
            (format!("{} has at most FABRIC_1.{has}", fabric.path), format!("FABRIC_1.{has}"))
        }
    };
    let message = format!(
        "libnccl-net.so needs FABRIC_1.{needs} of libfabric.so.1, and in the loader's directories {found}: the plugin does not load, unless its RUNPATH has another directory, and NCCL uses its own InfiniBand transport or sockets."
    );
    Some(
        Judgement::broken(&plugin.path, message)
            .evidence(&plugin.path, format!("FABRIC_1.{needs}"))
            .evidence(fabric.map_or(SOURCE, |fabric| fabric.path.as_str()), has)
            .advice(format!(
                "Install the libfabric that it was built with, or add its directory to LD_LIBRARY_PATH; ldd shows what {} finds.",
                plugin.path
            )),
    )
}

/// Versions of the interfaces that a plugin offers, oldest first.
fn interfaces(words: &[String]) -> Vec<u32> {
    numbered(words, "ncclNetPlugin_v")
}

/// The numbers after this prefix, sorted.
fn numbered(words: &[String], prefix: &str) -> Vec<u32> {
    let number = |word: &String| word.strip_prefix(prefix)?.parse().ok();
    let mut numbers: Vec<u32> = words.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, findings, machine, only, with_libraries};
    use crate::model::{Found, Outcome, Why};

    fn library(name: &str, version: Option<&str>, words: &[&str]) -> Library {
        Library {
            name: name.to_owned(),
            path: format!("/usr/lib64/{name}"),
            version: version.map(str::to_owned),
            found: Found::Cache,
            plugins: None,
            words: Fact::Known(words.iter().map(|word| (*word).to_owned()).collect()),
        }
    }

    #[test]
    fn old_nccl_needs_nvidia_peermem() {
        let mut facts = with_libraries(vec![library("libnccl.so.2", Some("2.12.12"), &[])]);
        assert_eq!(only("sw.net-plugin", &facts).outcome, Outcome::Pass);
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        let found = only("sw.net-plugin", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert_says(&found, "supports only nvidia-peermem");
        facts.driver.version_line = Fact::Unknown(Why::Denied);
        let unread = only("sw.net-plugin", &facts);
        assert_eq!(unread.outcome, Outcome::Unknown, "{}", unread.message);
        facts.software.libraries = Fact::Known(vec![library("libnccl.so.2", Some("2.21.5"), &[])]);
        assert_eq!(only("sw.net-plugin", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn plugin_interfaces() {
        let nccl = || library("libnccl.so.2", Some("2.18.3"), &[]);
        for (words, outcome) in [
            (&["ncclNetPlugin_v10", "ncclNetPlugin_v5"][..], Outcome::Pass),
            (&[][..], Outcome::Unknown),
        ] {
            let plugin = library("libnccl-net.so", None, words);
            let found = only("sw.net-plugin", &with_libraries(vec![nccl(), plugin]));
            assert_eq!(found.outcome, outcome, "{words:?}");
        }
    }

    #[test]
    fn plugin_needs_its_libfabric() {
        let with_fabric = |fabric: Option<&[&str]>| {
            let plugin =
                library("libnccl-net.so", None, &["ncclNetPlugin_v6", "FABRIC_1.1", "FABRIC_1.8"]);
            let mut libraries = vec![library("libnccl.so.2", Some("2.18.3"), &[]), plugin];
            libraries.extend(fabric.map(|words| library("libfabric.so.1", None, words)));
            findings("sw.net-plugin", &with_libraries(libraries), &[])
        };
        for (fabric, word) in [
            (None, "there is none"),
            (Some(&["FABRIC_1.0", "FABRIC_1.6"][..]), "at most FABRIC_1.6"),
        ] {
            let found = with_fabric(fabric);
            let outcomes: Vec<_> = found.iter().map(|found| found.outcome).collect();
            assert_eq!(outcomes, [Outcome::Pass, Outcome::Info]);
            assert_says(&found[1], word);
        }
        assert_eq!(with_fabric(Some(&["FABRIC_1.10", "FABRIC_1.9"])).len(), 1);
        // An unread libfabric gives no judgement.
        assert_eq!(with_fabric(Some(&[])).len(), 1);
    }

    #[test]
    fn missing_and_unknown_libraries() {
        assert_eq!(only("sw.net-plugin", &machine()).outcome, Outcome::Skip);
        let facts = with_libraries(vec![library("libnccl.so.2", None, &[])]);
        assert_eq!(only("sw.net-plugin", &facts).outcome, Outcome::Unknown);
        let mut facts = machine();
        facts.software.libraries = Fact::Unknown(Why::Denied);
        assert_eq!(findings("sw.net-plugin", &facts, &[])[0].outcome, Outcome::Unknown);
    }
}
