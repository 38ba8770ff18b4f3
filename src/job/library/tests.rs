//! Lines as the libraries write them, with the paths that a person reads in them.

use crate::job::JobReader;
use crate::model::{FasterPath, Job, LibraryPath};

fn job(log: &str) -> Job {
    let mut reader = JobReader::default();
    reader.feed(log.as_bytes());
    reader.finish().unwrap_or_else(|| panic!("no job in {log}"))
}

/// Each path as `library purpose transports devices memory place`.
fn paths(job: &Job) -> Vec<String> {
    let text = |library: &str, path: &LibraryPath| {
        let place = match path.same_node {
            Some(true) => "node",
            Some(false) => "nodes",
            None => "?",
        };
        let memory = path.memory.as_deref().unwrap_or("-");
        let (transports, devices) = (path.transports.join("+"), path.devices.join("+"));
        format!("{library} {} {transports} [{devices}] {memory} {place}", path.purpose)
    };
    let libraries = job.libraries.iter();
    libraries.flat_map(|of| of.paths.iter().map(|path| text(&of.name, path))).collect()
}

#[test]
fn paths_of_each_library() {
    for (log, expected) in [
        (
            "[1.8] [n1:28:a]  ucp_worker.c:1855 UCX  INFO    0x309 intra-node cfg#5 tag(sysv/memory rc_mlx5/mlx5_0:1 cuda_ipc/cuda)\n",
            vec!["UCX tag sysv+rc_mlx5+cuda_ipc [mlx5_0:1] - node"],
        ),
        (
            "ucp_context_0 inter-node cfg#1 tag(rc_mlx5/mlx5_0:1/path0)\n",
            vec!["UCX tag rc_mlx5 [mlx5_0:1] - nodes"],
        ),
        (
            "ucp_worker.c:1783 UCX INFO ep_cfg[2]: tag(sysv/memory cma/memory tcp/ib1)\n",
            vec!["UCX tag sysv+cma+tcp [ib1] - ?"],
        ),
        (
            "x UCX  INFO ucp_context_0 self cfg#1 rma(rc_mlx5/mlx5_3:1)  ka(ud_mlx5/mlx5_3:1)\n\
             x UCX  INFO ucp_context_0 intra-node cfg#2 rma(rc_mlx5/mlx5_3:1)  amo(rc_mlx5/mlx5_3:1)  am(rc_mlx5/mlx5_3:1 cuda_ipc/cuda)  ka(ud_mlx5/mlx5_3:1)\n",
            vec!["UCX am rc_mlx5+cuda_ipc [mlx5_3:1] - node", "UCX rma rc_mlx5 [mlx5_3:1] - node"],
        ),
        // Two processes write their tables at once.
        (
            "[1] [n1:1:0]   | mpi inter-node cfg#2 | tagged message by ucp_tag_send* from cuda/GPU0 |\n\
             [1] [n1:2:0]   | mpi intra-node cfg#3 | tagged message by ucp_tag_send*(fast) from host memory |\n\
             [1] [n1:1:0]   +----------------------+-------------+\n\
             [1] [n1:1:0]   |              0..8246 | short       | rc_mlx5/mlx5_1:1 |\n\
             [1] [n1:2:0]   |               0..inf | (?) rendezvous zero-copy | cma/memory |\n\
             [1] [n1:1:0]   |            8247..inf | rendezvous zero-copy read from remote | rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1 |\n",
            vec!["UCX tag rc_mlx5 [mlx5_0:1] cuda nodes", "UCX tag cma [] host node"],
        ),
        // UCX 1.22 writes the heading in two lines; the second table is of a copy that goes through host memory.
        (
            "[1.1] [n1:1:0]   | ucp_context_0 intra-node cfg#2                                     |\n\
             [1.1] [n1:1:0]   | tagged message by ucp_tag_send*(fast-completion) from cuda/GPU0    |\n\
             [1.1] [n1:1:0]   +-----------+----------------------------------------+---------------+\n\
             [1.1] [n1:1:0]   |   Range   |              Description               |    Config     |\n\
             [1.1] [n1:1:0]   |   1..4111 | eager copy-in copy-out                 | sysv/memory   |\n\
             [1.1] [n1:1:0]   | 4112..inf | (?) rendezvous zero-copy read from remote | cuda_ipc/cuda |\n\
             [1.1] [n1:2:0]   | ucp_context_0 self cfg#1                         |\n\
             [1.1] [n1:2:0]   | tagged message by ucp_tag_send* from host memory |\n\
             [1.1] [n1:2:0]   | 2285..inf | (?) rendezvous copy from mapped remote memory | self/memory |\n\
             [1.2] [n1:3:0]   | ucp_context_0 intra-node cfg#2                         |\n\
             [1.2] [n1:3:0]   | tagged message by ucp_tag_send*(multi) from cuda/GPU1 |\n\
             [1.2] [n1:3:0]   | 524289..inf | (?) rendezvous pipeline cuda_copy, copy to attached, frag host, cuda_copy, frag host |  |\n",
            vec!["UCX tag cuda_copy [] cuda node", "UCX tag cuda_ipc [] cuda node"],
        ),
        (
            "| ctx intra-node cfg#1 | remote memory write by ucp_put*(multi) from host memory to cuda/dev[0] |\n\
             | 9384..inf | zero-copy | rc_mlx5/mlx5_0:1/path0 |\n",
            vec!["UCX put rc_mlx5 [mlx5_0:1] host to cuda node"],
        ),
        (
            "n1:1:1 [0] NVSHMEM INFO P2P list: 0 1 2 3 \n\
             n1:1:1 [0] NVSHMEM INFO Successfully initialized the transport: ibrc\n\
             n1:1:1 [0] NVSHMEM INFO Successfully initialized the transport: IBGDA. It will be used for device-side APIs over IB.\n",
            vec![
                "NVSHMEM PEs in reach P2P [] - ?",
                "NVSHMEM from GPUs IBGDA [] - ?",
                "NVSHMEM other PEs IBRC [] - ?",
            ],
        ),
        (
            "[n1:12] select: component ucx selected\n[n1:12] select: component ob1 not selected / finalized\n",
            vec!["Open MPI pml ucx [] - ?"],
        ),
        (
            "[n1:12] select: component cm selected\n[n1:12] select: component ofi selected\n",
            vec!["Open MPI mtl ofi [] - ?", "Open MPI pml cm [] - ?"],
        ),
        (
            "[n1:12] mca: bml: Using smcuda btl for send to [[21921,1],1] on node n1\n\
             [n1:12] mca: bml: Using self btl for send to [[21921,1],0] on node n1\n\
             [n1:12] mca: bml: Using tcp btl for send to [[21921,1],2] on node n2\n",
            vec!["Open MPI btl tcp [] - nodes", "Open MPI btl smcuda [] - node"],
        ),
        (
            "12-09 NIXL INFO    _api.py:361 Backend UCX was instantiated\nI0000 nixl_agent.cpp:975] Selected backend: UCX\n",
            vec!["NIXL backend UCX [] - ?", "NIXL transfers UCX [] - ?"],
        ),
        (
            "I20260203 17:42:09.401029 37 rdma_context.cpp:140] RDMA device: mlx5_9, LID: 0, GID: (GID_Index 3) 00\n",
            vec!["Mooncake transfers RDMA [mlx5_9] - ?"],
        ),
        (
            "I0513 11:04:17 55 transfer_engine_impl.cpp:395] Using TCP transport (no HCA detected)\n",
            vec!["Mooncake transfers TCP [] - ?"],
        ),
    ] {
        let mut expected = expected;
        expected.sort_unstable();
        let mut found = paths(&job(log));
        found.sort_unstable();
        assert_eq!(found, expected, "{log}");
    }
}

