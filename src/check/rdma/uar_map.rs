//! rdma.uar-map: a trial that gdr cannot make yet.

use super::each_mlx5;
use crate::check::{Ctx, Judgement};

/// Each mlx5 NIC.
pub fn uar_map(ctx: &Ctx<'_>) -> Vec<Judgement> {
    each_mlx5(ctx, |nic| {
        Judgement::undetermined(
            &nic.name,
            "Whether CUDA registers this NIC's doorbells only a trial tells, and this gdr does not make it yet.",
        )
        .needs("gdsync")
    })
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{NIC, bind, machine, only};
    use crate::model::Outcome;

    #[test]
    fn it_is_unknown_until_it_is_tried() {
        let mut facts = machine();
        let found = only("rdma.uar-map", &facts);
        assert_eq!(
            (found.outcome, found.needs.as_deref()),
            (Outcome::Unknown, Some("gdsync"))
        );
        bind(&mut facts, NIC, Some("irdma"));
        assert_eq!(only("rdma.uar-map", &facts).outcome, Outcome::Skip);
    }
}
