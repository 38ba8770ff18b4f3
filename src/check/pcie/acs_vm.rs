//! pcie.acs-vm: ACS bits and virtual machines.

use crate::check::{Check, Ctx, Hint, Judgement, or_skip, passthrough, unknown_if};
use crate::model::{ActionClass, Area, Severity};

const ADVICE: &str = "On the host, turn on DirectTrans in the ports of the path, and ATS in the NIC (mlxconfig \
                   ATS_ENABLED=1). Leave ReqRedir and CmpltRedir set: they isolate the guests.";

pub const CHECK: Check = Check {
    id: "pcie.acs-vm",
    rule: "With virtual machines, access control belongs to the host.",
    sources: "platform, driver links",
    severity: Severity::Info,
    why: "A guest's ports belong to the host, and clearing their redirect bits would let the \
        guest's devices reach other memory. Virtual machines use address translation \
        services instead.",
    remedy: "Ask the host's administrator for Direct Translated P2P and ATS.",
    action: ActionClass::Configure
        .drained("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"),
    references: &["https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"],
    hint: Some(Hint {
        cause: "In a virtual machine, traffic between devices needs access control and address translation on the host.",
        words: "guest=5 gpudirect=3 p2p=3 nccl=2 acs=2 completion=2 rdma=1 stall=1 slow=1 failure=1 topology=1 \
            iommu=1 many-gpus=1 wrong-data=1 container=-1 driver=-2 vgpu=-2",
    }),
    judge: acs_vm,
    ..Check::DEFAULT
};

/// In a guest the host sets the bits; on a host, the ports above devices of guests keep them.
fn acs_vm(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if ctx.facts.platform.is_guest() {
        let message = "The host's ports decide whether GPU and NIC reach each other directly; a guest can neither see nor set them.";
        let (_, fact) = ctx.facts.platform.kind();
        return vec![Judgement::info("machine", message).evidence("platform", fact).advice(ADVICE)];
    }
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let (platform, source) = ctx.facts.platform.kind();
    if let Some(unknown) = unknown_if(&platform, "machine", Area::Proc, &source) {
        return vec![unknown.needs("--platform bare-metal or --platform guest")];
    }
    let passed_through = passthrough::passed_through(ctx.facts).map(|device| {
        let bdf = device.bdf;
        let driver = device.passthrough_driver().unwrap_or_default();
        let message = format!(
            "{bdf} is bound to {driver}, for a virtual machine: the ports above it keep their bits."
        );
        Judgement::info(bdf.to_string(), message)
            .evidence(format!("/sys/bus/pci/devices/{bdf}/driver"), driver)
            .advice(ADVICE)
    });
    let judgements: Vec<Judgement> = passed_through.collect();
    or_skip(judgements, "No virtual machine uses these devices.")
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{
        Edit, GPU, assert_fix_says, assert_says, bind, gpu, machine, only,
    };
    use crate::model::{Fact, Outcome, Platform};

    #[test]
    fn reports_passed_through_devices() {
        let mut facts = machine();
        assert_eq!(only("pcie.acs-vm", &facts).outcome, Outcome::Skip);
        facts.add(gpu("0000:05:00.0"));
        for driver in ["vfio-pci", "nvgrace-gpu-vfio-pci", "mlx5_vfio_pci", "pci-stub"] {
            bind(&mut facts, "0000:05:00.0", Some(driver));
            let found = only("pcie.acs-vm", &facts);
            assert_eq!((found.outcome, found.subject.as_str()), (Outcome::Info, "0000:05:00.0"));
            assert_says(&found, driver);
        }
        bind(&mut facts, "0000:05:00.0", Some("nvidia"));
        bind(&mut facts, GPU, None);
        assert_eq!(only("pcie.acs-vm", &facts).outcome, Outcome::Skip);
        facts.platform.hypervisor_flag = Fact::Known(true);
        let found = only("pcie.acs-vm", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert_fix_says(&found, "ATS_ENABLED=1");
        facts.platform = Platform::default();
        let found = only("pcie.acs-vm", &facts);
        assert_eq!(found.outcome, Outcome::Unknown, "unknown platform");
        assert!(found.needs.is_some_and(|needs| needs.contains("--platform")));
    }
}
