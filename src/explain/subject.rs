//! Whether a text is about NVIDIA GPUs, RDMA, or software that uses them. Without, no symptom is more than a possible cause: other
//! devices and programs print many of these lines too.

use std::collections::BTreeSet;

use memchr::memchr_iter;
use regex::bytes::{Regex, RegexBuilder};

/// Limit of the addresses that are kept.
const MAX_ADDRESSES: usize = 1_024;

/// A function's bus, device and number.
const ADDRESS: &str = r"\b[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b";

/// Names of NVIDIA's and of RDMA's, and messages that only their software prints; in lower case.
const OWN: &str = concat!(
    r"nvidia|nvrm|geforce|\brtx\b|\b10de:|nvlink|nvswitch|nvshmem|nvml|nvreg_|nvcc\b|nouveau|gpu ?direct|gdrcopy|gdrdrv|\bgdr_|\bgds_|gdscheck|cufile",
    r"|nv_?peer|nv_get_p2p|peermem|peer_mem|\bcu(?:stream|ctx|init|device|ipc|mem|event|launch|pointer|_device)|rminitadapter|rm_init_adapter",
    r"|forward compat|fallen off the bus|device handle for gpu|while mapping handle|fabric[-_ ]?manager|\bimex\b|\bcdmm\b|--gpus|\[gpu\]",
    r"|\bmlx[45]|mlxconfig|_pf_bar\b|mellanox|connectx|bluefield|doca_|\bdoca\b|gdaki|ibgda|infiniband|rdma|\broce|\bib[vp]?_|libibverbs|\bhca\b",
    r"|\befa\b|\bucx\b|openfabrics|\bverbs\b|\bqps?\b|\b(?:allocate|create|register) mr\b|local_ack_timeout|rnr_nak|\bgid (?:index|table)|\bgids\b",
    r"|remote access error|work request|simplep2p|process_vm_(?:readv|writev)\(pid=",
);

/// Names that other GPUs and other software use too.
const SHARED: &str = r"cuda|nccl|\bgpus\b|\bmulti-?gpu|\bp2p|peer[- ]to[- ]peer|peer access|torch|vllm|dataloader|horovod|deepspeed|\bcqes?\b";

/// Other GPUs, and other things that are called peer to peer.
const OTHER: &str = concat!(
    r"amdgpu|radeon|\brocm[ /-]?v?\d|\brocm\b.{0,20}\bversion|\brccl\b|instinct|\bmi[23]\d\dx?\b|\bgfx(?:9|1)\d{2}|\bhip(?:malloc|memcpy|error|device|stream|_)",
    r"|\bhsa_|\bkfd\b|\bi915\b|\bxe [0-9a-f]{4}:|intel(?:\(r\))? (?:arc|data center gpu)|level[ -]zero|oneapi|\bascend|\bhccl\b|\btpu\b|\bnpu\b",
    r"|webrtc|libp2p|torrent|\bipfs\b|blockchain",
);

pub struct Subject {
    own: Regex,
    shared: Regex,
    other: Regex,
    address: Regex,
}

/// What the lines read so far name.
#[derive(Debug, Default, Clone)]
pub struct Named {
    own: bool,
    shared: bool,
    other: bool,
    /// Of functions that a line names as NVIDIA's or an RDMA NIC's.
    addresses: BTreeSet<Vec<u8>>,
}

impl Subject {
    pub fn new() -> Result<Self, regex::Error> {
        let regex = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        Ok(Self {
            own: regex(OWN)?,
            shared: regex(SHARED)?,
            other: regex(OTHER)?,
            address: regex(ADDRESS)?,
        })
    }

    /// Reads a line in lower case.
    pub fn read(&self, line: &[u8], named: &mut Named) {
        named.shared = named.shared || self.shared.is_match(line);
        let has_address = has_address(line);
        if named.own && !has_address {
            return;
        }
        named.other = named.other || self.other.is_match(line);
        if self.own.is_match(line) {
            named.own = true;
            let room = MAX_ADDRESSES.saturating_sub(named.addresses.len());
            let addresses = self.address.find_iter(line).take(if has_address { room } else { 0 });
            named.addresses.extend(addresses.map(|address| address.as_bytes().to_vec()));
        }
    }

    /// True if a message about a device is about NVIDIA GPUs or RDMA NICs: it has the address of one, or software that moves data
    /// between devices is named. Without an address the device is unknown.
    pub fn is_device(&self, message: &str, named: &Named) -> bool {
        let message = message.to_ascii_lowercase();
        let mut addresses = self.address.find_iter(message.as_bytes());
        named.shared && !named.other
            || addresses.any(|address| named.addresses.contains(address.as_bytes()))
    }
}

