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
            ("", "Bus") => {
                let (_, below) = rest.split_once(", ").unwrap_or_default();
                put("buses", before(below, ", sec-latency"));
            }
            ("", name) if name.starts_with("Region ") => {
                if let Some(region) = region(rest) {
                    put(name, &region);
                }
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
            ("express", "LnkCap") => put("link", before(rest, ", ASPM")),
            ("express", "LnkCtl") => put("link aspm", before(rest, ";")),
            ("express", "LnkSta") => {
                let plain = rest.replace(" (downgraded)", "").replace(" (ok)", "");
                put("link now", &plain.replace(" (overdriven)", "").replace(" (strange)", ""));
            }
            ("express", "LnkCtl2") if rest.starts_with("Target Link Speed: 2.5GT/s") => {}
            ("express", "LnkCtl2") => put("link target", before(rest, ", EnterCompliance")),
            ("acs", _) => put(name, rest),
            ("ats", "ATSCtl") => put(name, before(rest, ", Smallest")),
            ("sriov", "IOVCtl") => put("sriov control", before(rest, " ")),
            ("sriov", "Initial VFs") => {
                let counts = rest.split_once("Number of").map_or("", |(_, rest)| rest);
                put("sriov counts", &format!("Number of{}", before(counts, ", Function")));
            }
            ("sriov", "VF offset") => put("sriov places", before(rest, ", Device ID")),
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
        ("Single Root I/O Virtualization", "sriov"),
        ("Device Serial Number", "serial"),
    ];
    let found = sections.iter().find(|(start, _)| title.starts_with(start));
    // Not empty: the following lines belong to this capability, not to the header.
    found.map_or("other", |(_, section)| section)
}

/// `(v2) Downstream Port`.
fn express(title: &str) -> String {
    let (_, kind) = title.split_once(") ").unwrap_or(("", title));
    let text = before(kind, ", ");
    before(text, " (Slot").to_owned()
}

/// Only regions with an address: without sysfs lspci shows the upper halves of 64-bit BARs as unassigned.
fn region(text: &str) -> Option<String> {
    let text = text.replace(" [disabled]", "").replace(" [virtual]", "");
    (!text.contains("<unassigned>")).then_some(text)
}

fn before<'a>(text: &'a str, mark: &str) -> &'a str {
    text.split_once(mark).map_or(text, |(text, _)| text)
}
