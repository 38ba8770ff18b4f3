//! The output of `lspci -n -vvv -F FILE` as a map.

use std::io::Write;
use std::process::Command;

use crate::pci_differential::View;

/// One view for each function of the dump.
pub fn views(dump: &str) -> Vec<View> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(dump.as_bytes()).expect("the dump is written");
    let out = Command::new("lspci").args(["-n", "-vvv", "-F"]).arg(file.path()).output();
    let text = String::from_utf8(out.expect("lspci runs").stdout).expect("lspci writes UTF-8");
    let functions = text.split("\n\n").filter(|function| !function.trim().is_empty());
    functions.map(view).collect()
}

fn view(text: &str) -> View {
    let mut view = View::new();
    let mut put = |name: &str, value: &str| drop(view.insert(name.to_owned(), value.to_owned()));
    let mut lines = text.lines();
    let first = lines.next().expect("a line for the function");
    let mut words = first.split_whitespace().skip(1);
    put("class", words.next().unwrap_or_default().trim_end_matches(':'));
    put("id", words.next().unwrap_or_default());
    put("revision", first.split_once("(rev ").map_or("00", |(_, rest)| &rest[..2]));

    let mut section = "";
    for line in lines.map(str::trim) {
        if let Some(capability) = line.strip_prefix("Capabilities: ") {
            let (_, title) = capability.split_once("] ").unwrap_or_default();
            section = section_of(title);
            match section {
                "express" => put("express", &express(title)),
                "serial" => put("serial", title.trim_start_matches("Device Serial Number ")),
                "other" => {}
                other => put(other, "there"),
            }
            continue;
        }
        let (name, rest) = line.split_once(':').unwrap_or((line, ""));
        let rest = rest.trim();
        match (section, name) {
            ("", "Control") => put("control", before(rest, " SpecCycle")),
            ("", "Subsystem") => put("subsystem", rest),
            ("", "Bus") => put("buses", before(rest, ", sec-latency")),
            ("", "Interrupt") => put("pin", before(rest, " routed")),
            ("" | "sriov", name) if name.starts_with("Region ") => {
                if let Some(region) = region(rest) {
                    put(&format!("{section}{name}"), &region);
                }
            }
            ("express", "DevCap") => put("express payload supported", before(rest, ", PhantFunc")),
            ("express", name) if name.starts_with("ExtTag") => {
                put("express tag supported", before(name, " "));
            }
            ("express", name) if name.starts_with("RlxdOrd") => {
                let mut flags = name.split(' ').filter(|flag| {
                    ["RlxdOrd", "ExtTag", "NoSnoop"]
                        .iter()
                        .any(|is_relevant| flag.starts_with(is_relevant))
                });
                let flags: Vec<_> = flags.by_ref().collect();
                put("express flags", &flags.join(" "));
            }
            ("express", name) if name.starts_with("MaxPayload ") => put("express sizes", name),
            ("express", "LnkCap") => put("link", before(rest, ", Exit Latency")),
            ("express", "LnkCtl") => {
                put("link aspm", before(rest, ";"));
                let (_, flags) = rest.split_once(';').unwrap_or_default();
                let (_, flags) = flags.split_once("Disabled").unwrap_or_default();
                put("link disabled", flags.get(..1).unwrap_or_default());
            }
            ("express", "LnkSta") => {
                let plain = rest.replace(" (downgraded)", "").replace(" (ok)", "");
                put("link now", &plain.replace(" (overdriven)", "").replace(" (strange)", ""));
            }
            ("express", name) if name.starts_with("TrErr") => {
                for flag in name.split(' ').filter(|flag| !flag.is_empty()) {
                    if flag.starts_with("Train") || flag.starts_with("DLActive") {
                        let (name, sign) = flag.split_at(flag.len() - 1);
                        put(&format!("link {name}"), sign);
                    }
                }
            }
            ("express", "LnkCtl2") => put("link target", before(rest, ", EnterCompliance")),
            ("acs", _) | ("aer", "UESta" | "UEMsk" | "UESvrt" | "CESta" | "CEMsk") => {
                put(name, &without_newer(rest));
            }
            ("ats", _) => put(name, rest),
            ("rebar", _) => put(name, rest),
            ("sriov", "IOVCtl") => put("sriov control", &control(rest)),
            ("sriov", "Initial VFs") => {
                let counts = rest.split_once("Total").map_or("", |(_, rest)| rest);
                put("sriov counts", &format!("Total{}", before(counts, ", Function")));
            }
            ("sriov", "VF offset") => put("sriov places", rest),
            _ => {}
        }
    }
    view
}

fn section_of(title: &str) -> &'static str {
    let sections = [
        ("Express ", "express"),
        ("Access Control Services", "acs"),
        ("Address Translation Service", "ats"),
        ("Advanced Error Reporting", "aer"),
        ("Physical Resizable BAR", "rebar"),
        ("Single Root I/O Virtualization", "sriov"),
        ("Device Serial Number", "serial"),
    ];
    let found = sections.iter().find(|(start, _)| title.starts_with(start));
    // Not empty: the following lines belong to this capability, not to the header.
    found.map_or("other", |(_, section)| section)
}

/// `(v2) Downstream Port (Slot+)`.
fn express(title: &str) -> String {
    let text = title.trim_start_matches("Express ");
    let text = text.split_once(", ").map_or(text, |(text, _)| text);
    text.to_owned()
}

/// Only regions with an address: without sysfs lspci shows the upper halves of 64-bit BARs as unassigned.
fn region(text: &str) -> Option<String> {
    let text = text.replace(" [disabled]", "").replace(" [virtual]", "");
    (!text.contains("<unassigned>")).then_some(text)
}

fn control(text: &str) -> String {
    let is_relevant = |flag: &&str| flag.starts_with("Enable") || flag.starts_with("MSE");
    text.split(' ').filter(is_relevant).collect::<Vec<_>>().join(" ")
}

/// The flags of pciutils 3.9; later versions add some.
fn without_newer(flags: &str) -> String {
    let newer = [
        "UncorrIntErr",
        "BlockedTLP",
        "AtomicOpBlocked",
        "TLPBlockedErr",
        "PoisonTLPBlocked",
        "DMWrReqBlocked",
        "IDECheck",
        "MisIDETLP",
        "PCRC_CHECK",
        "TLPXlatBlocked",
        "CorrIntErr",
        "HeaderOF",
    ];
    let kept = flags.split(' ').filter(|flag| !newer.iter().any(|name| flag.starts_with(name)));
    kept.collect::<Vec<_>>().join(" ")
}

fn before<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or(text, |(text, _)| text)
}
