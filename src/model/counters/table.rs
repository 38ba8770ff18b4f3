//! The counters, their meanings and their usual causes.

use super::{Counter, CounterKind};

const ABI: &str = "kernel: Documentation/ABI/stable/sysfs-class-infiniband";
const MLX5: &str = "kernel: drivers/infiniband/hw/mlx5/counters.c; https://enterprise-support.nvidia.com/s/article/understanding-mlx5-linux-counters-and-status-parameters";
const MLX5_EN: &str =
    "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html";
const RXE: &str = "kernel: drivers/infiniband/sw/rxe/rxe_hw_counters.c";
const BNXT: &str = "kernel: drivers/infiniband/hw/bnxt_re/hw_counters.c";
const BNXT_EN: &str = "kernel: drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c";
const IRDMA: &str = "kernel: drivers/infiniband/hw/irdma/verbs.c";
const ICE: &str = "kernel: drivers/net/ethernet/intel/ice/ice_ethtool.c";
const EFA: &str = "kernel: drivers/infiniband/hw/efa/efa_verbs.c";
const AER: &str = "kernel: Documentation/ABI/testing/sysfs-bus-pci-devices-aer";
const NVML: &str = "nvml.h: NVML_FI_DEV_NVLINK_*";
const NVLINK: &str = "Reset the GPU; if the errors go on, its NVLink bridge, its baseboard or the GPU is faulty: see nvidia-smi nvlink -e and the Xids of the kernel log.";
const FABRIC: &str = "A switch dropped or reordered packets: compare the lossless priority of NICs and switches with the traffic class in use (rdma.lossless), and look at the switch's discards.";
const REPEATED: &str = "The other end repeats requests because an acknowledgement was lost or late: see the counters of loss at both ends.";
const TIMEOUT: &str = "A packet or its acknowledgement was lost, or the other end is slower than the timeout: see the counters of loss at both ends, and --ack-timeout.";
const CABLE: &str =
    "Clean or replace the cable or the transceiver, and check the FEC settings of both ends.";
const PAUSED: &str = "The network is congested towards this NIC's peers: look for a slow receiver (pcie.link, pcie.payload) behind the switch.";
const PAUSES: &str = "This NIC cannot write to memory as fast as packets arrive: see pcie.link, pcie.payload, pcie.iommu and rdma.write-ordering.";
const MARKED: &str = "Several senders share an output of a switch; that is how DCQCN works, and only a high rate is a fault.";
const NOT_READY: &str = "The receiver posts buffers too late: use more receive buffers, or a CPU of the NIC's node for it.";
const REJECTED: &str = "Look at the error that the program got: the remote end rejected the request (key, address, length or state).";
const UNANSWERED: &str = "The other end did not answer within all retries: see its port, its GID and the counters of loss.";
const SLOT: &str = "Reseat the card, and look at the slot, the riser and the link's speed (pcie.link, pcie.errors).";

/// One counter per line: name, kind, meaning, usual cause, source.
macro_rules! counters {
    ($( $name:literal $kind:ident $meaning:literal, $cause:expr, $source:expr; )*) => {
        /// Counters of traffic are left out, and those that rise on every healthy link.
        pub const COUNTERS: &[Counter] = &[ $( Counter {
            name: $name,
            kind: CounterKind::$kind,
            meaning: $meaning,
            cause: $cause,
            source: $source,
        }, )* ];
    };
}

