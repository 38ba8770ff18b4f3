//! Firmware settings of mlx5 NICs, from mlxconfig (MFT) or mstconfig (mstflint), which need root.
//!
//! A query takes tenths of a second, so it runs only if needed. Only known settings are kept.

use std::collections::BTreeMap;

use crate::model::{Bdf, Fact, FirmwareSetting, Ids, Note, PciDevice, RdmaDevice, ToolOutput, Why};
use crate::world::World;

/// The settings kept, with mstflint's names.
const KNOWN: [&str; 5] = [
    "NON_PREFETCHABLE_PF_BAR",
    "PCI_WR_ORDERING",
    "ADVANCED_PCI_SETTINGS",
    "PF_LOG_BAR_SIZE",
    "ATS_ENABLED",
];

/// The tools, the vendor's first.
const TOOLS: [&str; 2] = ["mlxconfig", "mstconfig"];

/// Adds the settings of each mlx5 physical function, if this is root.
pub fn settings(
    world: &World,
    uid: &Fact<u32>,
    pci: &[PciDevice],
    devices: &mut [RdmaDevice],
    notes: &mut Vec<Note>,
) {
    // Two RDMA devices may share a function.
    let mut read = BTreeMap::<Bdf, Fact<Option<BTreeMap<String, FirmwareSetting>>>>::new();
    for device in devices {
        let Some(bdf) = device.place.present().copied().filter(|bdf| is_physical_nic(pci, *bdf))
        else {
            continue;
        };
        if device.physical_function.present().is_some() || device.parent.present().is_some() {
            continue;
        }
        device.settings = match uid {
            Fact::Known(0) => read.entry(bdf).or_insert_with(|| of(world, bdf, notes)).clone(),
            Fact::Known(_) => Fact::Unknown(Why::Denied),
            Fact::Unknown(why) => Fact::Unknown(*why),
        };
    }
}

fn is_physical_nic(pci: &[PciDevice], bdf: Bdf) -> bool {
    let at = pci.binary_search_by_key(&bdf, |device| device.bdf);
    let device = at.ok().and_then(|at| pci.get(at));
    device.is_some_and(|device| {
        device
            .ids
            .known()
            .is_some_and(|ids| ids.vendor == Ids::MELLANOX && !ids.is_virtual_function())
    })
}

fn of(
    world: &World,
    bdf: Bdf,
    notes: &mut Vec<Note>,
) -> Fact<Option<BTreeMap<String, FirmwareSetting>>> {
    let bdf = bdf.to_string();
    for tool in TOOLS {
        match world.tools.output(world.files.as_ref(), tool, &["-d", &bdf, "-e", "q"], &kept) {
            Ok(Fact::Known(Some(output))) => return read(tool, &bdf, &output, notes),
            Ok(Fact::Known(None)) => {}
            Ok(Fact::Unknown(why)) => return Fact::Unknown(why),
            Err((why, message)) => {
                super::super::read::note(notes, tool, message);
                return Fact::Unknown(why);
            }
        }
    }
    Fact::Known(None)
}

fn read(
    tool: &str,
    bdf: &str,
    output: &ToolOutput,
    notes: &mut Vec<Note>,
) -> Fact<Option<BTreeMap<String, FirmwareSetting>>> {
    match (output.code, parse(&output.text)) {
        (Some(0), Some(settings)) => Fact::Known(Some(settings)),
        (code, _) => {
            let status = code.map_or_else(
                || "was killed by a signal".to_owned(),
                |code| format!("failed with exit status {code}"),
            );
            super::read::malformed(
                notes,
                tool,
                format!("{status}, or printed no settings of {bdf}"),
            )
        }
    }
}

