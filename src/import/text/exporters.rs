//! Metrics of exporters for Prometheus: of DCGM, of nvidia-smi, and of node_exporter.

use std::collections::{BTreeMap, BTreeSet};

use super::by_index;
use super::smi::Log;
use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::{Class, Recording};
use crate::model::ListedGpu;
use crate::model::limited::MAX_GPUS;

pub const DCGM: Kind = Kind {
    name: "metrics of dcgm-exporter",
    starts: Starts::Line,
    begins: |line| {
        // A query of Prometheus sorts the labels.
        line.starts_with("DCGM_FI_") && labels(line).any(|(name, _)| name == "gpu")
    },
    yields: "GPUs of one machine: address, model, UUID; version of the driver",
    example: "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-01234567-89ab-cdef-0123-456789abcdef\",pci_bus_id=\"00000000:17:00.0\",\
              device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node1\",DCGM_FI_DRIVER_VERSION=\"570.86.15\"} 31
",
    read: dcgm,
};

/// The labels of a metric: `gpu="0",UUID="GPU-…"`.
pub fn labels(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let (_, rest) = line.split_once('{').unwrap_or_default();
    let pair = |text: &'_ str| -> Option<(usize, usize)> {
        let name = text.find("=\"")?;
        Some((name, name + 2 + text[name + 2..].find('"')?))
    };
    let mut rest = rest;
    std::iter::from_fn(move || {
        let (name, end) = pair(rest)?;
        let found = (rest[..name].trim_start_matches([',', ' ']), &rest[name + 2..end]);
        rest = &rest[end + 1..];
        Some(found)
    })
}

fn dcgm(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut gpus: BTreeMap<(usize, &str), [&str; 2]> = BTreeMap::new();
    let mut driver = None;
    let lines = || text.lines().map(str::trim).filter(|line| line.starts_with("DCGM_FI_"));
    if machines(lines()) > 1 {
        return Ok(());
    }
    for line in lines() {
        let (mut index, mut place, mut model, mut uuid) = (None, "", "", "");
        for (name, value) in labels(line) {
            match name {
                "gpu" => index = value.parse::<usize>().ok(),
                "pci_bus_id" => place = value,
                "modelName" => model = value,
                "UUID" => uuid = value,
                "DCGM_FI_DRIVER_VERSION" => driver = driver.or(Some(value)),
                _ => {}
            }
        }
        if let Some(index) = index.filter(|_| gpus.len() < MAX_GPUS) {
            gpus.entry((index, place)).or_insert([model, uuid]);
        }
    }
    let mut log = Log::default();
    if let Some(driver) = driver {
        log.head("Driver Version", driver);
    }
    let mut listed = Vec::new();
    for ((index, place), [model, uuid]) in gpus {
        let uuid = Some(uuid).filter(|uuid| uuid.starts_with("GPU-"));
        match place.parse() {
            Ok(bdf) => {
                log.gpu(bdf);
                log.field("Product Name", model);
                log.field("GPU UUID", uuid.unwrap_or_default());
            }
            Err(_) => {
                let model = Some(model.to_owned()).filter(|model| !model.is_empty());
                let uuid = uuid.map(str::to_owned);
                listed.push((index, ListedGpu { model, uuid, ..ListedGpu::default() }));
            }
        }
    }
    recording.listed(by_index(listed));
    recording.smi(&log.finish(None))
}

pub const NVIDIA_GPU_EXPORTER: Kind = Kind {
    name: "metrics of nvidia_gpu_exporter",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("nvidia_smi_gpu_info{")
            && labels(line).any(|(name, value)| name == "name" && !value.is_empty())
    },
    yields: "GPUs of one machine: model, UUID, address where it is printed; version of the driver",
    example: "nvidia_smi_gpu_info{driver_version=\"570.86.15\",index=\"0\",name=\"NVIDIA H100 80GB HBM3\",\
              pci_bus_id=\"00000000:17:00.0\",uuid=\"01234567-89ab-cdef-0123-456789abcdef\"} 1
",
    read: |text, recording| {
        let lines = || text.lines().map(str::trim).filter(|line| line.starts_with("nvidia_smi_gpu_info{"));
        if machines(lines()) > 1 {
            return Ok(());
        }
        let mut log = Log::default();
        let mut listed = Vec::new();
        for (at, line) in lines().enumerate().take(MAX_GPUS) {
            let label = |name: &str| labels(line).find(|(key, _)| *key == name).map(|(_, value)| value);
            let model = label("name").unwrap_or_default();
            // The exporter cuts the beginning off.
            let uuid = label("uuid").map(|uuid| uuid.strip_prefix("GPU-").unwrap_or(uuid));
            let uuid = uuid.filter(|uuid| uuid.len() == 36).map(|uuid| format!("GPU-{uuid}"));
            if let Some(driver) = label("driver_version").filter(|_| at == 0) {
                log.head("Driver Version", driver);
            }
            match label("pci_bus_id").and_then(|place| place.parse().ok()) {
                Some(bdf) => {
                    log.gpu(bdf);
                    log.field("Product Name", model);
                    log.field("GPU UUID", uuid.as_deref().unwrap_or_default());
                }
                None => listed.push(ListedGpu {
                    model: Some(model.to_owned()),
                    uuid,
                    ..ListedGpu::default()
                }),
            }
        }
        recording.listed(listed);
        recording.smi(&log.finish(None))
    },
};