/// A path that is not stated is not read: prose, cut lines, an endpoint to the process itself.
#[test]
fn nothing_is_invented() {
    for log in [
        "The line inter-node cfg#1 names tag(...) lanes\n",
        "ucp_context_0 inter-node cfg#1 tag(rc_mlx5/mlx5_0:1\n",
        "ucp_context_0 self cfg#0 tag(self/memory)\n",
        "n1:1:1 [0] NVSHMEM INFO P2P list: 0 \n",
        "n1:1:1 [0] NVSHMEM INFO IBRC transport skipped in favor of: none\n",
        "select: component ob1 not selected / finalized\n",
        "pip install nixl nvshmem4py-cu12 # UCX  DeepEP and NIXL_ERR_BACKEND are words\n",
    ] {
        let mut reader = JobReader::default();
        reader.feed(log.as_bytes());
        let job = reader.finish();
        assert!(job.is_none_or(|job| paths(&job).is_empty()), "{log}");
    }
}

/// The first error of a library, with its process where the line has one.
#[test]
fn failures_of_each_library() {
    for (log, expected) in [
        (
            "[m1:195:0:195] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n",
            "Completion [\"m1:195\"] Transport retry count exceeded on mlx5_0:1/IB",
        ),
        (
            "[1.3] [r1:82:0]   ib_md.c:349  UCX  ERROR ibv_reg_mr(address=0x7f72, length=4096, access=0xf) failed: Bad address\n",
            "MemoryRegistration [\"r1:82\"] ibv_reg_mr(address=0x7f72, length=4096, access=0xf) failed: Bad address",
        ),
        (
            "[1.3] [r1:82:0]   sock.c:200  UCX  ERROR socket create failed: Too many open files\n",
            "OpenFiles [\"r1:82\"] socket create failed: Too many open files",
        ),
        (
            "[1,8]<stderr>:[m1:195:0:195]    ud_iface.c:732  UCX Fatal: transport error: Endpoint timeout\n",
            "Timeout [\"m1:195\"] UCX: transport error: Endpoint timeout",
        ),
        (
            "WARN: Function: create_nccl_ofi_component Line: 459: NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument\n",
            "NetworkPlugin [] NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
        ),
        (
            "E1219 10:38:57.898806 14747 tcp_transport.cpp:480] TcpTransport::startTransfer encountered an ASIO exception. Slice details - \
             length: 1024. Exception: connect: Cannot assign requested address\n",
            "ConnectionFailed [] Mooncake: connect: Cannot assign requested address",
        ),
        (
            "[1.3] [r1:82:0]   sock.c:323  UCX  ERROR   connect(fd=48, dest_addr=192.0.2.1:42887) failed: Connection refused\n",
            "ConnectionFailed [\"r1:82\"] connect(fd=48, dest_addr=192.0.2.1:42887) failed: Connection refused",
        ),
        (
            "[1.3] [r1:82:0]   ucp_context.c:1345 UCX  ERROR no usable transports/devices (asked rc on all devices)\n",
            "Library [\"r1:82\"] no usable transports/devices (asked rc on all devices)",
        ),
        (
            "/w/nvshmem_src/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA\n",
            "Library [] NVSHMEM: init failed for transport: IBGDA",
        ),
        (
            "/w/nvshmem-3.5/src/modules/transport/ibgda/ibgda.cpp 4820 no active IB device that supports GPU-initiated communication is found, exiting...\n",
            "Library [] NVSHMEM: no active IB device that supports GPU-initiated communication is found, exiting...",
        ),
        (
            "/w/nvshmem/src/modules/bootstrap/uid/ncclSocket/ncclsocket_socket.cpp:socketProgressOpt:39: socketProgressOpt: Call to recv from 192.0.2.1<3> failed : Broken pipe\n",
            "ConnectionClosed [] in the bootstrap: socketProgressOpt: Call to recv from 192.0.2.1<3> failed : Broken pipe",
        ),
        (
            "[x1:105] PML ucx cannot be selected\n",
            "Library [\"x1:105\"] Open MPI cannot select the PML ucx",
        ),
        (
            "E0302 09:15:07.98 7 rdma_transport.cpp:662] RdmaTransport: No available RNIC\n",
            "Library [] Mooncake: RdmaTransport: No available RNIC",
        ),
        (
            "E0302 09:15:07.98 7 worker_pool.cpp:294] Worker: Process failed for slice (opcode: 1, length: 8, local_nic: mlx5_9, peer_nic: 192.0.2.7:5@mlx5_8, dest_rkey: 2): transport retry counter exceeded\n",
            "Completion [] Mooncake: transport retry counter exceeded, NIC mlx5_9, peer 192.0.2.7:5@mlx5_8",
        ),
        (
            "ERROR 01-09 15:09:33 [nixl_connector.py:1198] NIXL transfer failure: handshake_setup_failed | Context: {}\n",
            "Library [] NIXL transfer failure: handshake_setup_failed",
        ),
        (
            "[1.3] [r1:82:0]   ib_mlx5_dv.c:452  UCX  ERROR   mlx5dv_devx_obj_create(CQ) failed on mlx5_1, syndrome 0x2aac7c: Remote I/O error\n",
            "Library [\"r1:82\"] mlx5dv_devx_obj_create(CQ) failed on mlx5_1, syndrome 0x2aac7c: Remote I/O error",
        ),
        (
            "DeepEP dispatch NVL receiver timeout, channel: 3, RDMA: 1, nvl: 0\n",
            "Timeout [] DeepEP dispatch NVL receiver timeout",
        ),
        (
            "RuntimeError: DeepEP error: timeout (dispatch CPU)\n",
            "Timeout [] DeepEP error: timeout (dispatch CPU)",
        ),
        (
            "E1111 08:02:15.854331   924 master_client.cpp:146] RPC call failed: Connection timed out\n",
            "ConnectionFailed [] Mooncake: RPC call failed: Connection timed out",
        ),
        (
            "[224] [coro_connection.hpp:209] ibverbs init qp failed: End of file conn_id  1\n",
            "Library [] Mooncake: ibverbs init qp failed: End of file conn_id  1",
        ),
        (
            "[TP0] E1120 11:10:27.133715 20 transfer_task.cpp:305] Failed to complete transfers after 60 seconds\n",
            "Library [] Mooncake: Failed to complete transfers after 60 seconds",
        ),
        (
            "W20260813 19:30:35.212966  7257 workers.cpp:447] Slice 0x7b failed: transfer timeout (software)\n",
            "Timeout [] Mooncake: Slice 0x7b failed: transfer timeout (software)",
        ),
        (
            "E0000 00:00:1762238119.118500 2368740 gpunetio_backend.cpp:512] Failed to create mmap: DOCA_ERROR_DRIVER\n",
            "Library [] NIXL: Failed to create mmap: DOCA_ERROR_DRIVER",
        ),
        (
            "[1.3] [r1:82:0]   tag_match.c:61   UCX  ERROR unexpected tag-receive descriptor: invalid id\n",
            "Library [\"r1:82\"] UCX: unexpected tag-receive descriptor: invalid id",
        ),
        (
            "192.0.2.3: WARN: Function: main Line: 66: NET/OFI Failed to query it\n",
            "NetworkPlugin [] NET/OFI Failed to query it",
        ),
        (
            "[1.3] [r1:82:0] sock.c:323 UCX ERROR connect(fd=87, dest_addr=192.0.2.1:47133) failed: Connection refused\n[r1:82] pml_ucx.c:419 Error: ucp_ep_create(proc=9) failed: Destination is unreachable\n",
            "ConnectionFailed [\"r1:82\"] connect(fd=87, dest_addr=192.0.2.1:47133) failed: Connection refused",
        ),
        (
            "[r1:82] pml_ucx.c:419  Error: ucp_ep_create(proc=9) failed: Destination is unreachable\n",
            "Other [\"r1:82\"] Open MPI: ucp_ep_create(proc=9) failed: Destination is unreachable",
        ),
    ] {
        let job = job(log);
        let [failure] = job.failures.as_slice() else { panic!("{:?}", job.failures) };
        let detail = &failure.details[0].text;
        assert_eq!(format!("{:?} {:?} {detail}", failure.kind, failure.processes), expected);
    }
}

