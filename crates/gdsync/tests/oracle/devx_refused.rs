//! What a NIC's firmware and its kernel reject is reported, and queues in host memory work without them.

use gdsync::hca::{Hca as _, Request, RetryPolicy};

use crate::devx::{DEVX, Locations, allocator, hca, locations, peer, request};
use crate::devx_state::objects;
use crate::inside::inside;

/// Checks that creation fails with an error that contains `parts` and leaves no object, and that verbs still create queues in
/// host memory.
fn check_rejected(locations: &[Locations], parts: &[&str]) {
    let allocator = allocator();
    let hca = hca(&allocator, 1, None);
    let before = objects();
    for &locations in locations {
        let error = hca.create(&request(locations)).expect_err("rejected");
        check_text(&error, parts);
    }
    assert_eq!(objects(), before);
    hca.create(&Request::default()).expect("host memory, by verbs");
}

fn check_text(error: &gdsync::Error, parts: &[&str]) {
    let error = error.to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_firmware_syndrome() {
    let refuse = ("FAKE_UVERBS_DEVX_REFUSE", "500:3:1f2e3d");
    let test = "devx_refused::reports_firmware_syndrome";
    inside(test, &[DEVX, refuse], || {
        let syndrome = ["0x03 (bad parameter)", "0x001f2e3d", "dmesg"];
        check_rejected(&locations(), &[&["mlx5_0", "CREATE_QP"][..], &syndrome].concat());
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_state_change_syndrome() {
    for (opcode, command) in [("502", "RST2INIT_QP"), ("503", "INIT2RTR_QP"), ("504", "RTR2RTS_QP")]
    {
        let refuse = format!("{opcode}:10:{opcode}abc");
        let variables = [DEVX, ("FAKE_UVERBS_DEVX_REFUSE", refuse.as_str()), ("EXPECTED", command)];
        let test = "devx_refused::reports_state_change_syndrome";
        inside(test, &variables, || {
            let command = std::env::var("EXPECTED").expect("set above");
            let allocator = allocator();
            let hca = hca(&allocator, 1, None);
            let pair = hca.create(&request(locations()[6]));
            let connected = pair
                .and_then(|pair| hca.connect(pair.endpoint, peer(None), RetryPolicy::default()));
            check_text(
                &connected.expect_err("rejected"),
                &[&command, "0x10 (bad queue pair state)", "abc"],
            );
        });
    }
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_kernel_without_dma_buf() {
    let test = "devx_refused::reports_kernel_without_dma_buf";
    inside(test, &[("FAKE_UVERBS_DEVX", "old")], || {
        let parts = ["Linux 6.1", "os error 93", "nvidia_peermem", "host memory"];
        check_rejected(&locations(), &parts);
    });
}

#[test]
#[ignore = "needs libmlx5"]
fn reports_kernel_without_devx() {
    let test = "devx_refused::reports_kernel_without_devx";
    inside(test, &[], || {
        let parts = ["DEVX", "QUERY_HCA_CAP", "os error 25", "CONFIG_INFINIBAND_USER_ACCESS"];
        check_rejected(&locations()[..1], &parts);
    });
}
