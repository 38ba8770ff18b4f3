//! JSON of programs that show GPUs, read by lines as they print it: dcgmi diag -j, gpustat --json, nvtop -s.

use std::collections::BTreeSet;

use super::smi::Log;
use super::{Kind, Starts, by_index, summary};
use crate::import::support::Recording;
use crate::model::ListedGpu;
use crate::model::limited::MAX_GPUS;

pub const DIAG: Kind = Kind {
    name: "dcgmi diag -j",
    starts: Starts::Output,
    begins: |line| {
        pair(line).is_some_and(|(key, _)| key == "DCGM Diagnostic" || key == "DCGM GPU Diagnostic")
    },
    yields: "number of the GPUs, version of the driver; tests that failed, as remarks",
    example: "\"DCGM Diagnostic\": {
  \"test_categories\": [
    {
      \"tests\": [ { \"name\": \"PCIe\",
        \"results\": [ { \"gpu_id\": \"1\",
          \"status\": \"Fail\"
        } ]
      } ]
    }
  ]
},
\"Driver Version Detected\": \"570.86.15\",
\"GPU Device IDs Detected\": [ \"2330\", \"2330\" ]
",
    read: |text, recording| {
        let mut name = "";
        let mut failed = BTreeSet::new();
        let mut log = Log::default();
        for (key, value) in text.lines().flat_map(pairs) {
            match key {
                "name" => name = value,
                "status" if value.eq_ignore_ascii_case("fail") => _ = failed.insert(name),
                "Driver Version Detected" => log.head("Driver Version", value),
                _ => {}
            }
        }
        failed.into_iter().for_each(|name| recording.note("dcgmi diag", format!("{name}: Fail")));
        let devices = text.split_once("\"GPU Device IDs Detected\"").map_or("", |(_, rest)| rest);
        let devices = devices.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2);
        recording.listed(vec![ListedGpu::default(); devices.take(MAX_GPUS).count()]);
        recording.smi(&log.finish(None))
    },
};

pub const MONITORS: Kind = Kind {
    name: "gpustat --json, nvtop -s",
    starts: Starts::Line,
    begins: |line| match pair(line) {
        Some(("query_time", _)) => true,
        Some(("device_name", model)) => summary::whole(model).is_some(),
        _ => false,
    },
    yields: "GPUs: model, UUID",
    example: "\"query_time\": \"2026-01-02T10:00:00\",
\"gpus\": [
  {
    \"index\": 0,
    \"uuid\": \"GPU-01234567-89ab-cdef-0123-456789abcdef\",
    \"name\": \"NVIDIA H100 80GB HBM3\"
  }
]
",
    read: |text, recording| {
        monitors(text, recording);
        Ok(())
    },
};

fn monitors(text: &str, recording: &mut Recording) {
    let mut gpus: Vec<(usize, ListedGpu)> = Vec::new();
    for (key, value) in text.lines().filter_map(|line| pair(line.trim())) {
        let model = || summary::whole(value).map(str::to_owned);
        match (key, gpus.last_mut()) {
            ("index", _) => {
                gpus.extend(value.parse().ok().map(|at| (at, ListedGpu::default())));
            }
            ("device_name", _) => {
                let next = gpus.len();
                let model = model();
                gpus.extend(
                    model.map(|name| {
                        (next, ListedGpu { model: Some(name), ..ListedGpu::default() })
                    }),
                );
            }
            ("uuid", Some((_, gpu))) if value.starts_with("GPU-") => {
                gpu.uuid = Some(value.to_owned());
            }
            ("name", Some((_, gpu))) => gpu.model = model(),
            _ => {}
        }
    }
    recording.listed(by_index(gpus));
}

/// The key and the value of a line `"name": "NVIDIA H100",`.
fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.strip_prefix('"')?.split_once('"')?;
    let value = rest.trim_start().strip_prefix(':')?;
    Some((key, value.trim().trim_end_matches(',').trim_matches('"')))
}

/// All pairs of a line whose values are strings, also behind braces.
fn pairs(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let words: Vec<&str> = line.split('"').collect();
    let found: Vec<(&str, &str)> = words
        .windows(3)
        .skip(1)
        .step_by(2)
        .filter(|words| words[1].trim() == ":")
        .map(|words| (words[0], words[2]))
        .collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_line() {
        assert_eq!(pair("\"index\": 0,"), Some(("index", "0")));
        assert_eq!(pair("\"name\" : \"NVIDIA L4\","), Some(("name", "NVIDIA L4")));
        assert_eq!(pair("\"a\", \"b\""), None);
        let found: Vec<_> =
            pairs("{ \"name\" : \"PCIe\", \"results\": [ { \"status\": \"Fail\" } ]").collect();
        assert_eq!(found, [("name", "PCIe"), ("status", "Fail")]);
    }

    #[test]
    fn gpus_and_failed_tests() {
        let read = |text: &str| {
            crate::import::text(text.as_bytes(), crate::import::SupportReport::default())
                .expect("a GPU")
        };
        let report = read(DIAG.example);
        assert_eq!(report.listed.len(), 2);
        let mut facts = crate::model::Facts::default();
        report.add_listed(&mut facts);
        assert!(facts.notes.iter().any(|note| note.message == "PCIe: Fail"));
        let gpu = &read(MONITORS.example).listed[0];
        assert_eq!(gpu.model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert!(gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with("GPU-0123")));
        let two = "\"device_name\": \"NVIDIA L4\",\n\"temp\": \"35C\",\n\"device_name\": \"NVIDIA L4\",\n";
        assert_eq!(read(two).listed.len(), 2);
    }
}
