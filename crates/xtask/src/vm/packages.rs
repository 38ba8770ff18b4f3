//! The guest's Debian packages, downloaded by the host's apt and unpacked without installing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::tool;

/// The package that names the newest kernel image.
const KERNEL: &str = "linux-image-amd64";

/// Packages of the guest's programs, with all their libraries; the build of the image fails if one is missing.
const USER_SPACE: &[&str] = &[
    // Basic tools, and a shell, because busybox's prefers its applets to real tools of the same name.
    "busybox-static",
    "dash",
    // lspci, setpci and device names.
    "pciutils",
    "libpci3",
    "pci.ids",
    "libudev1",
    "zlib1g",
    // modprobe, and depmod for indexing the modules.
    "kmod",
    "libkmod2",
    "libssl3",
    "liblzma5",
    "libzstd1",
    // ip, tc and rdma.
    "iproute2",
    "libxtables12",
    "libbpf1",
    "libelf1",
    "libmnl0",
    "libbsd0",
    "libmd0",
    "libcap2",
    "libxtables12",
    // Verbs; providers are opened at run time, so ldd does not list them.
    "ibverbs-utils",
    "libibverbs1",
    "ibverbs-providers",
    "libnl-3-200",
    "libnl-route-3-200",
    // perftest, the peer of transfers.
    "perftest",
    "librdmacm1",
    "libibumad3",
    // Libraries of Rust binaries.
    "libc6",
    "libgcc-s1",
];

/// The packages in apt's current versions.
pub struct Selection {
    /// The kernel release, as `uname -r` prints it.
    pub release: String,
    names: Vec<String>,
    /// One line per package: file name, size and checksum.
    pub identity: String,
}

impl Selection {
    /// The guest's packages, according to apt, without downloading.
    pub fn current() -> Result<Self> {
        let depends = depends(KERNEL)?;
        let release = depends
            .iter()
            .find_map(|name| name.strip_prefix("linux-image-"))
            .with_context(|| {
                format!("{KERNEL} names no kernel image; output of apt-cache depends: {depends:?}")
            })?;
        let mut names = vec![format!("linux-image-{release}")];
        names.extend(USER_SPACE.iter().map(|&name| name.to_owned()));
        Self::of(release, names)
    }

    /// The headers of this kernel, and their compiler.
    pub fn headers(release: &str) -> Result<(Self, String)> {
        let headers = format!("linux-headers-{release}");
        let depends = depends(&headers)?;
        // linux-compiler-gcc-12-x86 is an empty package that depends on gcc-12.
        let compiler = depends
            .iter()
            .find_map(|name| name.strip_prefix("linux-compiler-")?.strip_suffix("-x86"))
            .with_context(|| {
                format!("{headers} names no compiler; output of apt-cache depends: {depends:?}")
            })?
            .to_owned();
        let mut names = vec![headers];
        names.extend(depends.into_iter().filter(|name| !name.starts_with("linux-compiler-")));
        Ok((Self::of(release, names)?, compiler))
    }

    fn of(release: &str, names: Vec<String>) -> Result<Self> {
        let addresses =
            tool::output(Command::new("apt-get").args(["download", "--print-uris"]).args(&names))
                .with_context(|| {
                format!("apt cannot bring all of {}: run apt-get update", names.join(", "))
            })?;
        // Format: 'address' file size checksum. The address depends on the mirror, the rest does not.
        let identity = addresses
            .lines()
            .filter_map(|line| line.split_once("' ").map(|(_, rest)| rest))
            .collect::<Vec<_>>()
            .join("\n");
        Ok(Self { release: release.to_owned(), names, identity })
    }

    /// Downloads and unpacks everything into `tree`.
    pub fn unpack(&self, downloads: &Path, tree: &Path) -> Result<()> {
        for directory in [downloads, tree] {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        tool::output(
            Command::new("apt-get").arg("download").args(&self.names).current_dir(downloads),
        )
        .with_context(|| format!("cannot download {}", self.names.join(", ")))?;
        let listing = fs::read_dir(downloads)
            .with_context(|| format!("cannot list {}", downloads.display()))?;
        for entry in listing {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                tool::output(Command::new("dpkg").arg("-x").args([&package, &tree.to_path_buf()]))?;
            }
        }
        Ok(())
    }
}

fn depends(package: &str) -> Result<Vec<String>> {
    let output = tool::output(Command::new("apt-cache").args(["depends", package]))
        .with_context(|| format!("apt does not know {package}: run apt-get update"))?;
    let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    Ok(names.map(str::to_owned).collect())
}
