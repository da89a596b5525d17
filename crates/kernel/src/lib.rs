//! The control laws as TCP congestion control of a running Linux kernel.
//!
//! The C text of `control/` is compiled to BPF and registered through struct_ops: every program of
//! the machine can then choose a law by its name. [`Load`] registers one, [`names`] says which
//! there are, [`Loaded`] which sockets they drive and what they cost. `docs/kernel.md` describes
//! where the kernel's part of each number comes from.

mod account;
mod cgroup;
mod confine;
mod devices;
mod error;
mod inspect;
mod libbpf;
mod load;
mod lock;
mod machine;
mod pins;
mod process;
mod receive;
mod request;
mod send;
mod shared;
mod visit;
mod way;

pub use account::{Account, Direction, Share};
pub use confine::{Asker, Confinement, Leftover, Policy, attached, confinement, confinements, leftovers};
pub use error::KernelError;
pub use inspect::{Cost, Loaded, names};
pub use load::{Load, Recording, default_name, unload};
pub use machine::{btf_path, check_btf, release};
pub use process::Process;
pub use receive::{Budget, Receive, ReceiveRecording, Received, Receiving};
pub use request::{Answer, Request};
pub use send::{Dscp, DscpError};
pub use shared::{Event, Record, Socket};
pub use way::Way;
