//! The unsafe code of this crate: the C table of laws, and the state of a law as memory that C
//! works on.
#![allow(unsafe_code)]

use crate::abi::{Ack, Loss, Output, Path, Rate};
use crate::sender::{RateStamp, RateState, Sender};
use std::ffi::{CStr, c_char, c_void};

/// `struct leeway_param` of the headers.
#[repr(C)]
pub(crate) struct RawParam {
    name: *const c_char,
    pub offset: u32,
    pub kind: u32,
    pub fallback: u32,
    pub min: u32,
    pub max: u32,
    choices: *const c_char,
    doc: *const c_char,
    source: *const c_char,
}

/// `struct leeway_probe` of the headers.
#[repr(C)]
pub(crate) struct RawProbe {
    name: *const c_char,
    unit: *const c_char,
    pub offset: u32,
    pub size: u8,
    pub is_signed: u8,
    pub divisor_log2: u16,
    pub divisor: u32,
}

/// `struct leeway_law` of the headers.
#[repr(C)]
pub(crate) struct RawLaw {
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
    probes: *const RawProbe,
    pub needs: u32,
}

// SAFETY: the table is constant data of the program. Nothing writes it, and its pointers lead to
// constant data and to functions that touch only their arguments.
unsafe impl Sync for RawLaw {}

unsafe extern "C" {
    fn leeway_law_table(count: *mut u32) -> *const RawLaw;
    fn leeway_test_flower_rule(e: i32, de: i32) -> i32;
    fn leeway_test_flower_infer_q16(e_q16: i32, de_q16: i32, conjunction: u32) -> i32;
    #[cfg(test)]
    fn leeway_sender_c_init(s: *mut Sender);
    fn leeway_sender_c_app_limited(s: *mut Sender, out: *const Output, acked_bytes: u64, limited: i32)
    -> i32;
    fn leeway_sender_c_marked(s: *mut Sender, una: u32, next: u32) -> i32;
    fn leeway_sender_c_last(s: *mut Sender, acked_bytes: u64, mss: u32, recovering: i32) -> u8;
    fn leeway_sender_c_waited(s: *mut Sender, ack: *const Ack, mss: u32) -> i32;
    fn leeway_sender_c_sent(s: *mut Sender, out: *const Output, now_ns: u64, bytes: u64, rate: u64);
    fn leeway_sender_c_departure_ns(s: *const Sender, out: *const Output) -> u64;
    fn leeway_c_in_pairs(window: u64, paced: u64, mss: u32, srtt: u64, recovering: i32) -> i32;
    fn leeway_c_pace(bytes: u64, percent: u32, srtt_us: u64) -> u64;
    fn leeway_c_pace_stack(bytes: u64, window: u64, ssthresh: u64, srtt_us: u64) -> u64;
    fn leeway_c_gap_below_one_ns(out: *const Output, mss: u32, srtt_ns: u64) -> u64;
    fn leeway_c_uses_window(out: *const Output, used_bytes: u64) -> i32;
    fn leeway_c_rate_sent(r: *mut RateState, p: *mut RateStamp, now_us: u64, inflight: u64, bytes: u64);
    fn leeway_c_rate_app_limited(r: *mut RateState, inflight: u64);
    fn leeway_c_rate_sample(
        r: *mut RateState,
        p: *const RateStamp,
        now_us: u64,
        acked: u64,
        min_rtt_us: u32,
        sample: *mut Rate,
    );
}

/// One cell of FLOWER's rule table.
pub(crate) fn flower_rule(e: i32, de: i32) -> i32 {
    // SAFETY: a pure function of two small integers.
    unsafe { leeway_test_flower_rule(e, de) }
}

/// The output of FLOWER's rules for values between -5 and 5 with 16 fractional bits.
pub(crate) fn flower_infer_q16(e_q16: i32, de_q16: i32, product: bool) -> i32 {
    // SAFETY: a pure function of integers, whose range the only caller checks.
    unsafe { leeway_test_flower_infer_q16(e_q16, de_q16, u32::from(product)) }
}

/// A constant C string of the table.
fn text(pointer: *const c_char) -> &'static str {
    if pointer.is_null() {
        return "";
    }
    // SAFETY: every non-null string of the table is a literal, so it ends with a zero and lives forever.
    unsafe { CStr::from_ptr(pointer) }.to_str().expect("the table of laws is UTF-8")
}

