//! Metrics of GPUs whose names or labels have a number: charts of netdata, telegraf's nvidia_smi, items of Zabbix.

use std::collections::BTreeMap;

use super::exporters::{labels, machines};
use super::{Kind, Starts, by_index, summary};
use crate::import::find;
use crate::import::support::Recording;
use crate::model::ListedGpu;
use crate::model::limited::MAX_GPUS;

pub const CHARTS: Kind = Kind {
    name: "charts of netdata, nvidia_smi of telegraf and of Zabbix",
    starts: Starts::Line,
    begins: |line| gpu(line).is_some(),
    yields: "GPUs of one machine by number or UUID; their models where they are printed",
    example: "CHART nvidia_smi.gpu0_gpu_utilization '' 'GPU utilization' 'percentage' 'gpu0 NVIDIA H100 80GB HBM3' 'nvidia_smi.gpu_utilization' line 60000 1
BEGIN nvidia_smi.gpu1_gpu_utilization 1000000
",
    read: |text, recording| {
        read(text, recording);
        Ok(())
    },
};

/// A GPU in a line.
#[derive(Debug, PartialEq, Eq)]
struct Gpu<'a> {
    number: Option<usize>,
    uuid: Option<&'a str>,
    model: Option<String>,
}

fn gpu(line: &str) -> Option<Gpu<'_>> {
    if !find::has_any(line, &["nvidia_smi", "nvidia.smi", "nvidia-smi"]) || line.len() > LONGEST {
        return None;
    }
    of_telegraf(line).or_else(|| of_zabbix(line)).or_else(|| of_netdata(line))
}

/// Longer lines are documents of one line.
const LONGEST: usize = 4096;

/// `BEGIN nvidia_smi.gpu0_mem`, `nvidia_smi.gpu_gpu1_temperature`, `CHART 'nvidia_smi_local.gpu_gpu-01234567-…_temperature'`,
/// `netdata_nvidia_smi_…{chart="nvidia_smi.gpu0_…"}`.
fn of_netdata(line: &str) -> Option<Gpu<'_>> {
    let (_, rest) = line.split_once("nvidia_smi")?;
    // The number of the job may stand before the point, and further names before the chart's.
    let (_, rest) = rest.split_once(".gpu")?;
    let rest = rest.strip_prefix("_gpu").unwrap_or(rest);
    let model = || {
        let (_, title) = line.split_once("'gpu")?;
        let (_, name) = title.split_once(' ')?;
        let name = name.split('\'').next()?;
        summary::whole(name).map(str::to_owned)
    };
    if let Some(uuid) = rest.strip_prefix('-').or_else(|| rest.strip_prefix("_GPU-")) {
        let uuid = uuid.get(..UUID)?;
        return is_uuid(uuid).then(|| Gpu { number: None, uuid: Some(uuid), model: model() });
    }
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let number = number(&rest[..end])?;
    rest[end..].starts_with('_').then(|| Gpu { number: Some(number), uuid: None, model: model() })
}

/// `nvidia_smi,compute_mode=Default,host=node1,index=0,name=NVIDIA\ H100,uuid=GPU-… temperature_gpu=31i`.
fn of_telegraf(line: &str) -> Option<Gpu<'_>> {
    let tags = line.strip_prefix("> ").unwrap_or(line).strip_prefix("nvidia_smi,")?;
    let tag = |name: &str| tags.split(',').find_map(|tag| tag.strip_prefix(name));
    let model = tag("name=").map(|name| name.replace("\\ ", "\u{1}"));
    let model = model.and_then(|name| Some(name.split(' ').next()?.replace('\u{1}', " ")));
    let uuid = tag("uuid=GPU-").and_then(|uuid| uuid.get(..UUID)).filter(|uuid| is_uuid(uuid));
    let number = tag("index=").and_then(|rest| number(rest.split(' ').next()?));
    (number.is_some() || uuid.is_some()).then_some(Gpu {
        number,
        uuid,
        model: model.filter(|name| summary::whole(name).is_some()),
    })
}

/// `nvidia.smi.gpu.temp[0]`, `nvidia-smi.temp[gpu1]`.
fn of_zabbix(line: &str) -> Option<Gpu<'_>> {
    let at = ["nvidia.smi", "nvidia-smi."].iter().find_map(|key| line.find(key))?;
    let (key, rest) = line[at..].split_once('[')?;
    let number = number(rest.split([']', ',']).next()?.trim_start_matches("gpu"))?;
    let is_key = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    is_key.then_some(Gpu { number: Some(number), uuid: None, model: None })
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number| *number < MAX_GPUS)
}

