//! A program at the network devices of a namespace that sees every outgoing packet.
#![allow(unsafe_code)]

use crate::error::KernelError;
use libbpf_rs::libbpf_sys::{BPF_TCX_EGRESS, bpf_link_create, bpf_obj_pin};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Attaches a program to all devices that a network namespace has, each link pinned as
/// `NAME-INDEX`.
///
/// A device that is removed takes its link along, and a later device has none. A device that
/// cannot take the program is left out: it has 64 programs already, or the kernel is built without
/// tcx.
pub(crate) fn attach_to_all(
    program: BorrowedFd,
    namespace: &File,
    folder: &Path,
    name: &str,
) -> Result<(), KernelError> {
    let failed = |doing: &'static str| move |error: &dyn std::fmt::Display| KernelError::failed(doing)(error);
    std::thread::scope(|scope| {
        let work = move || -> Result<(), KernelError> {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| failed("enter a network namespace")(&error))?;
            for index in indices().map_err(|error| failed("list the network devices")(&error))? {
                if let Some(link) = attach(program, index) {
                    pin(&link, &folder.join(format!("{name}-{index}")))
                        .map_err(|error| failed("pin a program of a device")(&error))?;
                }
            }
            Ok(())
        };
        scope.spawn(work).join().expect("attaching does not panic")
    })
}

/// The devices of this thread's network namespace.
fn indices() -> std::io::Result<Vec<u32>> {
    let asked = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    // The first two lines are headings. A device may be removed meanwhile.
    let names = table.lines().skip(2).filter_map(|line| line.split_once(':'));
    Ok(names.filter_map(|(name, _)| netdevice::name_to_index(&asked, name.trim()).ok()).collect())
}

fn attach(program: BorrowedFd, index: u32) -> Option<OwnedFd> {
    // SAFETY: no options are given; the kernel checks the descriptor and the index.
    let link = unsafe {
        bpf_link_create(program.as_raw_fd(), index.cast_signed(), BPF_TCX_EGRESS, std::ptr::null())
    };
    // SAFETY: what is not negative is a descriptor that nobody else has.
    (link >= 0).then(|| unsafe { OwnedFd::from_raw_fd(link) })
}

fn pin(link: &OwnedFd, path: &Path) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the descriptor and the path live through the call.
    match unsafe { bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) } {
        0.. => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error)),
    }
}