/// What a sound run of Mooncake or NIXL writes too.
#[test]
fn no_failure_of_a_library() {
    for line in [
        "I1111 08:02:15.854331   924 master_client.cpp:146] RPC call failed before, now connected\n",
        "W1111 08:02:15.854331   924 transfer_task.cpp:14] Failed once, retrying\n",
        "E1111 08:02:15.854331   924 master_client.cpp:146] Query failed for key: abc\n",
        "E1111 08:02:15.854331   924 master_client.cpp:146] 3 clients\n",
        "I0000 00:00:1762238119.118500 2368740 gpunetio_backend.cpp:512] no error\n",
        "Enable_x 12 gpunetio_backend.cpp:512] Failed to create mmap\n",
    ] {
        let mut reader = JobReader::default();
        reader.feed(line.as_bytes());
        assert!(reader.finish().is_none_or(|job| job.failures.is_empty()), "{line}");
    }
}

/// TCP between nodes is slower than RDMA, whatever the reason.
#[test]
fn lost_paths_of_ucx() {
    let tcp = "x UCX  INFO ctx inter-node cfg#2 tag(tcp/eth1)\n";
    let variables = "parser.c:1 UCX  INFO  UCX_* env variables: UCX_TLS=cuda_ipc,cuda_copy,tcp UCX_LOG_LEVEL=info\n";
    let other = "parser.c:1 UCX  INFO  UCX_* env variables: UCX_TLS=all\n";
    for (log, expected) in [
        (vec![tcp], Some((FasterPath::Rdma, false))),
        (vec![other, tcp], Some((FasterPath::Rdma, false))),
        (vec![variables, tcp], Some((FasterPath::Rdma, true))),
        (vec!["x UCX  INFO ctx inter-node cfg#2 tag(tcp/eth1 rc_mlx5/mlx5_0:1)\n"], None),
        (
            vec!["x UCX  INFO ctx intra-node cfg#2 rma_am(tcp/eth1)\n"],
            Some((FasterPath::SharedMemory, false)),
        ),
        (
            vec![variables, "x UCX  INFO ctx intra-node cfg#2 rma_am(tcp/eth1)\n"],
            Some((FasterPath::SharedMemory, true)),
        ),
        (vec!["x UCX  INFO ctx intra-node cfg#2 tag(sysv/memory cma/memory)\n"], None),
        (
            vec![
                "| ctx intra-node cfg#1 | by ucp_tag_send* from cuda/GPU0 |\n| 0..inf | copy | cuda_copy/cuda, sysv/memory |\n",
            ],
            Some((FasterPath::PeerAccess, false)),
        ),
    ] {
        let job = job(&log.concat());
        let lost = job.lost.first().map(|loss| (loss.faster, loss.line.is_some()));
        assert_eq!(lost, expected, "{log:?}");
    }
}
