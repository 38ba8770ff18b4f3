//! limits.map-count: the maximum number of mappings of a process.

use crate::check::{Ctx, Judgement, unknown_if};
use crate::model::{Area, Fact};

const SOURCE: &str = "/proc/sys/vm/max_map_count";
/// The kernel's default.
const DEFAULT: u64 = 65530;

pub fn map_count(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let count = &ctx.facts.limits.max_map_count;
    if let Some(unknown) = unknown_if(count, "machine", Area::Proc, SOURCE) {
        return vec![unknown];
    }
    let Fact::Known(count) = *count else {
        return Vec::new();
    };
    let judgement = match count >= DEFAULT {
        true => Judgement::pass("machine", format!("A process may have {count} mappings.")),
        false => Judgement::broken(
            "machine",
            format!(
                "A process may have {count} mappings, fewer than the kernel's default of {DEFAULT}: programs that map many \
                 GPU buffers fail with Cannot allocate memory."
            ),
        )
        .command(format!("sysctl vm.max_map_count={DEFAULT}")).advice("A larger value works too; a file in /etc/sysctl.d keeps it across reboots."),
    };
    vec![judgement.evidence(SOURCE, count.to_string())]
}
