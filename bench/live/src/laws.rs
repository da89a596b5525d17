//! Loads laws into the kernel for the time of a measurement, under names with this process's
//! number.

use crate::Outcome;
use leeway_kernel::Load;
use std::collections::BTreeMap;
use std::path::Path;

/// Beginning of the kernel's names of these laws; the process number follows.
const PREFIX: &str = "live";

/// Loaded laws; dropping it unloads them.
#[derive(Debug, Default)]
pub struct Laws {
    names: BTreeMap<String, String>,
}

impl Laws {
    /// Loads each of `specs`.
    ///
    /// # Errors
    /// Rights, BTF, a verifier that refuses, a law that does not exist.
    pub fn load<'a>(specs: impl IntoIterator<Item = &'a str>) -> Outcome<Laws> {
        unload_leftovers();
        let mut laws = Laws::default();
        for (i, spec) in specs.into_iter().enumerate() {
            if laws.names.contains_key(spec) {
                continue;
            }
            let mut load = Load::new(spec.parse()?);
            // The kernel allows 15 characters.
            load.name = format!("{PREFIX}{:x}_{i:x}", std::process::id());
            load.pinned()?;
            laws.names.insert(spec.to_owned(), load.name);
        }
        Ok(laws)
    }

    /// The kernel's name of a law.
    ///
    /// # Errors
    /// It has not been loaded.
    pub fn name(&self, spec: &str) -> Outcome<&str> {
        self.names.get(spec).map(String::as_str).ok_or_else(|| format!("{spec} is not loaded").into())
    }
}

/// Unloads laws that killed processes left.
fn unload_leftovers() {
    for name in leeway_kernel::names().into_iter().flatten() {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let owner = owner.and_then(|(pid, _)| u32::from_str_radix(pid, 16).ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // An error is ignored: another process may have unloaded it.
            let _ = leeway_kernel::unload(&name);
        }
    }
}

impl Drop for Laws {
    fn drop(&mut self) {
        for name in self.names.values() {
            if let Err(error) = leeway_kernel::unload(name) {
                eprintln!("leeway-live: {name} stays loaded: {error}");
            }
        }
    }
}
