//! Firmware commands: encoding, execution and errors.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;

use ibverbs_sys as raw;

use super::bits::{Field, get, set};
use super::layout::{bytes, header};
use crate::{Context, Error};

/// A command under construction.
#[derive(Debug)]
pub(super) struct Command {
    /// Its `MLX5_CMD_OP_*` name.
    name: &'static str,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Response(Vec<u8>);

/// A firmware object, destroyed on drop.
#[derive(Debug)]
pub(super) struct Object {
    raw: NonNull<raw::mlx5dv_devx_obj>,
    context: Context,
}

// SAFETY: the library's calls on an object are system calls, which the kernel serialises; only this value destroys it.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Command {
    /// A command of `bytes` bytes, a multiple of eight.
    pub(super) fn new(name: &'static str, opcode: u64, bytes: usize) -> Result<Self, Error> {
        let mut command = Self { name, bytes: vec![0; bytes] };
        command.set(header::OPCODE, opcode)?;
        Ok(command)
    }

    /// A command that changes a queue pair's state.
    pub(super) fn about(
        name: &'static str,
        opcode: u64,
        bytes: usize,
        number: u32,
    ) -> Result<Self, Error> {
        let mut command = Self::new(name, opcode, bytes)?;
        command.set(header::NUMBER, number.into())?;
        Ok(command)
    }

