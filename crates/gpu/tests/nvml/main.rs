//! The NVML reader against the SIMULATED library of crate `fake-nvml`. Each reading happens in its
//! own process, as in gdr: this test program starts itself with [`child`] only. Expected values
//! come from the machine files, written by hand, and from nvml.h.

mod harness;
mod opening;

use std::path::{Path, PathBuf};

use fakes::Driver;
use gpu::nvml::{
    Architecture, Bar1, FabricHealth, FabricState, Nvml, Outcome, P2p, ProtectedLinks, Query,
    Reading, RemoteDevice, Virtualization,
};

use harness::{EVERYTHING, NOTHING, Test, read, read_changed};

/// Started by the other tests: reads NVML and writes the result to a file. Does nothing in a normal
/// test run.
#[test]
fn child() -> Test {
    let Some(out) = std::env::var_os("NVML_TEST_OUT") else {
        return Ok(());
    };
    let query: Query = serde_json::from_str(&std::env::var("NVML_TEST_WANT")?)?;
    let library = std::env::var_os("NVML_TEST_LIBRARY").map(PathBuf::from);
    let outcome = gpu::nvml::read(&query, library.as_deref());
    Ok(std::fs::write(out, serde_json::to_string(&outcome)?)?)
}

#[test]
fn eight_gpus() -> Test {
    let nvml = read(Driver::Current, "h200-x8", EVERYTHING)?;
    assert_eq!(
        nvml.library.as_deref().and_then(Path::file_name),
        Some("libnvidia-ml.so.1".as_ref())
    );
    assert_eq!(nvml.driver_version, Reading::Known("580.159.04".into()));
    assert_eq!(nvml.cuda_driver_version, Some(Reading::Known(13000)));
    assert_eq!(nvml.confidential_compute.links, Reading::Known(ProtectedLinks::None));
    assert_eq!(nvml.unreachable, []);

    let bdfs: Vec<&str> = nvml.gpus.iter().map(|gpu| gpu.bdf.as_str()).collect();
    let expected = ["06.0", "07.0", "08.0", "09.0", "0a.0", "0b.0", "0c.0", "0d.0"]
        .map(|end| format!("00000000:00:{end}"));
    assert_eq!(bdfs, expected);
    for (index, gpu) in (0..).zip(&nvml.gpus) {
        assert_eq!((gpu.index, &gpu.minor), (index, &Reading::Known(index)));
        assert_eq!(gpu.name, Reading::Known("NVIDIA H200".into()));
        let links = gpu.links.as_ref().and_then(Reading::known).ok_or("no links")?;
        assert_eq!(links.len(), 18);
        for link in links {
            assert!(link.active);
            assert_eq!(link.remote, Reading::Known(RemoteDevice::Switch));
            assert_eq!(link.remote_bdf, Reading::NotCovered, "the guest does not see the switches");
        }
    }
    details_of_the_last(&nvml)?;

    let pairs = nvml.pairs.ok_or("no pairs")?;
    assert_eq!(pairs.len(), 28);
    for pair in pairs {
        assert!(pair.a < pair.b);
        for status in [pair.read, pair.write, pair.nvlink, pair.atomics] {
            assert_eq!(status, Reading::Known(P2p::Ok));
        }
        assert_eq!(pair.pcie, Reading::Known(P2p::NotSupported));
    }
    Ok(())
}

fn details_of_the_last(nvml: &Nvml) -> Test {
    let details = nvml.gpus.last().and_then(|gpu| gpu.details.as_ref()).ok_or("no details")?;
    assert_eq!(details.persistence, Reading::Known(true));
    assert_eq!(details.mig, Reading::Known(false));
    let bar1 = Bar1 { total: 274_877_906_944, used: 1_703_936 };
    assert_eq!(details.bar1, Reading::Known(bar1));
    assert_eq!(details.memory_total, Reading::Known(150_754_820_096));
    assert_eq!(details.numa_node, Reading::Known(None));
    let fabric = details.fabric.known().ok_or("no fabric")?;
    assert_eq!((fabric.state, fabric.status, fabric.clique_id), (FabricState::Completed, 0, 0));
    assert_eq!(fabric.cluster_uuid, "00000000-0000-0000-0000-000000000000");
    assert_eq!(fabric.health, Some(FabricHealth::Healthy));
    assert_eq!(details.performance_state, Reading::Known(0));
    assert_eq!(details.virtualization, Reading::Known(Virtualization::Passthrough));
    assert_eq!(details.architecture, Reading::Known(Architecture::Hopper));
    Ok(())
}

