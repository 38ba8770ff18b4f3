//! What somebody must do about a finding: the class that operators, tickets and schedulers act on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person or a program must do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ActionClass {
    /// Nothing can or need be done.
    Nothing,
    /// `gdr fix` repairs it.
    Fix,
    /// Change a setting of the system, a container, a scheduler or a program.
    Configure,
    /// Install, update or remove software.
    Install,
    /// Start or restart a service.
    RestartService,
    /// Change the firmware of a device, or settings of firmware or BIOS.
    Firmware,
    ResetGpu,
    /// Reboot; where a device is gone, switch the power off and on.
    Reboot,
    /// Reseat or replace a network cable or its transceiver.
    ReseatCable,
    /// Reseat or replace a GPU, or what it is plugged into.
    ReseatGpu,
    /// Reseat or replace a NIC, or what it is plugged into.
    ReseatNic,
    CallVendor,
    /// Find out more: what gdr knows does not show what to do. Classes of a later gdr are read as this one.
    #[serde(other)]
    Examine,
}

impl ActionClass {
    /// As in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Fix => "fix",
            Self::Configure => "configure",
            Self::Install => "install",
            Self::RestartService => "restart_service",
            Self::Firmware => "firmware",
            Self::ResetGpu => "reset_gpu",
            Self::Reboot => "reboot",
            Self::ReseatCable => "reseat_cable",
            Self::ReseatGpu => "reseat_gpu",
            Self::ReseatNic => "reseat_nic",
            Self::CallVendor => "call_vendor",
            Self::Examine => "examine",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing to do",
            Self::Fix => "gdr fix",
            Self::Configure => "change the configuration",
            Self::Install => "install or update software",
            Self::RestartService => "restart the service",
            Self::Firmware => "change firmware or BIOS settings",
            Self::ResetGpu => "reset the GPU",
            Self::Reboot => "reboot",
            Self::ReseatCable => "reseat or replace the cable",
            Self::ReseatGpu => "reseat or replace the GPU",
            Self::ReseatNic => "reseat or replace the NIC",
            Self::CallVendor => "call the vendor",
            Self::Examine => "examine the node",
        }
    }
}

/// The action that a failure or a warning needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequiredAction {
    pub class: ActionClass,
    /// What to do after it: the reboot with which a change takes effect, else what to do if it does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<ActionClass>,
    /// True if no job may run on the node meanwhile.
    pub drain: bool,
    /// Where that is written: a URL, or a document by title.
    pub source: String,
}

impl RequiredAction {
    fn is_change(&self) -> bool {
        use ActionClass::{Configure, Firmware, Fix, Install};
        matches!(self.class, Fix | Configure | Install | Firmware)
    }

    /// The action in words; `fix` is the id of the fix, if gdr has one.
    pub fn words(&self, fix: Option<&str>) -> String {
        let first = match fix {
            Some(id) if self.class == ActionClass::Fix => format!("gdr fix {id}"),
            _ => self.class.words().to_owned(),
        };
        match self.then {
            // A setting or a package takes effect with the reboot.
            Some(ActionClass::Reboot) if self.is_change() => format!("{first}, then reboot"),
            Some(then) => format!("{first}; if that does not help: {}", then.words()),
            None => first,
        }
    }
}

/// A finding in a few words: the first sentence of its message, with the subject unless the message has it.
pub fn in_words(subject: &str, message: &str) -> String {
    let end = message.find(". ").unwrap_or(message.len());
    let sentence = message[..end].trim_end_matches('.');
    let is_general = ["machine", "driver", "this process"].contains(&subject);
    // As in "GPU3 (0000:3b:00.0)": a message may have either name. A list of subjects is not a name.
    let mut names = subject.split(|c: char| c.is_whitespace() || "(),".contains(c));
    let is_named = names.any(|name| !name.is_empty() && sentence.contains(name));
    if is_general || is_named || subject.contains(", ") {
        sentence.to_owned()
    } else {
        format!("{subject}: {sentence}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_subject_once() {
        for (subject, message, words) in [
            ("machine", "1 of 8 GPUs missing: 0000:9b:00.0.", "1 of 8 GPUs missing: 0000:9b:00.0"),
            ("mlx5_1:1", "The port is DOWN. Look at it.", "mlx5_1:1: The port is DOWN"),
            ("0000:3b:00.0", "The link of 0000:3b:00.0 is x8.", "The link of 0000:3b:00.0 is x8"),
            ("GPU0, GPU1", "libcuda.so.1 is not there", "libcuda.so.1 is not there"),
        ] {
            assert_eq!(in_words(subject, message), words);
        }
    }

    #[test]
    fn reboot_follows_a_change() {
        let words = |class, then, fix| {
            let source = String::new();
            RequiredAction { class, then: Some(then), drain: true, source }.words(fix)
        };
        let reboot = ActionClass::Reboot;
        assert_eq!(words(ActionClass::Fix, reboot, Some("iommu")), "gdr fix iommu, then reboot");
        assert_eq!(
            words(reboot, ActionClass::ReseatGpu, None),
            "reboot; if that does not help: reseat or replace the GPU"
        );
    }

    /// A report of a later gdr may name a class that this one does not know.
    #[test]
    fn unknown_classes_are_examined() {
        let class = |text: &str| serde_json::from_str::<ActionClass>(text).ok();
        assert_eq!(class("\"reset_gpu\""), Some(ActionClass::ResetGpu));
        assert_eq!(class("\"replace_fan\""), Some(ActionClass::Examine));
    }
}
