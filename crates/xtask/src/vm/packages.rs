//! The Debian packages a guest is made of, brought by the host's own apt client and unpacked beside it, never installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::tool;

/// The package that names the newest kernel image.
const KERNEL: &str = "linux-image-amd64";

/// What the guest's programs are, with every library they need: a library missing here stops the build of the image.
const USER_SPACE: &[&str] = &[
    // The small tools; and a shell, since busybox's own prefers its applets to the real tools of the same name.
    "busybox-static",
    "dash",
    // lspci, setpci and the names of devices.
    "pciutils",
    "libpci3",
    "pci.ids",
    "libudev1",
    "zlib1g",
    // modprobe, which also runs here to index the modules.
    "kmod",
    "libkmod2",
    "libssl3",
    "liblzma5",
    "libzstd1",
    // ip and rdma.
    "iproute2",
    "libbpf1",
    "libelf1",
    "libmnl0",
    "libbsd0",
    "libmd0",
    "libcap2",
    // Verbs; the providers are opened at run time, so that ldd does not show them.
    "ibverbs-utils",
    "libibverbs1",
    "ibverbs-providers",
    "libnl-3-200",
    "libnl-route-3-200",
    // The peer of every transfer.
    "perftest",
    "librdmacm1",
    "libibumad3",
    // What a Rust binary links.
    "libc6",
    "libgcc-s1",
];

/// The packages at the versions apt would bring now.
pub struct Selection {
    names: Vec<String>,
    /// One line a package: file name, size and checksum.
    pub identity: String,
}

impl Selection {
    /// Asks apt, without a download.
    pub fn current() -> Result<Self> {
        let depends = tool::output(Command::new("apt-cache").args(["depends", KERNEL]))
            .with_context(|| format!("apt does not know {KERNEL}: run apt-get update"))?;
        let kernel = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: "))
            .filter(|name| name.starts_with("linux-image-"))
            .with_context(|| format!("{KERNEL} names no kernel image; apt-cache depends said: {depends:?}"))?;
        let mut names = vec![kernel.to_owned()];
        names.extend(USER_SPACE.iter().map(|&name| name.to_owned()));

        let addresses = tool::output(Command::new("apt-get").args(["download", "--print-uris"]).args(&names))
            .context("apt cannot bring every package of the guest: run apt-get update")?;
        // A line is 'address' file size checksum; the address differs from mirror to mirror, the rest does not.
        let identity = addresses
            .lines()
            .filter_map(|line| line.split_once("' ").map(|(_, rest)| rest))
            .collect::<Vec<_>>()
            .join("\n");
        Ok(Self { names, identity })
    }

    /// Downloads and unpacks everything into `tree`.
    pub fn unpack(&self, downloads: &Path, tree: &Path) -> Result<()> {
        for directory in [downloads, tree] {
            fs::create_dir_all(directory).with_context(|| format!("{} could not be made", directory.display()))?;
        }
        tool::output(
            Command::new("apt-get")
                .arg("download")
                .args(&self.names)
                .current_dir(downloads),
        )
        .context("the guest's packages could not be downloaded")?;
        let listing =
            fs::read_dir(downloads).with_context(|| format!("{} could not be listed", downloads.display()))?;
        for entry in listing {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                tool::output(Command::new("dpkg").arg("-x").args([&package, &tree.to_path_buf()]))?;
            }
        }
        Ok(())
    }
}
