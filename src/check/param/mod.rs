//! Parameters of the NVIDIA driver, as loaded.

mod peer_mapping;
mod registry_keys;
mod stream_memops;

pub use peer_mapping::peer_mapping;
pub use stream_memops::stream_memops;

/// The file that tells them. `/sys/module/nvidia/parameters` has only a few.
const PARAMS: &str = "/proc/driver/nvidia/params";
