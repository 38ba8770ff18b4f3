//! What a NIC's firmware and its kernel refuse is told, and host memory goes without them.

use gdsync::hca::{Hca as _, Request, RetryPolicy};

use crate::devx::{DEVX, allocator, hca, locations, peer, request};
use crate::devx_told::objects;
use crate::inside::inside;

#[test]
fn a_refusal_is_told_with_its_syndrome() {
    let refuse = ("FAKE_UVERBS_DEVX_REFUSE", "500:3:1f2e3d");
    inside(
        "devx_refused::a_refusal_is_told_with_its_syndrome",
        &[DEVX, refuse],
        || {
            let allocator = allocator();
            let hca = hca(&allocator, 1, None);
            let before = objects();
            for locations in locations() {
                let error = hca
                    .create(&request(locations))
                    .expect_err("refused")
                    .to_string();
                for part in [
                    "mlx5_0",
                    "CREATE_QP",
                    "0x03 (bad parameter)",
                    "0x001f2e3d",
                    "dmesg",
                ] {
                    assert!(error.contains(part), "{error}");
                }
            }
            assert_eq!(objects(), before);
            hca.create(&Request::default())
                .expect("verbs' own is made as before");
        },
    );
}

#[test]
fn the_ways_between_states_are_refused_likewise() {
    for (opcode, command) in [
        ("502", "RST2INIT_QP"),
        ("503", "INIT2RTR_QP"),
        ("504", "RTR2RTS_QP"),
    ] {
        let refuse = format!("{opcode}:10:{opcode}abc");
        let variables = [
            DEVX,
            ("FAKE_UVERBS_DEVX_REFUSE", refuse.as_str()),
            ("EXPECTED", command),
        ];
        inside(
            "devx_refused::the_ways_between_states_are_refused_likewise",
            &variables,
            || {
                let command = std::env::var("EXPECTED").expect("set above");
                let allocator = allocator();
                let hca = hca(&allocator, 1, None);
                let made = hca.create(&request(locations()[6]));
                let connected_pair = made.and_then(|pair| {
                    hca.connect(pair.endpoint, peer(None), RetryPolicy::default())
                });
                let error = connected_pair.expect_err("refused").to_string();
                for part in [command.as_str(), "0x10 (bad queue pair state)", "abc"] {
                    assert!(error.contains(part), "{error}");
                }
            },
        );
    }
}

#[test]
fn a_kernel_that_takes_no_dma_buf_says_so_and_host_memory_goes() {
    let name = "devx_refused::a_kernel_that_takes_no_dma_buf_says_so_and_host_memory_goes";
    inside(name, &[("FAKE_UVERBS_DEVX", "old")], || {
        let allocator = allocator();
        let hca = hca(&allocator, 1, None);
        let before = objects();
        for locations in locations() {
            let error = hca
                .create(&request(locations))
                .expect_err("no such memory")
                .to_string();
            for part in ["Linux 6.1", "os error 93", "nvidia_peermem", "host memory"] {
                assert!(error.contains(part), "{error}");
            }
        }
        assert_eq!(objects(), before);
        hca.create(&Request::default())
            .expect("host memory, by verbs");
    });
}

#[test]
fn a_kernel_without_devx_says_so_and_host_memory_goes() {
    inside(
        "devx_refused::a_kernel_without_devx_says_so_and_host_memory_goes",
        &[],
        || {
            let allocator = allocator();
            let hca = hca(&allocator, 1, None);
            let error = hca
                .create(&request(locations()[0]))
                .expect_err("no DEVX")
                .to_string();
            for part in ["DEVX", "QUERY_HCA_CAP", "os error 25", "Linux 5.0"] {
                assert!(error.contains(part), "{error}");
            }
            hca.create(&Request::default())
                .expect("host memory, by verbs");
        },
    );
}
