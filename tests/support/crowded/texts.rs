//! Logs, profiles, journals and files of a laid-out machine with as much as fits into 8 MiB.

use std::fs;
use std::path::Path;

use super::{Input, LARGEST, filled};

fn repeated(name: &str, text: &str) -> Input {
    repeated_to(LARGEST, name, text)
}

fn repeated_to(size: usize, name: &str, text: &str) -> Input {
    Input::new(name, text.repeat(size / text.len()))
}

/// Logs for `gdr explain`.
pub fn logs(size: usize) -> Vec<Input> {
    let repeated = |name, text: &str| repeated_to(size, name, text);
    let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/symptoms.md"))
        .expect("the symptoms");
    let examples = table.split("```text\n").skip(1).filter_map(|text| text.split("```").next());
    let lines: Vec<&str> = examples.flat_map(str::lines).collect();
    assert!(lines.len() > 100, "{} examples of symptoms", lines.len());
    let one = lines.join(" ");
    let unlike =
        |at: usize| format!("NCCL WARN Call to ibv_reg_mr failed with error Bad address {at}\n");
    vec![
        repeated("every symptom", &(lines.join("\n") + "\n")),
        repeated("every symptom in one line", &(one + " ")),
        Input::new("lines that differ", filled(size, "", &unlike, "")),
        Input::new("ranks of a job", filled(size, "", &of_rank, "")),
        Input::new("pairs of a job", filled(size, "", &pair, "")),
        Input::new("hosts of a job", filled(size, "", &of_host, "")),
        Input::new("kernel log", filled(size, "", &kernel, "")),
        repeated("one line", "a"),
        repeated("empty lines", "\n"),
        repeated("short lines", "a\n"),
        repeated("brackets", "["),
        repeated("escapes", "\x1b["),
        repeated("JSON", "{\"log\":\"a\\n\"}\n"),
        Input::new("no text", vec![0xff; size]),
    ]
}

/// Every rank begins, uses one NIC and fails.
fn of_rank(at: usize) -> String {
    let rank = at / 3;
    let source = format!("n{}:{rank}:1 [0]", rank / 8);
    match at % 3 {
        0 => format!(
            "{source} NCCL INFO comm 0x1 rank {rank} nranks 999999 cudaDev 0 busId {rank:x} commId 0xab - Init START\n"
        ),
        1 => {
            let next = rank + 1;
            format!(
                "{source} NCCL INFO Channel 00/0 : {rank}[0] -> {next}[0] [send] via NET/IB/{}\n",
                rank % 8
            )
        }
        _ => {
            format!("{source} a.cc:1 NCCL WARN socketProgress: Connection closed by remote peer\n")
        }
    }
}

/// As many pairs as fit, in the shortest lines that NCCL has.
fn pair(at: usize) -> String {
    format!("NCCL INFO Ring 0 : {at} -> {} via SHM/CE\n", at % 7)
}

/// Each of another process and communicator.
fn of_host(at: usize) -> String {
    format!(
        "h{at}:1:1 [0] NCCL INFO comm 0x{at} rank 0 nranks 1 cudaDev 0 busId 1 commId 0x{at} - Init START\n"
    )
}

fn kernel(at: usize) -> String {
    format!(
        "[{at}.000001] NVRM: Xid (PCI:0000:{:02x}:00): {}, pid={at}, name=a\n",
        at % 256,
        at % 180
    )
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
