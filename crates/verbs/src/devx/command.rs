//! A command to the NIC's firmware: its bytes, who executes it, and what it says where it refuses.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;

use ibverbs_sys as raw;

use super::bits::{Field, get, set};
use super::layout::{bytes, header};
use crate::{Context, Error};

/// A command that is being written.
#[derive(Debug)]
pub(super) struct Command {
    /// As `MLX5_CMD_OP_*` calls it.
    name: &'static str,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Answer(Vec<u8>);

/// Something that a command made; destroyed when it is dropped.
#[derive(Debug)]
pub(super) struct Object {
    raw: NonNull<raw::mlx5dv_devx_obj>,
    context: Context,
}

// SAFETY: the library's calls about an object are system calls alone, which the kernel locks; it is destroyed by this value alone.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Command {
    /// One of so many bytes, a multiple of eight.
    pub(super) fn new(name: &'static str, opcode: u64, bytes: usize) -> Result<Self, Error> {
        let mut command = Self {
            name,
            bytes: vec![0; bytes],
        };
        command.set(header::OPCODE, opcode)?;
        Ok(command)
    }

    /// One that changes a queue pair.
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

    /// Makes an object, and tells its number.
    pub(super) fn create(&self, context: &Context) -> Result<(Object, u32), Error> {
        let function = "mlx5dv_devx_obj_create";
        let create = raw::mlx5dv()?
            .mlx5dv_devx_obj_create
            .ok_or(Error::Missing { function })?;
        mlx5(context)?;
        let (given, mut room) = (words(&self.bytes), vec![0_u64; bytes::SHORT / 8]);
        // SAFETY: the context is open and an mlx5 device's; both buffers have the lengths that are told.
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
        let answer = Answer::of(&room);
        let Some(raw) = NonNull::new(made) else {
            return Err(self.refused(context, &answer, source));
        };
        let context = context.clone();
        Ok((Object { raw, context }, answer.get(header::MADE) as u32))
    }

    pub(super) fn modify(&self, object: &Object) -> Result<(), Error> {
        let function = "mlx5dv_devx_obj_modify";
        let modify = raw::mlx5dv()?.mlx5dv_devx_obj_modify;
        let modify = modify.ok_or(Error::Missing { function })?;
        self.run(
            &object.context,
            bytes::SHORT,
            |given, length, room, most| {
                // SAFETY: the object is alive; both buffers have the lengths that are told.
                unsafe { modify(object.raw.as_ptr(), given, length, room, most) }
            },
        )?;
        Ok(())
    }

    /// Asks about no object.
    pub(super) fn ask(&self, context: &Context, room: usize) -> Result<Answer, Error> {
        let function = "mlx5dv_devx_general_cmd";
        let ask = raw::mlx5dv()?.mlx5dv_devx_general_cmd;
        let ask = ask.ok_or(Error::Missing { function })?;
        mlx5(context)?;
        self.run(context, room, |given, length, room, most| {
            // SAFETY: the context is open and an mlx5 device's; both buffers have the lengths that are told.
            unsafe { ask(context.as_raw(), given, length, room, most) }
        })
    }

    fn run(
        &self,
        context: &Context,
        room: usize,
        call: impl FnOnce(*const c_void, usize, *mut c_void, usize) -> c_int,
    ) -> Result<Answer, Error> {
        let (given, mut answer) = (words(&self.bytes), vec![0_u64; room.div_ceil(8)]);
        let errno = call(
            given.as_ptr().cast(),
            self.bytes.len(),
            answer.as_mut_ptr().cast(),
            room,
        );
        let answer = Answer::of(&answer);
        match failure(errno, answer.get(header::STATUS)) {
            None => Ok(answer),
            Some(source) => Err(self.refused(context, &answer, source)),
        }
    }

    fn refused(&self, context: &Context, answer: &Answer, source: io::Error) -> Error {
        Error::Command {
            name: context.name().into(),
            command: self.name,
            // Eight bits, and thirty-two.
            status: answer.get(header::STATUS) as u8,
            syndrome: answer.get(header::SYNDROME) as u32,
            source,
        }
    }
}

