//! The table of kinds: each is recognized by its example and yields facts, whatever stands before and after it.

use proptest::prelude::*;

use super::*;
use crate::model::{Fact, Facts, NvmlOutcome};
use crate::pci::PciNames;

fn names() -> PciNames {
    PciNames::new(None, include_str!("../../../profiles/devices.toml")).expect("names")
}

fn read(text: &str) -> SupportReport {
    crate::import::text(text.as_bytes(), SupportReport::default()).expect("a machine")
}

/// All that a text yields, without remarks, which name lines.
fn yielded(text: &str, names: &PciNames) -> (String, Facts) {
    let mut report = read(text);
    let printed = report.printed(names).expect("facts").unwrap_or_default();
    // What the facts are made of; a part may stand there twice.
    report.lspci.clear();
    report.smi.clear();
    report.matrices.clear();
    (format!("{report:?}"), Facts { notes: Vec::new(), ..printed })
}

#[test]
fn each_kind_is_recognized_by_its_example() {
    for (at, kind) in KINDS.iter().enumerate() {
        let first = |line: &&str| KINDS.iter().any(|kind| (kind.begins)(line.trim()));
        let line = kind.example.lines().find(first).expect(kind.name).trim();
        let found = KINDS.iter().position(|kind| (kind.begins)(line));
        assert_eq!(found, Some(at), "{}: {line}", kind.name);
        let report = read(kind.example);
        assert!(at == 0 || !report.says_nothing(), "{} yields nothing", kind.name);
        assert!(!kind.yields.is_empty());
    }
}

/// Texts of one machine give the same facts in both orders, with commands between them or with nothing.
#[test]
fn the_order_of_parts_does_not_count() {
    let names = names();
    for a in KINDS {
        for b in KINDS {
            let (a, b) = (a.example, b.example);
            let facts = yielded(&format!("{a}\n{b}"), &names);
            for other in [
                format!("{b}\n{a}"),
                format!("admin@node1:~$ one\n{b}admin@node1:~$ two\n{a}admin@node1:~$ \n"),
                format!("# Report\n```\n{a}```\nand\n```\n{b}```\n"),
            ] {
                assert_eq!(yielded(&other, &names), facts, "{other}");
            }
        }
    }
}

/// As in mails, issues and chats.
#[test]
fn pasted_texts_are_cleaned() {
    let names = names();
    for kind in KINDS {
        let plain = yielded(kind.example, &names);
        let lines = || kind.example.lines();
        let quoted: String = lines().map(|line| format!("> {line}\r\n")).collect();
        let twice: String = lines().map(|line| format!("> > {line}\n")).collect();
        let indented: String = lines().map(|line| format!("    {line}\n")).collect();
        let coloured: String = lines().map(|line| format!("{line}\u{1b}[0m\n")).collect();
        for text in [quoted, twice, indented, coloured] {
            assert_eq!(yielded(&text, &names), plain, "{}:\n{text}", kind.name);
        }
    }
}

/// A command line names the file below it, and ends what stood above.
#[test]
fn prompts_name_files() {
    for prompt in
        ["$ cat", "# cat", "+ cat", "root@node1:~# sudo cat", "[root@node1 ~]# cat", "==>"]
    {
        let end = if prompt == "==>" { " <==" } else { "" };
        let path = "/etc/modprobe.d/nvidia.conf";
        let text = format!(
            "{prompt} {path}{end}\noptions nvidia NVreg_EnableStreamMemOPs=1\n$ cat /proc/cmdline\nroot=/dev/sda1\n"
        );
        let report = read(&text);
        let text = |path: &str| report.files.get(path).and_then(|file| file.text.clone());
        assert_eq!(
            text(path).as_deref(),
            Some("options nvidia NVreg_EnableStreamMemOPs=1\n"),
            "{prompt}"
        );
        assert_eq!(text("/proc/cmdline").as_deref(), Some("root=/dev/sda1\n"));
    }
}

/// One GPU of a machine, or a list that was cut, is not all of its GPUs.
#[test]
fn partial_lists_of_gpus_are_partial() {
    let partial = |text: &str| match read(text).nvml {
        Some(NvmlOutcome::Read(nvml)) => (nvml.partial, nvml.gpus.len()),
        other => panic!("{other:?}"),
    };
    assert_eq!(partial(smi::QUERY.example), (false, 1));
    assert_eq!(partial(&smi::QUERY.example.replace(": 1\n", ": 8\n")), (true, 1));
    let cut = smi::QUERY.example.split("    BAR1").next().expect("a part");
    assert_eq!(partial(cut), (true, 1));
    // `nvidia-smi -i 0` and a query print so.
    assert_eq!(partial(smi::TABLE.example), (true, 1));
    assert_eq!(partial(smi::CSV.example), (true, 1));
}

#[test]
fn forms_of_nvidia_smi_say_the_same() {
    for kind in [&smi::QUERY, &smi::XML, &smi::TABLE, &smi::CSV] {
        let Some(NvmlOutcome::Read(nvml)) = read(kind.example).nvml else {
            panic!("{}", kind.name);
        };
        assert_eq!(nvml.driver_version, Fact::Known("550.54.15".to_owned()), "{}", kind.name);
        assert_eq!(nvml.gpus[0].bdf.to_string(), "0000:17:00.0");
        assert_eq!(nvml.gpus[0].name, Fact::Known("NVIDIA H100 80GB HBM3".to_owned()));
    }
}

#[test]
fn what_says_nothing_is_named() {
    for (text, words) in [
        ("              total        used        free\nMem: 1 2 3\n", "the output of free"),
        ("[    1.000000] usb 1-1: new device\n", "a kernel log"),
        ("Filesystem 1K-blocks Used\n/dev/sda1 1 2\n", "the output of df"),
        ("Hello, my training is slow.\n", "no GPU, NIC or PCI device found"),
    ] {
        let error = crate::import::text(text.as_bytes(), SupportReport::default());
        let error = error.expect_err("no machine").to_string();
        assert!(error.contains(words), "{error}");
    }
}

proptest! {
    /// Whatever is changed in a text, it is read or an error.
    #[test]
    fn changed_texts_do_not_panic(
        kinds in proptest::collection::vec(0..KINDS.len(), 1..4),
        at: Vec<(proptest::sample::Index, u8)>,
        cut: proptest::sample::Index,
    ) {
        let text: String = kinds.iter().map(|kind| KINDS[*kind].example).collect();
        let mut bytes = text.into_bytes();
        for (at, byte) in at {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(report) = crate::import::text(&bytes, SupportReport::default()) {
            let mut facts = Facts::default();
            report.add_listed(&mut facts);
            let listed = facts.listed.unwrap_or_default();
            prop_assert!(listed.cells.is_empty() || listed.cells.len() == listed.gpus.len() + listed.nics.len());
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = crate::import::text(&bytes, SupportReport::default());
    }
}
