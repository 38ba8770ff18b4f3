//! Signs of bare metal, guest or container; no verdict.

use std::path::Path;

use super::read;
use crate::model::{Fact, Ids, Mount, Note, PciDevice, Platform, Why};
use crate::world::Files;

/// Inode numbers of the initial namespaces (Linux include/linux/proc_ns.h).
const INITIAL: [(&str, &str); 5] = [
    ("pid", "pid:[4026531836]"),
    ("user", "user:[4026531837]"),
    ("cgroup", "cgroup:[4026531835]"),
    ("uts", "uts:[4026531838]"),
    ("ipc", "ipc:[4026531839]"),
];

/// What tells a guest from bare metal.
pub fn platform(files: &dyn Files, pci: &Fact<Vec<PciDevice>>, notes: &mut Vec<Note>) -> Platform {
    let cpuinfo = read::kept(files, "/proc/cpuinfo", first_cpu, notes);
    Platform {
        hypervisor_flag: cpuinfo.as_ref().and_then(|text| flag(text, "hypervisor")),
        architecture: cpuinfo.and_then(|text| architecture(&text)),
        dmi_vendor: read::text_if_there(files, "/sys/class/dmi/id/sys_vendor", notes),
        dmi_product: read::text_if_there(files, "/sys/class/dmi/id/product_name", notes),
        hypervisor_type: read::text_if_there(files, "/sys/hypervisor/type", notes),
        paravirtual_devices: pci
            .known()
            .into_iter()
            .flatten()
            .filter(|d| d.ids.known().is_some_and(Ids::is_paravirtual))
            .count(),
        ..Platform::default()
    }
}

/// What surrounds gdr on the machine: containers, lockdown, mounts.
pub fn surroundings(files: &dyn Files, platform: &mut Platform, notes: &mut Vec<Note>) {
    platform.container_marks = container_marks(files);
    platform.lockdown = lockdown(files, notes);
    platform.secure_boot = secure_boot(files);
    platform.mounts =
        read::kept(files, "/proc/self/mountinfo", some_mounts, notes).map(|text| mounts(&text));
    platform.systemd = read::is_there(files, "/run/systemd/system");
}

/// Reads the bracketed word in `[none] integrity confidentiality`.
fn lockdown(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    const DIRECTORY: &str = "/sys/kernel/security";
    match read::text_if_there(files, &format!("{DIRECTORY}/lockdown"), notes) {
        Fact::Known(Some(text)) => {
            let word = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            word.map_or(Fact::Unknown(Why::Broken), |(word, _)| Fact::Known(Some(word.to_owned())))
        }
        // Without securityfs, as in most containers, lockdown is unknown.
        Fact::Known(None) => match files.list_kept(Path::new(DIRECTORY), &|name| name == "lsm") {
            Ok(names) if names.is_empty() => Fact::Unknown(Why::NotCovered),
            _ => Fact::Known(None),
        },
        unknown => unknown,
    }
}

/// The firmware's variable: four bytes of attributes, then the value.
fn secure_boot(files: &dyn Files) -> Fact<Option<bool>> {
    const VARIABLE: &str =
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    match files.read_range(Path::new(VARIABLE), 0, 5) {
        Ok(bytes) => match bytes.get(4) {
            Some(value) => Fact::Known(Some(*value == 1)),
            None => Fact::Unknown(Why::Broken),
        },
        Err(error) if error.is_absent() => read::absent(files, VARIABLE),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// Mounts at and below /sys, and those that may hold /dev/shm, one per line: path, type, ro or rw, size. The others are private.
fn some_mounts(mountinfo: &str) -> String {
    let line = |line: &str| {
        let (at, kind, options, of_file_system) = match line.split_once(" - ") {
            Some((front, back)) => {
                let (mut front, mut back) = (front.split(' ').skip(4), back.split(' '));
                let (at, options) = (front.next()?, front.next()?);
                (at, back.next()?, options, back.nth(1).unwrap_or_default())
            }
            // Already reduced.
            None => {
                let mut words = line.split(' ');
                let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
                (at, kind, options, words.next().unwrap_or_default())
            }
        };
        let kept = at.starts_with("/sys/") || ["/sys", "/", "/dev", "/dev/shm"].contains(&at);
        let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
        let mode = if is_read_only(options) || is_read_only(of_file_system) { "ro" } else { "rw" };
        let mut size = of_file_system.split(',').filter(|option| option.starts_with("size="));
        let size = size.next().map_or(String::new(), |size| format!(" {size}"));
        kept.then(|| format!("{at} {kind} {mode}{size}\n"))
    };
    mountinfo.lines().filter_map(line).collect()
}

fn mounts(lines: &str) -> Vec<Mount> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        Some(Mount {
            at: words.next()?.to_owned(),
            kind: words.next()?.to_owned(),
            read_only: words.next()? == "ro",
            size: words.next().and_then(size),
        })
    };
    lines.lines().filter_map(line).collect()
}