/// The table of laws.
pub(crate) fn table() -> &'static [RawLaw] {
    let mut count = 0;
    // SAFETY: the function writes the count and returns a constant array of that many rows.
    unsafe { std::slice::from_raw_parts(leeway_law_table(&mut count), count as usize) }
}

impl RawParam {
    pub fn name(&self) -> &'static str {
        text(self.name)
    }
    pub fn choices(&self) -> &'static str {
        text(self.choices)
    }
    pub fn doc(&self) -> &'static str {
        text(self.doc)
    }
    pub fn source(&self) -> &'static str {
        text(self.source)
    }
}

impl RawProbe {
    pub fn name(&self) -> &'static str {
        text(self.name)
    }
    pub fn unit(&self) -> &'static str {
        text(self.unit)
    }
}

impl RawLaw {
    pub fn name(&self) -> &'static str {
        text(self.name)
    }
    pub fn summary(&self) -> &'static str {
        text(self.summary)
    }
    pub fn source(&self) -> &'static str {
        text(self.source)
    }
    pub fn state_bytes(&self) -> usize {
        self.state_bytes as usize
    }
    pub fn params_bytes(&self) -> usize {
        self.params_bytes as usize
    }
    pub fn params(&self) -> &'static [RawParam] {
        // SAFETY: the row points to a constant array of `n_params` entries.
        unsafe { std::slice::from_raw_parts(self.params, self.n_params as usize) }
    }
    pub fn probes(&self) -> &'static [RawProbe] {
        // SAFETY: the row points to a constant array of `n_probes` entries.
        unsafe { std::slice::from_raw_parts(self.probes, self.n_probes as usize) }
    }
}

/// State of a law: memory of at least its size, aligned to 64 bits, without pointers.
#[derive(Clone)]
pub(crate) struct State {
    law: &'static RawLaw,
    words: Box<[u64]>,
}

impl State {
    /// A state that the law initialises from `params`, the words of its params struct. The memory
    /// is filled with `word` before.
    pub fn new(law: &'static RawLaw, params: &[u32], path: &Path, word: u64) -> State {
        assert_eq!(size_of_val(params), law.params_bytes(), "{}: size of the parameters", law.name());
        let mut words = vec![word; law.state_bytes().div_ceil(8)].into_boxed_slice();
        // SAFETY: `words` is as large as the state and aligned for it. `params` is as large as the
        // law's struct, which has 32-bit words only. All three live through the call, and C keeps
        // no pointer to them.
        unsafe { (law.init)(words.as_mut_ptr().cast(), params.as_ptr().cast(), path) };
        State { law, words }
    }

    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, path: &Path) {
        // SAFETY: `words` was initialised by this law's `init`, and nothing else uses it during
        // the call. `Ack` and `Path` have the layout of the header (tested in abi.rs).
        unsafe { (self.law.on_ack)(self.words.as_mut_ptr().cast(), ack, path) }
    }

    #[inline]
    pub fn on_loss(&mut self, loss: &Loss, path: &Path) {
        // SAFETY: as in `on_ack`.
        unsafe { (self.law.on_loss)(self.words.as_mut_ptr().cast(), loss, path) }
    }

    #[inline]
    pub fn output(&self) -> &Output {
        // SAFETY: every state begins with a `struct leeway_output`, and every bit pattern is a
        // valid `Output`.
        unsafe { &*self.words.as_ptr().cast::<Output>() }
    }

    /// The bytes of the state.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(self.law.state_bytes());
        bytes
    }

    /// Sets the window and the slow-start threshold: the first two words of every state.
    pub fn set_window(&mut self, cwnd_q16: u64, ssthresh_bytes: u64) {
        self.words[0] = cwnd_q16;
        self.words[1] = ssthresh_bytes;
    }

    /// The integer of `size` bytes at `offset`.
    ///
    /// # Panics
    /// If the state has no such integer, because the table is wrong.
    pub fn read(&self, offset: usize, size: usize, signed: bool) -> f64 {
        let end = offset.checked_add(size);
        assert!(
            end.is_some_and(|end| end <= size_of_val(&*self.words)),
            "{}: probe outside the state",
            self.law.name()
        );
        // SAFETY: the check above keeps the read inside `words`. The read needs no alignment, and
        // every bit pattern of an integer is valid.
        unsafe {
            let at = self.words.as_ptr().cast::<u8>().add(offset);
            match (size, signed) {
                (1, false) => f64::from(at.read()),
                (1, true) => f64::from(at.cast::<i8>().read()),
                (2, false) => f64::from(at.cast::<u16>().read_unaligned()),
                (2, true) => f64::from(at.cast::<i16>().read_unaligned()),
                (4, false) => f64::from(at.cast::<u32>().read_unaligned()),
                (4, true) => f64::from(at.cast::<i32>().read_unaligned()),
                (8, false) => at.cast::<u64>().read_unaligned() as f64,
                (8, true) => at.cast::<i64>().read_unaligned() as f64,
                _ => panic!("{}: probe of {size} bytes", self.law.name()),
            }
        }
    }
}

