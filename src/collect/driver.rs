//! The NVIDIA driver and related modules: proc files, parameters, device nodes.

use std::collections::BTreeMap;
use std::path::Path;

use super::read;
use crate::model::{
    Bdf, Driver, DriverGpu, Fact, FileKind, Gdrdrv, NodeFile, NodeState, Note, PeerMemory,
};
use crate::world::Files;

const PROC: &str = "/proc/driver/nvidia";

pub fn driver(files: &dyn Files, notes: &mut Vec<Note>) -> Driver {
    Driver {
        version_line: read::text_if_there(files, &format!("{PROC}/version"), notes).map(|text| {
            text.and_then(|text| text.lines().next().map(|line| line.trim().to_owned()))
        }),
        module_version: read::text_if_there(files, "/sys/module/nvidia/version", notes),
        params: read::lines_if_there(files, &format!("{PROC}/params"), notes)
            .map(|text| text.map(|text| params(&text))),
        gpus: gpus(files, notes),
    }
}

/// `Name: 0` and `Name: "text"` lines; the set differs between versions.
fn params(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| {
            let value = value.trim();
            let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            (name.trim().to_owned(), inner.unwrap_or(value).to_owned())
        })
        .collect()
}

fn gpus(files: &dyn Files, notes: &mut Vec<Note>) -> Fact<BTreeMap<Bdf, DriverGpu>> {
    let directory = format!("{PROC}/gpus");
    read::names(files, &directory, notes).map(|names| {
        names
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| {
                let text = files.text(Path::new(&format!("{directory}/{name}/information"))).ok();
                Some((name.parse().ok()?, gpu(text.as_deref().unwrap_or_default())))
            })
            .collect()
    })
}

fn gpu(information: &str) -> DriverGpu {
    let value = |key: &str| {
        information
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
            // The driver prints question marks for values it learns at the first open.
            .filter(|value| !value.is_empty() && !value.contains('?'))
    };
    DriverGpu {
        model: value("Model"),
        uuid: value("GPU UUID"),
        minor: value("Device Minor").and_then(|minor| minor.parse().ok()),
    }
}

pub fn nodes(files: &dyn Files) -> Fact<Vec<NodeFile>> {
    // Other names may be private: volume groups often contain the host name.
    match files.list_kept(Path::new("/dev"), &|name| name.starts_with("nvidia")) {
        Ok(names) => Fact::Known(
            names
                .iter()
                .map(|name| node(files, &format!("/dev/{name}")))
                .filter(|node| node.state.present().is_none_or(|state| state.character))
                .collect(),
        ),
        Err(error) => Fact::Unknown(error.why()),
    }
}

pub fn node(files: &dyn Files, path: &str) -> NodeFile {
    let state = match files.state(Path::new(path)) {
        Ok(state) => Fact::Known(Some(NodeState {
            character: state.kind == FileKind::Character,
            major: state.device.0,
            minor: state.device.1,
            mode: state.mode,
            usable: files.usable(Path::new(path)),
        })),
        Err(error) if error.is_absent() => read::absent(files, path),
        Err(error) => Fact::Unknown(error.why()),
    };
    NodeFile { path: path.to_owned(), state }
}

pub fn peer_memory(files: &dyn Files, notes: &mut Vec<Note>) -> PeerMemory {
    let peers = "/sys/kernel/mm/memory_peers";
    PeerMemory {
        nvidia_peermem: read::is_there(files, "/sys/module/nvidia_peermem"),
        nv_peer_mem: read::is_there(files, "/sys/module/nv_peer_mem"),
        clients: match files.list(Path::new(peers)) {
            Ok(names) => Fact::Known(Some(names)),
            Err(error) if error.is_absent() => read::absent(files, peers),
            Err(error) => Fact::Unknown(error.why()),
        },
        nv_peer_mem_version: read::text_if_there(files, "/sys/module/nv_peer_mem/version", notes),
        peerdirect_support: read::text_if_there(
            files,
            "/sys/module/nvidia_peermem/parameters/peerdirect_support",
            notes,
        ),
    }
}

pub fn gdrdrv(files: &dyn Files, notes: &mut Vec<Note>) -> Gdrdrv {
    const PARAMS: &str = "/proc/driver/gdrdrv/params";
    Gdrdrv {
        node: Some(node(files, "/dev/gdrdrv")),
        version: read::text_if_there(files, "/sys/module/gdrdrv/version", notes),
        params: read::lines_if_there(files, PARAMS, notes)
            .map(|text| text.map(|text| params(&text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_parameters_by_name() {
        let text = "ResmanDebugLevel: 4294967295\nRegistryDwords: \"PeerMappingOverride=1;\"\nRmMsg: \"\"\nnonsense\n";
        let params = params(text);
        assert_eq!(
            params.get("RegistryDwords").map(String::as_str),
            Some("PeerMappingOverride=1;")
        );
        assert_eq!(params.get("RmMsg").map(String::as_str), Some(""));
        assert_eq!(params.len(), 3);
    }

    #[test]
    fn ignores_placeholder_values() {
        let gpu = gpu(
            "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 7\n",
        );
        assert_eq!(gpu.model.as_deref(), Some("NVIDIA H200"));
        assert_eq!((gpu.uuid, gpu.minor), (None, Some(7)));
    }
}
