//! The laws in this machine's kernel, over TCP between network namespaces. The tests need root,
//! and are skipped without it.

mod behaviour;
mod faults;
mod paths;
mod replay;
#[path = "../testbed/mod.rs"]
mod testbed;

use leeway_control::LawSpec;
use leeway_kernel::{Load, Loaded};

/// A law that stays loaded until the end of a test, also if the test fails.
struct Pinned(String);

impl Pinned {
    fn new(what: &str, law: &str) -> Pinned {
        let load = Load { name: testbed::unique(what), ..Load::new(spec(law)) };
        load.pinned().unwrap_or_else(|error| panic!("{error}"));
        Pinned(load.name)
    }

    fn loaded(&self) -> Loaded {
        Loaded::find(&self.0).unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = leeway_kernel::unload(&self.0);
    }
}

fn spec(law: &str) -> LawSpec {
    law.parse().unwrap_or_else(|error| panic!("{error}"))
}