/// How many machines the labels name. Those of one exporter, which another program did not collect, name no machine, or one.
pub fn machines<'a>(lines: impl Iterator<Item = &'a str>) -> usize {
    const LABELS: [&str; 4] = ["instance", "hostname", "Hostname", "nodename"];
    let of_line = |line: &'a str| labels(line).find(|(name, _)| LABELS.contains(name));
    // A line that is cut need not show its last labels.
    lines.filter(|line| line.contains('}')).map(of_line).collect::<BTreeSet<_>>().len()
}

pub const NODE_EXPORTER: Kind = Kind {
    name: "metrics of node_exporter",
    starts: Starts::Line,
    begins: |line| {
        line.starts_with("node_infiniband_") && labels(line).any(|(name, _)| name == "device")
    },
    yields: "RDMA devices of one machine: chip, firmware, board; state of their ports",
    example: "node_infiniband_info{board_id=\"MT_0000000838\",device=\"mlx5_0\",firmware_version=\"28.39.1002\",hca_type=\"MT4129\"} 1
node_infiniband_physical_state_id{device=\"mlx5_0\",port=\"1\"} 5
node_infiniband_state_id{device=\"mlx5_0\",port=\"1\"} 4
",
    read: |text, recording| {
        let lines = || text.lines().map(str::trim).filter(|line| line.starts_with("node_infiniband_"));
        if machines(lines()) > 1 {
            return Ok(());
        }
        let mut class = Class::default();
        lines().for_each(|line| of_port(line, &mut class));
        recording.class(class)
    },
};

/// The kernel's texts for the numbers of states.
const STATES: [&str; 5] = ["1: DOWN", "2: INIT", "3: ARMED", "4: ACTIVE", "5: ACTIVE_DEFER"];
const PHYSICAL: [&str; 7] = [
    "1: Sleep",
    "2: Polling",
    "3: Disabled",
    "4: PortConfigurationTraining",
    "5: LinkUp",
    "6: LinkErrorRecovery",
    "7: Phy Test",
];

fn of_port(line: &str, class: &mut Class) {
    let label = |name: &str| labels(line).find(|(key, _)| *key == name).map(|(_, value)| value);
    let Some(device) = label("device").and_then(|name| class.device(name)) else { return };
    if line.starts_with("node_infiniband_info{") {
        for (name, file) in
            [("board_id", "board_id"), ("firmware_version", "fw_ver"), ("hca_type", "hca_type")]
        {
            if let Some(value) = label(name).filter(|value| !value.is_empty()) {
                class.add(&device, file, value);
            }
        }
        return;
    }
    let Some(port) = label("port").and_then(|number| class.port(&device, number)) else { return };
    let value = line.rsplit('}').next().and_then(|rest| rest.split_ascii_whitespace().next());
    let value = value.unwrap_or_default();
    let of = |texts: &'static [&'static str]| {
        let is_text = |text: &&&str| text.split(':').next() == Some(value);
        texts.iter().find(is_text).copied()
    };
    if line.starts_with("node_infiniband_state_id{") {
        class.add_some(&port, "state", of(&STATES));
    } else if line.starts_with("node_infiniband_physical_state_id{") {
        class.add_some(&port, "phys_state", of(&PHYSICAL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> crate::import::SupportReport {
        crate::import::text(text.as_bytes(), crate::import::SupportReport::default())
            .unwrap_or_default()
    }

    #[test]
    fn ports_by_metrics() {
        let file = |text: &str, path: &str| {
            let path = format!("/sys/class/infiniband/{path}");
            read(text).files.get(&path).and_then(|file| file.text.clone())
        };
        let text = NODE_EXPORTER.example;
        assert_eq!(file(text, "mlx5_0/fw_ver").as_deref(), Some("28.39.1002\n"));
        assert_eq!(file(text, "mlx5_0/ports/1/state").as_deref(), Some("4: ACTIVE\n"));
        assert_eq!(file(text, "mlx5_0/ports/1/phys_state").as_deref(), Some("5: LinkUp\n"));
        // Its 0 is not a state.
        let absent = text.replace("} 4", "} 0");
        assert_eq!(file(&absent, "mlx5_0/ports/1/state"), None);
    }

    #[test]
    fn metrics_of_several_machines_are_not_those_of_one() {
        for kind in [&DCGM, &NODE_EXPORTER, &NVIDIA_GPU_EXPORTER] {
            let of =
                |instance: &str| kind.example.replace('{', &format!("{{instance=\"{instance}\", "));
            assert!(!read(&of("a:9100")).says_nothing(), "{}", kind.name);
            assert!(read(&(of("a:9100") + &of("b:9100"))).says_nothing(), "{}", kind.name);
        }
        let cut = DCGM.example.split_inclusive("Hostn").next().expect("a part");
        assert!(!read(&format!("{}{cut}", DCGM.example)).says_nothing());
    }
}
