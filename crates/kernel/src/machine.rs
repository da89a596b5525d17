//! Requirements on the kernel: a description of its types (BTF), and the hooks of Linux 6.10.

use crate::error::KernelError;
use crate::libbpf;
use libbpf_rs::ReferencesType;
use libbpf_rs::btf::{Btf, types};
use std::path::{Path, PathBuf};

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// `cong_control(sk, ack, flag, rate_sample)`; before 6.10 it was without `ack` and `flag`.
const ARGUMENTS: usize = 4;

/// Where the kernel describes its types; `LEEWAY_BTF` names another file, to see what would be
/// said of another kernel.
pub fn btf_path() -> PathBuf {
    std::env::var_os("LEEWAY_BTF").map_or_else(|| BTF.into(), PathBuf::from)
}

/// Whether a kernel with these types can run the laws.
///
/// # Errors
/// [`KernelError::NoBtf`], [`KernelError::TooOld`].
pub fn check_btf(path: &Path) -> Result<(), KernelError> {
    if !path.exists() {
        return Err(KernelError::NoBtf(path.to_owned()));
    }
    let found = libbpf::quietly(|| arguments(path))?;
    if found == ARGUMENTS {
        return Ok(());
    }
    let release = (path == Path::new(BTF)).then(release);
    Err(KernelError::TooOld { found, release })
}

/// The version of the kernel that runs.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Number of arguments of `cong_control`; 0 without this hook.
fn arguments(path: &Path) -> Result<usize, KernelError> {
    let btf = Btf::from_path(path).map_err(KernelError::bpf(format!("read {}", path.display())))?;
    let ops = btf.type_by_name::<types::Struct<'_>>("tcp_congestion_ops");
    let field = ops.and_then(|ops| {
        ops.iter().find(|field| field.name.is_some_and(|name| name == "cong_control")).map(|field| field.ty)
    });
    let pointer = field.and_then(|ty| btf.type_by_id::<types::Ptr<'_>>(ty));
    let function = pointer.and_then(|to| types::FuncProto::try_from(to.referenced_type()).ok());
    Ok(function.map_or(0, |function| function.len()))
}
