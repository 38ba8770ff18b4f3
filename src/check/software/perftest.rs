//! tools.perftest: ib_write_bw was built to measure GPU memory.

use crate::check::memory_path;
use crate::check::{Check, Ctx, Hint, Judgement, Source, unknown_if};
use crate::model::{ActionClass, Area, Fact, Kind, Severity};

pub const CHECK: Check = Check {
    id: "tools.perftest",
    rule: "ib_write_bw is built with CUDA, and how to use it on this machine's best pair.",
    sources: "strings in ib_write_bw",
    severity: Severity::Info,
    why: "perftest measures a NIC on GPU memory with --use_cuda. Distributions build it \
        without CUDA: then the option is unknown, and perftest measures host memory. With \
        --use_cuda, ib_send_bw may end in a segmentation fault if the NIC scatters a \
        received message into its completion, from which the CPU copies it; ib_write_bw is \
        the safe choice.",
    remedy: "Build perftest where the CUDA toolkit is installed: since 25.07 ./configure finds \
        cuda.h in /usr/local/cuda/include itself; elsewhere and before, pass CUDA_H_PATH=FILE.",
    action: ActionClass::Install.running("https://github.com/linux-rdma/perftest"),
    references: &[
        "https://github.com/linux-rdma/perftest",
        "https://github.com/linux-rdma/perftest/issues/326",
        "https://github.com/linux-rdma/perftest/issues/336",
        "https://gasnet-bugs.lbl.gov/bugzilla/show_bug.cgi?id=4151",
    ],
    reads: &[Source::Software],
    hint: Some(Hint {
        cause: "This perftest was built without CUDA.",
        words: "perftest=5 gpu-memory=2 cuda-aware=2 unsupported=2 build=2 missing=1 failure=1 register=-1 port=-1",
    }),
    judge: perftest,
    ..Check::DEFAULT
};

/// Judges the build; gives the commands for the best pair.
fn perftest(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let program = &ctx.facts.software.perftest;
    if let Some(unknown) =
        unknown_if(program, "ib_write_bw", Area::Files, "/usr/bin, /usr/local/bin")
    {
        return vec![unknown];
    }
    if ctx.topology.rows_of(Kind::Gpu).next().is_none() {
        return vec![Judgement::skip("machine", "There is no GPU to measure.")];
    }
    let Fact::Known(Some(program)) = program else {
        return vec![Judgement::skip("machine", "ib_write_bw (perftest) is not installed.")];
    };
    let words = match &program.words {
        Fact::Known(words) => words,
        Fact::Unknown(why) => {
            return vec![Judgement::unknown("ib_write_bw", *why, Area::Files, &program.path)];
        }
    };
    if words.is_empty() {
        let message = "ib_write_bw was built without CUDA: it measures only host memory.";
        return vec![
            Judgement::broken("ib_write_bw", message)
                .evidence(&program.path, "no string use_cuda")
                .advice(
                    "Build perftest where the CUDA toolkit is installed; versions before 25.07 need ./configure \
                     CUDA_H_PATH=/usr/local/cuda/include/cuda.h."
                ),
        ];
    }
    let message = match commands(ctx, words.iter().any(|word| word == "use_cuda_dmabuf")) {
        Some(commands) => format!("ib_write_bw measures GPU memory. On this machine: {commands}"),
        None => "ib_write_bw measures GPU memory (--use_cuda).".to_owned(),
    };
    vec![Judgement::pass("ib_write_bw", message).evidence(&program.path, words.join(", "))]
}

/// The server's command for the nearest pair. perftest rejects --use_cuda_dmabuf before --use_cuda.
fn commands(ctx: &Ctx<'_>, dma_buf: bool) -> Option<String> {
    let rows = &ctx.topology.rows;
    let best = ctx.topology.matches.iter().filter(|found| {
        let gpu = rows.get(found.row).is_some_and(|row| row.kind == Kind::Gpu);
        gpu && found.pick.is_some()
    });
    let best = best.min_by_key(|found| found.verdict)?;
    let (gpu, nic) = (rows.get(best.row)?, rows.get(best.pick?)?);
    if !nic.named {
        return None;
    }
    let memory_path = if dma_buf && memory_path::dma_buf_alone(ctx) == Ok(true) {
        " --use_cuda_dmabuf"
    } else {
        ""
    };
    let number = gpu.name.strip_prefix("GPU")?;
    Some(format!(
        "ib_write_bw -d {} --use_cuda={number}{memory_path} -a --report_gbits, and the same with this machine's name on another machine.",
        nic.label
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, machine, only};
    use crate::model::{Outcome, Program};

    #[test]
    fn names_option_for_dma_buf() {
        let mut facts = machine();
        assert_eq!(only("tools.perftest", &facts).outcome, Outcome::Skip);
        facts.software.perftest = Fact::Known(Some(Program {
            path: "/usr/bin/ib_write_bw".to_owned(),
            words: Fact::Known(["use_cuda", "use_cuda_dmabuf"].map(str::to_owned).to_vec()),
        }));
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        let found = only("tools.perftest", &facts);
        let words = "--use_cuda=0 --use_cuda_dmabuf -a";
        assert_says(&found, words);
    }
}
