//! The doorbell of an mlx5 device, for who only asks whether somebody can ring it.

use crate::{Error, ProtectionDomain, QueuePairOptions, Transport, Words};

impl ProtectionDomain {
    /// A page of the device's doorbell registers: that of a queue pair which is made for it, in a domain of one thread where the
    /// provider has any, and stays for as long as the page is held. Nobody else is to ring it.
    ///
    /// Any make of device may be asked.
    ///
    /// # Errors
    ///
    /// [`Error::NotMlx5`]; [`Error::Library`] or [`Error::Missing`] where libmlx5, which alone tells, is not there or too old;
    /// [`Error::Call`] where the device makes no queue pair; [`Error::Layout`].
    pub fn doorbell(&self) -> Result<Words, Error> {
        let queue = self.context().direct_completions(1)?;
        // Of all that is asked this alone is safe to ask of another make of device.
        queue.layout()?;
        let domain = self.of_one_thread().unwrap_or_else(|_| self.clone());
        let options = QueuePairOptions::of(Transport::Rc, 1);
        Ok(domain
            .direct_queue_pair(options, &queue, &queue)?
            .layout()?
            .register)
    }
}
