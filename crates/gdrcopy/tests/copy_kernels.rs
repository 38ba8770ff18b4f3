//! Every supported kernel in both directions against a byte loop, between guard pages.

use std::collections::BTreeSet;

use copy_support::Guarded;
use gdrcopy::copy::{Access, Kernel, kernel, kernels, plan};
use proptest::prelude::*;

mod copy_support;

fn supported() -> impl Iterator<Item = &'static Kernel> {
    kernels().iter().filter(|kernel| kernel.supported())
}

/// Position of one side of a copy in its pages.
fn place() -> impl Strategy<Value = (usize, bool)> {
    (0..140_usize, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn kernels_match_byte_loop(device in place(), host in place(), len in lengths()) {
        for kernel in supported() {
            for to_device in [true, false] {
                let (mut from, mut to) = (Guarded::new(2), Guarded::new(2));
                let (source, destination) = if to_device { (host, device) } else { (device, host) };
                let source = from.place(len, source.0, source.1);
                let destination = to.place(len, destination.0, destination.1);
                from.fill(0x5a);
                to.fill(0xa5);
                let mut expected = to.bytes().to_vec();
                for (to, from) in expected[destination..].iter_mut().zip(&from.bytes()[source..source + len]) {
                    *to = *from;
                }
                // SAFETY: both sides hold `len` bytes of their own pages; the kernel is supported.
                unsafe {
                    let (source, destination) = (from.start().add(source), to.start().add(destination));
                    if to_device {
                        kernel.write(destination, source, len)
                    } else {
                        kernel.read(destination, source, len)
                    }
                }
                prop_assert!(to.bytes() == expected, "{} to_device={to_device}", kernel.name());
            }
        }
    }

    #[test]
    fn plan_is_complete_ordered_and_aligned(
        address in 0..4096_usize, len in 0..2000_usize, unit in prop::sample::select(vec![8_usize, 16, 32, 64]),
    ) {
        let mut next = 0;
        for Access { offset, width } in plan(address, len, unit) {
            prop_assert_eq!(offset, next);
            prop_assert!(width.is_power_of_two() && width <= unit, "width {}", width);
            prop_assert_eq!((address + offset) % width, 0);
            next += width;
        }
        prop_assert_eq!(next, len);
    }

    /// No access is narrower than alignment and length require: two neighbours are never halves of
    /// one aligned access.
    #[test]
    fn plan_has_no_split_accesses(
        address in 0..4096_usize, len in 0..2000_usize, unit in prop::sample::select(vec![8_usize, 16, 32, 64]),
    ) {
        for pair in plan(address, len, unit).windows(2) {
            let width = pair[0].width;
            let halves = pair[1].width == width && (address + pair[0].offset) % (2 * width) == 0;
            prop_assert!(!halves || width == unit, "{pair:?}");
        }
    }
}

/// Short copies with head and tail only, and copies with several iterations of the widest loop, which
/// takes 2048 bytes a turn with the longest vectors of SVE.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0..140_usize, 0..2600_usize, 0..8000_usize]
}

#[test]
fn plan_examples() {
    let widths = |address, len, unit| {
        plan(address, len, unit).iter().map(|access| access.width).collect::<Vec<_>>()
    };
    assert_eq!(widths(0, 0, 64), []);
    assert_eq!(widths(0x40, 4, 64), [4]);
    assert_eq!(widths(0x41, 1, 64), [1]);
    assert_eq!(widths(0x3f, 2, 64), [1, 1]);
    assert_eq!(widths(0x3c, 8, 64), [4, 4]);
    assert_eq!(widths(0x21, 64, 64), [1, 2, 4, 8, 16, 32, 1]);
    assert_eq!(widths(0x30, 208, 64), [16, 64, 64, 64]);
    assert_eq!(widths(0x30, 80, 16), [16, 16, 16, 16, 16]);
    assert_eq!(widths(0x38, 40, 8), [8, 8, 8, 8, 8]);
    assert_eq!(widths(0x44, 7, 64), [4, 2, 1]);
    assert_eq!(widths(0x46, 7, 64), [2, 4, 1]);
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = kernels().iter().map(Kernel::name).collect();
    assert_eq!(names.len(), kernels().len());
    for name in names {
        assert_eq!(kernel(name).map(Kernel::name), Some(name));
    }
    assert!(kernel("memcpy").is_none());
    assert!(kernels()[0].name() == "portable" && kernels()[0].supported());
}

/// `GDR_TEST_KERNELS` names the kernels of an emulated CPU: each must be found, and so be tested above.
#[test]
fn kernels_of_emulated_cpu() {
    if let Ok(expected) = std::env::var("GDR_TEST_KERNELS") {
        let found: Vec<_> = supported().map(Kernel::name).collect();
        assert_eq!(found.join(" "), expected);
    }
}

/// Untested kernels must not be chosen.
#[test]
fn only_ls64_is_opt_in() {
    for kernel in kernels() {
        assert_eq!(kernel.named_only(), kernel.name() == "ls64");
    }
}
