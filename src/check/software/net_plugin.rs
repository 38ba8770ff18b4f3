//! sw.net-plugin: pairs of NCCL and what it works with that are known not to work.

use crate::check::modules::road;
use crate::check::{Ctx, Judgement, unknown_if};
use crate::model::{Fact, Found, Library};

const SOURCE: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH, Python packages";

/// The first NCCL that registers dma-bufs (its tag v2.13.4-1).
const DMA_BUF: [u32; 3] = [2, 13, 4];

/// The newest plug-in interface that each NCCL knows, by the first version with it (tags of github.com/NVIDIA/nccl).
const INTERFACES: [([u32; 3], u32); 9] = [
    ([2, 30, 3], 12),
    ([2, 28, 3], 11),
    ([2, 26, 2], 10),
    ([2, 24, 3], 9),
    ([2, 20, 3], 8),
    ([2, 19, 1], 7),
    ([2, 13, 4], 6),
    ([2, 12, 7], 5),
    ([2, 8, 3], 4),
];

/// Each NCCL that a program may load.
pub fn net_plugin(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", SOURCE) {
        return vec![unknown];
    }
    let mut judgements = Vec::new();
    let of_loader = software.picked("libnccl.so.2");
    let of_packages = software
        .all("libnccl.so.2")
        .filter(|library| library.found == Found::PythonPackage);
    for nccl in of_loader.into_iter().chain(of_packages) {
        judgements.push(judge(ctx, nccl, software.picked("libnccl-net.so")));
    }
    match judgements.is_empty() {
        true => vec![Judgement::skip("machine", "No NCCL is found.")],
        false => judgements,
    }
}

fn judge(ctx: &Ctx<'_>, nccl: &Library, plugin: Option<&Library>) -> Judgement {
    let subject = nccl.path.clone();
    let Some(version) = nccl.version.as_deref().and_then(numbers) else {
        return Judgement::undetermined(subject, "cannot tell: the name of its file says no version")
            .evidence(&nccl.path, "no version")
            .needs("NCCL_DEBUG=VERSION with a program that uses it");
    };
    let said = nccl.version.as_deref().unwrap_or_default();
    if version < DMA_BUF && road::dma_buf_alone(ctx) {
        let message = format!(
            "NCCL {said} knows nvidia-peermem alone, and on this machine only dma-buf is open: it copies through the host."
        );
        return Judgement::broken(subject, message)
            .evidence(&nccl.path, said)
            .advice("use NCCL 2.13.4 or later, or load nvidia-peermem");
    }
    let Some(plugin) = plugin else {
        let pass = Judgement::pass(
            subject,
            format!("NCCL {said}, without a network plug-in: it uses its own InfiniBand."),
        );
        return pass.evidence(&nccl.path, said);
    };
    let offered = match &plugin.words {
        Fact::Known(words) => interfaces(words),
        Fact::Unknown(why) => return Judgement::unknown(subject, *why, &plugin.path),
    };
    let knows = INTERFACES
        .iter()
        .find(|(since, _)| version >= *since)
        .map_or(3, |(_, interface)| *interface);
    let list = offered
        .iter()
        .map(|number| format!("v{number}"))
        .collect::<Vec<_>>()
        .join(", ");
    let judgement = match offered.first() {
        Some(oldest) if *oldest > knows => Judgement::broken(
            subject,
            format!(
                "NCCL {said} knows network plug-ins up to v{knows}, and libnccl-net.so offers only {list}: it is passed over."
            ),
        )
        .advice("use an older release of the plug-in, or a later NCCL"),
        Some(_) => Judgement::pass(subject, format!("NCCL {said} and its network plug-in have an interface in common.")),
        None => Judgement::undetermined(subject, "cannot tell: libnccl-net.so names no interface that is known")
            .needs("NCCL_DEBUG=INFO with a program that uses it"),
    };
    judgement
        .evidence(&nccl.path, said)
        .evidence(&plugin.path, if list.is_empty() { "no ncclNetPlugin" } else { &list })
}

/// The numbers of the interfaces that a plug-in offers, the oldest first.
fn interfaces(words: &[String]) -> Vec<u32> {
    let mut numbers: Vec<u32> = words
        .iter()
        .filter_map(|word| word.strip_prefix("ncclNetPlugin_v")?.parse().ok())
        .collect();
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
    use crate::check::testing::{findings, machine, only};
    use crate::model::{Facts, Outcome, Why};

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

    fn with(libraries: Vec<Library>) -> Facts {
        let mut facts = machine();
        facts.software.libraries = Fact::Known(libraries);
        facts
    }

    #[test]
    fn an_old_nccl_needs_nvidia_peermem() {
        let mut facts = with(vec![library("libnccl.so.2", Some("2.12.12"), &[])]);
        assert_eq!(only("sw.net-plugin", &facts).outcome, Outcome::Pass);
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        let found = only("sw.net-plugin", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert!(found.message.contains("knows nvidia-peermem alone"));
        facts.software.libraries = Fact::Known(vec![library("libnccl.so.2", Some("2.21.5"), &[])]);
        assert_eq!(only("sw.net-plugin", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn a_plugin_and_its_nccl_need_an_interface_in_common() {
        let plugin = |words: &[&str]| library("libnccl-net.so", None, words);
        let nccl = || library("libnccl.so.2", Some("2.18.3"), &[]);
        let found = only(
            "sw.net-plugin",
            &with(vec![nccl(), plugin(&["ncclNetPlugin_v10", "ncclNetPlugin_v9"])]),
        );
        assert_eq!(found.outcome, Outcome::Info);
        assert!(
            found.message.contains("up to v6") && found.message.contains("only v9, v10"),
            "{}",
            found.message
        );
        let found = only(
            "sw.net-plugin",
            &with(vec![nccl(), plugin(&["ncclNetPlugin_v10", "ncclNetPlugin_v5"])]),
        );
        assert_eq!(found.outcome, Outcome::Pass);
        assert_eq!(
            only("sw.net-plugin", &with(vec![nccl(), plugin(&[])])).outcome,
            Outcome::Unknown
        );
    }

    #[test]
    fn nothing_found_and_nothing_known() {
        assert_eq!(only("sw.net-plugin", &machine()).outcome, Outcome::Skip);
        let facts = with(vec![library("libnccl.so.2", None, &[])]);
        assert_eq!(only("sw.net-plugin", &facts).outcome, Outcome::Unknown);
        let mut facts = machine();
        facts.software.libraries = Fact::Unknown(Why::Denied);
        assert_eq!(findings("sw.net-plugin", &facts, &[])[0].outcome, Outcome::Unknown);
    }
}