    pub(super) fn set(&mut self, field: Field, value: u64) -> Result<(), Error> {
        set(&mut self.bytes, self.name, field, value)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Creates an object; returns it with its number.
    pub(super) fn create(&self, context: &Context) -> Result<(Object, u32), Error> {
        let function = "mlx5dv_devx_obj_create";
        let create = raw::mlx5dv()?.mlx5dv_devx_obj_create.ok_or(Error::Missing { function })?;
        mlx5(context)?;
        let (given, mut room) = (words(&self.bytes), vec![0_u64; bytes::SHORT / 8]);
        // SAFETY: the context is open and an mlx5 device's; both buffers have the lengths passed.
        let made = unsafe {
            create(
                context.as_raw(),
                given.as_ptr().cast(),
                self.bytes.len(),
                room.as_mut_ptr().cast(),
                bytes::SHORT,
            )
        };
        let source = io::Error::last_os_error();
        let response = Response::of(&room);
        let Some(raw) = NonNull::new(made) else {
            return Err(self.error(context, &response, source));
        };
        let context = context.clone();
        Ok((Object { raw, context }, response.get(header::NEW_NUMBER) as u32))
    }

    pub(super) fn modify(&self, object: &Object) -> Result<(), Error> {
        let function = "mlx5dv_devx_obj_modify";
        let modify = raw::mlx5dv()?.mlx5dv_devx_obj_modify;
        let modify = modify.ok_or(Error::Missing { function })?;
        self.run(&object.context, bytes::SHORT, |given, length, room, most| {
            // SAFETY: the object is alive; both buffers have the lengths passed.
            unsafe { modify(object.raw.as_ptr(), given, length, room, most) }
        })?;
        Ok(())
    }

    /// Executes a command without an object.
    pub(super) fn query(&self, context: &Context, room: usize) -> Result<Response, Error> {
        let function = "mlx5dv_devx_general_cmd";
        let general_cmd = raw::mlx5dv()?.mlx5dv_devx_general_cmd;
        let general_cmd = general_cmd.ok_or(Error::Missing { function })?;
        mlx5(context)?;
        self.run(context, room, |given, length, room, most| {
            // SAFETY: the context is open and an mlx5 device's; both buffers have the lengths passed.
            unsafe { general_cmd(context.as_raw(), given, length, room, most) }
        })
    }

    fn run(
        &self,
        context: &Context,
        room: usize,
        call: impl FnOnce(*const c_void, usize, *mut c_void, usize) -> c_int,
    ) -> Result<Response, Error> {
        let (given, mut response) = (words(&self.bytes), vec![0_u64; room.div_ceil(8)]);
        let errno =
            call(given.as_ptr().cast(), self.bytes.len(), response.as_mut_ptr().cast(), room);
        let response = Response::of(&response);
        match failure(errno, response.get(header::STATUS)) {
            None => Ok(response),
            Some(source) => Err(self.error(context, &response, source)),
        }
    }

    fn error(&self, context: &Context, response: &Response, source: io::Error) -> Error {
        Error::Command {
            name: context.name().into(),
            command: self.name,
            // Status: 8 bits. Syndrome: 32 bits.
            status: response.get(header::STATUS) as u8,
            syndrome: response.get(header::SYNDROME) as u32,
            source,
        }
    }
}

/// EREMOTEIO: the firmware executed and rejected a command (`mlx5_cmd_check` since Linux 5.18).
const EREMOTEIO: i32 = 121;

/// Fails if the call failed, or if the response has an error status although the call succeeded.
fn failure(errno: c_int, status: u64) -> Option<io::Error> {
    match (errno, status) {
        (0, 0) => None,
        (0, _) => Some(io::Error::from_raw_os_error(EREMOTEIO)),
        (-1, _) => Some(io::Error::last_os_error()),
        (errno, _) => Some(io::Error::from_raw_os_error(errno.saturating_abs())),
    }
}

impl Response {
    fn of(words: &[u64]) -> Self {
        Self(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
    }

    pub(super) fn get(&self, field: Field) -> u64 {
        get(&self.0, field)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let destroy = raw::mlx5dv().ok().and_then(|library| library.mlx5dv_devx_obj_destroy);
        if let Some(destroy) = destroy {
            // SAFETY: created by the library, and destroyed only here. Ignored: a failure to destroy cannot be handled.
            unsafe { destroy(self.raw.as_ptr()) };
        }
    }
}

/// Fails unless the device is an mlx5 device, which the library does not check.
pub(super) fn mlx5(context: &Context) -> Result<(), Error> {
    if context.is_mlx5() {
        return Ok(());
    }
    Err(Error::NotMlx5 { name: context.name().to_owned(), what: "the firmware" })
}

/// The same bytes with word alignment, which the library expects.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    bytes.chunks(8).map(|bytes| word(bytes).to_le()).collect()
}

/// Advice for an error, by status and error number.
pub(crate) fn next_step(status: u8, source: &io::Error) -> &'static str {
    /// EOPNOTSUPP, EPROTONOSUPPORT, ENOTTY, ENOSYS.
    const NO_DEVX: [i32; 4] = [95, 93, 25, 38];
    const EPERM: i32 = 1;
    const EINVAL: i32 = 22;
    match (status, source.raw_os_error()) {
        (0, Some(errno)) if NO_DEVX.contains(&errno) => {
            "the kernel or its driver has no DEVX: needs mlx5_ib of a kernel with CONFIG_INFINIBAND_USER_ACCESS, and NIC firmware with user contexts"
        }
        (0, Some(EPERM)) => {
            "permission denied: check the owner of /dev/infiniband/uverbs* and the container's rights"
        }
        (0, Some(EINVAL)) => {
            "the kernel did not forward it: the context has no DEVX (firmware settings LOG_MAX_UCTX, UCTX_EN), or user space cannot issue the command"
        }
        (0, _) => "see the kernel's log (`dmesg | grep mlx5`)",
        (0x02, _) => "the NIC's firmware does not support the command: update it",
        (0x08 | 0x0f, _) => {
            "the NIC has no resources left: destroy objects, or request smaller ones"
        }
        _ => {
            "the kernel's log has the same syndrome (`dmesg | grep mlx5`); ask the NIC's vendor about it"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_order() {
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(Response::of(&words(&bytes)).0, bytes);
    }

    #[test]
    fn failure_of_call_or_firmware() {
        let number = |errno, status| failure(errno, status).and_then(|error| error.raw_os_error());
        assert!(failure(0, 0).is_none());
        assert_eq!((number(0, 3), number(22, 0), number(-22, 3)), (Some(121), Some(22), Some(22)));
    }

    #[test]
    fn error_text_of_command() {
        let error = Error::Command {
            name: "mlx5_0".into(),
            command: "CREATE_QP",
            status: 3,
            syndrome: 0x00f1_2e3d,
            source: io::Error::from_raw_os_error(EREMOTEIO),
        };
        let text = error.to_string();
        for part in ["mlx5_0", "CREATE_QP", "0x03 (bad parameter)", "0x00f12e3d", "dmesg"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(error.errno(), Some(EREMOTEIO));
    }
}
