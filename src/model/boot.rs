//! The boot loader of this machine, and the settings for future boots.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// The boot loader and the files that its kernel command line comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Boot {
    /// Boot loader that started this kernel, from the firmware variable LoaderInfo, as in `systemd-boot 255.4`; none
    /// if unset.
    pub loader: Fact<Option<String>>,
    /// The system is an ostree image, which manages its own command line.
    pub ostree: Fact<bool>,
    /// systemd-boot's configuration exists (`loader/loader.conf`).
    pub loader_conf: Fact<bool>,
    /// GRUB's configuration also reads `/etc/default/grub.d/*.cfg`.
    pub grub_drop_ins: Fact<bool>,
    /// `/etc/default/grub`, if it matters; none if it does not exist.
    pub grub_default: Fact<Option<String>>,
    /// GRUB's configuration; none if it does not exist.
    pub grub_cfg: Fact<Option<String>>,
    /// gdr's own files below `/etc/default/grub.d`, by path.
    pub drop_ins: BTreeMap<String, String>,
    /// The command line that kernel-install gives to entries, and its file; none if it uses that of the running
    /// kernel.
    pub kernel_install: Fact<Option<(String, String)>>,
    /// For each boot loader entry (`/boot/loader/entries`), the words about PCI and the IOMMU.
    pub entries: Fact<BTreeMap<String, String>>,
    /// Whether gdr's unit (`gdr-acs.service`) starts at boot; none if it does not exist.
    #[serde(default)]
    pub unit: Fact<Option<bool>>,
    /// Installed kernels and their images, if systemd-boot may start them.
    pub kernels: Fact<BTreeMap<String, String>>,
}

impl Boot {
    /// Directory of units that the administrator adds.
    pub const UNITS: &str = "/etc/systemd/system";
    /// The unit that clears the ACS bits at every boot.
    pub const UNIT: &str = "gdr-acs.service";

    /// Files and settings that apply to future boots. Of GRUB's settings, only those that gdr wrote for this fix.
    pub fn settings(&self, fix: &str) -> Vec<(String, String)> {
        let (path, mark) = (Self::drop_in(fix), Self::mark(fix));
        let default =
            self.grub_default.present().map(|text| ("/etc/default/grub".to_owned(), text));
        let marked = default.into_iter().flat_map(|(path, text)| {
            let lines = text.lines().filter(|line| line.ends_with(&mark));
            lines.map(|line| (path.clone(), line)).collect::<Vec<_>>()
        });
        let ours = self.drop_ins.get(&path).map(|text| text.lines());
        let ours = ours.into_iter().flatten().map(|line| (path.clone(), line));
        let grub = ours.chain(marked).filter_map(|(path, line)| {
            let (name, value) = line.split_once('=')?;
            // The quotes are syntax of sh and GRUB.
            let words = value.replace(['\\', '"'], "");
            name.starts_with("GRUB_CMDLINE").then_some((path, words))
        });
        let kernel_install = self.kernel_install.present().cloned();
        let entries = self.entries.known().cloned().into_iter().flatten();
        grub.chain(kernel_install).chain(entries).collect()
    }

    /// The GRUB drop-in that gdr writes for a fix.
    pub fn drop_in(fix: &str) -> String {
        format!("/etc/default/grub.d/zz-gdr-{fix}.cfg")
    }

    /// The comment that marks gdr's line for a fix in a file of the administrator.
    pub fn mark(fix: &str) -> String {
        format!("# gdr: {fix}")
    }
}
