//! The archive of sosreport or supportconfig.
//!
//! sosreport copies files and directories below one directory and puts output of commands into `sos_commands/`;
//! supportconfig writes both as sections of text files. An archive of a root's directories is read in the same way.

use std::collections::BTreeSet;
use std::io::Read;

use ::tar::EntryType;

use super::recording::{MAX_FILE, Recording, is_kept, normal};
use super::sections::{self, Layout};
use super::tar;
use super::{SupportReport, recording};
use crate::import::ImportError;
use crate::input::Lookahead;
use crate::model::Failure;

/// Limit of lspci's output: 5,000 functions with their bytes.
const MAX_LSPCI: usize = 64 << 20;

/// Directories that these programs copy whole: a file that is not in the copy is absent. Of other directories they
/// copy some files.
const WHOLE: [&str; 16] = [
    "/boot/loader/entries",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/security/limits.d",
    "/etc/systemd/system.conf.d",
    "/lib/modprobe.d",
    "/proc/driver",
    "/run/modprobe.d",
    "/sys/bus/pci/devices",
    "/sys/class/infiniband",
    "/sys/class/iommu",
    "/sys/class/nvme",
    "/sys/devices/system/node",
    "/sys/kernel/iommu_groups",
    "/sys/kernel/mm/memory_peers",
    "/usr/lib/modprobe.d",
];

/// Directories of a root. Any other directory at the top of the archive is the root itself.
const TOP: [&str; 7] = ["boot", "etc", "lib", "proc", "run", "sys", "usr"];

/// The files of supportconfig with sections that are read.
const SECTIONS: [&str; 6] = [
    "/basic-environment.txt",
    "/boot.txt",
    "/hardware.txt",
    "/memory.txt",
    "/modules.txt",
    "/ib.txt",
];

pub(super) fn read(content: &mut Lookahead<'_>) -> Result<SupportReport, ImportError> {
    let mut recording = Recording::default();
    let mut directories = BTreeSet::new();
    tar::entries(content, &mut |entry| {
        let Some(path) = inner(&String::from_utf8_lossy(&entry.path_bytes())) else {
            return Ok(());
        };
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                file(&path, entry.size(), entry, &mut recording)
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default();
                recording.link(&path, &String::from_utf8_lossy(&target))
            }
            EntryType::Directory if is_whole(&path) => {
                // An archive may list a directory many times.
                if !directories.contains(&path) {
                    recording.directory(&path, Vec::new())?;
                    directories.insert(path);
                }
                Ok(())
            }
            EntryType::Directory => Ok(()),
            // A sparse file's zeros cost no bytes of the archive, and time to read.
            _ => recording.failed(&path, Failure::NotHeld),
        }
    })?;
    // The names of a directory are known now that all entries were read.
    for path in directories {
        let names = recording.names_below(&path);
        recording.directory(&path, names)?;
    }
    if recording.is_empty() {
        Err(ImportError::Malformed(
            "the tar archive is not from sosreport or supportconfig: it has neither files of /sys nor output of lspci"
                .to_owned(),
        ))
    } else {
        Ok(recording.finish())
    }
}

/// Beginnings and ends of the names of logs: of dmesg, journalctl and syslog, in reports too, and of programs.
const LOGS: [&str; 5] = ["dmesg", "journalctl", "kern", "messages", "syslog"];
const LOG_ENDS: [&str; 4] = [".log", ".out", ".err", "/boot.txt"];

pub(super) fn logs(content: &mut Lookahead<'_>, most: u64) -> Result<Vec<u8>, ImportError> {
    let mut logs = Vec::new();
    tar::entries(content, &mut |entry| {
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_log = LOGS.iter().any(|log| name.starts_with(log))
            || LOG_ENDS.iter().any(|end| path.ends_with(end));
        if is_log && entry.header().entry_type() == EntryType::Regular {
            entry.take(most - logs.len() as u64).read_to_end(&mut logs)?;
        }
        Ok(())
    })?;
    Ok(logs)
}

/// The path on the machine; `None` for a name that leads out of the archive.
fn inner(path: &str) -> Option<String> {
    let path = normal(path)?;
    let top = path.split('/').nth(1)?;
    if TOP.contains(&top) { Some(path) } else { Some(path[top.len() + 1..].to_owned()) }
}

fn is_whole(path: &str) -> bool {
    let is_ports = path.ends_with("/ports") && path.contains("/infiniband/");
    is_ports || WHOLE.iter().any(|whole| path.starts_with(whole))
}

fn file(
    path: &str,
    size: u64,
    body: &mut dyn Read,
    recording: &mut Recording,
) -> Result<(), ImportError> {
    if is_kept(path) {
        return if size > MAX_FILE as u64 {
            recording.failed(path, Failure::TooLarge)
        } else {
            recording.file(path, read_all(body, MAX_FILE)?)
        };
    }
    if SECTIONS.contains(&path) {
        let mut content = Lookahead::new(body);
        return sections::read(&mut content, Layout::Supportconfig, recording);
    }
    let Some(command) = path.strip_prefix("/sos_commands/") else {
        return Ok(());
    };
    match command.split_once('/') {
        Some(("pci", name)) if name.starts_with("lspci") => {
            recording.lspci(&read_all(body, MAX_LSPCI)?, true)?;
            recording.lspci(b"\n", true)
        }
        Some(("kernel", "uname_-a")) => recording.uname(&output(body)?),
        Some(("kernel", "lsmod")) => recording.command("lsmod", &output(body)?),
        Some(("nvidia", "nvidia-smi_-q" | "nvidia-smi_nvlink_-s")) => {
            recording.command("nvidia-smi", &output(body)?)
        }
        Some(("infiniband", "ibv_devinfo_-v")) => recording.command("ibv_devinfo", &output(body)?),
        Some(("numa", "numactl_--hardware" | "numactl_-H")) => {
            recording.command("numactl -H", &output(body)?)
        }
        _ => Ok(()),
    }
}

/// A command's output.
fn output(body: &mut dyn Read) -> Result<String, ImportError> {
    let bytes = read_all(body, recording::MAX_FILE)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads up to the limit. Memory is taken for the bytes that exist, whatever size the archive claims.
fn read_all(body: &mut dyn Read, most: usize) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    body.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
