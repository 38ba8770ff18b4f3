//! Counters in sysfs: of an RDMA port, and the PCI Express errors of a function.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::ethtool::statistics;

/// Counters by what has them: a port as in `mlx5_0:1`, a network interface, a PCI function.
pub type Reading = BTreeMap<String, BTreeMap<String, u64>>;

/// Entries of a GID table to look at for interfaces: tables fill from the start.
const GIDS: u32 = 64;
/// Counters of one directory.
const MAX: usize = 1024;

/// The ports of the RDMA devices below a root directory: device and number.
#[must_use]
pub fn ports(root: &Path) -> Vec<(String, u32)> {
    let class = root.join("sys/class/infiniband");
    let of_device = |device: String| {
        let numbers = names(&class.join(&device).join("ports"));
        let numbers: Vec<u32> = numbers.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.into_iter().map(move |number| (device.clone(), number))
    };
    names(&class).into_iter().flat_map(of_device).collect()
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    entries.take(MAX).filter_map(name).collect()
}

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
        found.extend(if hardware.is_empty() {
            // Some drivers count by device.
            numbers(&self.device().join("hw_counters"))
        } else {
            hardware
        });
        // The age of cached values is not a counter.
        found.remove("lifespan");
        found
    }

    /// All counters of the port: its own, the statistics of its network interfaces, and the PCI Express errors of these functions. What
    /// cannot be read has none.
    #[must_use]
    pub fn reading(&self, functions: &[String]) -> Reading {
        let mut reading = Reading::new();
        for interface in self.interfaces() {
            let statistics = statistics(&interface).unwrap_or_default();
            reading.insert(interface, statistics);
        }
        for function in functions {
            reading.insert(function.clone(), function_errors(self.root, function));
        }
        reading.insert(format!("{}:{}", self.device, self.number), self.counters());
        reading
    }

    /// The PCI functions from the root port to the device, by address; empty for a software device.
    #[must_use]
    pub fn functions(&self) -> Vec<String> {
        let path = fs::canonicalize(self.device().join("device")).unwrap_or_default();
        let names = path.components().filter_map(|part| part.as_os_str().to_str());
        names.filter(|name| is_function(name)).map(str::to_owned).collect()
    }

    /// The network interfaces of the port: those of its addresses, and its function's.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        let text = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let gids = self.directory().join("gid_attrs/ndevs");
        let of_gids = (0..GIDS).filter_map(|index| text(gids.join(index.to_string())));
        let of_software = text(self.device().join("parent"));
        let net = self.device().join("device/net");
        // A function with two ports has an interface for each.
        let is_own = |name: &String| {
            let port = text(net.join(name).join("dev_port"));
            port.is_none_or(|port| port.parse() == Ok(self.number.saturating_sub(1)))
        };
        let of_function = names(&net).into_iter().filter(is_own);
        let found: BTreeSet<String> = of_gids.chain(of_software).chain(of_function).collect();
        found.into_iter().filter(|name| !name.is_empty()).collect()
    }
}

/// True for an address as in `0000:04:00.0`.
fn is_function(name: &str) -> bool {
    let is_number = |text: &str, digits: usize| {
        text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = name.split(':').collect();
    match (&parts[..], name.rsplit_once('.')) {
        ([domain, bus, device], Some((_, function))) => {
            let device = device.split('.').next().unwrap_or_default();
            is_number(domain, 4)
                && is_number(bus, 2)
                && is_number(device, 2)
                && is_number(function, 1)
        }
        _ => false,
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
    entries.take(MAX).filter_map(|entry| number(entry.ok()?)).collect()
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
        let port = Port { root, device: "mlx5_0", number: 1 };
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
        write(root, "sys/class/infiniband/mlx5_0/hw_counters/out_of_sequence", "99\n");
        let expected = [("out_of_sequence", 12), ("port_xmit_wait", u64::MAX), ("symbol_error", 0)];
        let expected: BTreeMap<String, u64> =
            expected.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(port.counters(), expected);
        assert_eq!(port.interfaces(), ["eth0", "eth0.5"]);
        // Interfaces of the function, of which the second belongs to another port.
        let function = "sys/devices/pci0000:00/0000:00:01.0/0000:04:00.0";
        for (interface, number) in [("eth1", "0"), ("eth2", "1")] {
            let file = format!("{function}/net/{interface}/dev_port");
            write(root, &file, &format!("{number}\n"));
        }
        let link = root.join("sys/class/infiniband/mlx5_0/device");
        std::os::unix::fs::symlink(root.join(function), link).expect("a link");
        assert_eq!(port.interfaces(), ["eth0", "eth0.5", "eth1"]);
        assert_eq!(port.functions(), ["0000:00:01.0", "0000:04:00.0"]);
        assert_eq!(ports(root), [("mlx5_0".to_owned(), 1)]);
        write(
            root,
            "sys/bus/pci/devices/0000:04:00.0/aer_dev_nonfatal",
            "UnsupReq 2\nTOTAL_ERR_NONFATAL 2\n",
        );
        let reading = port.reading(&port.functions());
        assert_eq!(reading["mlx5_0:1"]["out_of_sequence"], 12);
        assert_eq!(reading["0000:04:00.0"], [("nonfatal.UnsupReq".to_owned(), 2)].into());
        write(root, "sys/class/infiniband/efa_0/hw_counters/rx_drops", "5\n");
        let efa = Port { device: "efa_0", ..port };
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
        write(root.path(), &format!("{base}/aer_dev_fatal"), "MalfTLP 1\nTOTAL_ERR_FATAL 1\n");
        let found = function_errors(root.path(), "0000:04:00.0");
        let expected = [("correctable.BadTLP", 3), ("correctable.RxErr", 0), ("fatal.MalfTLP", 1)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert!(function_errors(root.path(), "0000:05:00.0").is_empty());
    }
}
