//! Plain data: facts, findings, plans, results. No I/O, and no dependency on other modules.

mod action;
mod bdf;
mod boot;
mod checked;
mod column;
pub mod config;
mod counters;
mod cuda;
mod diff;
mod explain;
mod fabric;
mod fact;
mod facts;
mod failures;
pub mod figure;
mod finding;
mod fleet;
mod history;
mod hosts;
mod idlist;
mod job;
mod journal;
mod json;
pub mod limited;
mod limits;
mod listed;
mod mapping;
mod mask_key;
mod modprobe;
mod module_files;
mod nccl;
mod nccl_decisions;
mod network;
mod nic_driver;
mod node_action;
mod nvidia_gpus;
mod nvml;
mod operation;
mod order;
mod pci;
mod plan;
mod probe;
mod rdma;
mod readings;
mod record;
mod registration;
mod shares;
mod snapshot;
mod software;
mod system;
mod topology;
mod verbs;

pub use action::{ActionClass, RequiredAction, in_words};
pub use bdf::{Bdf, BdfError};
pub use boot::Boot;
pub use checked::{Digest, FilePath, Invalid, KernelRelease, KernelWord, ModuleName, UnitName};
pub use column::{Column, Form};
pub use config::{AcsBits, Config, Link, LinkSpeed, PortType};
pub use counters::{
    COUNTERS, Counter, CounterKind, counter, is_flap, is_high, risen, risen_since, span,
};
pub use cuda::{ComputeCapability, Cuda, CudaGpu, CudaOutcome, CudaPair, StreamMemops};
pub use diff::{Change, ChangeKind, DIFF_SCHEMA, Diff, DiffReport, FigureChange, Side};
pub use explain::{
    EXPLAIN_SCHEMA, ExplainReport, ExplainedCheck, Likelihood, Quote, ReadText, Standing,
    SymptomMatch, Uncovered, Undecided,
};
pub use fabric::{Fabric, ImexNodes, Unit, UnitLines};

pub use fact::{Fact, Why};
pub use facts::{Facts, Note};
pub use failures::Failures;
pub use finding::{
    Area, ELSEWHERE, Evidence, Finding, Manual, Missing, NextStep, Obstacle, Outcome, Readiness,
    ReadyState, Remedy, Root, Severity, Summary,
};
pub use fleet::{
    Absence, AbsentNode, FLEET_SCHEMA, FaultKind, FleetDifference, FleetFact, FleetFault,
    FleetFigure, FleetFinding, FleetLink, FleetNetwork, FleetNode, FleetReport, FleetState,
    FleetSummary, FleetTopology, FleetValue, HeatMap, NodeGroup, TopologyDevice, TopologyRow,
};
pub use history::{HISTORY_SCHEMA, History, NodeHistory, ProblemHistory};
pub use hosts::{fold, natural};
pub use idlist::{IdList, IdListError};
pub use job::{
    Allowed, Communicator, FailureDetail, FailureKind, FasterPath, Gdrdma, JOB_SCHEMA, Job,
    JobLibrary, JobPath, JobVariable, LibraryPath, Loss, LostBandwidth, RankCell, RankFailure,
    RankMatrix, RankPair, ReasonKind,
};
pub use journal::{
    Entry, FileChange, FileMeta, FileRecord, ImageChange, JOURNAL_SCHEMA, Journal, JournalState,
    Mutation, Progress,
};
pub use json::{to_json, to_tree};
pub use limits::{Limits, RdmaGrant, Service, Setting};
pub use listed::{Listed, ListedGpu, ListedPair};
pub use mapping::{DmaBufTrial, GpuMapping, MappingOutcome, MappingTrial};
pub use mask_key::{MaskKey, MaskKeyError, NAME_BITS};
pub use modprobe::{Command, Directive, HiddenFile, Initramfs, Modprobe};
pub use module_files::{AtBoot, ModuleFile, ModuleFiles};
pub use nccl::NcclElement;
pub use nccl_decisions::{
    NcclDecisions, NcclGpuPair, NcclLevel, NcclNicPair, NcclPath, NcclUse, NcclVersion,
    NcclVersionSource,
};
pub use network::{CounterGrowth, LinkPause, Network, NetworkInterface, Priorities};
pub use nic_driver::{Dmabuf, NicDriver, dmabuf_providers};
pub use node_action::{NodeAction, NodeProblem};
pub use nvidia_gpus::NVIDIA_GPUS;
pub use nvml::{
    Bar1, FabricRegistration, LinkedPair, NvLink, Nvml, NvmlGpu, NvmlOutcome, NvmlPair,
    P2pCapability, P2pStatus,
};
pub use operation::{DeviceNode, FirmwareTool, GrubMkconfig, InitramfsBuilder, Operation};
pub use order::Order;
pub use pci::{
    Attributes, ErrorCounts, Ids, LinkState, PciDevice, PciPath, Resource, RootBus,
    is_passthrough_driver,
};
pub use plan::{
    Action, AttributeWrite, Capability, Cause, ConfigWrite, FileWrite, ImageBuild, Left,
    PLAN_SCHEMA, Plan, PlannedCommand, Repair, Step,
};
pub use probe::{
    BYTES, BackendChoice, BackendOutcome, Bucket, CounterChange, GIGABYTES_PER_SECOND,
    MICROSECONDS, MILLIONS_PER_SECOND, MpiTransport, PROBE_SCHEMA, PacketSettings, ProbeKind,
    ProbeReport, ProbeResult, ProbeVerdict, ProbedEnd, ProbedFunction, ProbedGpu, ProbedMpi,
    ProbedPaging, ProbedPair, ProbedSrd, WITHOUT_GPUDIRECT, size,
};
pub use rdma::{
    FirmwareSetting, GidReach, RdmaDevice, RdmaGid, RdmaPort, RdmaStack, RoceSettings,
    StorageRoute, VirtualFunction,
};
pub use readings::{Counts, DeviceReading, PortReading, Readings};
pub use record::{
    Comparison, Difference, DifferenceKind, FigureName, NodeRecord, Problem, RECORD_SCHEMA, Record,
    RecordedProblem,
};
pub use registration::{
    DoorbellTrial, DoorbellTrials, GpuRegistration, MemoryPathTrial, MemoryPaths, NicTrial,
    RegistrationOutcome, RegistrationTrial,
};
pub use shares::Shares;
pub use snapshot::{
    Failure, FileKind, FileState, Hex, LibraryAnswer, MAX_PATHS, Part, Question, Recorded,
    RecordedLibraries, SNAPSHOT_SCHEMA, Snapshot, ToolOutput,
};
pub use software::{Found, Library, Program, Software};
pub use system::{
    Cma, Driver, DriverGpu, Gdrdrv, Host, IommuMember, Kernel, Module, Mount, NodeFile, NodeState,
    NumaNode, PeerMemory, Platform, PlatformKind, Process,
};
pub use topology::{
    Bottleneck, Hop, Kind, Match, Meeting, Path, PciClass, RdmaPath, Row, RowPair, Verdict,
};
pub use verbs::{
    DmabufAnswer, Verbs, VerbsDevice, VerbsError, VerbsOutcome, VerbsPort, VerbsTrial,
};
