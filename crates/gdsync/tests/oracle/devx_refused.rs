//! What a NIC's firmware and its kernel reject is reported, and queues in host memory work without them.

use gdsync::hca::{Hca as _, Request, RetryPolicy};

use crate::devx::{DEVX, Locations, allocator, hca, locations, peer, request};
use crate::devx_told::objects;
use crate::inside::inside;

/// Queue pairs in these places cannot be created, and the error names each part. No object is left, and queues in host
/// memory are made by verbs as before.
fn rejected(locations: &[Locations], parts: &[&str]) {
    let allocator = allocator();
    let hca = hca(&allocator, 1, None);
    let before = objects();
    for &locations in locations {
        let error = hca.create(&request(locations)).expect_err("rejected");
        names(&error, parts);
    }
    assert_eq!(objects(), before);
    hca.create(&Request::default())
        .expect("host memory, by verbs");
}

fn names(error: &gdsync::Error, parts: &[&str]) {
    let error = error.to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
#[ignore = "needs libmlx5"]
fn an_error_of_the_firmware_has_its_syndrome() {
    let refuse = ("FAKE_UVERBS_DEVX_REFUSE", "500:3:1f2e3d");
    let test = "devx_refused::an_error_of_the_firmware_has_its_syndrome";
    inside(test, &[DEVX, refuse], || {
        let syndrome = ["0x03 (bad parameter)", "0x001f2e3d", "dmesg"];
        rejected(
            &locations(),
            &[&["mlx5_0", "CREATE_QP"][..], &syndrome].concat(),
        );
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn an_error_of_a_state_change_has_its_syndrome() {
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
        let test = "devx_refused::an_error_of_a_state_change_has_its_syndrome";
        inside(test, &variables, || {
            let command = std::env::var("EXPECTED").expect("set above");
            let allocator = allocator();
            let hca = hca(&allocator, 1, None);
            let made = hca.create(&request(locations()[6]));
            let connected = made
                .and_then(|pair| hca.connect(pair.endpoint, peer(None), RetryPolicy::default()));
            names(
                &connected.expect_err("rejected"),
                &[&command, "0x10 (bad queue pair state)", "abc"],
            );
        });
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn a_kernel_without_dma_buf_is_reported_and_host_memory_works() {
    let test = "devx_refused::a_kernel_without_dma_buf_is_reported_and_host_memory_works";
    inside(test, &[("FAKE_UVERBS_DEVX", "old")], || {
        let parts = ["Linux 6.1", "os error 93", "nvidia_peermem", "host memory"];
        rejected(&locations(), &parts);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn a_kernel_without_devx_is_reported_and_host_memory_works() {
    let test = "devx_refused::a_kernel_without_devx_is_reported_and_host_memory_works";
    inside(test, &[], || {
        let parts = ["DEVX", "QUERY_HCA_CAP", "os error 25", "Linux 5.0"];
        rejected(&locations()[..1], &parts);
    });
}
