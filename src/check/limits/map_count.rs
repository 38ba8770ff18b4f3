//! limits.map-count: the maximum number of mappings of a process.

use crate::check::{Check, Ctx, Judgement, unknown_if};
use crate::model::{ActionClass, Area, Fact, Severity};

const SOURCE: &str = "/proc/sys/vm/max_map_count";
/// The kernel's default.
const DEFAULT: u64 = 65530;

pub const CHECK: Check = Check {
    id: "limits.map-count",
    rule: "A process may have as many mappings as the kernel's own default.",
    sources: "/proc/sys/vm/max_map_count",
    severity: Severity::Info,
    why: "Each GPU buffer that the CPU maps, and each region of an allocator, is a mapping. Beyond the limit mmap \
        fails with ENOMEM (Cannot allocate memory), however much memory is free.",
    remedy: "sysctl vm.max_map_count=262144, or more where a program maps many small buffers.",
    action: ActionClass::Configure
        .running("https://docs.kernel.org/admin-guide/sysctl/vm.html#max-map-count"),
    references: &["https://docs.kernel.org/admin-guide/sysctl/vm.html#max-map-count"],
    judge: map_count,
    ..Check::DEFAULT
};

fn map_count(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let count = &ctx.facts.limits.max_map_count;
    if let Some(unknown) = unknown_if(count, "machine", Area::Proc, SOURCE) {
        return vec![unknown];
    }
    let Fact::Known(count) = *count else {
        return Vec::new();
    };
    let judgement = if count >= DEFAULT {
        Judgement::pass("machine", format!("A process may have {count} mappings."))
    } else {
        Judgement::broken(
            "machine",
            format!(
                "Only {count} mappings for a process: the kernel's default is {DEFAULT}, and programs that map many \
                 GPU buffers fail with Cannot allocate memory."
            ),
        )
        .command(format!("sysctl vm.max_map_count={DEFAULT}")).advice("A larger value works too; a file in /etc/sysctl.d keeps it across reboots.")
    };
    vec![judgement.evidence(SOURCE, count.to_string())]
}
