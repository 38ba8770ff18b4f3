//! Kernel modules in the guest: the wanted ones and their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::tool;

/// Modules that a guest can load; depmod finds their dependencies.
pub const WANTED: &[&str] = &[
    // Result disk and network.
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    // Soft-RoCE. crc32_generic is requested by name at run time, without a dependency.
    "rdma_rxe",
    "crc32_generic",
    "ib_uverbs",
    "ib_umad",
    "rdma_ucm",
    // Loss and reordering of some packets, by tc.
    "sch_netem",
    "sch_prio",
    "cls_u32",
    // Further ports on one network card, and their shaping.
    "macvlan",
    "sch_tbf",
    // The driver of NVIDIA's NICs: it loads without a device.
    "mlx5_ib",
    // The real driver of the NIC look-alikes, for scripts that need a net device.
    "e1000e",
    // File system of the persistent disk; its checksums are requested by name too.
    "ext4",
    "crc32c_generic",
];

/// Copies the modules of an unpacked kernel package into `stage` and indexes them; returns the kernel release.
pub fn stage(tree: &Path, stage: &Path) -> Result<String> {
    let release = release(tree)?;
    depmod(tree, tree, &release)?;
    let from = tree.join("lib/modules").join(&release);
    let to = stage.join("lib/modules").join(&release);
    let index = read(&from.join("modules.dep"))?;
    for module in closure(&index, WANTED)? {
        let target = to.join(&module);
        let parent = target.parent().map(Path::to_path_buf).unwrap_or_default();
        fs::create_dir_all(&parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
        fs::copy(from.join(&module), &target).with_context(|| format!("cannot copy {module}"))?;
    }
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        fs::copy(from.join(list), to.join(list)).with_context(|| format!("cannot copy {list}"))?;
    }
    depmod(tree, stage, &release)?;
    Ok(release)
}

/// The one kernel release in the tree.
fn release(tree: &Path) -> Result<String> {
    let modules = tree.join("lib/modules");
    let entry = fs::read_dir(&modules)
        .and_then(|mut entries| entries.next().transpose())
        .with_context(|| format!("cannot list {}", modules.display()))?
        .with_context(|| {
            format!("the kernel package brought nothing under {}", modules.display())
        })?;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

/// Indexes the modules with the unpacked kmod, so that the host needs none.
fn depmod(tree: &Path, root: &Path, release: &str) -> Result<()> {
    let mut command = loader(tree);
    command.args(["--argv0", "depmod"]).arg(tree.join("bin/kmod")).arg("-b").arg(root).arg(release);
    tool::output(&mut command).map(drop)
}

/// The unpacked dynamic loader, restricted to libraries of the unpacked tree.
pub fn loader(tree: &Path) -> Command {
    let libraries = [tree.join("lib/x86_64-linux-gnu"), tree.join("usr/lib/x86_64-linux-gnu")];
    let path = libraries.map(|directory| directory.to_string_lossy().into_owned()).join(":");
    let mut command = Command::new(tree.join("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
    command.args(["--inhibit-cache", "--library-path", &path]);
    command
}

/// The files of the wanted modules and their dependencies, from a `modules.dep`.
fn closure(index: &str, wanted: &[&str]) -> Result<BTreeSet<String>> {
    let mut by_name = BTreeMap::new();
    for line in index.lines() {
        if let Some((file, needs)) = line.split_once(':') {
            by_name.insert(name(file), (file, needs));
        }
    }
    let mut files = BTreeSet::new();
    for module in wanted {
        let (file, needs) = by_name
            .get(*module)
            .with_context(|| format!("this kernel has no module {module} to carry"))?;
        files.insert((*file).to_owned());
        files.extend(needs.split_whitespace().map(str::to_owned));
    }
    Ok(files)
}

/// `kernel/drivers/virtio/virtio-pci.ko` → `virtio_pci`.
fn name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split('.').next().unwrap_or(base).replace('-', "_")
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::closure;

    const INDEX: &str = "kernel/a/one-b.ko: kernel/a/two.ko kernel/a/three.ko\nkernel/a/two.ko:\nkernel/a/three.ko:\n";

    #[test]
    fn includes_only_dependencies() {
        let files = closure(INDEX, &["one_b"]).unwrap();
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            ["kernel/a/one-b.ko", "kernel/a/three.ko", "kernel/a/two.ko"]
        );
        assert!(closure(INDEX, &["four"]).unwrap_err().to_string().contains("four"));
    }
}
