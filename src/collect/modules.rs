//! Module files of the running kernel, and what loads the peer memory module at boot.
//!
//! `modules.dep` and `modules.symbols` have half a megabyte each: only relevant lines are kept.

use std::collections::BTreeMap;
use std::path::Path;

use super::{fabric, read};
use crate::model::{AtBoot, Fact, ModuleFile, ModuleFiles, Note};
use crate::world::Files;

/// Modules that import this symbol are peer memory clients.
const SYMBOL: &str = "ib_register_peer_memory_client";

pub fn modules(files: &dyn Files, release: &Fact<String>, notes: &mut Vec<Note>) -> ModuleFiles {
    let home = release.as_ref().and_then(|release| home(files, release));
    let mut lines = |name: &str, keep: fn(&str) -> String| match &home {
        Fact::Known(Some(home)) => {
            read::kept_if_there(files, &format!("{home}/{name}"), keep, notes)
        }
        Fact::Known(None) => Fact::Known(None),
        Fact::Unknown(why) => Fact::Unknown(*why),
    };
    ModuleFiles {
        on_disk: lines("modules.dep", of_interest).map(|text| text.map(|text| files_of(&text))),
        peer_memory_exporters: lines("modules.symbols", exporters)
            .map(|text| text.map(|text| exporters_in(&text))),
        at_boot: at_boot(files, notes),
        ofed: read::text_if_there(files, "/sys/module/mlx5_core/version", notes),
        openibd: fabric::is_installed(files, "openibd.service"),
    }
}

/// The directory of this kernel's modules, if it exists.
fn home(files: &dyn Files, release: &str) -> Fact<Option<String>> {
    if release.is_empty() || release.contains('/') || release.starts_with('.') {
        return Fact::Known(None);
    }
    let mut answer = Fact::Known(None);
    for base in ["/lib/modules", "/usr/lib/modules"] {
        let path = format!("{base}/{release}");
        match read::is_there(files, &path) {
            Fact::Known(true) => return Fact::Known(Some(path)),
            Fact::Known(false) => {}
            Fact::Unknown(why) => answer = Fact::Unknown(why),
        }
    }
    answer
}

fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split(".ko").next().unwrap_or_default().replace('-', "_")
}

fn is_of_interest(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "nvidia",
        "nvidia_peermem",
        "nv_peer_mem",
        "efa_nv_peermem",
        "gdrdrv",
        "ib_core",
        "ib_uverbs",
        "mlx5_ib",
        "mlx5_core",
    ];
    NAMES.contains(&name) || name.starts_with("nvidia_current") || ModuleFiles::is_provider(name)
}

