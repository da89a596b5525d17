//! The C table of laws that `leeway-control` compiles, for what its safe face does not show: where a parameter lies in
//! the params struct, and the state of a law as bytes.
#![allow(unsafe_code)]

use leeway_control::{Ack, LawSpec, Loss, Output, ParamInfo, ParamKind, Path};
use leeway_units::Duration;
use std::ffi::{CStr, c_char, c_void};

/// `struct leeway_param`.
#[repr(C)]
struct RawParam {
    name: *const c_char,
    offset: u32,
    kind: u32,
    fallback: u32,
    min: u32,
    max: u32,
    choices: *const c_char,
    doc: *const c_char,
    source: *const c_char,
}

/// `struct leeway_law`.
#[repr(C)]
struct RawLaw {
    name: *const c_char,
    summary: *const c_char,
    source: *const c_char,
    state_bytes: u32,
    params_bytes: u32,
    init: unsafe extern "C" fn(*mut c_void, *const c_void, *const Path),
    on_ack: unsafe extern "C" fn(*mut c_void, *const Ack, *const Path),
    on_loss: unsafe extern "C" fn(*mut c_void, *const Loss, *const Path),
    params: *const RawParam,
    n_params: u32,
    n_probes: u32,
    probes: *const c_void,
}

unsafe extern "C" {
    fn leeway_law_table(count: *mut u32) -> *const RawLaw;
}

fn row(law: &str) -> &'static RawLaw {
    let mut count = 0;
    // SAFETY: the function writes the count and returns a constant array of that many rows, which lives forever.
    let rows = unsafe { std::slice::from_raw_parts(leeway_law_table(&mut count), count as usize) };
    // SAFETY: the names of the table are literals of C.
    let named = |row: &&RawLaw| unsafe { CStr::from_ptr(row.name) }.to_bytes() == law.as_bytes();
    rows.iter().find(named).expect("leeway_control found the law in the same table")
}

/// The words of the law's params struct.
pub(crate) fn params(spec: &LawSpec) -> Vec<u32> {
    let row = row(spec.name());
    let mut words = vec![0; row.params_bytes as usize / size_of::<u32>()];
    // SAFETY: the row points to a constant array of n_params.
    for raw in unsafe { std::slice::from_raw_parts(row.params, row.n_params as usize) } {
        // SAFETY: the names of the table are literals of C.
        let name = unsafe { CStr::from_ptr(raw.name) }.to_str().expect("the table of laws is UTF-8");
        let info = spec.law().param(name).expect("leeway_control has the parameters of the same table");
        let text = spec.get(name).expect("the law has this parameter");
        words[raw.offset as usize / size_of::<u32>()] = number(info, &text);
    }
    words
}

/// The number of a value as `ParamInfo::show` writes it.
fn number(info: &ParamInfo, text: &str) -> u32 {
    let number = match info.kind {
        ParamKind::Duration => {
            text.parse::<Duration>().ok().and_then(|span| u32::try_from(span.micros()).ok())
        }
        ParamKind::Choice => info.choices.iter().position(|word| *word == text).map(|index| index as u32),
        ParamKind::Packets | ParamKind::Ratio if text == "unlimited" => Some(u32::MAX),
        ParamKind::Packets | ParamKind::Ratio => thousandths(text),
        ParamKind::Count => text.parse().ok(),
    };
    let number =
        number.unwrap_or_else(|| panic!("{}: {text:?} is not how its values are written", info.name));
    assert_eq!(info.show(number), text, "{}", info.name);
    number
}

fn thousandths(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{fraction:0<3}").parse().ok()
}

/// A law's state as bytes, to hold beside the kernel's.
pub struct State {
    law: &'static RawLaw,
    words: Vec<u64>,
}

impl State {
    /// A state of zeros, initialised on that path.
    pub fn new(spec: &LawSpec, path: &Path) -> State {
        let law = row(spec.name());
        let params = params(spec);
        let mut words = vec![0u64; (law.state_bytes as usize).div_ceil(8)];
        // SAFETY: words is as large as the state and aligned for it, params as large as the params struct; C keeps
        // none of the pointers.
        unsafe { (law.init)(words.as_mut_ptr().cast(), params.as_ptr().cast(), path) };
        State { law, words }
    }

    /// An acknowledgement.
    pub fn on_ack(&mut self, ack: &Ack, path: &Path) {
        // SAFETY: words was initialised by this law's init; Ack and Path have the layout of the header.
        unsafe { (self.law.on_ack)(self.words.as_mut_ptr().cast(), ack, path) };
    }

    /// A loss.
    pub fn on_loss(&mut self, loss: &Loss, path: &Path) {
        // SAFETY: as in on_ack.
        unsafe { (self.law.on_loss)(self.words.as_mut_ptr().cast(), loss, path) };
    }

    /// The law's decision.
    pub fn output(&self) -> Output {
        // SAFETY: every state begins with a struct leeway_output, and every bit pattern of it is valid.
        unsafe { self.words.as_ptr().cast::<Output>().read() }
    }

    /// Sets window and threshold, as an undo in the kernel does.
    pub fn set_window(&mut self, cwnd_q16: u64, ssthresh_bytes: u64) {
        self.words[0] = cwnd_q16;
        self.words[1] = ssthresh_bytes;
    }

    /// The state byte by byte.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(self.law.state_bytes as usize);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_law_build_the_same_state_as_leeway_control() {
        let path = Path { mss_bytes: 1448, initial_window_bytes: 14_480, ..Path::default() };
        for law in leeway_control::laws() {
            let mut spec = LawSpec::new(law.name).expect("a law of the table");
            let raised: Vec<_> = law.params.iter().filter(|p| p.default < p.max).collect();
            for param in &raised {
                spec.set(param.name, &param.show(param.default + 1)).expect("a value within its bounds");
            }
            let words = params(&spec);
            for param in raised {
                assert!(words.contains(&(param.default + 1)), "{}: {}", law.name, param.name);
            }
            assert_eq!(State::new(&spec, &path).output(), *spec.build(&path).output(), "{}", law.name);
        }
    }
}
