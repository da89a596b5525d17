//! The laws in the kernel, under names of this process, as long as they are needed.

use crate::Outcome;
use leeway_kernel::Load;
use std::collections::BTreeMap;

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
        let mut laws = Laws::default();
        for (i, spec) in specs.into_iter().enumerate() {
            if laws.names.contains_key(spec) {
                continue;
            }
            let mut load = Load::new(spec.parse()?);
            // At most 15 characters.
            load.name = format!("live{:x}_{i:x}", std::process::id() & 0xff_ffff);
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

impl Drop for Laws {
    fn drop(&mut self) {
        for name in self.names.values() {
            if let Err(error) = leeway_kernel::unload(name) {
                eprintln!("leeway-live: {name} stays loaded: {error}");
            }
        }
    }
}