/// EREMOTEIO: the firmware executed a command and refused it (`mlx5_cmd_check` since Linux 5.18).
const EREMOTEIO: i32 = 121;

/// Whether a call failed: it says so, or the firmware does, whatever the library made of that.
fn failure(errno: c_int, status: u64) -> Option<io::Error> {
    match (errno, status) {
        (0, 0) => None,
        (0, _) => Some(io::Error::from_raw_os_error(EREMOTEIO)),
        (-1, _) => Some(io::Error::last_os_error()),
        (errno, _) => Some(io::Error::from_raw_os_error(errno.saturating_abs())),
    }
}

impl Answer {
    fn of(words: &[u64]) -> Self {
        Self(words.iter().flat_map(|word| word.to_ne_bytes()).collect())
    }

    pub(super) fn get(&self, field: Field) -> u64 {
        get(&self.0, field)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let destroy = raw::mlx5dv()
            .ok()
            .and_then(|library| library.mlx5dv_devx_obj_destroy);
        if let Some(destroy) = destroy {
            // SAFETY: it was made by the library, and is destroyed here alone. What it says then is of no use to anybody.
            unsafe { destroy(self.raw.as_ptr()) };
        }
    }
}

/// The library takes a context for its own.
pub(super) fn mlx5(context: &Context) -> Result<(), Error> {
    if context.is_mlx5() {
        return Ok(());
    }
    Err(Error::NotMlx5 {
        name: context.name().to_owned(),
        what: "the firmware",
    })
}

/// The same bytes where words may be: the library reads them as such.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    bytes.chunks(8).map(|bytes| word(bytes).to_le()).collect()
}

/// What to do about a refusal, by its status and error number.
pub(crate) fn next_step(status: u8, source: &io::Error) -> &'static str {
    /// EOPNOTSUPP, EPROTONOSUPPORT, ENOTTY, ENOSYS.
    const NO_DEVX: [i32; 4] = [95, 93, 25, 38];
    const EPERM: i32 = 1;
    const EINVAL: i32 = 22;
    match (status, source.raw_os_error()) {
        (0, Some(errno)) if NO_DEVX.contains(&errno) => {
            "the kernel or its driver has no DEVX: it takes mlx5_ib of Linux 5.0 with CONFIG_INFINIBAND_USER_ACCESS, and a NIC whose firmware has user contexts"
        }
        (0, Some(EPERM)) => {
            "this context may not: look who owns /dev/infiniband/uverbs*, and what the container allows"
        }
        (0, Some(EINVAL)) => {
            "the kernel did not pass it on: the context has no DEVX (the firmware's LOG_MAX_UCTX, UCTX_EN), or the command is none that a program may give"
        }
        (0, _) => "the kernel's log has more (`dmesg | grep mlx5`)",
        (0x02, _) => "this NIC's firmware does not know the command: update it",
        (0x08 | 0x0f, _) => "the NIC has no more of these: destroy some, or ask for smaller ones",
        _ => {
            "the kernel's log has the same syndrome (`dmesg | grep mlx5`), whose meaning the NIC's maker knows"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_bytes_in_their_order() {
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(Answer::of(&words(&bytes)).0, bytes);
    }

    #[test]
    fn who_fails_says_so_or_the_firmware_does() {
        let number = |errno, status| failure(errno, status).and_then(|error| error.raw_os_error());
        assert!(failure(0, 0).is_none());
        assert_eq!(
            (number(0, 3), number(22, 0), number(-22, 3)),
            (Some(121), Some(22), Some(22))
        );
    }

    #[test]
    fn a_refusal_names_the_command_its_syndrome_and_what_next() {
        let error = Error::Command {
            name: "mlx5_0".into(),
            command: "CREATE_QP",
            status: 3,
            syndrome: 0x00f1_2e3d,
            source: io::Error::from_raw_os_error(EREMOTEIO),
        };
        let text = error.to_string();
        for part in [
            "mlx5_0",
            "CREATE_QP",
            "0x03 (bad parameter)",
            "0x00f12e3d",
            "dmesg",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(error.errno(), Some(EREMOTEIO));
    }
}
