//! Device attributes and limits.

use std::ffi::{CStr, c_char};

/// Identity and limits of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Firmware version, such as `28.39.1002`.
    pub firmware: String,
    /// Vendor id.
    pub vendor: u32,
    /// Part number of the vendor.
    pub part: u32,
    /// Largest memory region in bytes.
    pub largest_region: u64,
    /// Maximum of queue pairs.
    pub queue_pairs: u64,
    /// Maximum of requests in a queue pair.
    pub requests: u64,
    /// Maximum of SGEs in a request.
    pub sges: u32,
    /// Maximum of completion queues.
    pub completion_queues: u64,
    /// Maximum of protection domains.
    pub protection_domains: u64,
    /// Maximum of outstanding reads and atomics of a queue pair, as requester and as responder: the smaller of both.
    pub reads: u8,
    /// It has atomic operations, at least among its own.
    pub atomics: bool,
    /// Number of ports.
    pub ports: u8,
}

impl Limits {
    pub(crate) fn of(raw: &ibverbs_sys::ibv_device_attr) -> Self {
        // Negative counts become 0.
        let count = |count: i32| u64::try_from(count).unwrap_or(0);
        Self {
            firmware: text(&raw.fw_ver),
            vendor: raw.vendor_id,
            part: raw.vendor_part_id,
            largest_region: raw.max_mr_size,
            queue_pairs: count(raw.max_qp),
            requests: count(raw.max_qp_wr),
            sges: u32::try_from(raw.max_sge).unwrap_or(0),
            completion_queues: count(raw.max_cq),
            protection_domains: count(raw.max_pd),
            reads: raw.max_qp_rd_atom.min(raw.max_qp_init_rd_atom).clamp(0, 255) as u8,
            atomics: raw.atomic_cap != ibverbs_sys::IBV_ATOMIC_NONE,
            ports: raw.phys_port_cnt,
        }
    }
}

/// A character array up to its first NUL.
fn text(field: &[c_char]) -> String {
    // `c_char` is signed on some machines.
    let bytes: Vec<u8> = field.iter().map(|c| c.to_ne_bytes()[0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_bytes).unwrap_or(&bytes);
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_nul() {
        let mut raw = ibverbs_sys::ibv_device_attr::default();
        assert_eq!(Limits::of(&raw).firmware, "");
        raw.fw_ver = [b'7' as c_char; 64];
        raw.max_qp = -1;
        let limits = Limits::of(&raw);
        assert_eq!(limits.firmware, "7".repeat(64));
        assert_eq!(limits.queue_pairs, 0);
    }
}
