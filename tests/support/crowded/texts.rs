//! Logs, profiles, journals and files of a laid-out machine with as much as fits into 8 MiB.

use std::fs;
use std::path::Path;

use super::{Input, LARGEST};

fn repeated(name: &str, text: &str) -> Input {
    Input::new(name, text.repeat(LARGEST / text.len()))
}

/// Logs for `gdr explain`.
pub fn logs() -> Vec<Input> {
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/symptoms.md"))
        .expect("the symptoms");
    let examples = table.split("```text\n").skip(1).filter_map(|text| text.split("```").next());
    let lines: Vec<&str> = examples.flat_map(str::lines).collect();
    assert!(lines.len() > 100, "{} examples of symptoms", lines.len());
    let one = lines.join(" ");
    let unlike: String = (0..LARGEST / 80)
        .map(|at| format!("NCCL WARN Call to ibv_reg_mr failed with error Bad address {at}\n"))
        .collect();
    vec![
        repeated("every symptom", &(lines.join("\n") + "\n")),
        repeated("every symptom in one line", &(one + " ")),
        Input::new("lines that differ", unlike),
        repeated("one line", "a"),
        repeated("empty lines", "\n"),
        repeated("short lines", "a\n"),
        repeated("brackets", "["),
        repeated("escapes", "\x1b["),
        repeated("JSON", "{\"log\":\"a\\n\"}\n"),
        Input::new("no text", vec![0xff; LARGEST]),
    ]
}

/// Profiles for `--profile FILE`.
pub fn profiles() -> Vec<Input> {
    vec![
        repeated("comments", "# nothing\n"),
        repeated("brackets", "["),
        Input::new("arrays", format!("a = {}", "[".repeat((1 << 20) - 8))),
        Input::new("keys", (0..60_000).map(|at| format!("k{at} = {at}\n")).collect::<String>()),
        Input::new("tables", (0..60_000).map(|at| format!("[t{at}]\n")).collect::<String>()),
    ]
}

/// Journals for `gdr undo`.
pub fn journals() -> Vec<Input> {
    let head = "{\"schema\":\"gdr.journal/1\",\"steps\":[";
    vec![
        repeated("spaces", " "),
        repeated("brackets", "["),
        Input::new("steps", format!("{head}{}{{}}]}}", "{},".repeat((1 << 20) / 3 - 100))),
        Input::new("all steps", format!("{head}{}{{}}]}}", "{},".repeat(LARGEST / 3 - 100))),
    ]
}

/// Files that gdr reads whole, each with a line to fill it with.
pub const PLACES: [(&str, &str); 10] = [
    ("proc/cmdline", "iommu=pt "),
    ("proc/modules", "nvidia 1 - a,b, Live\n"),
    ("proc/driver/nvidia/params", "a: 1\n"),
    ("proc/self/mountinfo", "22 27 0:21 / /sys rw shared:7 - sysfs sysfs rw\n"),
    ("proc/cpuinfo", "vendor_id\t: GenuineIntel\n"),
    ("proc/devices", "1 mem\n"),
    ("etc/security/limits.conf", "* - memlock 1\n"),
    ("etc/modprobe.d/a.conf", "options nvidia NVreg_EnableStreamMemOPs=1\n"),
    ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"iommu=pt\"\n"),
    ("sys/bus/pci/devices/0000:00:00.0/vendor", "0x10de\n"),
];