/// The known settings, below the line with the column names.
fn kept(text: &str) -> String {
    let lines = text.lines().filter(|line| {
        line.starts_with(HEADING)
            || name_and_values(line).is_some_and(|(name, _)| KNOWN.contains(&name))
    });
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Begins the line with the column names.
const HEADING: &str = "Configurations:";

/// A NIC has some hundreds of settings.
const MAX_LINES: usize = 8_192;

/// Parses mlxconfig's or mstconfig's output for one device: three columns with `-e q`, one (`Next Boot`)
/// with `q`.
pub fn parse(text: &str) -> Option<BTreeMap<String, FirmwareSetting>> {
    let mut columns = None;
    let mut settings = BTreeMap::new();
    for line in text.lines().take(MAX_LINES) {
        if let Some(names) = line.strip_prefix(HEADING) {
            columns = Some(match names.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["Default", "Current", "Next", "Boot"] => 3,
                ["Next", "Boot"] => 1,
                _ => return None,
            });
            continue;
        }
        let (Some(columns), Some((name, values))) = (columns, name_and_values(line)) else {
            continue;
        };
        let text = |at: usize| values.get(at).map(|value| (*value).to_owned());
        let setting = match (columns, values.len()) {
            (3, 3) => FirmwareSetting { current: text(1), next: text(2).unwrap_or_default() },
            (1, 1) => {
                FirmwareSetting { next: text(0).unwrap_or_default(), ..FirmwareSetting::default() }
            }
            // An array, or not a setting.
            _ => continue,
        };
        settings.insert(name.to_owned(), setting);
    }
    columns.map(|_| settings)
}

/// Splits a setting's line. `*` marks a value that will change, `RO` one that cannot.
fn name_and_values(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut words = line.split_whitespace().skip_while(|word| ["*", "RO", "*RO"].contains(word));
    let name = words.next()?.trim_start_matches('*');
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || "_[].".contains(c));
    is_name.then(|| (name, words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From mstflint 4.2x.
    const VERBOSE: &str = "
Device #1:
----------

Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Description:        NVIDIA ConnectX-7 HHHL Adapter NIC
Device:             0000:04:00.0

Configurations:                                          Default             Current             Next Boot
        MEMIC_BAR_SIZE                              0                   0                   0
        MEMIC_SIZE_LIMIT                            _256KB(1)           _256KB(1)           _256KB(1)
RO      NUM_OF_PLANES_P1                            0                   0                   0
        HOST_CHAINING_MODE                          Array[0..7]
*       NON_PREFETCHABLE_PF_BAR                     False(0)            False(0)            True(1)
        PCI_WR_ORDERING                             per_mkey(0)         force_relax(1)      force_relax(1)
        ADVANCED_PCI_SETTINGS                       False(0)            False(0)            False(0)
The '*' shows parameters with next value different from default/current value.
";

    fn setting(current: &str, next: &str) -> FirmwareSetting {
        FirmwareSetting { current: Some(current.to_owned()), next: next.to_owned() }
    }

    #[test]
    fn reads_three_columns_or_one() {
        let settings = parse(VERBOSE).expect("settings");
        assert_eq!(settings["NON_PREFETCHABLE_PF_BAR"], setting("False(0)", "True(1)"));
        assert_eq!(settings["PCI_WR_ORDERING"], setting("force_relax(1)", "force_relax(1)"));
        assert_eq!(settings["NUM_OF_PLANES_P1"], setting("0", "0"));
        assert!(!settings.contains_key("HOST_CHAINING_MODE"));
        let short = "Configurations:                              Next Boot       \n         PCI_WR_ORDERING     per_mkey(0)     \n";
        let settings = parse(short).expect("settings");
        assert_eq!(settings["PCI_WR_ORDERING"].next, "per_mkey(0)");
        assert_eq!(settings["PCI_WR_ORDERING"].current, None);
    }

    #[test]
    fn keeps_known_settings_idempotently() {
        let once = kept(VERBOSE);
        assert_eq!(once.lines().count(), 4, "{once}");
        assert!(!once.contains("MCX75310"));
        assert_eq!(kept(&once), once);
        let (all, few) = (parse(VERBOSE).expect("settings"), parse(&once).expect("settings"));
        assert!(few.len() == 3 && few.iter().all(|(name, setting)| all.get(name) == Some(setting)));
    }

    #[test]
    fn ignores_error_output() {
        assert_eq!(
            parse("-E- Failed to open device: 0000:04:00.0. Operation not permitted\n"),
            None
        );
        assert_eq!(parse(""), None);
        assert_eq!(parse("Configurations: Something Else\n"), None);
    }
}