counters! {
    // The port, of every driver.
    "symbol_error" Link "Minor errors of the link's coding.", CABLE, ABI;
    "link_error_recovery" Link "The port trained the link again and succeeded.", CABLE, ABI;
    "link_downed" Link "The port failed to train the link again, and the link went down.", CABLE, ABI;
    "local_link_integrity_errors" Link "Local errors of the physical link exceeded a threshold.", CABLE, ABI;
    "excessive_buffer_overrun_errors" Link "Buffer overruns of the link exceeded a threshold.", CABLE, ABI;
    "port_rcv_errors" Link "Packets with an error arrived.", CABLE, ABI;
    "port_rcv_remote_physical_errors" Link "Packets arrived that a switch marked as bad.",
        "A link elsewhere on the path is bad: look at the symbol errors of the switches.", ABI;
    "port_rcv_switch_relay_errors" Loss "Packets arrived that could not be forwarded.",
        "The subnet manager's routes are wrong or changing.", ABI;
    "port_rcv_constraint_errors" Loss "Packets arrived that the port's partition rules discard.",
        "The P_Keys of both ends differ: see --pkey-index.", ABI;
    "port_xmit_constraint_errors" Loss "Packets were not sent because of the port's partition rules.",
        "The P_Keys of both ends differ: see --pkey-index.", ABI;
    "port_xmit_discards" Loss "Packets to send were discarded because the port was down or congested.",
        "The other end of the link takes no packets: look for a slow receiver or a flapping link.", ABI;
    "VL15_dropped" Loss "Management packets were dropped for want of buffers.", "Many hosts query the subnet manager at once.", ABI;
    "port_xmit_wait" Congestion "The port had data to send and no credits of the receiver.",
        "A receiver in the fabric is slow, or the links towards it are too few.", ABI;

    // mlx5: hw_counters.
    "out_of_sequence" Loss "The responder received packets out of order.", FABRIC, MLX5;
    "packet_seq_err" Loss "The responder reported missing packets (NAK, PSN sequence error), and the requester sent them again.", FABRIC, MLX5;
    "implied_nak_seq_err" Loss "The requester noticed by a later response that an earlier one was lost.", FABRIC, MLX5;
    "local_ack_timeout_err" Loss "The requester's timer expired without an acknowledgement.", TIMEOUT, MLX5;
    "duplicate_request" Loss "The responder received a request again.", REPEATED, MLX5;
    "roce_adp_retrans" Loss "Packets were sent again by adaptive retransmission.", FABRIC, MLX5;
    "roce_adp_retrans_to" Loss "The timer of adaptive retransmission expired.", TIMEOUT, MLX5;
    "rx_icrc_encapsulated" Link "RoCE packets with a wrong invariant CRC arrived.",
        "Memory of a switch or a NIC on the path is faulty, or a device changes packets: compare the counter on several NICs.", MLX5;
    "roce_slow_restart" Congestion "The NIC restarted a flow slowly after it was idle.", MARKED, MLX5;
    "rnr_nak_retry_err" Receiver "The responder was not ready (RNR NAK), and the requester waited.", NOT_READY, MLX5;
    "out_of_buffer" Receiver "Messages arrived without a posted receive buffer.", NOT_READY, MLX5;
    "np_ecn_marked_roce_packets" Congestion "Packets arrived that a switch marked as congested (ECN).", MARKED, MLX5;
    "np_cnp_sent" Congestion "This NIC sent congestion notifications (CNP) for marked packets.", MARKED, MLX5;
    "rp_cnp_handled" Congestion "Congestion notifications (CNP) arrived, and this NIC slowed down.", MARKED, MLX5;
    "rp_cnp_ignored" Congestion "Congestion notifications (CNP) arrived and were ignored.",
        "DCQCN is off for the priority of the flow: see rdma.lossless.", MLX5;
    "req_transport_retries_exceeded" Failure "Requests failed after all retransmissions.", UNANSWERED, MLX5;
    "req_rnr_retries_exceeded" Failure "Requests failed because the receiver was not ready after all retries.", NOT_READY, MLX5;
    "req_remote_invalid_request" Failure "The remote end rejected requests as invalid.", REJECTED, MLX5;
    "req_remote_access_errors" Failure "The remote end rejected requests: wrong key, address or rights.", REJECTED, MLX5;
    "resp_remote_access_errors" Failure "This NIC rejected requests: wrong key, address or rights.", REJECTED, MLX5;
    "resp_local_length_error" Failure "Messages did not fit into their receive buffers.", REJECTED, MLX5;

    // rdma_rxe: hw_counters.
    "out_of_seq_request" Loss "The responder received packets out of order.", FABRIC, RXE;
    "rcvd_seq_err" Loss "The responder reported missing packets (NAK, PSN sequence error), and the requester sent them again.", FABRIC, RXE;
    "completer_retry_err" Loss "The requester went back and sent packets again.", FABRIC, RXE;
    "send_err" Loss "Packets could not be handed to the network interface.",
        "The interface is down or its queue is full: see ip -s link.", RXE;
    "rcvd_rnr_err" Receiver "The responder was not ready (RNR NAK), and the requester waited.", NOT_READY, RXE;
    "send_rnr_err" Receiver "Messages arrived without a posted receive buffer.", NOT_READY, RXE;
    "retry_exceeded_err" Failure "Requests failed after all retransmissions.", UNANSWERED, RXE;
    "retry_rnr_exceeded_err" Failure "Requests failed because the receiver was not ready after all retries.", NOT_READY, RXE;

    // bnxt_re: hw_counters.
    "to_retransmits" Loss "The requester's timer expired without an acknowledgement.", TIMEOUT, BNXT;
    "seq_err_naks_rcvd" Loss "The responder reported missing packets (NAK, PSN sequence error), and the requester sent them again.",
        FABRIC, BNXT;
    "missing_resp" Loss "The requester noticed by a later response that an earlier one was lost.", FABRIC, BNXT;
    "dup_req" Loss "The responder received a request again.", REPEATED, BNXT;
    "res_oos_drop_count" Loss "Packets out of order were dropped.", FABRIC, BNXT;
    "oos_drop_count" Loss "Packets out of order were dropped.", FABRIC, BNXT;
    "rx_roce_discards" Loss "RoCE packets that arrived were discarded.",
        "The NIC's receive buffer was full: see the lossless priority (rdma.lossless).", BNXT;
    "tx_roce_discards" Loss "RoCE packets to send were discarded.", "The port was down or congested.", BNXT;
    "rnr_naks_rcvd" Receiver "The responder was not ready (RNR NAK), and the requester waited.", NOT_READY, BNXT;
    "rx_ecn_marked_pkts" Congestion "Packets arrived that a switch marked as congested (ECN).", MARKED, BNXT;
    "tx_cnp_pkts" Congestion "This NIC sent congestion notifications (CNP) for marked packets.", MARKED, BNXT;
    "rx_cnp_pkts" Congestion "Congestion notifications (CNP) arrived, and this NIC slowed down.", MARKED, BNXT;
    "max_retry_exceeded" Failure "Requests failed after all retransmissions.", UNANSWERED, BNXT;
    "unrecoverable_err" Failure "Queue pairs failed for good.", REJECTED, BNXT;

    // irdma: hw_counters.
    "RetransSegs" Loss "Segments were sent again.", FABRIC, IRDMA;
    "tcpRetransSegs" Loss "Segments were sent again.", FABRIC, IRDMA;
    "Nak Sequence Error" Loss "The responder reported missing packets (NAK, PSN sequence error), and the requester sent them again.",
        FABRIC, IRDMA;
    "Nak Sequence Error Implied" Loss "The requester noticed by a later response that an earlier one was lost.", FABRIC, IRDMA;
    "RTO" Loss "The requester's timer expired without an acknowledgement.", TIMEOUT, IRDMA;
    "Rcvd Out of order packets" Loss "The responder received packets out of order.", FABRIC, IRDMA;
    "RNR received" Receiver "The responder was not ready (RNR NAK), and the requester waited.", NOT_READY, IRDMA;
    "RNR sent" Receiver "Messages arrived without a posted receive buffer.", NOT_READY, IRDMA;
    "ip4InDiscards" Loss "Packets that arrived were discarded.",
        "The NIC's receive buffer was full: see the lossless priority (rdma.lossless).", IRDMA;
    "ip6InDiscards" Loss "Packets that arrived were discarded.",
        "The NIC's receive buffer was full: see the lossless priority (rdma.lossless).", IRDMA;
    "RxECNMrkd" Congestion "Packets arrived that a switch marked as congested (ECN).", MARKED, IRDMA;
    "cnpSent" Congestion "This NIC sent congestion notifications (CNP) for marked packets.", MARKED, IRDMA;
    "cnpHandled" Congestion "Congestion notifications (CNP) arrived, and this NIC slowed down.", MARKED, IRDMA;
    "cnpIgnored" Congestion "Congestion notifications (CNP) arrived and were ignored.",
        "DCQCN is off for the priority of the flow: see rdma.lossless.", IRDMA;

    // efa: hw_counters.
    "retrans_pkts" Loss "Packets were sent again.", "The network dropped packets; EFA sends them again on other paths.", EFA;
    "retrans_timeout_events" Loss "A timer expired without an acknowledgement.", TIMEOUT, EFA;
    "rx_drops" Loss "Packets that arrived were dropped.", "No receive buffer was posted, or the instance was too busy.", EFA;
    "impaired_remote_conn_events" Loss "The connection to a remote end became slow or lossy.", FABRIC, EFA;
    "unresponsive_remote_events" Failure "A remote end did not answer.", UNANSWERED, EFA;

    // mlx5: ethtool -S.
    "rx_prio*_pause" Congestion "Pause frames (PFC) for this priority arrived, and this NIC stopped sending.", PAUSED, MLX5_EN;
    "rx_prio*_pause_duration" Congestion "Microseconds in which pause frames (PFC) stopped this priority.", PAUSED, MLX5_EN;
    "tx_prio*_pause" Congestion "This NIC sent pause frames (PFC) for this priority.", PAUSES, MLX5_EN;
    "tx_prio*_pause_duration" Congestion "Microseconds in which this NIC stopped its peer on this priority (PFC).", PAUSES, MLX5_EN;
    "rx_prio*_discards" Loss "Packets of this priority were discarded for want of receive buffers.",
        "The priority is not lossless, or its buffer is too small: see rdma.lossless.", MLX5_EN;
    "rx_prio*_buf_discard" Loss "Packets of this priority were discarded for want of the host's receive buffers.",
        "The priority is not lossless, or its buffer is too small: see rdma.lossless.", MLX5_EN;
    "rx_prio*_cong_discard" Loss "Packets of this priority were discarded because the host was congested.", PAUSES, MLX5_EN;
    "rx_prio*_marked" Congestion "The NIC marked packets of this priority (ECN) because the host was congested.", PAUSES, MLX5_EN;
    "rx_pause_ctrl_phy" Congestion "Pause frames arrived at the port.", PAUSED, MLX5_EN;
    "tx_pause_ctrl_phy" Congestion "The port sent pause frames.", PAUSES, MLX5_EN;
    "rx_global_pause" Congestion "Pause frames for all priorities arrived.", PAUSED, MLX5_EN;
    "tx_global_pause" Congestion "The port sent pause frames for all priorities.", PAUSES, MLX5_EN;
    "tx_pause_storm_warning_events" Congestion "The NIC sent pause frames for a long time.", PAUSES, MLX5_EN;
    "tx_pause_storm_error_events" Loss "The NIC sent pause frames for so long that it stopped doing so; packets may have been lost.",
        PAUSES, MLX5_EN;
    "rx_discards_phy" Loss "Packets that arrived were discarded for want of buffers of the port.", PAUSES, MLX5_EN;
    "tx_discards_phy" Loss "Packets to send were discarded although they had no error.",
        "The link was down, or a pause of the network lasted too long.", MLX5_EN;
    "rx_symbol_err_phy" Link "Packets were dropped because of symbol errors.", CABLE, MLX5_EN;
    "rx_pcs_symbol_err_phy" Link "Symbol errors that FEC did not correct.", CABLE, MLX5_EN;
    "rx_crc_errors_phy" Link "Packets with a wrong checksum were dropped.", CABLE, MLX5_EN;
    "rx_oversize_pkts_phy" Loss "Packets longer than the MTU were dropped.",
        "The other end has a larger MTU: use the same on both ends and on the switches.", MLX5_EN;
    "link_down_events_phy" Link "The link went down.", CABLE, MLX5_EN;
    "module_bad_shorted" Link "The transceiver's cables were shorted.", CABLE, MLX5_EN;
    "module_high_temp" Link "The transceiver was too hot.", "Check the air flow, and replace the transceiver.", MLX5_EN;
    "rx_pci_signal_integrity" Bus "Signal errors of PCI Express in the NIC's receiver.", SLOT, MLX5_EN;
    "tx_pci_signal_integrity" Bus "Signal errors of PCI Express that the other side reported.", SLOT, MLX5_EN;
    "outbound_pci_buffer_overflow" Loss "Packets were dropped because PCI Express took them too slowly.", PAUSES, MLX5_EN;
    "outbound_pci_stalled_wr_events" Congestion "Seconds in which the NIC's writes waited for PCI Express more than 30 % of the time.",
        PAUSES, MLX5_EN;
    "outbound_pci_stalled_rd_events" Congestion "Seconds in which the NIC's reads waited for PCI Express more than 30 % of the time.",
        PAUSES, MLX5_EN;

    // bnxt_en: ethtool -S.
    "rx_pfc_ena_frames_pri*" Congestion "Pause frames (PFC) for this priority arrived, and this NIC stopped sending.", PAUSED, BNXT_EN;
    "tx_pfc_ena_frames_pri*" Congestion "This NIC sent pause frames (PFC) for this priority.", PAUSES, BNXT_EN;
    "rx_discard_packets_cos*" Loss "Packets of this class were discarded for want of receive buffers.",
        "The class is not lossless, or its buffer is too small: see rdma.lossless.", BNXT_EN;

    // ice: ethtool -S.
    "rx_priority_*_xoff.nic" Congestion "Pause frames (PFC) for this priority arrived, and this NIC stopped sending.", PAUSED, ICE;
    "tx_priority_*_xoff.nic" Congestion "This NIC sent pause frames (PFC) for this priority.", PAUSES, ICE;

    // PCI Express, of a function: aer_dev_correctable, aer_dev_nonfatal, aer_dev_fatal.
    "correctable.RxErr" Bus "Receiver errors of the link.", SLOT, AER;
    "correctable.BadTLP" Bus "Transaction packets with a wrong checksum arrived.", SLOT, AER;
    "correctable.BadDLLP" Bus "Link packets with a wrong checksum arrived.", SLOT, AER;
    "correctable.Rollover" Bus "A packet was sent again four times in a row.", SLOT, AER;
    "correctable.Timeout" Bus "A packet was not acknowledged in time and sent again.", SLOT, AER;
    "nonfatal.CmpltTO" Bus "A read was not answered in time.", SLOT, AER;
    "nonfatal.CmpltAbrt" Bus "A read was aborted.", SLOT, AER;
    "nonfatal.UnsupReq" Bus "A request that the device does not support arrived.",
        "The request was routed to a device that does not take it: see pcie.acs and pcie.iommu.", AER;
    "nonfatal.ACSViol" Bus "ACS blocked a request.",
        "The request was routed to a device that does not take it: see pcie.acs and pcie.iommu.", AER;
    "nonfatal.TLPBlockedErr" Bus "An egress was blocked.",
        "The request was routed to a device that does not take it: see pcie.acs and pcie.iommu.", AER;
    "nonfatal.PoisonTLPBlocked" Bus "A poisoned packet was blocked.", SLOT, AER;
    "fatal.DLP" Bus "The protocol of the link was violated.", SLOT, AER;
    "fatal.SDES" Bus "The device was removed by surprise.", SLOT, AER;
    "fatal.FCP" Bus "The flow control of the link was violated.", SLOT, AER;
    "fatal.RxOF" Bus "The receiver's buffer overflowed.", SLOT, AER;
    "fatal.MalfTLP" Bus "A malformed packet arrived.", SLOT, AER;
    // NVLinks of a GPU. Replays and wrong checksums are corrected and happen on sound links; corrected memory errors
    // (ECC) may, too: sound H200 count them.
    "nvlink.recovery" Link "An NVLink trained anew to recover.", NVLINK, NVML;
    "nvlink.dl_recovery" Link "An NVLink trained anew to recover.", NVLINK, NVML;
    "nvlink.failed_recoveries" Link "An NVLink could not recover.", NVLINK, NVML;
    "nvlink.link_integrity" Link "The integrity of an NVLink was lost.", NVLINK, NVML;
}
