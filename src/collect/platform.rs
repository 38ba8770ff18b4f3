//! Bare metal, guest, container: the marks, not the verdict.

use std::path::Path;

use super::read;
use crate::model::{Fact, Ids, Mount, Note, PciDevice, Platform, Why};
use crate::world::Files;

/// Inode numbers of the initial namespaces (Linux include/linux/proc_ns.h); the kernel never changed them.
const INITIAL: [(&str, &str); 5] = [
    ("pid", "pid:[4026531836]"),
    ("user", "user:[4026531837]"),
    ("cgroup", "cgroup:[4026531835]"),
    ("uts", "uts:[4026531838]"),
    ("ipc", "ipc:[4026531839]"),
];

/// What the machine shows of its platform.
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
        container_marks: container_marks(files),
        asserted: None,
        lockdown: lockdown(files, notes),
        secure_boot: secure_boot(files),
        sys_mounts: read::kept(files, "/proc/self/mountinfo", at_sys, notes)
            .map(|text| mounts(&text)),
        systemd: read::is_there(files, "/run/systemd/system"),
    }
}

/// The word in brackets of `[none] integrity confidentiality`.
fn lockdown(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<Option<String>> {
    const DIRECTORY: &str = "/sys/kernel/security";
    match read::text_if_there(files, &format!("{DIRECTORY}/lockdown"), notes) {
        Fact::Known(Some(text)) => {
            let word = text
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'));
            word.map_or(Fact::Unknown(Why::Broken), |(word, _)| {
                Fact::Known(Some(word.to_owned()))
            })
        }
        // Where the file system of security modules is not mounted, as in most containers, nothing of it is seen.
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

/// What is mounted at and below /sys, one a line: where, kind, ro or rw. The rest of the list is people's.
fn at_sys(mountinfo: &str) -> String {
    let line = |line: &str| {
        let (at, kind, options) = match line.split_once(" - ") {
            Some((front, back)) => {
                let mut front = front.split(' ').skip(4);
                (front.next()?, back.split(' ').next()?, front.next()?)
            }
            // Kept before.
            None => {
                let mut words = line.split(' ');
                (words.next()?, words.next()?, words.next()?)
            }
        };
        let inside = at == "/sys" || at.starts_with("/sys/");
        let mode = match options.split(',').any(|option| option == "ro") {
            true => "ro",
            false => "rw",
        };
        inside.then(|| format!("{at} {kind} {mode}\n"))
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
        })
    };
    lines.lines().filter_map(line).collect()
}

/// One CPU stands for all: the others say the same, and a large machine's fill half a megabyte.
fn first_cpu(cpuinfo: &str) -> String {
    cpuinfo.split("\n\n").next().unwrap_or_default().to_owned() + "\n"
}

/// Whether a flag is among the CPU's; unknown where the file has no such line, as on Arm.
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
    let name = match () {
        () if has("vendor_id") => "x86_64",
        () if has("CPU implementer") => "aarch64",
        () if has("cpu\t") && cpuinfo.contains("POWER") => "ppc64le",
        () => return Fact::Unknown(Why::NotCovered),
    };
    Fact::Known(name.to_owned())
}

/// Namespaces that are not the machine's own, and files that container engines leave.
fn container_marks(files: &dyn Files) -> Fact<Vec<String>> {
    let mut marks = Vec::new();
    for (name, initial) in INITIAL {
        match files.read_link(Path::new(&format!("/proc/self/ns/{name}"))) {
            Ok(target) if target == Path::new(initial) => {}
            Ok(target) => marks.push(format!("namespace {}", target.display())),
            // A kernel without this kind of namespace has only the initial one.
            Err(error) if error.is_absent() && name != "pid" => {}
            Err(error) => return Fact::Unknown(error.why()),
        }
    }
    for file in [
        "/.dockerenv",
        "/run/.containerenv",
        "/run/systemd/container",
    ] {
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
    fn of_the_mounts_only_those_of_sys_are_kept() {
        let text = "22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n23 28 8:1 /x /home/alice rw - ext4 /dev/sda1 rw\n\
            30 22 0:50 / /sys/firmware ro,relatime shared:3 - tmpfs tmpfs ro\n";
        let kept = at_sys(text);
        assert_eq!(kept, "/sys sysfs rw\n/sys/firmware tmpfs ro\n");
        assert_eq!(at_sys(&kept), kept);
        assert!(mounts(&kept)[1].read_only && !mounts(&kept)[0].read_only);
    }

    #[test]
    fn a_flag_is_a_whole_word_and_arm_has_no_flags_line() {
        assert_eq!(
            flag("flags\t\t: fpu hypervisor lm\n", "hypervisor"),
            Fact::Known(true)
        );
        assert_eq!(
            flag("flags\t\t: fpu hypervisorish\n", "hypervisor"),
            Fact::Known(false)
        );
        assert_eq!(
            flag("Features\t: fp asimd\n", "hypervisor"),
            Fact::Unknown(Why::NotCovered)
        );
    }
}
