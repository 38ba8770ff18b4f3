//! Calls of the fake library by name, with the signatures of infiniband/verbs.h. The library reads its machine file once, so each
//! test runs in a child process: the test executable starts itself.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs;
use std::io::Error;
use std::process::Command;

use fake_nvml_build::{Driver, cuda, verbs};
use ibverbs_sys::*;
use libloading::os::unix::Library;
use serde_json::{Value, json};

/// Set in the child process: the test to run.
const CASE: &str = "FAKE_VERBS_CASE";

pub const RC: u32 = ibv_qp_type::IBV_QPT_RC;
pub const UC: u32 = ibv_qp_type::IBV_QPT_UC;
pub const UD: u32 = ibv_qp_type::IBV_QPT_UD;
/// Access flags: local write, remote write, remote read, remote atomic.
pub const ALL: u32 = 0xf;
/// `IBV_SEND_SIGNALED`.
pub const SIGNALED: u32 = 2;

/// Two InfiniBand NICs with one port each, and more values of section `verbs`.
pub fn two(more: &Value) -> Value {
    let mut machine = json!({"verbs": {"devices": [
        {"name": "mlx5_0", "guid": "9803:9b03:0000:0001", "ports": [{"lid": 7}]},
        {"name": "mlx5_1", "guid": "9803:9b03:0000:0002", "ports": [{"lid": 9}]},
    ]}});
    for (key, value) in more.as_object().expect("an object") {
        machine["verbs"][key] = value.clone();
    }
    machine
}