fn of_interest(text: &str) -> String {
    let is_relevant =
        |line: &&str| line.split(':').next().is_some_and(|path| is_of_interest(&name_of(path)));
    text.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

fn files_of(text: &str) -> Vec<ModuleFile> {
    let line = |line: &str| {
        let (path, needs) = line.split_once(':')?;
        Some(ModuleFile {
            name: name_of(path),
            path: path.to_owned(),
            needs: needs.split_ascii_whitespace().map(name_of).collect(),
        })
    };
    text.lines().filter_map(line).collect()
}

fn exporters(text: &str) -> String {
    let is_relevant = |line: &&str| line.contains(SYMBOL);
    text.lines().filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

/// Parses `alias symbol:NAME MODULE`.
fn exporters_in(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let symbol = words.next()?.strip_prefix("symbol:")?;
        (symbol == SYMBOL).then(|| words.next().map(str::to_owned))?
    };
    text.lines().filter_map(line).collect()
}

/// Directories of systemd-modules-load; the first with a file name wins.
const BOOT: [&str; 4] = [
    "/etc/modules-load.d",
    "/run/modules-load.d",
    "/usr/local/lib/modules-load.d",
    "/usr/lib/modules-load.d",
];
const WANTS: &str = "/etc/systemd/system/multi-user.target.wants";

fn at_boot(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Vec<AtBoot>> {
    let mut lists: BTreeMap<String, String> = BTreeMap::new();
    for directory in BOOT {
        match files.list_kept(Path::new(directory), &|name| name.ends_with(".conf")) {
            Ok(names) => {
                for name in names.into_iter().take(64) {
                    let path = format!("{directory}/{name}");
                    lists.entry(name).or_insert(path);
                }
            }
            // If a recorded root lacks /run, /etc is still useful.
            Err(error) if error.is_absent() => match read::absent::<()>(files, directory) {
                Fact::Unknown(why) if directory.starts_with("/etc/") => return Fact::Unknown(why),
                _ => {}
            },
            Err(error) => return Fact::Unknown(error.why()),
        }
    }
    let others = ["/etc/modules", "/etc/infiniband/nv_peer_mem.conf"].map(str::to_owned);
    let mut found = Vec::new();
    for path in lists.into_values().chain(others) {
        match read::kept_if_there(files, &path, peer_memory_lines, notes) {
            Fact::Known(text) => {
                let lines = text.iter().flat_map(|text| text.lines());
                found.extend(
                    lines.map(|line| AtBoot { path: path.clone(), names: line.to_owned() }),
                );
            }
            // A link out of the root, or a dangling one.
            Fact::Unknown(crate::model::Why::NotCovered) => {}
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    let unit = |name: &str| is_peer_memory(name);
    for name in files.list_kept(Path::new(WANTS), &unit).unwrap_or_default() {
        found.push(AtBoot { path: format!("{WANTS}/{name}"), names: name });
    }
    // The driver container of NVIDIA's GPU operator loads the modules itself.
    if files.exists(Path::new("/run/nvidia/driver")).unwrap_or(false) {
        found.push(AtBoot {
            path: "/run/nvidia/driver".to_owned(),
            names: "the driver container".to_owned(),
        });
    }
    Fact::Known(found)
}

fn is_peer_memory(word: &str) -> bool {
    let word = word.replace('-', "_");
    word.starts_with("nvidia_peermem") || word.starts_with("nv_peer_mem")
}

/// Lines that name the module, and the switch in nv_peer_mem's own file.
fn peer_memory_lines(text: &str) -> String {
    let is_relevant = |line: &&str| is_peer_memory(line) || *line == "ONBOOT=yes";
    let lines = text.lines().map(str::trim);
    lines.filter(is_relevant).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/drivers/infiniband/core/ib_core.ko.zst: kernel/net/x.ko.zst\n\
        updates/dkms/nvidia-peermem.ko.zst: kernel/drivers/infiniband/core/ib_uverbs.ko.zst updates/dkms/nvidia.ko.zst\n\
        kernel/fs/fat/vfat.ko.zst: kernel/fs/fat/fat.ko.zst\n\
        kernel/drivers/infiniband/hw/irdma/irdma.ko.zst: kernel/drivers/net/ethernet/intel/ice/ice.ko.zst\n\
        updates/dkms/nvidia.ko.zst:\n";

    #[test]
    fn reads_module_files_and_dependencies() {
        let kept = of_interest(DEP);
        assert!(!kept.contains("vfat"), "{kept}");
        assert_eq!(of_interest(&kept), kept);
        let list = files_of(&kept);
        let names: Vec<&str> = list.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["ib_core", "nvidia_peermem", "irdma", "nvidia"]);
        assert_eq!(list[1].path, "updates/dkms/nvidia-peermem.ko.zst");
        assert_eq!(list[1].needs, ["ib_uverbs", "nvidia"]);
    }

    #[test]
    fn finds_exporters_of_symbol() {
        let text = "# Aliases for symbols\nalias symbol:ib_register_peer_memory_client ib_uverbs\n\
            alias symbol:ib_register_client ib_core\nalias symbol:ib_register_peer_memory_client_x other\n";
        assert_eq!(exporters_in(&exporters(text)), ["ib_uverbs"]);
        assert!(exporters_in("").is_empty());
    }

    #[test]
    fn keeps_peer_memory_lines_only() {
        assert_eq!(
            peer_memory_lines(
                "# nvidia-peermem\n nvidia-peermem \nvfio\nnv_peer_mem\nONBOOT=yes\nsecret\n"
            ),
            "nvidia-peermem\nnv_peer_mem\nONBOOT=yes\n"
        );
    }
}