/// Reads `size=65536k`, as the kernel writes it for a tmpfs.
fn size(option: &str) -> Option<u64> {
    let kibibytes = option.strip_prefix("size=")?.strip_suffix('k')?;
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

/// One CPU is enough: all have the same flags.
fn first_cpu(cpuinfo: &str) -> String {
    cpuinfo.split("\n\n").next().unwrap_or_default().to_owned() + "\n"
}

/// True if the CPU has a flag; unknown without a flags line, as on Arm.
fn flag(cpuinfo: &str, name: &str) -> Fact<bool> {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("flags"))
        .map_or(Fact::Unknown(Why::NotCovered), |flags| {
            Fact::Known(flags.split_ascii_whitespace().any(|flag| flag == name))
        })
}

fn architecture(cpuinfo: &str) -> Fact<String> {
    let has = |key: &str| cpuinfo.lines().any(|line| line.starts_with(key));
    let name = if has("vendor_id") {
        "x86_64"
    } else if has("CPU implementer") {
        "aarch64"
    } else if has("cpu\t") && cpuinfo.contains("POWER") {
        "ppc64le"
    } else {
        return Fact::Unknown(Why::NotCovered);
    };
    Fact::Known(name.to_owned())
}

/// Non-initial namespaces, and files left by container engines.
fn container_marks(files: &dyn Files) -> Fact<Vec<String>> {
    let (mut marks, mut unknown) = (Vec::new(), None);
    for (name, initial) in INITIAL {
        match files.read_link(Path::new(&format!("/proc/self/ns/{name}"))) {
            Ok(target) if target == Path::new(initial) => {}
            Ok(target) => marks.push(format!("namespace {}", target.display())),
            // A kernel without this namespace type has only the initial one.
            Err(error) if error.is_absent() && name != "pid" => {}
            Err(error) => unknown = unknown.or(Some(error.why())),
        }
    }
    if let (Some(why), true) = (unknown, marks.is_empty()) {
        return Fact::Unknown(why);
    }
    for file in ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"] {
        if files.exists(Path::new(file)).unwrap_or(false) {
            marks.push(format!("file {file}"));
        }
    }
    Fact::Known(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_mounts_of_sys_and_shared_memory() {
        let text = "22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n23 28 8:1 /x /home/alice rw - ext4 /dev/sda1 rw\n\
            30 22 0:50 / /sys/firmware ro,relatime shared:3 - tmpfs tmpfs ro\n\
            31 28 0:60 / /dev/shm rw,nosuid,nodev - tmpfs shm rw,size=65536k,inode64\n\
            28 1 0:40 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/secret\n\
            32 28 0:61 / /dev rw - tmpfs tmpfs ro,size=64m\n";
        let kept = some_mounts(text);
        assert_eq!(
            kept,
            "/sys sysfs rw\n/sys/firmware tmpfs ro\n/dev/shm tmpfs rw size=65536k\n/ overlay rw\n/dev tmpfs ro size=64m\n"
        );
        assert_eq!(some_mounts(&kept), kept);
        let found = mounts(&kept);
        let values: Vec<_> = found.iter().map(|mount| (mount.read_only, mount.size)).collect();
        assert_eq!(
            values,
            [(false, None), (true, None), (false, Some(64 << 20)), (false, None), (true, None)]
        );
    }

    #[test]
    fn flag_matches_whole_word() {
        assert_eq!(flag("flags\t\t: fpu hypervisor lm\n", "hypervisor"), Fact::Known(true));
        assert_eq!(flag("flags\t\t: fpu hypervisorish\n", "hypervisor"), Fact::Known(false));
        assert_eq!(flag("Features\t: fp asimd\n", "hypervisor"), Fact::Unknown(Why::NotCovered));
    }
}