/// True if a line in lower case has an `ADDRESS`. Around the point of one, which costs less than the expression.
fn has_address(line: &[u8]) -> bool {
    let is_word = |at: usize| line.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let is_digit = |at: usize| matches!(line[at], b'0'..=b'9' | b'a'..=b'f');
    memchr_iter(b'.', line).any(|point| {
        let Some(start) = point.checked_sub(5) else { return false };
        line[start + 2] == b':'
            && [start, start + 1, start + 3, start + 4].into_iter().all(is_digit)
            && matches!(line.get(point + 1), Some(b'0'..=b'7'))
            && !is_word(point + 2)
            && !start.checked_sub(1).is_some_and(is_word)
    })
}

impl Named {
    /// A listing names NVIDIA GPUs or RDMA by the program that printed it.
    pub fn program(&mut self, names: bool) {
        self.own |= names;
    }

    /// True if the text is about NVIDIA GPUs, RDMA, or software that uses them.
    pub fn is_subject(&self) -> bool {
        self.own || self.shared && !self.other
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Matcher, shipped};
    use super::has_address;
    use crate::model::Likelihood;

    #[test]
    fn addresses_of_functions() {
        for (line, expected) in [
            ("0000:3b:00.0: gpu", true),
            ("3b:00.1", true),
            ("(3b:00.7)", true),
            ("x_3b:00.1", false),
            ("13b:00.1", false),
            ("3b:00.8", false),
            ("3b:00.12", false),
            ("3b:00.1_", false),
            ("3b:00.", false),
            ("b:00.1", false),
            ("rate: 3.0", false),
            ("05:12:34.5", true),
            ("3g:00.1", false),
            (".1", false),
        ] {
            assert_eq!(has_address(line.as_bytes()), expected, "{line}");
        }
    }

    /// Symptoms whose examples other devices and programs could print: without a name near them they are possible.
    const POSSIBLE: [&str; 5] =
        ["acs-enabled", "iommu-fault-unnamed", "aer", "macvlan-on-infiniband", "ofi-no-provider"];

    fn matcher() -> Matcher {
        Matcher::new(shipped().expect("the shipped table")).expect("its patterns")
    }

    /// A symptom that the rule makes possible everywhere would be useless: its words are missing above.
    #[test]
    fn examples_name_their_subject() {
        let matcher = matcher();
        let mut possible = Vec::new();
        for symptom in &matcher.table().symptoms {
            let reading = matcher.read(symptom.example.as_bytes()).expect("read");
            let best = reading
                .matches
                .iter()
                .find(|found| found.symptom.as_deref() == Some(symptom.name.as_str()));
            let is_possible = best.is_none_or(|best| best.likelihood == Likelihood::Possible);
            if symptom.score >= 80 && is_possible {
                possible.push(symptom.name.as_str());
            }
        }
        assert_eq!(possible, POSSIBLE);
    }

    /// Other devices and programs print these lines too.
    #[test]
    fn lines_of_other_software_need_a_gpu_or_rdma() {
        let matcher = matcher();
        for line in [
            "DMAR: [DMA Write NO_PASID] Request device [03:00.0] fault addr 0xffdd4000 [fault reason 0x05] PTE Write access is not set",
            "pcieport 0000:00:1c.5: AER: Uncorrected (Non-Fatal) error received: 0000:03:00.0",
            "failed to extend /dev/shm/pool: no space left on device",
            "the peers do not connect: cannot enable peer access",
        ] {
            for (before, likelihood) in [
                ("r8169 0000:03:00.0 enp3s0: Link is Down", Likelihood::Possible),
                ("03:00.0 Ethernet controller: Realtek RTL8125 2.5GbE", Likelihood::Possible),
                ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", Likelihood::Possible),
                ("nvidia 0000:03:00.0: enabling device (0000 -> 0003)", Likelihood::Likely),
            ] {
                let is_peer = line.contains("peer access") && !before.contains("amdgpu");
                let likelihood = if is_peer { Likelihood::Likely } else { likelihood };
                let reading = matcher.read(format!("{before}\n{line}\n").as_bytes()).expect("read");
                let found: Vec<Likelihood> = (reading.matches.iter())
                    .filter(|found| found.symptom.is_some())
                    .map(|found| found.likelihood)
                    .collect();
                assert!(
                    !found.is_empty() && found.iter().all(|found| *found == likelihood),
                    "{before}: {line}: {found:?}"
                );
            }
        }
    }
}
