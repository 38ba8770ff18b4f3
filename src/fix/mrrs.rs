//! mrrs: NICs ask for 4096 bytes at once, the most that a read may ask for.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest};
use crate::check::ground;
use crate::model::{Capability, Fact};

pub const FIX: Fix = Fix {
    id: "mrrs",
    about: "NICs ask for 4096 bytes at once where they read, so that reads over PCI Express cost fewer requests.",
    desired,
};

/// Device Control in the capability (PCI Express 7.5.3.4).
const CONTROL: u16 = 8;
/// Max_Read_Request_Size: 128 bytes shifted by this field.
const FIELD: u32 = 0x7000;
/// 4096 bytes.
const BEST: u32 = 5 << 12;

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ctx.facts.platform.is_guest() {
        return DesiredState::refused(
            "This is a virtual machine: what its devices ask for at once is for the host to set.",
        );
    }
    if let Fact::Known(Some(mode)) = &ctx.facts.platform.lockdown
        && mode != "none"
        && !request.options.force
    {
        return DesiredState::refused(format!(
            "The kernel is locked down ({mode}): it refuses writes to configuration space. Switch secure boot off, or look for \
             the read request size in the firmware's settings; --force tries all the same."
        ));
    }
    let mut desired = DesiredState::default();
    for bdf in ground::small_reads(ctx) {
        let express = ctx
            .facts
            .device(bdf)
            .and_then(|device| device.config.express.present());
        let Some(express) = express else {
            continue;
        };
        desired.desired_change(
            format!(
                "{bdf} DevCtl: MaxReadReq {} bytes becomes 4096 bytes.",
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
        "The change is gone after a reboot or a reset of the device. It helps where reads are slow, and costs others below \
         the same port a little time: measure before and after (gdr probe)."
            .to_owned(),
    );
    desired
}
