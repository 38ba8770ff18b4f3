//! Scalable Reliable Datagram (SRD), the transport of EFA: each request names its destination, as a datagram does, and arrives or fails, as
//! a message of a connection does, but in no order. Reads and writes of remote memory are what a device may have.

use std::ffi::c_int;
use std::ptr::NonNull;

use ibverbs_sys::{self as raw, ibv_qp_type as kind};

use crate::queue_pair::Inner;
use crate::{
    CompletionQueue, Context, Error, ProtectionDomain, QueuePair, QueuePairOptions, Request, Reset,
    Transport, Work,
};

/// What an EFA device can do with SRD queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Srd {
    /// It reads remote memory.
    pub reads: bool,
    /// It writes remote memory; reported by libefa of rdma-core 47 and later.
    pub writes: bool,
    /// A message waits for a receive request; without it the message fails.
    pub waits_for_receive: bool,
    /// The largest read or write, in bytes.
    pub largest_transfer: u32,
}

/// EOPNOTSUPP: the device is another vendor's, or does not have the request.
const UNSUPPORTED: c_int = 95;

impl Context {
    /// What an EFA device can do; none for other devices.
    ///
    /// # Errors
    ///
    /// [`Error::Library`] without libefa, [`Error::Missing`] below rdma-core 26, [`Error::Call`].
    pub fn srd(&self) -> Result<Option<Srd>, Error> {
        // Of no kind that verbs.h names: so far EFA alone. Other machines need not have libefa.
        if self.node_type() != raw::IBV_NODE_UNSPECIFIED {
            return Ok(None);
        }
        let query = raw::efadv()?
            .efadv_query_device
            .ok_or(Error::Missing { function: "efadv_query_device" })?;
        let mut found = raw::efadv_device_attr::default();
        // SAFETY: the context is open; the library writes at most the size passed.
        let errno = unsafe { query(self.as_raw(), &mut found, size_of_val(&found) as u32) };
        if errno == UNSUPPORTED {
            return Ok(None);
        }
        self.check_errno("efadv_query_device", errno)?;
        let has = |bit: u32| found.device_caps & bit != 0;
        Ok(Some(Srd {
            reads: has(raw::EFADV_DEVICE_ATTR_CAPS_RDMA_READ),
            writes: has(raw::EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE),
            waits_for_receive: has(raw::EFADV_DEVICE_ATTR_CAPS_RNR_RETRY),
            largest_transfer: found.max_rdma_size,
        }))
    }
}

