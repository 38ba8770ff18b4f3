//! Stream memory operations: order, waits and errors.

use serde_json::{Value, json};

use crate::driver::on;

const WAIT32: u32 = 1;
const WRITE32: u32 = 2;
const FLUSH: u32 = 3;
const WAIT64: u32 = 4;
const WRITE64: u32 = 5;
const BARRIER: u32 = 6;
const EQ: u32 = 1;
const AND: u32 = 2;
const NOR: u32 = 3;
const FLUSHED: u32 = 1 << 30;

/// One GPU that supports all of v2 except flushes, like an H200, and one with few features.
fn two() -> Value {
    json!({
        "gpu": {"memory": 1 << 30, "attributes": {"122": 1, "123": 1}},
        "gpus": [{}, {"attributes": {"122": 0, "123": 0, "98": 1, "92": 1}}],
    })
}

#[test]
fn batch_order_and_wait_conditions() {
    on("operations::batch_order_and_wait_conditions", &two(), |cuda| {
        cuda.start(1);
        let word = cuda.allocate(64).expect("memory");
        let (stream, other) = (cuda.stream(), cuda.stream());
        // Words 0 and 1 block the stream, word 2 counts its progress.
        let list = [
            (WRITE32, word + 8, 1, 0),
            (WAIT32, word, 5, 0),
            (WRITE32, word + 8, 2, 0),
            (WAIT32, word, 0xffff_fffe, NOR),
            (BARRIER, 0, 0, 0),
            (WRITE32, word + 8, 3, 0),
            (WAIT64, word, 1 << 40, AND),
            (WRITE64, word + 16, 0x1122_3344_5566_7788, 0),
            (WAIT32, word, 9, EQ),
        ];
        assert_eq!(cuda.batch(stream, &list), 0);
        let far = |expected: u8| {
            // The stream may not have progressed yet.
            for _ in 0..100_000 {
                if cuda.download(word + 8, 1) == Ok(vec![expected]) {
                    return;
                }
                std::thread::yield_now();
            }
            panic!("not at {expected}: {:?}", cuda.download(word + 8, 1));
        };
        far(1);
        assert_eq!(cuda.query(stream), 600);
        assert_eq!(cuda.batch(other, &[(WRITE32, word, 7, 0)]), 0);
        far(2);
        assert_eq!(cuda.query(stream), 600, "bit 0 is set");
        assert_eq!(cuda.batch(other, &[(WRITE32, word, 6, 0)]), 0);
        far(3);
        assert_eq!(cuda.batch(other, &[(WRITE32, word + 4, 1 << 8, 0), (WRITE32, word, 9, 0)]), 0);
        assert_eq!(cuda.synchronize(stream), 0);
        assert_eq!(
            cuda.download(word + 16, 8),
            Ok(0x1122_3344_5566_7788_u64.to_le_bytes().to_vec())
        );
    });
}

#[test]
fn rejected_batch_has_no_effect() {
    on("operations::rejected_batch_has_no_effect", &two(), |cuda| {
        let contexts = cuda.start(2);
        let word = cuda.allocate(64).expect("memory");
        let stream = cuda.stream();
        let refused = |operation| cuda.batch(stream, &[(WRITE32, word, 1, 0), operation]);
        for operation in [
            (WRITE32, word + 2, 1, 0),
            (WRITE32, word + 64, 1, 0),
            (WRITE32, 0, 1, 0),
            (WRITE32, word, 1, 1),
            (WRITE64, word + 4, 1, 0),
            (WAIT32, word, 1, 4),
            (7, word, 1, 0),
        ] {
            assert_eq!(refused(operation), 1, "{operation:x?}");
        }
        for operation in [(FLUSH, 0, 0, 0), (WAIT32, word, 1, FLUSHED)] {
            assert_eq!(refused(operation), 801, "{operation:x?}");
        }
        assert_eq!(cuda.batch(stream, &[(WRITE32, word, 1, 0); 256]), 1, "too many");
        assert_eq!(cuda.batch_v1(stream, (WRITE32, word, 1, 0)), 801, "off");
        assert_eq!(cuda.batch(0xdead, &[(WRITE32, word, 1, 0)]), 400, "no stream");
        assert_eq!(cuda.download(word, 4), Ok(vec![0; 4]));
        assert_eq!(cuda.batch(stream, &[(WRITE32, word, 1, 0); 255]), 0);
        assert_eq!(cuda.batch(stream, &[]), 0);
        assert_eq!(cuda.synchronize(stream), 0);
        assert_eq!(cuda.download(word, 4), Ok(vec![1, 0, 0, 0]));

        assert_eq!(cuda.current(contexts[1]), 0);
        let word = cuda.allocate(64).expect("memory");
        let stream = cuda.stream();
        assert_eq!(cuda.batch(stream, &[(WAIT32, word, 1, NOR)]), 801);
        assert_eq!(cuda.batch(stream, &[(WRITE64, word, 1, 0)]), 801);
        assert_eq!(cuda.batch(stream, &[(FLUSH, 0, 0, 0), (WAIT32, word, 0, FLUSHED)]), 0);
        assert_eq!(cuda.batch_v1(stream, (WRITE32, word, 3, 1)), 0, "without a fence");
        assert_eq!(cuda.batch_v1(stream, (BARRIER, 0, 0, 0)), 1, "of v2 alone");
        assert_eq!(cuda.synchronize(stream), 0);
        assert_eq!(cuda.download(word, 4), Ok(vec![3, 0, 0, 0]));
    });
}
