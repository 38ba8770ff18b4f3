//! A datagram's address as an mlx5 NIC reads it: what the provider would copy into the entry, for who writes the entry himself.

use std::ptr::NonNull;

use ibverbs_sys::{self as raw, mlx5dv_obj_type as object};

use crate::{Context, Datagram, Error};

/// The way to a port: the 48 bytes of an address handle, `struct mlx5_wqe_av` of `infiniband/mlx5dv.h`, big-endian.
///
/// The first twelve, which say to which queue pair and with which key, mean nothing: the provider fills them in with each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressVector([u8; BYTES]);

const BYTES: usize = 48;

const _: () =
    assert!(size_of::<raw::mlx5_wqe_av>() == BYTES && align_of::<raw::mlx5_wqe_av>() >= 4);

impl AddressVector {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }
}

impl Datagram {
    /// The way there, for who writes entries himself.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`], [`Error::Library`] without libmlx5, [`Error::Missing`], [`Error::Call`].
    pub fn direct(&self) -> Result<AddressVector, Error> {
        // SAFETY: this value's handle, of its domain's device, alive as long as this.
        unsafe { self.domain().context().address_vector(self.handle()) }
    }
}

impl Context {
    /// The way that a program's address handle has.
    ///
    /// # Errors
    ///
    /// As [`Datagram::direct`]; [`Error::Layout`] where the provider tells no address.
    ///
    /// # Safety
    ///
    /// The handle is of this open device, by the machine's libibverbs, and is not destroyed during the call.
    pub unsafe fn address_vector(
        &self,
        handle: NonNull<raw::ibv_ah>,
    ) -> Result<AddressVector, Error> {
        let mut told = raw::mlx5dv_ah::default();
        let mut asked = raw::mlx5dv_obj {
            ah_in: handle.as_ptr(),
            ah_out: &raw mut told,
            ..raw::mlx5dv_obj::default()
        };
        let what = "an address handle";
        self.ask(&mut asked, object::MLX5DV_OBJ_AH.0, what)?;
        let vector = NonNull::new(told.av).ok_or(Error::Layout { what, bytes: BYTES })?;
        // SAFETY: the provider told that so many bytes are there, which it does not change, and keeps while the handle is there.
        Ok(AddressVector(unsafe {
            vector.cast::<[u8; BYTES]>().read()
        }))
    }
}
