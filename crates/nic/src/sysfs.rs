//! Counters in sysfs: of an RDMA port, and the PCI Express errors of a function.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Entries of a GID table to look at for interfaces: tables fill from the start.
const GIDS: u32 = 64;
/// Counters of one directory.
const MOST: usize = 1024;

/// A port of an RDMA device, below a root directory.
#[derive(Debug, Clone, Copy)]
pub struct Port<'a> {
    /// `/`, or where a machine's files are laid out.
    pub root: &'a Path,
    /// The device, as in `mlx5_0`.
    pub device: &'a str,
    /// Its port, from 1.
    pub number: u32,
}

impl Port<'_> {
    fn device(&self) -> PathBuf {
        self.root.join("sys/class/infiniband").join(self.device)
    }

    fn directory(&self) -> PathBuf {
        self.device().join("ports").join(self.number.to_string())
    }

    /// The port's counters and those of its hardware (`hw_counters`), by name; empty without any.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let directory = self.directory();
        let mut found = numbers(&directory.join("counters"));
        let hardware = numbers(&directory.join("hw_counters"));
        found.extend(match hardware.is_empty() {
            false => hardware,
            // Some drivers count by device.
            true => numbers(&self.device().join("hw_counters")),
        });
        // The age of cached values is no counter.
        found.remove("lifespan");
        found
    }

    /// The network interfaces of the port.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        let text = |path: PathBuf| {
            fs::read_to_string(path)
                .ok()
                .map(|text| text.trim().to_owned())
        };
        let gids = self.directory().join("gid_attrs/ndevs");
        let of_gids = (0..GIDS).filter_map(|index| text(gids.join(index.to_string())));
        let of_software = text(self.device().join("parent"));
        let found: BTreeSet<String> = of_gids.chain(of_software).collect();
        found.into_iter().filter(|name| !name.is_empty()).collect()
    }
}

/// The PCI Express errors that the kernel counted for a function, as in `correctable.BadTLP`; empty without any.
#[must_use]
pub fn function_errors(root: &Path, function: &str) -> BTreeMap<String, u64> {
    let device = root.join("sys/bus/pci/devices").join(function);
    let mut found = BTreeMap::new();
    for kind in ["correctable", "nonfatal", "fatal"] {
        let text = fs::read_to_string(device.join(format!("aer_dev_{kind}"))).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let (name, count) = line.trim().rsplit_once(' ')?;
            Some((name, count.parse().ok()?))
        });
        // The last line is the sum.
        let each = lines.filter(|(name, _)| !name.starts_with("TOTAL_ERR"));
        found.extend(each.map(|(name, count)| (format!("{kind}.{name}"), count)));
    }
    found
}

/// The files of a directory that hold a number.
fn numbers(directory: &Path) -> BTreeMap<String, u64> {
    let Ok(entries) = fs::read_dir(directory) else {
        return BTreeMap::new();
    };
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let text = fs::read_to_string(entry.path()).ok()?;
        Some((name, text.trim().parse().ok()?))
    };
    entries
        .take(MOST)
        .filter_map(|entry| number(entry.ok()?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        fs::write(file, text).expect("a file");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn counters_of_ports() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path();
        let port = Port {
            root,
            device: "mlx5_0",
            number: 1,
        };
        assert!(port.counters().is_empty() && port.interfaces().is_empty());
        let base = "sys/class/infiniband/mlx5_0/ports/1";
        for (path, text) in [
            ("counters/symbol_error", "0\n"),
            ("counters/port_xmit_wait", "18446744073709551615\n"),
            ("counters/VL15_dropped", "N/A (no PMA)\n"),
            ("hw_counters/out_of_sequence", "12\n"),
            ("hw_counters/lifespan", "10\n"),
            ("gid_attrs/ndevs/0", "eth0\n"),
            ("gid_attrs/ndevs/1", "eth0.5\n"),
            ("gid_attrs/ndevs/3", "eth0\n"),
        ] {
            write(root, &format!("{base}/{path}"), text);
        }
        // Of the device: its port has its own.
        write(
            root,
            "sys/class/infiniband/mlx5_0/hw_counters/out_of_sequence",
            "99\n",
        );
        let expected = [
            ("out_of_sequence", 12),
            ("port_xmit_wait", u64::MAX),
            ("symbol_error", 0),
        ];
        let expected: BTreeMap<String, u64> = expected
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        assert_eq!(port.counters(), expected);
        assert_eq!(port.interfaces(), ["eth0", "eth0.5"]);
        write(
            root,
            "sys/class/infiniband/efa_0/hw_counters/rx_drops",
            "5\n",
        );
        let efa = Port {
            device: "efa_0",
            ..port
        };
        assert_eq!(efa.counters(), [("rx_drops".to_owned(), 5)].into());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no files")]
    fn errors_of_functions() {
        let root = tempfile::tempdir().expect("a directory");
        let base = "sys/bus/pci/devices/0000:04:00.0";
        write(
            root.path(),
            &format!("{base}/aer_dev_correctable"),
            "RxErr 0\nBadTLP 3\nTOTAL_ERR_COR 3\n",
        );
        write(
            root.path(),
            &format!("{base}/aer_dev_fatal"),
            "MalfTLP 1\nTOTAL_ERR_FATAL 1\n",
        );
        let found = function_errors(root.path(), "0000:04:00.0");
        let expected = [
            ("correctable.BadTLP", 3),
            ("correctable.RxErr", 0),
            ("fatal.MalfTLP", 1),
        ];
        assert_eq!(
            found,
            expected
                .map(|(name, value)| (name.to_owned(), value))
                .into()
        );
        assert!(function_errors(root.path(), "0000:05:00.0").is_empty());
    }
}