/// Runs `case` in a child process with this machine file.
pub fn on(test: &str, machine: &Value, case: impl FnOnce(&Verbs)) {
    if let Ok(name) = std::env::var(CASE) {
        if name == test {
            case(&Verbs::load());
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("machine.json");
    fs::write(&file, machine.to_string()).expect("a file");
    let library = verbs::build().expect("the fake library");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", test, "--nocapture"])
        .env(CASE, test);
    command.envs(verbs::environment(&library, &file));
    if machine.get("gpus").is_some() {
        let other = cuda::build(Driver::Current).expect("the fake library");
        let both = std::env::join_paths([&library, &other]).expect("a list");
        command.env("LD_LIBRARY_PATH", both).env("FAKE_CUDA", &file);
        command.env_remove("CUDA_VISIBLE_DEVICES");
    }
    let output = command.output().expect("it starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    // A misspelt name would pass without running a test.
    let has_run = stdout.contains("1 passed");
    assert!(output.status.success() && has_run, "{stdout}{stderr}");
}

pub struct Verbs(Library);

/// verbs.h's `struct ibv_async_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AsyncEvent {
    pub element: u64,
    pub kind: c_uint,
}

/// Calls a function by its name, with verbs.h's types.
macro_rules! call {
    ($verbs:expr, $name:ident ( $($argument:expr => $type:ty),* $(,)? ) -> $result:ty) => {{
        // SAFETY: verbs.h's signature of this function; pointers come from values that outlive the call.
        let result: $result = unsafe {
            let symbol = $verbs.symbol::<unsafe extern "C" fn($($type),*) -> $result>(stringify!($name));
            symbol($($argument),*)
        };
        result
    }};
}

pub fn errno() -> c_int {
    Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn made<T>(pointer: *mut T) -> Result<*mut T, c_int> {
    if pointer.is_null() {
        Err(errno())
    } else {
        Ok(pointer)
    }
}

impl Verbs {
    fn load() -> Self {
        // SAFETY: a fake library without constructors.
        Self(unsafe { Library::new("libibverbs.so.1") }.expect("the library"))
    }

    /// # Safety
    ///
    /// `T` is the type of the function with this name.
    unsafe fn symbol<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the caller's guarantee.
        *unsafe { self.0.get::<T>(name) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn devices(&self) -> Vec<*mut ibv_device> {
        let mut count = -1;
        let list =
            call!(self, ibv_get_device_list(&mut count => *mut c_int) -> *mut *mut ibv_device);
        assert!(!list.is_null());
        let count = usize::try_from(count).expect("a count");
        // SAFETY: the list has `count` entries and a final NULL.
        let devices: Vec<_> = (0..=count)
            .map(|at| unsafe { list.add(at).read() })
            .collect();
        assert!(devices[count].is_null());
        call!(self, ibv_free_device_list(list => *mut *mut ibv_device) -> ());
        devices[..count].to_vec()
    }

    pub fn name(&self, device: *mut ibv_device) -> String {
        let name = call!(self, ibv_get_device_name(device => *mut ibv_device) -> *const c_char);
        // SAFETY: a device's name is a string that lives as long as the list.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    pub fn guid(&self, device: *mut ibv_device) -> u64 {
        u64::from_be(call!(self, ibv_get_device_guid(device => *mut ibv_device) -> u64))
    }

    pub fn index(&self, device: *mut ibv_device) -> c_int {
        call!(self, ibv_get_device_index(device => *mut ibv_device) -> c_int)
    }

    pub fn try_open(&self, device: usize) -> Result<*mut ibv_context, c_int> {
        let device = self.devices()[device];
        made(call!(self, ibv_open_device(device => *mut ibv_device) -> *mut ibv_context))
    }

    pub fn open(&self, device: usize) -> *mut ibv_context {
        self.try_open(device).expect("a context")
    }

    pub fn close(&self, context: *mut ibv_context) -> c_int {
        call!(self, ibv_close_device(context => *mut ibv_context) -> c_int)
    }

    pub fn limits(&self, context: *mut ibv_context) -> ibv_device_attr {
        let mut out = ibv_device_attr::default();
        let out_pointer = &raw mut out;
        let code = call!(self, ibv_query_device(context => *mut ibv_context, out_pointer => *mut ibv_device_attr) -> c_int);
        assert_eq!(code, 0);
        out
    }

    pub fn port(&self, context: *mut ibv_context, port: u8) -> Result<ibv_port_attr, c_int> {
        let mut out = ibv_port_attr::default();
        let pointer = &raw mut out;
        let code = call!(self, ibv_query_port(context => *mut ibv_context, port => u8, pointer => *mut ibv_port_attr) -> c_int);
        if code == 0 { Ok(out) } else { Err(code) }
    }

    pub fn gid(&self, context: *mut ibv_context, index: c_int) -> Result<[u8; 16], c_int> {
        let mut out = ibv_gid { raw: [9; 16] };
        let pointer = &raw mut out;
        let code = call!(self, ibv_query_gid(context => *mut ibv_context, 1 => u8, index => c_int, pointer => *mut ibv_gid) -> c_int);
        // SAFETY: any bytes are a GID.
        let raw = unsafe { out.raw };
        if code == 0 { Ok(raw) } else { Err(errno()) }
    }

    pub fn gid_entry(
        &self,
        context: *mut ibv_context,
        index: u32,
        size: usize,
    ) -> Result<ibv_gid_entry, c_int> {
        let mut out = ibv_gid_entry::default();
        let pointer = &raw mut out;
        let code = call!(self, _ibv_query_gid_ex(
            context => *mut ibv_context, 1 => u32, index => u32, pointer => *mut ibv_gid_entry, 0 => u32, size => usize,
        ) -> c_int);
        if code == 0 { Ok(out) } else { Err(code) }
    }

    pub fn gid_table(
        &self,
        context: *mut ibv_context,
        room: usize,
    ) -> Result<Vec<ibv_gid_entry>, isize> {
        let mut out = vec![ibv_gid_entry::default(); room];
        let (pointer, size) = (out.as_mut_ptr(), size_of::<ibv_gid_entry>());
        let count = call!(self, _ibv_query_gid_table(
            context => *mut ibv_context, pointer => *mut ibv_gid_entry, room => usize, 0 => u32, size => usize,
        ) -> isize);
        out.truncate(usize::try_from(count).map_err(|_| count)?);
        Ok(out)
    }

    pub fn pkey(&self, context: *mut ibv_context, index: c_int) -> Result<u16, c_int> {
        let mut out = 0;
        let pointer = &raw mut out;
        let code = call!(self, ibv_query_pkey(context => *mut ibv_context, 1 => u8, index => c_int, pointer => *mut u16) -> c_int);
        if code == 0 {
            Ok(u16::from_be(out))
        } else {
            Err(errno())
        }
    }

    pub fn pd(&self, context: *mut ibv_context) -> Result<*mut ibv_pd, c_int> {
        made(call!(self, ibv_alloc_pd(context => *mut ibv_context) -> *mut ibv_pd))
    }

    pub fn register(
        &self,
        pd: *mut ibv_pd,
        start: *mut c_void,
        bytes: usize,
        access: u32,
    ) -> Result<*mut ibv_mr, c_int> {
        let access = c_int::try_from(access).expect("bits");
        made(call!(self, ibv_reg_mr(
            pd => *mut ibv_pd, start => *mut c_void, bytes => usize, access => c_int,
        ) -> *mut ibv_mr))
    }

    pub fn register_at(&self, pd: *mut ibv_pd, memory: &mut [u64], iova: u64) -> *mut ibv_mr {
        let (start, bytes) = (memory.as_mut_ptr().cast(), size_of_val(memory));
        let mr = call!(self, ibv_reg_mr_iova2(
            pd => *mut ibv_pd, start => *mut c_void, bytes => usize, iova => u64, ALL => c_uint,
        ) -> *mut ibv_mr);
        made(mr).expect("a registration")
    }

    pub fn register_file(
        &self,
        pd: *mut ibv_pd,
        (file, offset, bytes): (c_int, u64, usize),
        iova: u64,
    ) -> Result<*mut ibv_mr, c_int> {
        let access = c_int::try_from(ALL).expect("bits");
        made(call!(self, ibv_reg_dmabuf_mr(
            pd => *mut ibv_pd, offset => u64, bytes => usize, iova => u64, file => c_int, access => c_int,
        ) -> *mut ibv_mr))
    }

    pub fn deregister(&self, mr: *mut ibv_mr) -> c_int {
        call!(self, ibv_dereg_mr(mr => *mut ibv_mr) -> c_int)
    }

    pub fn cq(&self, context: *mut ibv_context, entries: c_int) -> Result<*mut ibv_cq, c_int> {
        made(call!(self, ibv_create_cq(
            context => *mut ibv_context, entries => c_int, COOKIE => *mut c_void, std::ptr::null_mut() => *mut ibv_comp_channel,
            0 => c_int,
        ) -> *mut ibv_cq))
    }

    pub fn qp(&self, pd: *mut ibv_pd, wanted: &mut ibv_qp_init_attr) -> Result<*mut ibv_qp, c_int> {
        let wanted = &raw mut *wanted;
        made(
            call!(self, ibv_create_qp(pd => *mut ibv_pd, wanted => *mut ibv_qp_init_attr) -> *mut ibv_qp),
        )
    }

    pub fn modify(&self, qp: *mut ibv_qp, attributes: &ibv_qp_attr, mask: u32) -> c_int {
        let mut attributes = *attributes;
        let pointer = &raw mut attributes;
        let mask = c_int::try_from(mask).expect("bits");
        call!(self, ibv_modify_qp(qp => *mut ibv_qp, pointer => *mut ibv_qp_attr, mask => c_int) -> c_int)
    }

    pub fn query(&self, qp: *mut ibv_qp) -> (ibv_qp_attr, ibv_qp_init_attr) {
        let (mut now, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
        let (now_out, init_out) = (&raw mut now, &raw mut init);
        let code = call!(self, ibv_query_qp(
            qp => *mut ibv_qp, now_out => *mut ibv_qp_attr, -1 => c_int, init_out => *mut ibv_qp_init_attr,
        ) -> c_int);
        assert_eq!(code, 0);
        (now, init)
    }

    pub fn ah(&self, pd: *mut ibv_pd, to: &ibv_ah_attr) -> Result<*mut c_void, c_int> {
        let mut to = *to;
        let pointer = &raw mut to;
        made(
            call!(self, ibv_create_ah(pd => *mut ibv_pd, pointer => *mut ibv_ah_attr) -> *mut c_void),
        )
    }

    pub fn event(&self, context: *mut ibv_context) -> AsyncEvent {
        let mut event = AsyncEvent {
            element: 0,
            kind: 99,
        };
        let pointer = &raw mut event;
        let code = call!(self, ibv_get_async_event(context => *mut ibv_context, pointer => *mut AsyncEvent) -> c_int);
        assert_eq!(code, 0);
        event
    }

    pub fn acknowledge_event(&self, event: AsyncEvent) {
        let mut event = event;
        let pointer = &raw mut event;
        call!(self, ibv_ack_async_event(pointer => *mut AsyncEvent) -> ());
    }
}

/// `cq_context` of completion queues.
const COOKIE: *mut c_void = std::ptr::without_provenance_mut(0xc00c);

/// True if the file is readable now.
pub fn is_readable(file: c_int) -> bool {
    let mut files = libc::pollfd {
        fd: file,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut files, 1, 0) == 1 }
}
