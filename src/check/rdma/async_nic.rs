//! rdma.async-nic: a GPU can drive the NIC's queues.

use super::{MLX5, driver, each_nic, rdma_nics};
use crate::check::{Check, Ctx, Hint, Judgement};
use crate::model::{ActionClass, Area, Fact, Severity};

pub const CHECK: Check = Check {
    id: "rdma.async-nic",
    rule: "There is a NIC of the mlx5 family: Connect-IB, ConnectX-4 or later, BlueField.",
    sources: "the kernel driver of each NIC",
    severity: Severity::Info,
    why: "With GPUDirect Async the GPU writes a NIC's doorbell and reads its completions, so \
        the queue layouts must be known: those of mlx5. A ConnectX-3 (mlx4) supports \
        GPUDirect RDMA, not Async.",
    remedy: "Use an mlx5 NIC. The old stack needed MLNX_OFED 4.2 or later, or 3.4 with a patched \
        libmlx5; today rdma-core's libmlx5 is enough.",
    action: ActionClass::Nothing
        .running("https://github.com/gpudirect/libgdsync/blob/v2.1/README.md"),
    references: &[
        "https://github.com/gpudirect/libgdsync/blob/master/README.md",
        "docs: mlx5dv(7)",
    ],
    hint: Some(Hint {
        cause: "The NIC cannot be driven by the GPU.",
        words: "stream-memops=3 nvshmem=2 mlx5=1 unsupported=2 rdma-device=1 doorbell=1",
    }),
    judge: async_nic,
    ..Check::DEFAULT
};

/// One judgement for each NIC; another NIC than mlx5 matters only if there is no mlx5 NIC.
fn async_nic(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let drivers = rdma_nics(ctx.facts).map(|nic| driver(ctx.facts, nic));
    let has_mlx5 =
        drivers.into_iter().any(|driver| matches!(driver, Fact::Known(name) if name == MLX5));
    each_nic(ctx, |nic| {
        let driver = match driver(ctx.facts, nic) {
            Fact::Known(driver) => driver,
            Fact::Unknown(why) => {
                return vec![Judgement::unknown(&nic.name, why, Area::Sys, "the NIC's driver")];
            }
        };
        let judgement = match driver.as_str() {
            MLX5 => Judgement::pass(&nic.name, "An mlx5 NIC, whose queues a GPU can drive."),
            "mlx4_core" => other(
                nic.name.clone(),
                has_mlx5,
                "ConnectX-3 (mlx4) does GPUDirect RDMA, not Async.",
            ),
            name => other(
                nic.name.clone(),
                has_mlx5,
                &format!(
                    "{name} NICs may do GPUDirect RDMA, not Async: GPUs drive the queues of mlx5 alone."
                ),
            ),
        };
        vec![judgement.evidence(format!("driver of {}", nic.name), driver)]
    })
}

fn other(name: String, has_mlx5: bool, message: &str) -> Judgement {
    if has_mlx5 {
        Judgement::info(name, message)
    } else {
        Judgement::broken(name, message).advice("Use a ConnectX-4 or later, or a BlueField.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, only};
    use crate::model::Outcome;

    #[test]
    fn skipped_without_nic() {
        let mut facts = machine();
        facts.rdma = Fact::Known(Vec::new());
        assert_eq!(only("rdma.async-nic", &facts).outcome, Outcome::Skip);
    }
}