#[test]
fn unrequested_values_are_absent() -> Test {
    let nvml = read(Driver::Current, "h200-x2", NOTHING)?;
    assert_eq!((nvml.pairs, nvml.cuda_driver_version), (None, None));
    assert_eq!(nvml.gpus.len(), 2);
    for gpu in nvml.gpus {
        assert!(gpu.uuid.known().is_some_and(|uuid| uuid.starts_with("GPU-")));
        assert_eq!((gpu.links, gpu.details), (None, None));
    }
    Ok(())
}

/// Only the requested functions are called: a library that hangs in all others still works.
#[test]
fn links_only_calls_link_functions() -> Test {
    let others = [
        "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetMemoryInfo",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlShutdown",
    ];
    for other in others {
        let query = Query { links: true, ..NOTHING };
        let read = read_changed("h200-x2", &format!(r#"{{"hang_in": "{other}"}}"#), query)?;
        assert!(matches!(read, Outcome::Read(_)), "{read:?}");
    }
    Ok(())
}

#[test]
fn gpus_without_nvlink() -> Test {
    let nvml = read(Driver::Current, "none-nvlink-pair", EVERYTHING)?;
    for gpu in &nvml.gpus {
        assert_eq!(gpu.links, Some(Reading::Known(vec![])));
        let details = gpu.details.as_ref().ok_or("no details")?;
        assert_eq!((&details.mig, &details.fabric), (&Reading::NotCovered, &Reading::NotCovered));
    }
    let pairs = nvml.pairs.ok_or("no pairs")?;
    let pair = pairs.first().ok_or("no pair")?;
    for status in [&pair.read, &pair.write, &pair.atomics, &pair.pcie] {
        assert_eq!(status, &Reading::Known(P2p::ChipsetNotSupported));
    }
    assert_eq!(pair.nvlink, Reading::Known(P2p::NotSupported));
    assert_eq!(nvml.confidential_compute.links, Reading::NotCovered);
    Ok(())
}

#[test]
fn old_driver() -> Test {
    let nvml = read(Driver::Old, "h200-x2", EVERYTHING)?;
    assert_eq!(nvml.confidential_compute.enabled, Reading::NotCovered);
    assert_eq!(
        nvml.cuda_driver_version,
        Some(Reading::Known(13000)),
        "the first form of the function exists"
    );
    for gpu in &nvml.gpus {
        let details = gpu.details.as_ref().ok_or("no details")?;
        assert_eq!(details.mig, Reading::NotCovered);
        assert_eq!(details.fabric, Reading::NotCovered);
        assert_eq!(details.numa_node, Reading::NotCovered);
        assert_eq!(details.architecture, Reading::NotCovered);
        assert_eq!(gpu.links.as_ref().and_then(Reading::known).map(Vec::len), Some(18));
    }
    let pairs = nvml.pairs.ok_or("no pairs")?;
    let pair = pairs.first().ok_or("no pair")?;
    assert_eq!((&pair.read, &pair.pcie), (&Reading::NotCovered, &Reading::NotCovered));
    Ok(())
}

#[test]
fn unknown_numbers_are_kept() -> Test {
    let changes = r#"{
        "pair": {"p2p": [77, 6, 0, 0]},
        "confidential_compute": {"environment": 2, "feature": 1, "devtools": 0, "multi_gpu": 8},
        "gpus": [
            {"bdf": "00000000:00:06.0", "architecture": 4294967295, "virtualization": 21, "fabric":
                {"state": 200, "status": 0, "clique_id": 5, "health_summary": 9,
                 "cluster_uuid": "ee0b4f11-2233-4455-6677-8899aabbccdd"}},
            {"bdf": "00000000:C1:00.0", "links": [{"active": true, "remote_type": 255, "remote_bdf": "00000000:C3:00.0"}]}
        ]}"#;
    let Outcome::Read(nvml) = read_changed("h200-x2", changes, EVERYTHING)? else {
        panic!("not read")
    };
    let pairs = nvml.pairs.ok_or("no pairs")?;
    let pair = pairs.first().ok_or("no pair")?;
    assert_eq!(pair.read, Reading::Known(P2p::Unknown(77)));
    assert_eq!(pair.write, Reading::Known(P2p::Unknown(6)), "NVML's unknown");
    assert_eq!(pair.pcie, Reading::NotCovered, "an unknown capability is not an error");

    let cc = &nvml.confidential_compute;
    assert_eq!(cc.enabled, Reading::Known(true));
    assert_eq!(cc.links, Reading::Known(ProtectedLinks::Unknown(8)));

    let [first, second] = nvml.gpus.as_slice() else { panic!("{:?}", nvml.gpus) };
    let details = first.details.as_ref().ok_or("no details")?;
    assert_eq!(details.architecture, Reading::Known(Architecture::Unknown(u32::MAX)));
    assert_eq!(details.virtualization, Reading::Known(Virtualization::Unknown(21)));
    let fabric = details.fabric.known().ok_or("no fabric")?;
    assert_eq!(
        (fabric.state, fabric.health),
        (FabricState::Unknown(200), Some(FabricHealth::Unknown(9)))
    );
    assert_eq!(
        (fabric.clique_id, fabric.cluster_uuid.as_str()),
        (5, "ee0b4f11-2233-4455-6677-8899aabbccdd")
    );
    let links = second.links.as_ref().and_then(Reading::known).ok_or("no links")?;
    let [link] = links.as_slice() else { panic!("{links:?}") };
    assert_eq!(link.remote, Reading::Known(RemoteDevice::Unknown(255)));
    assert_eq!(link.remote_bdf, Reading::Known("00000000:C3:00.0".into()));
    Ok(())
}

/// 2: the driver knows the structure without the summary; 1: only the older function.
#[test]
fn fabric_in_all_versions() -> Test {
    for version in [2, 1] {
        let changes = format!(
            r#"{{"gpus": [{{"bdf": "00000000:00:06.0", "fabric":
                {{"version": {version}, "state": 3, "status": 0, "clique_id": 7, "health_mask": 426}}}}]}}"#
        );
        let Outcome::Read(nvml) = read_changed("h200-x2", &changes, EVERYTHING)? else {
            panic!("not read")
        };
        let details = nvml.gpus.first().and_then(|gpu| gpu.details.as_ref()).ok_or("no details")?;
        let fabric = details.fabric.known().ok_or("no fabric")?;
        assert_eq!((fabric.clique_id, fabric.health), (7, None));
    }
    Ok(())
}