/// `leeway_sender_init()`, for a comparison with the Rust default.
#[cfg(test)]
pub(crate) fn sender_init(s: &mut Sender) {
    // SAFETY: a struct with the layout of the header (tested in sender.rs), which nothing else
    // uses.
    unsafe { leeway_sender_c_init(s) };
}

// SAFETY of the calls below: references to structs with the layout of the headers (tested in
// abi.rs and sender.rs). C keeps no pointer to them.

#[inline]
pub(crate) fn sender_app_limited(s: &mut Sender, out: &Output, acked_bytes: u64, limited: bool) -> bool {
    // SAFETY: see above.
    unsafe { leeway_sender_c_app_limited(s, out, acked_bytes, limited.into()) != 0 }
}

#[inline]
pub(crate) fn sender_marked(s: &mut Sender, una: u32, next: u32) -> bool {
    // SAFETY: see above.
    unsafe { leeway_sender_c_marked(s, una, next) != 0 }
}

#[inline]
pub(crate) fn sender_last(s: &mut Sender, acked_bytes: u64, mss: u32, recovering: bool) -> u8 {
    // SAFETY: see above.
    unsafe { leeway_sender_c_last(s, acked_bytes, mss, recovering.into()) }
}

#[inline]
pub(crate) fn sender_waited(s: &mut Sender, ack: &Ack, mss: u32) -> bool {
    // SAFETY: see above.
    unsafe { leeway_sender_c_waited(s, ack, mss) != 0 }
}

#[inline]
pub(crate) fn sender_sent(s: &mut Sender, out: &Output, now_ns: u64, bytes: u64, rate: u64) {
    // SAFETY: see above.
    unsafe { leeway_sender_c_sent(s, out, now_ns, bytes, rate) }
}

#[inline]
pub(crate) fn sender_departure_ns(s: &Sender, out: &Output) -> u64 {
    // SAFETY: see above.
    unsafe { leeway_sender_c_departure_ns(s, out) }
}

pub(crate) fn in_pairs(window: u64, paced: u64, mss: u32, srtt: u64, recovering: bool) -> bool {
    // SAFETY: a pure function of numbers.
    unsafe { leeway_c_in_pairs(window, paced, mss, srtt, recovering.into()) != 0 }
}

pub(crate) fn pace(bytes: u64, percent: u32, srtt_us: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { leeway_c_pace(bytes, percent, srtt_us) }
}

pub(crate) fn pace_stack(bytes: u64, window: u64, ssthresh: u64, srtt_us: u64) -> u64 {
    // SAFETY: a pure function of numbers.
    unsafe { leeway_c_pace_stack(bytes, window, ssthresh, srtt_us) }
}

pub(crate) fn gap_below_one_ns(out: &Output, mss: u32, srtt_ns: u64) -> u64 {
    // SAFETY: see above.
    unsafe { leeway_c_gap_below_one_ns(out, mss, srtt_ns) }
}

pub(crate) fn uses_window(out: &Output, used_bytes: u64) -> bool {
    // SAFETY: see above.
    unsafe { leeway_c_uses_window(out, used_bytes) != 0 }
}

#[inline]
pub(crate) fn rate_sent(r: &mut RateState, p: &mut RateStamp, now_us: u64, inflight: u64, bytes: u64) {
    // SAFETY: see above.
    unsafe { leeway_c_rate_sent(r, p, now_us, inflight, bytes) }
}

pub(crate) fn rate_app_limited(r: &mut RateState, inflight: u64) {
    // SAFETY: see above.
    unsafe { leeway_c_rate_app_limited(r, inflight) }
}

#[inline]
pub(crate) fn rate_sample(
    r: &mut RateState,
    p: &RateStamp,
    now_us: u64,
    acked: u64,
    min_rtt_us: u32,
) -> Rate {
    let mut sample = Rate::default();
    // SAFETY: see above.
    unsafe { leeway_c_rate_sample(r, p, now_us, acked, min_rtt_us, &mut sample) };
    sample
}