impl ProtectionDomain {
    /// Creates an SRD queue pair on an EFA device, for all requests that the device has.
    pub(crate) fn srd_queue_pair(
        &self,
        options: QueuePairOptions,
        sent: &CompletionQueue,
        received: &CompletionQueue,
    ) -> Result<QueuePair<Reset>, Error> {
        let context = self.context();
        let able =
            context.srd()?.ok_or_else(|| Error::NotEfa { name: context.name().to_owned() })?;
        let create = raw::efadv()?
            .efadv_create_qp_ex
            .ok_or(Error::Missing { function: "efadv_create_qp_ex" })?;
        context.needs("ibv_qp_to_qp_ex", |functions| functions.ibv_qp_to_qp_ex.is_some())?;
        let mut requests = raw::IBV_QP_EX_WITH_SEND | raw::IBV_QP_EX_WITH_SEND_WITH_IMM;
        if able.reads {
            requests |= raw::IBV_QP_EX_WITH_RDMA_READ;
        }
        if able.writes {
            requests |= raw::IBV_QP_EX_WITH_RDMA_WRITE | raw::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
        }
        let mut attributes = raw::ibv_qp_init_attr_ex {
            send_cq: sent.as_raw(),
            recv_cq: received.as_raw(),
            cap: options.cap(),
            qp_type: kind::IBV_QPT_DRIVER,
            pd: self.as_raw(),
            send_ops_flags: requests.into(),
            comp_mask: (raw::ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD
                | raw::ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
                .0,
            ..raw::ibv_qp_init_attr_ex::default()
        };
        let mut of_efa = raw::efadv_qp_init_attr {
            driver_qp_type: raw::EFADV_QP_DRIVER_TYPE_SRD,
            ..raw::efadv_qp_init_attr::default()
        };
        // SAFETY: the context, the domain and both queues are alive; the library writes the actual capacities back into the attributes.
        let raw = unsafe {
            create(
                context.as_raw(),
                &mut attributes,
                &mut of_efa,
                size_of::<raw::efadv_qp_init_attr>() as u32,
            )
        };
        let raw = context.check_pointer("efadv_create_qp_ex", raw)?;
        Ok(QueuePair::of(
            raw,
            attributes.cap.max_inline_data,
            Transport::Srd,
            self,
            [sent, received],
        )
        .waiting_for_receive(able.waits_for_receive))
    }
}

impl Inner {
    /// Posts a request by the functions of the extended queue pair.
    pub(crate) fn send_srd(
        &mut self,
        qp: NonNull<raw::ibv_qp>,
        request: &Request<'_>,
    ) -> Result<(), Error> {
        if request.inline && request.sges.len() > 1 {
            return Err(Error::Sges(request.sges.len()));
        }
        let (list, count) = self.entries(request.sges)?;
        // SAFETY: the queue pair is alive, and was created with functions.
        let extended = NonNull::new(unsafe { raw::ibv_qp_to_qp_ex(qp.as_ptr()) });
        let missing = Error::Missing { function: "ibv_qp_to_qp_ex" };
        let qp = extended.ok_or(missing)?.as_ptr();
        // SAFETY: the library's extended queue pair, alive as long as the queue pair. Only this thread posts: `self` is borrowed exclusively.
        let functions = unsafe { &*qp };
        let (Some(start), Some(address), Some(list_of), Some(inline), Some(complete)) = (
            functions.wr_start,
            functions.wr_set_ud_addr,
            functions.wr_set_sge_list,
            functions.wr_set_inline_data,
            functions.wr_complete,
        ) else {
            return Err(self.unsupported("ibv_wr_start"));
        };
        let raw::ibv_send_wr_datagram { ah, remote_qpn, remote_qkey } =
            destination(request.work).ok_or_else(|| self.unsupported("ibv_wr_send"))?;
        let (begin, name) = begin(functions, request.work);
        let begin = begin.ok_or_else(|| self.unsupported(name))?;
        // SAFETY: the functions are the provider's, for this queue pair, called in the order of ibv_wr_post(3). The address handle is alive
        // and of this library; the memory is kept until the pair is destroyed, or copied before `complete` returns.
        let errno = unsafe {
            start(qp);
            (*qp).wr_id = request.id;
            (*qp).wr_flags = request.flags();
            match begin {
                Begin::Send(send) => send(qp),
                Begin::SendImmediate(send, value) => send(qp, value.to_be()),
                Begin::Remote(act, at) => act(qp, at.rkey, at.address),
                Begin::RemoteImmediate(act, at, value) => {
                    act(qp, at.rkey, at.address, value.to_be());
                }
            }
            if request.inline && count > 0 {
                let sge = list.read();
                let from = std::ptr::with_exposed_provenance_mut(sge.addr as usize);
                inline(qp, from, sge.length as usize);
            } else {
                list_of(qp, count as usize, list)
            }
            address(qp, ah, remote_qpn, remote_qkey);
            complete(qp)
        };
        self.posted("ibv_wr_complete", errno)
    }

    fn unsupported(&self, function: &'static str) -> Error {
        match self.posted(function, UNSUPPORTED) {
            Err(error) => error,
            Ok(()) => Error::Missing { function },
        }
    }
}

/// The queue pair that a request is for; None if the request is for a connected queue pair.
fn destination(work: Work<'_>) -> Option<raw::ibv_send_wr_datagram> {
    Some(match work {
        Work::SendTo(to, _) | Work::WriteTo(to, ..) | Work::ReadFrom(to, _) => to.raw(),
        Work::SendBy { handle, queue_pair, qkey, .. } => handle.to(queue_pair, qkey),
        _ => return None,
    })
}

/// The function that begins this request, if the provider has it, and its name.
fn begin(functions: &raw::ibv_qp_ex, work: Work<'_>) -> (Option<Begin>, &'static str) {
    match work {
        Work::WriteTo(_, at, None) => {
            (functions.wr_rdma_write.map(|write| Begin::Remote(write, at)), "ibv_wr_rdma_write")
        }
        Work::WriteTo(_, at, Some(value)) => (
            functions.wr_rdma_write_imm.map(|write| Begin::RemoteImmediate(write, at, value)),
            "ibv_wr_rdma_write_imm",
        ),
        Work::ReadFrom(_, at) => {
            (functions.wr_rdma_read.map(|read| Begin::Remote(read, at)), "ibv_wr_rdma_read")
        }
        Work::SendTo(_, Some(value)) | Work::SendBy { immediate: Some(value), .. } => {
            (functions.wr_send_imm.map(|send| Begin::SendImmediate(send, value)), "ibv_wr_send_imm")
        }
        _ => (functions.wr_send.map(Begin::Send), "ibv_wr_send"),
    }
}

/// The function that begins a request.
enum Begin {
    Send(raw::OfQueuePair),
    SendImmediate(raw::Immediate, u32),
    Remote(raw::RemoteMemory, crate::Remote),
    RemoteImmediate(raw::RemoteMemoryImmediate, crate::Remote, u32),
}
