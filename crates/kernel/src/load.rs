//! Putting a law into the kernel and taking it out.

use crate::error::KernelError;
use crate::shared::{CONFIG_BYTES, Config, PARAMS_MAX, Record, SPEC_MAX};
use crate::{libbpf, machine, pins};
use leeway_control::LawSpec;
use libbpf_rs::{ErrorKind, Link, MapCore, Object, ObjectBuilder, OpenObject, RingBufferBuilder};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/leeway.bpf.o"));
/// Longest time for which a name is still taken after its law was unloaded.
const LETTING_GO: Duration = Duration::from_secs(1);

/// A law to load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The law with its parameters.
    pub spec: LawSpec,
    /// The kernel's name for it; [`default_name`] unless chosen.
    pub name: String,
    /// One-way delays from TCP timestamps; otherwise the law sees round-trip times only.
    pub timestamps: bool,
}

/// `leeway_` and the law.
pub fn default_name(spec: &LawSpec) -> String {
    format!("leeway_{}", spec.name())
}

impl Load {
    /// A law under its default name.
    pub fn new(spec: LawSpec) -> Load {
        Load { name: default_name(&spec), spec, timestamps: true }
    }

    /// Registers the law and pins it, so that it stays when this process ends. Nothing stays
    /// behind on an error, or if this process is killed on the way: the pin is the last step, and
    /// until then the kernel drops everything with the process.
    ///
    /// # Errors
    /// Rights, BTF, a name that is taken, a verifier that refuses.
    pub fn pinned(&self) -> Result<(), KernelError> {
        self.pinned_from(PROGRAMS)
    }

    /// The same with other programs than the built-in ones, to test the error messages.
    #[doc(hidden)]
    pub fn pinned_from(&self, programs: &[u8]) -> Result<(), KernelError> {
        self.check()?;
        let path = pins::folder()?.join(&self.name);
        if path.exists() {
            return Err(KernelError::Exists(self.name.clone()));
        }
        let began = Instant::now();
        let mut attached = loop {
            match self.attach(programs, false) {
                // A law that was just unloaded: the kernel frees its name a moment after its pin.
                Err(KernelError::Exists(_)) if began.elapsed() < LETTING_GO => thread::sleep(LETTING_GO / 50),
                attached => break attached?,
            }
        };
        attached.link.pin(&path).map_err(KernelError::bpf(format!("pin {}", path.display())))
    }

    /// Registers the law for as long as the result lives, and records every event of it.
    ///
    /// # Errors
    /// Those of [`Load::pinned`].
    pub fn recorded(&self) -> Result<Recording, KernelError> {
        self.check()?;
        self.attach(PROGRAMS, true).map(Recording)
    }

    /// Whether the name can be one of the kernel's.
    ///
    /// # Errors
    /// [`KernelError::BadName`].
    pub fn check(&self) -> Result<(), KernelError> {
        check_name(&self.name)
    }

    fn attach(&self, programs: &[u8], record: bool) -> Result<Attached, KernelError> {
        machine::check_btf(&machine::btf_path())?;
        libbpf::quietly(|| self.open(programs, record).and_then(|open| self.start(open)))
    }

