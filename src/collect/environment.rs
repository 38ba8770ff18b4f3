//! The environment variables that affect GPUDirect. No other is kept or recorded.

use std::collections::BTreeMap;
use std::path::Path;

use super::read;
use crate::model::{Fact, Note};
use crate::world::{Files, MOST};

const ENVIRONMENT: &str = "/proc/self/environ";

const NAMES: [&str; 49] = [
    "CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK",
    "CUDA_NIC_INTEROP",
    "CUDA_VISIBLE_DEVICES",
    "EP_DISABLE_GIN",
    "LD_LIBRARY_PATH",
    "MPICH_GPU_SUPPORT_ENABLED",
    "MPIR_CVAR_ENABLE_GPU",
    "MV2_CUDA_BLOCK_SIZE",
    "MV2_CUDA_IPC",
    "MV2_SMP_SEND_BUF_SIZE",
    "MV2_USE_CUDA",
    "MV2_USE_GPUDIRECT",
    "MV2_USE_SHARED_MEM",
    "NCCL_CUMEM_ENABLE",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GDRCOPY_ENABLE",
    "NCCL_GIN_ENABLE",
    "NCCL_GIN_TYPE",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DISABLE",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IB_TC",
    "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_PLUGIN",
    "NCCL_NVB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PXN_C2C",
    "NCCL_PXN_DISABLE",
    "NVSHMEM_IBGDA_NIC_HANDLER",
    "NVSHMEM_IB_DISABLE_DMABUF",
    "NVSHMEM_IB_GID_INDEX",
    "OMPI_MCA_btl",
    "OMPI_MCA_opal_cuda_support",
    "OMPI_MCA_pml",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "SLURM_JOB_ID",
    "UCX_IB_GID_INDEX",
    "UCX_IB_GPU_DIRECT_RDMA",
    "UCX_IB_TRAFFIC_CLASS",
    "UCX_MEMTYPE_CACHE",
    "UCX_TLS",
];

/// Replaces a private value.
const SET: &str = "(set)";
/// Replaces a private directory of a Conda installation.
const CONDA: &str = "(conda)";

pub fn environment(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<BTreeMap<String, String>> {
    match files.reduced(Path::new(ENVIRONMENT), MOST, &kept) {
        Ok(bytes) => Fact::Known(variables(&String::from_utf8_lossy(&bytes))),
        Err(error) => read::unread(notes, &error),
    }
}

fn variables(lines: &str) -> BTreeMap<String, String> {
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The listed variables, one per line; the kernel ends each with NUL, a reduced file does not.
fn kept(bytes: Vec<u8>) -> Vec<u8> {
    let separator = if bytes.contains(&0) { 0 } else { b'\n' };
    let mut out = String::new();
    for variable in bytes.split(|byte| *byte == separator) {
        let variable = String::from_utf8_lossy(variable);
        if let Some((name, value)) = variable.split_once('=')
            && NAMES.contains(&name)
        {
            out.push_str(&format!("{name}={}\n", shown(name, value)));
        }
    }
    out.into_bytes()
}

/// A value without private parts.
fn shown(name: &str, value: &str) -> String {
    const LONGEST: usize = 256;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:=^-+@~ ".contains(c);
    match name {
        "LD_LIBRARY_PATH" => directories(value),
        // Numbers are not secret; UUIDs name this machine.
        "CUDA_VISIBLE_DEVICES" if value.chars().any(|c| !"0123456789,-".contains(c)) => {
            SET.to_owned()
        }
        _ if value == SET => SET.to_owned(),
        _ if value.len() <= LONGEST && value.chars().all(plain) => value.to_owned(),
        _ => SET.to_owned(),
    }
}

/// The system's directories; private ones are dropped, except that Conda's leave a mark.
fn directories(value: &str) -> String {
    const ROOTS: [&str; 7] = ["/usr/", "/opt/", "/lib/", "/lib64", "/run/nvidia/", "/usr", "/lib"];
    const MOST: usize = 32;
    let mut kept: Vec<&str> = Vec::new();
    for directory in value.split(':').take(4 * MOST) {
        let of_system = ROOTS
            .iter()
            .any(|root| directory == *root || (root.ends_with('/') && directory.starts_with(root)));
        let words =
            !directory.contains("..") && directory.bytes().all(|byte| byte.is_ascii_graphic());
        if of_system && words {
            kept.push(directory);
        } else if directory == CONDA || directory.contains("conda") || directory.contains("mamba") {
            kept.push(CONDA);
        }
    }
    kept.truncate(MOST);
    kept.dedup();
    kept.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_listed_variables_idempotently() {
        let environ = b"HOME=/home/alice\0NCCL_P2P_DISABLE=1\0TOKEN=hunter2\0UCX_TLS=rc,sm\0\
            X=a\nNCCL_IB_DISABLE=1\0NCCL_NET_PLUGIN=/home/alice/libx.so\0CUDA_VISIBLE_DEVICES=GPU-1234\0BAD=\xff\0"
            .to_vec();
        let once = kept(environ);
        let text = String::from_utf8(once.clone()).expect("text");
        assert_eq!(
            text,
            "NCCL_P2P_DISABLE=1\nUCX_TLS=rc,sm\nNCCL_NET_PLUGIN=(set)\nCUDA_VISIBLE_DEVICES=(set)\n"
        );
        assert_eq!(kept(once), text.as_bytes());
        assert_eq!(variables(&text).get("UCX_TLS").map(String::as_str), Some("rc,sm"));
        assert!(kept(Vec::new()).is_empty());
    }

    #[test]
    fn keeps_system_directories_of_library_path() {
        assert_eq!(
            directories(
                "/usr/local/cuda/compat:/home/alice/miniconda3/lib:/scratch/secret/lib:/opt/x/lib:relative"
            ),
            "/usr/local/cuda/compat:(conda):/opt/x/lib"
        );
        assert_eq!(directories("/opt/../home/alice"), "");
        assert_eq!(directories(""), "");
        assert_eq!(directories(&directories("/home/a/mambaforge/lib:/lib64")), "(conda):/lib64");
    }
}
