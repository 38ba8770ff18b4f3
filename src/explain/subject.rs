//! Whether a text names NVIDIA GPUs, RDMA, or software that uses them.

use regex::bytes::{Regex, RegexBuilder};

/// In lower case. "GPU" alone may be another vendor's.
const NAMES: &str = concat!(
    r"nvidia|nvrm|geforce|\brtx\b|\b10de:|cuda|nccl|nvlink|nvswitch|nvshmem|gpu ?direct|gdrcopy|gdrdrv|\bgdr_|\bgpus\b|\bmulti-?gpu|--gpus|\[gpu\]",
    r"|\bmlx[45]|mellanox|connectx|bluefield|infiniband|rdma|\broce|\bib[vp]?_|libibverbs|\bhca\b|\befa\b|\bucx\b|openfabrics",
    r"|\bp2p|peer[- ]to[- ]peer|peer access|torch|vllm|dataloader|horovod|deepspeed",
);

pub struct Subject(Regex);

impl Subject {
    pub fn new() -> Result<Self, regex::Error> {
        RegexBuilder::new(NAMES).unicode(false).build().map(Self)
    }

    /// True if a line in lower case names one of them.
    pub fn is_in(&self, line: &[u8]) -> bool {
        self.0.is_match(line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Matcher, shipped};
    use crate::model::Likelihood;

    /// Other devices and programs print these lines too.
    #[test]
    fn ambiguous_lines_need_a_gpu_or_rdma() {
        let table = shipped().expect("the shipped table");
        let matcher = Matcher::new(table).expect("its patterns");
        for line in [
            "DMAR: [DMA Write NO_PASID] Request device [03:00.0] fault addr 0xffdd4000 [fault reason 0x05] PTE Write access is not set",
            "pcieport 0000:00:1c.5: AER: Uncorrected (Non-Fatal) error received: 0000:03:00.0",
        ] {
            for (before, likelihood) in [
                ("r8169 0000:03:00.0 enp3s0: Link is Down", Likelihood::Possible),
                ("03:00.0 Ethernet controller: Realtek RTL8125 2.5GbE", Likelihood::Possible),
                ("nvidia 0000:03:00.0: enabling device (0000 -> 0003)", Likelihood::Likely),
            ] {
                let reading = matcher.read(format!("{before}\n{line}\n").as_bytes()).expect("read");
                let found: Vec<Likelihood> =
                    reading.matches.iter().map(|found| found.likelihood).collect();
                assert!(
                    !found.is_empty() && found.iter().all(|found| *found == likelihood),
                    "{before}: {found:?}"
                );
            }
        }
    }
}