    /// The object with everything but this law left out, and its configuration.
    fn open(&self, programs: &[u8], record: bool) -> Result<OpenObject, KernelError> {
        let law = self.spec.name();
        let config = Config {
            loaded_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            timestamps_off: !self.timestamps,
            record,
            params: self.spec.words().to_vec(),
            spec: self.spec.to_string(),
        };
        assert!(
            config.params.len() <= PARAMS_MAX && config.spec.len() < SPEC_MAX,
            "{law}: too many parameters"
        );
        let mut builder = ObjectBuilder::default();
        builder.name("leeway").map_err(KernelError::bpf("name the programs"))?;
        let mut open = builder.open_memory(programs).map_err(KernelError::bpf("open the programs"))?;
        let (ops, sockets) = (format!("leeway_{law}"), format!("{law}_sockets"));
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == ".rodata.config" {
                let data = map.initial_value_mut().filter(|data| data.len() == CONFIG_BYTES);
                config.write(data.expect("the configuration is as large as the programs think"));
            } else if name == ops {
                rename(map.initial_value_mut().expect("a struct_ops has a value"), &ops, &self.name);
            } else if name == "leeway_events" && record || name == sockets {
                continue;
            } else if name == "leeway_events" || name.starts_with("leeway_") || name.ends_with("_sockets") {
                map.set_autocreate(false).map_err(KernelError::bpf(format!("leave out {name}")))?;
            }
        }
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let ours = name.strip_prefix(law).is_some_and(|rest| rest.starts_with('_'));
            program.set_autoload(ours);
        }
        Ok(open)
    }

    fn start(&self, open: OpenObject) -> Result<Attached, KernelError> {
        let mut object = open.load().map_err(|error| self.refused("load the programs", &error))?;
        let ops = format!("leeway_{}", self.spec.name());
        let mut maps = object.maps_mut();
        let Some(mut map) = maps.find(|map| map.name() == ops.as_str()) else {
            let law = self.spec.name();
            return Err(KernelError::failed(format!("load {law}"))(
                &"the kernel's programs were built without this law; build leeway again",
            ));
        };
        let link = map.attach_struct_ops().map_err(|error| self.refused("register the law", &error))?;
        drop(maps);
        Ok(Attached { link, object })
    }

    fn refused(&self, doing: &str, error: &libbpf_rs::Error) -> KernelError {
        match error.kind() {
            ErrorKind::AlreadyExists => KernelError::Exists(self.name.clone()),
            _ => libbpf::refused(self.spec.name(), doing, error),
        }
    }
}

/// Unloads a law. New connections cannot choose it; present ones keep it until they end.
///
/// # Errors
/// [`KernelError::Unknown`]; the file system's.
pub fn unload(name: &str) -> Result<(), KernelError> {
    check_name(name)?;
    let path = pins::folder()?.join(name);
    if !path.exists() {
        return Err(KernelError::unknown(name, &pins::names()?));
    }
    std::fs::remove_file(&path).map_err(|error| KernelError::failed(format!("unload {name}"))(&error))
}

/// A registered law with its BPF object.
struct Attached {
    link: Link,
    object: Object,
}

/// A registered law whose events are recorded; dropping it takes the law out.
pub struct Recording(Attached);

impl Recording {
    /// Waits for events, `patience` at most, and visits those that came.
    ///
    /// # Errors
    /// The ring buffer's.
    pub fn read(&self, patience: Duration, visit: impl FnMut(Record)) -> Result<(), KernelError> {
        read_events(&self.0.object, patience, visit)
    }
}

/// Visits what came to an object's ring buffer of events, waiting for `patience` at most.
pub(crate) fn read_events(
    object: &Object,
    patience: Duration,
    mut visit: impl FnMut(Record),
) -> Result<(), KernelError> {
    let doing = "read the recorded events";
    let events = object.maps().find(|map| map.name() == "leeway_events");
    let events = events.expect("a recording has its ring buffer");
    let mut builder = RingBufferBuilder::new();
    let take = |bytes: &[u8]| {
        if let Some(record) = Record::read(bytes) {
            visit(record);
        }
        0
    };
    builder.add(&events, take).map_err(KernelError::bpf(doing))?;
    let ring = builder.build().map_err(KernelError::bpf(doing))?;
    ring.poll(patience).map_err(KernelError::bpf(doing))
}

fn check_name(name: &str) -> Result<(), KernelError> {
    let fits = (1..=15).contains(&name.len());
    // The kernel takes a dot as well, its file system of pins does not.
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if fits && plain { Ok(()) } else { Err(KernelError::BadName(name.to_owned())) }
}

/// Replaces the name in a `struct tcp_congestion_ops`; no other field contains the same bytes.
fn rename(ops: &mut [u8], from: &str, to: &str) {
    let at = ops.windows(from.len()).position(|window| window == from.as_bytes());
    let field = &mut ops[at.expect("the programs name their laws")..][..16];
    field.fill(0);
    field[..to.len()].copy_from_slice(to.as_bytes());
}
