//! Masks the kernel command line: keeps only what gdr or its reader needs, because installers may put servers,
//! accounts, addresses and keys there.

use super::Masker;
use super::scan::TextKind;

const MASKED: &str = "masked";

/// Parameters whose values are kept, apart from names in them. `*` is a wildcard; `-` equals `_`.
const KEPT: [&str; 66] = [
    "acpi",
    "amd_iommu*",
    "amd_pstate",
    "apparmor",
    "cgroup*",
    "clocksource",
    "console",
    "crashkernel",
    "default_hugepagesz",
    "dma_debug",
    "earlyprintk",
    "efi",
    "efi_*",
    "elevator",
    "gdrdrv.*",
    "hugepages",
    "hugepagesz",
    "ib_*",
    "idle",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.*",
    "intel_iommu*",
    "intel_pstate",
    "iommu*",
    "irqaffinity",
    "irqbypass*",
    "isolcpus",
    "kvm*",
    "lockdown",
    "mem",
    "mem_*",
    "memmap",
    "memory_*",
    "mitigations",
    "mlx4_*",
    "mlx5_*",
    "module_blacklist",
    "modprobe.blacklist",
    "movable_node",
    "nohz*",
    "nouveau.*",
    "nova*",
    "numa*",
    "nvidia*",
    "nvme*",
    "panic",
    "pci",
    "pci_*",
    "pcie*",
    "processor.*",
    "rcu*",
    "rd.driver.blacklist",
    "rdblacklist",
    "rdma*",
    "security",
    "selinux",
    "skew_tick",
    "spectre*",
    "swiotlb",
    "systemd.unified_cgroup_hierarchy",
    "transparent_hugepage*",
    "tsc",
    "vfio*",
    "vsyscall",
    "x86_*",
];

impl Masker {
    pub(super) fn command_line(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut of_kernel = true;
        for (word, blank) in words(text) {
            if word == "--" && of_kernel {
                of_kernel = false;
                out.push_str(word);
            } else if of_kernel && !word.is_empty() {
                out.push_str(&self.parameter(word));
            } else if !word.is_empty() {
                // Arguments of init.
                out.push_str(MASKED);
            }
            out.push_str(blank);
        }
        out
    }

    fn parameter(&mut self, word: &str) -> String {
        let (open, inner) = match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(inner) => ("\"", inner),
            None => ("", word),
        };
        let Some((name, value)) = inner.split_once('=') else {
            return format!("{open}{}{open}", self.own_word(inner));
        };
        let kept = self.own_word(name);
        let value = if ["BOOT_IMAGE", "initrd"].contains(&name) {
            self.file_name(value)
        } else if is_kept(name) {
            self.text(TextKind::CommandLine, value)
        } else if is_harmless(name, value) {
            value.to_owned()
        } else {
            MASKED.to_owned()
        };
        format!("{open}{kept}={value}{open}")
    }

    /// A word of the kernel, which is not private.
    fn own_word<'a>(&mut self, word: &'a str) -> &'a str {
        if is_plain(word) && self.text(TextKind::CommandLine, word) == word { word } else { MASKED }
    }

    /// A kernel image: its directory is private, and may be a number.
    fn file_name(&mut self, path: &str) -> String {
        match path.rfind(['/', '\\']) {
            Some(at) => {
                format!("{}{}", &path[at..=at], self.text(TextKind::Version, &path[at + 1..]))
            }
            None => self.text(TextKind::Version, path),
        }
    }
}

/// The words, each with the white space after it; quotes are not special.
fn words(text: &str) -> Vec<(&str, &str)> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut quoted = false;
        let end = rest.find(|c: char| {
            quoted ^= c == '"';
            !quoted && c.is_whitespace()
        });
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        let next = behind.find(|c: char| !c.is_whitespace()).unwrap_or(behind.len());
        let (blank, behind) = behind.split_at(next);
        words.push((word, blank));
        rest = behind;
    }
    words
}

/// True if a word looks like a kernel option: few digits, no separators of names.
fn is_plain(word: &str) -> bool {
    const DIGITS: usize = 4;
    const MAX_LENGTH: usize = 64;
    let own = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,".contains(&byte);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() <= MAX_LENGTH && word.bytes().all(own) && digits <= DIGITS
}

fn is_kept(name: &str) -> bool {
    let name = name.replace('-', "_");
    KEPT.iter().any(|kept| match kept.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == *kept,
    })
}

/// True if the value is a small number or a switch, for a parameter without names.
fn is_harmless(name: &str, value: &str) -> bool {
    const SWITCHES: [&str; 10] = ["", "on", "off", "y", "n", "yes", "no", "auto", "true", "false"];
    let small = value.len() <= 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    let names = ["host", "serial", "user", "name", "id"];
    SWITCHES.contains(&value.to_ascii_lowercase().as_str())
        || small && value.len() == 1
        || small && !names.iter().any(|word| name.contains(word))
}