/// Characters of a UUID.
const UUID: usize = 36;

/// True for the digits and dashes of a UUID.
pub fn is_uuid(text: &str) -> bool {
    text.len() == UUID
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn read(text: &str, recording: &mut Recording) {
    let lines = || text.lines().map(str::trim).filter(|line| gpu(line).is_some());
    let host = |line: &'_ str| -> Option<(usize, usize)> {
        let at = line.find(",host=")? + ",host=".len();
        Some((at, at + line[at..].find([',', ' ']).unwrap_or(line.len() - at)))
    };
    let hosts: std::collections::BTreeSet<&str> =
        lines().filter_map(|line| host(line).map(|(from, to)| &line[from..to])).collect();
    let labelled = lines().filter(|line| labels(line).next().is_some());
    if hosts.len() > 1 || machines(labelled) > 1 {
        return;
    }
    let mut by_number: BTreeMap<usize, ListedGpu> = BTreeMap::new();
    let mut by_uuid: BTreeMap<String, ListedGpu> = BTreeMap::new();
    for found in lines().filter_map(gpu) {
        let uuid = found.uuid.map(|uuid| format!("GPU-{}", uuid.to_ascii_lowercase()));
        let known = match (found.number, &uuid) {
            (Some(number), _) => by_number.entry(number).or_default(),
            (None, Some(uuid)) if by_uuid.len() < MAX_GPUS || by_uuid.contains_key(uuid) => {
                by_uuid.entry(uuid.clone()).or_default()
            }
            _ => continue,
        };
        known.uuid = known.uuid.take().or(uuid);
        known.model = known.model.take().or(found.model);
    }
    if by_number.len() >= by_uuid.len() {
        recording.listed(by_index(by_number.into_iter().collect()));
    } else {
        recording.listed(by_uuid.into_values().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{SupportReport, text};

    fn listed(lines: &str) -> Vec<ListedGpu> {
        text(lines.as_bytes(), SupportReport::default()).expect(lines).listed
    }

    #[test]
    fn metrics_name_gpus() {
        const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
        let l4 = || Some("NVIDIA L4".to_owned());
        for (line, number, uuid, model) in [
            ("BEGIN nvidia_smi.gpu3_user_num 100".to_owned(), Some(3), None, None),
            ("CHART nvidia_smi.gpu0_mem '' 'x' 'MiB' 'gpu0 NVIDIA L4' 'y'".to_owned(), Some(0), None, l4()),
            ("nvidia_smi.gpu_gpu1_temperature 40".to_owned(), Some(1), None, None),
            (format!("BEGIN 'nvidia_smi_local.gpu_gpu-{UUID}_temperature'"), None, Some(UUID), None),
            (
                "netdata_nvidia_smi_gpu_utilization_average{chart=\"nvidia_smi.gpu2_gpu_utilization\"} 3"
                    .to_owned(),
                Some(2),
                None,
                None,
            ),
            (
                format!("nvidia_smi,host=node1,index=1,name=NVIDIA\\ L4,uuid=GPU-{UUID} fan_speed=0i"),
                Some(1),
                Some(UUID),
                l4(),
            ),
            ("nvidia.smi.gpu.temp[1] 40".to_owned(), Some(1), None, None),
        ] {
            assert_eq!(gpu(&line), Some(Gpu { number, uuid, model }), "{line}");
        }
        for line in
            ["run nvidia_smi.gpus()", "BEGIN netdata.runtime_nvidia_smi 100", "nvidia-smi -i [0]"]
        {
            assert_eq!(gpu(line), None, "{line}");
        }
    }

    #[test]
    fn metrics_of_several_machines_say_nothing() {
        let line =
            |host: &str| format!("nvidia_smi,host={host},index=0,name=NVIDIA\\ L4 fan_speed=0i\n");
        assert_eq!(listed(&line("a")).len(), 1);
        assert!(text((line("a") + &line("b")).as_bytes(), SupportReport::default()).is_err());
        assert_eq!(listed("BEGIN nvidia_smi.gpu0_x 1\nBEGIN nvidia_smi.gpu2_x 1\n").len(), 3);
    }
}
