//! mrrs: sets the maximum read request size of NICs to 4096 bytes.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use super::devices;
use crate::check::ground;
use crate::model::{Capability, Fact};

pub const FIX: Fix = Fix {
    id: "mrrs",
    about: "NICs read 4096 bytes per request, so that reads over PCI Express need fewer requests.",
    checks: &["pcie.payload"],
    requires: &[],
    desired,
};

/// Device Control's offset in the capability (PCI Express 7.5.3.4).
const CONTROL: u16 = 8;
/// Max_Read_Request_Size: 128 bytes shifted by this field.
const FIELD: u32 = 0x7000;
const BEST: u32 = 5 << 12;

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ctx.facts.platform.is_guest() {
        return DesiredState::refused(
            "This is a virtual machine: the host sets the read request size.",
        );
    }
    if let Fact::Known(Some(mode)) = &ctx.facts.platform.lockdown
        && mode != "none"
        && !request.options.force
    {
        return DesiredState::refused(format!(
            "The kernel is locked down ({mode}) and rejects writes to configuration space. Disable secure boot, or set the read \
             request size in the firmware; --force tries anyway."
        ));
    }
    if let Err(why) = devices::all_known(ctx) {
        return DesiredState::none(why);
    }
    let mut desired = DesiredState::default();
    for bdf in ground::small_reads(ctx) {
        let express = ctx.facts.device(bdf).and_then(|device| device.config.express.present());
        let Some(express) = express else {
            continue;
        };
        desired.change(
            format!(
                "{bdf} DevCtl: MaxReadReq changes from {} to 4096 bytes.",
                express.max_read_request
            ),
            ChangeTarget::Register {
                bdf,
                capability: Capability::EXPRESS,
                offset: CONTROL,
                width: 2,
                mask: FIELD,
                value: BEST,
            },
        );
    }
    desired.warnings.push(
        "A reboot or a device reset reverts the change. It speeds up slow reads, but may slow down other devices below the same \
         port a little: measure before and after (gdr probe)."
            .to_owned(),
    );
    desired
}
