//! What starts this machine's kernel, and what its boots to come are told.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// The boot loader and the files that its command line for the kernel is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Boot {
    /// What says that it started this kernel (the firmware variable LoaderInfo), as in `systemd-boot 255.4`; none where
    /// nothing does.
    pub loader: Fact<Option<String>>,
    /// The system is an image (ostree), whose command line is its own business.
    pub ostree: Fact<bool>,
    /// systemd-boot's own configuration is there (`loader/loader.conf`).
    pub loader_conf: Fact<bool>,
    /// What makes GRUB's configuration reads `/etc/default/grub.d/*.cfg` too.
    pub grub_drop_ins: Fact<bool>,
    /// `/etc/default/grub`, where it matters; none where it is not there.
    pub grub_default: Fact<Option<String>>,
    /// GRUB's configuration; none where there is none.
    pub grub_cfg: Fact<Option<String>>,
    /// gdr's own files below `/etc/default/grub.d`, by path.
    pub drop_ins: BTreeMap<String, String>,
    /// The command line that kernel-install gives to entries, and the file it is in; none where it takes that of the
    /// running kernel.
    pub kernel_install: Fact<Option<(String, String)>>,
    /// Of each boot loader entry (`/boot/loader/entries`) the words that concern PCI and the IOMMU.
    pub entries: Fact<BTreeMap<String, String>>,
    /// Whether gdr's unit (`gdr-acs.service`) starts at boot; none where it is not there.
    #[serde(default)]
    pub unit: Fact<Option<bool>>,
    /// The kernels that are installed and their images, where systemd-boot may start them.
    pub kernels: Fact<BTreeMap<String, String>>,
}

impl Boot {
    /// The directory of the units that somebody made for this machine.
    pub const UNITS: &str = "/etc/systemd/system";
    /// The unit that clears ports' bits at every boot.
    pub const UNIT: &str = "gdr-acs.service";

    /// What boots to come are told: the file that says so, and its words. Of GRUB's settings only what gdr put there for
    /// this fix.
    pub fn told(&self, fix: &str) -> Vec<(String, String)> {
        let (path, mark) = (Self::drop_in(fix), Self::mark(fix));
        let default = self
            .grub_default
            .present()
            .map(|text| ("/etc/default/grub".to_owned(), text));
        let marked = default.into_iter().flat_map(|(path, text)| {
            let lines = text.lines().filter(|line| line.ends_with(&mark));
            lines.map(|line| (path.clone(), line)).collect::<Vec<_>>()
        });
        let ours = self.drop_ins.get(&path).map(|text| text.lines());
        let ours = ours.into_iter().flatten().map(|line| (path.clone(), line));
        let grub = ours.chain(marked).filter_map(|(path, line)| {
            let (name, value) = line.split_once('=')?;
            // The quotes were for sh and for GRUB.
            let words = value.replace(['\\', '"'], "");
            name.starts_with("GRUB_CMDLINE").then_some((path, words))
        });
        let kernel_install = self.kernel_install.present().cloned();
        let entries = self.entries.known().cloned().into_iter().flatten();
        grub.chain(kernel_install).chain(entries).collect()
    }

    /// Where gdr has the kernel told something by GRUB for one of its fixes.
    pub fn drop_in(fix: &str) -> String {
        format!("/etc/default/grub.d/zz-gdr-{fix}.cfg")
    }

    /// What marks gdr's line for one of its fixes in a file that is not its own.
    pub fn mark(fix: &str) -> String {
        format!("# gdr: {fix}")
    }
}
