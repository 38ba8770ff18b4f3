//! Failures injected by the machine file.

use serde_json::{Value, json};

use crate::driver::{on, seeing};

fn machine(more: &Value) -> Value {
    let mut machine = json!({"gpus": [{}, {}], "pair": {"can_access": true}});
    for (key, value) in more.as_object().expect("an object") {
        machine[key] = value.clone();
    }
    machine
}

#[test]
fn error_after_n_calls() {
    let more = json!({"errors_after": {
        "cuMemAlloc_v2": {"calls": 1, "code": 2},
        "cuMemcpyDtoDAsync_v2": {"calls": 2, "code": 220, "sticky": true},
    }});
    on("misbehaviour::error_after_n_calls", &machine(&more), |cuda| {
        let contexts = cuda.start(2);
        let memory = cuda.allocate(64).expect("the first");
        assert_eq!(cuda.allocate(64), Err(2));
        assert!(cuda.allocate(64).is_ok());
        assert_eq!((cuda.copy(memory, memory + 8, 8), cuda.copy(memory, memory + 8, 8)), (0, 0));
        assert_eq!(cuda.copy(memory, memory + 8, 8), 220);
        assert_eq!((cuda.synchronize(0), cuda.free(memory)), (220, 220));
        assert_eq!(cuda.current(contexts[1]), 0);
        assert_eq!(cuda.allocate(64), Err(220), "all GPUs");
        assert_eq!((cuda.count(), cuda.release(1)), (2, 0), "a call without context");
    });
}

#[test]
fn error_of_one_gpu() {
    let more = json!({"gpus": [
        {"errors": {"cuMemAlloc_v2": 2}},
        {"errors_after": {"cuStreamSynchronize": {"calls": 0, "code": 719, "sticky": true}}},
        {"errors": {"cuDevicePrimaryCtxRetain": 46}},
    ]});
    on("misbehaviour::error_of_one_gpu", &machine(&more), |cuda| {
        let contexts = cuda.start(2);
        assert_eq!(cuda.retain(2), Err(46));
        assert_eq!((cuda.allocate(64), cuda.synchronize(0)), (Err(2), 0));
        assert_eq!(cuda.current(contexts[1]), 0);
        assert!(cuda.allocate(64).is_ok());
        assert_eq!((cuda.synchronize(0), cuda.allocate(64)), (719, Err(719)));
        assert_eq!(cuda.current(contexts[0]), 0);
        assert_eq!(cuda.synchronize(0), 0);
    });
}

#[test]
fn codes_have_names() {
    on("misbehaviour::codes_have_names", &machine(&json!({})), |cuda| {
        // From cuda.h.
        assert_eq!(cuda.error_name(220).as_deref(), Some("CUDA_ERROR_NVLINK_UNCORRECTABLE"));
        assert_eq!(cuda.error_name(0).as_deref(), Some("CUDA_SUCCESS"));
        assert_eq!(cuda.error_name(4711), None);
    });
}

/// One test for each list, because each needs its own process.
macro_rules! visible {
    ($( $name:ident: $list:literal => $places:expr; )*) => { $(
        #[test]
        fn $name() {
            let four = json!({"gpus": [{}, {}, {}, {}]});
            seeing(concat!("misbehaviour::", stringify!($name)), &four, Some($list), |cuda| {
                let wanted: &[u8] = $places;
                assert_eq!(cuda.init(), if wanted.is_empty() { 100 } else { 0 });
                let found: Vec<u8> = (0..cuda.count()).map(|device| cuda.place(device)).collect();
                assert_eq!(found, wanted);
                assert_eq!(cuda.retain(cuda.count()), Err(101));
            });
        }
    )* };
}

visible! {
    seen_in_the_order_of_the_list: "2, 0" => &[2, 0];
    seen_up_to_the_first_that_is_none: "1,7,2" => &[1];
    seen_none_after_minus_one: "3,-1,0" => &[3];
    seen_by_uuid: "GPU-67707500-0000-0000-0000-000000000003,1" => &[3, 1];
    seen_by_the_beginning_of_a_uuid_of_many: "0,GPU-6770" => &[0];
    seen_none_of_an_empty_list: "" => &[];
    seen_none_of_nonsense: "all" => &[];
}
