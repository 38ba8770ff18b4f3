//! A SIMULATED CUDA and a SIMULATED libibverbs of two NICs, with streams and registered memory.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use capi::abi::{self, MemDesc};
use capi::gds_alloc_mapped_memory;
use fakes::verbs;
use ibverbs_sys as raw;

use crate::cuda::{Cuda, library};
use crate::{BYTES, STREAMS};

/// The libraries, and what lasts for as long as the process.
pub struct Machine {
    pub cuda: Cuda<STREAMS>,
    pub nics: [Nic; 2],
    /// Words that GPU and CPU write.
    pub words: MemDesc,
}

pub struct Nic {
    pub context: *mut raw::ibv_context,
    pub domains: [*mut raw::ibv_pd; 2],
    pub memory: *mut u8,
    pub keys: (u32, u32),
    pub lid: u16,
}

// SAFETY: pointers to what lives as long as the process.
unsafe impl Send for Machine {}
unsafe impl Sync for Machine {}

pub static MACHINE: OnceLock<Machine> = OnceLock::new();

const CONFIG: &str = r#"{
    "gpu": {"memory": 1073741824, "attributes": {"122": 1, "123": 1}}, "gpus": [{}],
    "verbs": {"devices": [
        {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": [{"lid": 7}]},
        {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": [{"lid": 9}]}]}}"#;

impl Machine {
    pub fn new() -> Self {
        let file = std::env::temp_dir().join(format!("gdsync_calls-{}.json", std::process::id()));
        std::fs::write(&file, CONFIG).unwrap();
        // SAFETY: nothing else runs yet. The functions are called as cuda.h and verbs.h say.
        unsafe {
            for (name, value) in [
                ("FAKE_CUDA", file.as_os_str()),
                ("FAKE_VERBS", file.as_os_str()),
                ("GDS_HCA", "proxy".as_ref()),
            ] {
                std::env::set_var(name, value);
            }
            library(verbs::build().unwrap(), "libibverbs.so.1");
            capi::simulate();
            let cuda = Cuda::new();
            let mut words = std::mem::zeroed();
            assert_eq!(gds_alloc_mapped_memory(&raw mut words, 4096, abi::MEMORY_HOST), 0);
            let nics = [Nic::new(c"mlx5_0"), Nic::new(c"mlx5_1")];
            // Both libraries have read it.
            std::fs::remove_file(&file).unwrap();
            Self { cuda, nics, words }
        }
    }
}

impl Nic {
    /// # Safety
    ///
    /// The library is there.
    unsafe fn new(name: &CStr) -> Self {
        // SAFETY: as verbs.h says.
        unsafe {
            let mut count = 0;
            let list = raw::ibv_get_device_list(&raw mut count);
            let is_it = |device: &*mut raw::ibv_device| {
                CStr::from_ptr(raw::ibv_get_device_name(*device) as *const c_char) == name
            };
            let device = (0..count as usize).map(|at| *list.add(at)).find(is_it).unwrap();
            let context = raw::ibv_open_device(device);
            raw::ibv_free_device_list(list);
            let domains = [raw::ibv_alloc_pd(context), raw::ibv_alloc_pd(context)];
            let memory =
                Box::leak(vec![0_u64; BYTES / 8].into_boxed_slice()).as_mut_ptr().cast::<u8>();
            let region = raw::ibv_reg_mr(domains[0], memory.cast(), BYTES, 0b1111);
            let mut port = raw::ibv_port_attr::default();
            assert_eq!(raw::ibv_query_port(context, 1, &raw mut port), 0);
            let keys = ((*region).lkey, (*region).rkey);
            Self { context, domains, memory, keys, lid: port.lid }
        }
    }
}
