//! Devices, contexts, ports and GIDs.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::{__be64, ibv_cq, ibv_pd, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_srq, ibv_wc};

/// A function pointer that neither `ibverbs` nor gdr calls.
pub type Uncalled = Option<unsafe extern "C" fn()>;

/// `poll_cq` of a context.
pub type PollCq =
    unsafe extern "C" fn(cq: *mut ibv_cq, entries: c_int, completions: *mut ibv_wc) -> c_int;
/// `req_notify_cq` of a context.
pub type ReqNotifyCq = unsafe extern "C" fn(cq: *mut ibv_cq, solicited_only: c_int) -> c_int;
/// `post_srq_recv` of a context.
pub type PostSrqRecv = unsafe extern "C" fn(
    srq: *mut ibv_srq,
    work: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int;
/// `post_send` of a context.
pub type PostSend = unsafe extern "C" fn(
    qp: *mut ibv_qp,
    work: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int;
/// `post_recv` of a context.
pub type PostRecv = unsafe extern "C" fn(
    qp: *mut ibv_qp,
    work: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int;
/// `query_port` of an extended context.
pub type QueryPort = unsafe extern "C" fn(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
    length: usize,
) -> c_int;

/// `query_device_ex` of an extended context; `input` may be null.
pub type QueryDeviceEx = unsafe extern "C" fn(
    context: *mut ibv_context,
    input: *const c_void,
    attributes: *mut ibv_device_attr_ex,
    length: usize,
) -> c_int;

/// `alloc_parent_domain` of an extended context.
pub type AllocParentDomain = unsafe extern "C" fn(
    context: *mut ibv_context,
    attributes: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd;
/// `alloc_td` of an extended context.
pub type AllocTd = unsafe extern "C" fn(
    context: *mut ibv_context,
    attributes: *mut ibv_td_init_attr,
) -> *mut ibv_td;
/// `dealloc_td` of an extended context.
pub type DeallocTd = unsafe extern "C" fn(domain: *mut ibv_td) -> c_int;

/// A GID as two halves.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ibv_gid_global {
    pub subnet_prefix: __be64,
    pub interface_id: __be64,
}

records! {
    /// A GID: 16 bytes, or two halves in network byte order.
    "union ibv_gid" union ibv_gid {
        raw: [u8; 16],
        global: ibv_gid_global,
    }

    /// An entry of a port's GID table.
    "struct ibv_gid_entry" struct ibv_gid_entry {
        gid: ibv_gid,
        gid_index: u32,
        port_num: u32,
        gid_type: u32,
        ndev_ifindex: u32,
    }

    /// Two functions kept for old programs.
    "struct _ibv_device_ops" struct _ibv_device_ops {
        _dummy1: Uncalled,
        _dummy2: Uncalled,
    }

    /// A device.
    "struct ibv_device" struct ibv_device {
        _ops: _ibv_device_ops,
        node_type: c_int,
        transport_type: c_int,
        name: [c_char; 64],
        dev_name: [c_char; 64],
        dev_path: [c_char; 256],
        ibdev_path: [c_char; 256],
    }

    /// A context's function table; functions that verbs.h calls inline are typed.
    "struct ibv_context_ops" struct ibv_context_ops {
        _compat_query_device: Uncalled,
        _compat_query_port: Uncalled,
        _compat_alloc_pd: Uncalled,
        _compat_dealloc_pd: Uncalled,
        _compat_reg_mr: Uncalled,
        _compat_rereg_mr: Uncalled,
        _compat_dereg_mr: Uncalled,
        alloc_mw: Uncalled,
        bind_mw: Uncalled,
        dealloc_mw: Uncalled,
        _compat_create_cq: Uncalled,
        poll_cq: Option<PollCq>,
        req_notify_cq: Option<ReqNotifyCq>,
        _compat_cq_event: Uncalled,
        _compat_resize_cq: Uncalled,
        _compat_destroy_cq: Uncalled,
        _compat_create_srq: Uncalled,
        _compat_modify_srq: Uncalled,
        _compat_query_srq: Uncalled,
        _compat_destroy_srq: Uncalled,
        post_srq_recv: Option<PostSrqRecv>,
        _compat_create_qp: Uncalled,
        _compat_query_qp: Uncalled,
        _compat_modify_qp: Uncalled,
        _compat_destroy_qp: Uncalled,
        post_send: Option<PostSend>,
        post_recv: Option<PostRecv>,
        _compat_create_ah: Uncalled,
        _compat_destroy_ah: Uncalled,
        _compat_attach_mcast: Uncalled,
        _compat_detach_mcast: Uncalled,
        _compat_async_event: Uncalled,
    }

    /// An open device.
    "struct ibv_context" struct ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: libc::pthread_mutex_t,
        abi_compat: *mut c_void,
    }

    /// The structure around an open device whose `abi_compat` is all ones. It grows at its start: only the members from `query_port` to the
    /// end are declared, and `sz` is the library's size of it.
    "struct verbs_context" struct verbs_context {
        query_port: Option<QueryPort>,
        advise_mr: Uncalled,
        alloc_null_mr: Uncalled,
        read_counters: Uncalled,
        attach_counters_point_flow: Uncalled,
        create_counters: Uncalled,
        destroy_counters: Uncalled,
        reg_dm_mr: Uncalled,
        alloc_dm: Uncalled,
        free_dm: Uncalled,
        modify_flow_action_esp: Uncalled,
        destroy_flow_action: Uncalled,
        create_flow_action_esp: Uncalled,
        modify_qp_rate_limit: Uncalled,
        alloc_parent_domain: Option<AllocParentDomain>,
        dealloc_td: Option<DeallocTd>,
        alloc_td: Option<AllocTd>,
        modify_cq: Uncalled,
        post_srq_ops: Uncalled,
        destroy_rwq_ind_table: Uncalled,
        create_rwq_ind_table: Uncalled,
        destroy_wq: Uncalled,
        modify_wq: Uncalled,
        create_wq: Uncalled,
        query_rt_values: Uncalled,
        create_cq_ex: Uncalled,
        private: *mut c_void = "priv",
        query_device_ex: Option<QueryDeviceEx>,
        ibv_destroy_flow: Uncalled,
        ABI_placeholder2: Uncalled,
        ibv_create_flow: Uncalled,
        ABI_placeholder1: Uncalled,
        open_qp: Uncalled,
        create_qp_ex: Uncalled,
        get_srq_num: Uncalled,
        create_srq_ex: Uncalled,
        open_xrcd: Uncalled,
        close_xrcd: Uncalled,
        _ABI_placeholder3: u64,
        sz: usize,
        context: ibv_context,
    }

    /// Attributes of a thread domain.
    "struct ibv_td_init_attr" struct ibv_td_init_attr {
        comp_mask: u32,
    }

    /// A thread domain: objects that a single thread uses.
    "struct ibv_td" struct ibv_td {
        context: *mut ibv_context,
    }

    /// Attributes of a parent domain.
    "struct ibv_parent_domain_init_attr" struct ibv_parent_domain_init_attr {
        pd: *mut ibv_pd,
        td: *mut ibv_td,
        comp_mask: u32,
        alloc: Uncalled,
        free: Uncalled,
        pd_context: *mut c_void,
    }

    /// Attributes and limits of a device.
    "struct ibv_device_attr" struct ibv_device_attr {
        fw_ver: [c_char; 64],
        node_guid: __be64,
        sys_image_guid: __be64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: c_uint,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: c_uint,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }

    /// What a device offers for memory with on-demand paging (ODP).
    "struct ibv_odp_caps" struct ibv_odp_caps {
        general_caps: u64,
        rc_odp_caps: u32 = "per_transport_caps.rc_odp_caps",
        uc_odp_caps: u32 = "per_transport_caps.uc_odp_caps",
        ud_odp_caps: u32 = "per_transport_caps.ud_odp_caps",
    }

    "struct ibv_tso_caps" struct ibv_tso_caps {
        max_tso: u32,
        supported_qpts: u32,
    }

    "struct ibv_rss_caps" struct ibv_rss_caps {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        rx_hash_fields_mask: u64,
        rx_hash_function: u8,
    }

    "struct ibv_packet_pacing_caps" struct ibv_packet_pacing_caps {
        qp_rate_limit_min: u32,
        qp_rate_limit_max: u32,
        supported_qpts: u32,
    }

    "struct ibv_tm_caps" struct ibv_tm_caps {
        max_rndv_hdr_size: u32,
        max_num_tags: u32,
        flags: u32,
        max_ops: u32,
        max_sge: u32,
    }

    "struct ibv_cq_moderation_caps" struct ibv_cq_moderation_caps {
        max_cq_count: u16,
        max_cq_period: u16,
    }

    "struct ibv_pci_atomic_caps" struct ibv_pci_atomic_caps {
        fetch_add: u16,
        swap: u16,
        compare_swap: u16,
    }

    /// Extended attributes of a device. It grows at its end: a library leaves what it does not know zero.
    "struct ibv_device_attr_ex" struct ibv_device_attr_ex {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: ibv_tso_caps,
        rss_caps: ibv_rss_caps,
        max_wq_type_rq: u32,
        packet_pacing_caps: ibv_packet_pacing_caps,
        raw_packet_caps: u32,
        tm_caps: ibv_tm_caps,
        cq_mod_caps: ibv_cq_moderation_caps,
        max_dm_size: u64,
        pci_atomic_caps: ibv_pci_atomic_caps,
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }

    "struct ibv_port_attr" struct ibv_port_attr {
        state: ibv_port_state::Type,
        max_mtu: ibv_mtu,
        active_mtu: ibv_mtu,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
    }
}

constants! {
    /// Kinds of a device.
    plain ibv_node_type {
        IBV_NODE_CA = 1,
        IBV_NODE_RNIC = 4,
        IBV_NODE_UNSPECIFIED = 7,
    }

    /// Bits of `ibv_odp_caps::general_caps`.
    plain ibv_odp_general_caps {
        IBV_ODP_SUPPORT = 1 << 0,
        IBV_ODP_SUPPORT_IMPLICIT = 1 << 1,
    }

    /// Bits of a transport's capabilities in `ibv_odp_caps`.
    plain ibv_odp_transport_cap_bits {
        IBV_ODP_SUPPORT_SEND = 1 << 0,
        IBV_ODP_SUPPORT_RECV = 1 << 1,
        IBV_ODP_SUPPORT_WRITE = 1 << 2,
        IBV_ODP_SUPPORT_READ = 1 << 3,
        IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
        IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
    }

    /// Whose atomic operations a device's are atomic with.
    plain ibv_atomic_cap {
        IBV_ATOMIC_NONE = 0,
        IBV_ATOMIC_HCA = 1,
        IBV_ATOMIC_GLOB = 2,
    }

    values ibv_port_state {
        IBV_PORT_NOP = 0,
        IBV_PORT_DOWN = 1,
        IBV_PORT_INIT = 2,
        IBV_PORT_ARMED = 3,
        IBV_PORT_ACTIVE = 4,
        IBV_PORT_ACTIVE_DEFER = 5,
    }

    /// MTU codes.
    plain ibv_mtu {
        IBV_MTU_256 = 1,
        IBV_MTU_512 = 2,
        IBV_MTU_1024 = 3,
        IBV_MTU_2048 = 4,
        IBV_MTU_4096 = 5,
    }

    /// Types of a GID.
    plain ibv_gid_type {
        IBV_GID_TYPE_IB = 0,
        IBV_GID_TYPE_ROCE_V1 = 1,
        IBV_GID_TYPE_ROCE_V2 = 2,
    }

    /// Link layers.
    plain ibv_link_layer {
        IBV_LINK_LAYER_UNSPECIFIED = 0,
        IBV_LINK_LAYER_INFINIBAND = 1,
        IBV_LINK_LAYER_ETHERNET = 2,
    }
}

/// A context's function table, through a pointer that may be null.
///
/// # Safety
///
/// `context` is null, or open.
pub(crate) unsafe fn ops(context: *mut ibv_context) -> Option<ibv_context_ops> {
    // SAFETY: the caller's guarantee.
    unsafe { context.as_ref() }.map(|context| context.ops)
}

/// The context of an object, through pointers that may be null.
macro_rules! context_of {
    ($($name:ident: $type:ty),*) => { $(
        #[doc = concat!("The context of an [`", stringify!($type), "`]; null where the object is.")]
        ///
        /// # Safety
        ///
        /// The object is null or alive.
        pub(crate) unsafe fn $name(object: *mut $type) -> *mut ibv_context {
            // SAFETY: the caller's guarantee.
            unsafe { object.as_ref() }.map_or(std::ptr::null_mut(), |object| object.context)
        }
    )* };
}

context_of!(context_of_cq: ibv_cq, context_of_qp: ibv_qp, context_of_srq: ibv_srq);