#[test]
fn coherent_gpu_is_a_numa_node() -> Test {
    let changes = r#"{"gpus": [{"bdf": "00000009:01:00.0", "numa_node": 4}]}"#;
    let Outcome::Read(nvml) = read_changed("h200-x2", changes, EVERYTHING)? else {
        panic!("not read")
    };
    let details = nvml.gpus.first().and_then(|gpu| gpu.details.as_ref()).ok_or("no details")?;
    assert_eq!(details.numa_node, Reading::Known(Some(4)));
    Ok(())
}

/// A total, and a counter of each link; what the GPU lacks is left out, and a GPU without links is not asked.
#[test]
fn link_errors_are_summed() -> Test {
    let changes = r#"{"gpus": [
        {"bdf": "00000000:00:06.0", "fields": {"52": 2, "161/0": 3, "161/17": 4, "214/18": 9}},
        {"bdf": "00000000:00:07.0", "links": [], "fields": {"52": 1}}]}"#;
    let Outcome::Read(nvml) = read_changed("h200-x2", changes, EVERYTHING)? else {
        panic!("not read")
    };
    let errors = nvml.gpus.iter().map(|gpu| gpu.details.as_ref().map(|found| &found.link_errors));
    let expected = [("dl_replay".to_owned(), 7), ("replay".to_owned(), 2)];
    let expected = [Reading::Known(expected.into()), Reading::NotCovered];
    assert!(errors.eq(expected.iter().map(Some)), "{:?}", nvml.gpus);
    Ok(())
}

#[test]
fn failed_gpu_does_not_hide_others() -> Test {
    let changes = r#"{
        "errors": {"nvmlDeviceGetName": 4, "nvmlDeviceGetNvLinkState": 15},
        "gpus": [{"bdf": "00000000:00:06.0", "error": 15}, {"bdf": "00000000:00:07.0", "minor": 1}]}"#;
    let Outcome::Read(nvml) = read_changed("h200-x2", changes, EVERYTHING)? else {
        panic!("not read")
    };
    let [lost] = nvml.unreachable.as_slice() else { panic!("{:?}", nvml.unreachable) };
    assert_eq!((lost.index, lost.code), (0, Some(15)));
    assert_eq!(lost.reason, "nvmlDeviceGetHandleByIndex_v2: the GPU has fallen off the bus (15)");
    let [gpu] = nvml.gpus.as_slice() else { panic!("{:?}", nvml.gpus) };
    assert_eq!((gpu.index, gpu.bdf.as_str()), (1, "00000000:00:07.0"));
    assert_eq!(gpu.name, Reading::Denied);
    let broken = "nvmlDeviceGetNvLinkState: the GPU has fallen off the bus (15)";
    assert_eq!(gpu.links, Some(Reading::Broken(broken.into())));
    assert_eq!(nvml.pairs, Some(vec![]));
    Ok(())
}
