//! Flows to buckets.

/// The bucket of `flow` among `buckets`, another for another `salt`.
#[inline]
pub(crate) fn bucket(flow: u32, salt: u64, buckets: usize) -> usize {
    // The finaliser of MurmurHash3: every bit of the flow and of the salt moves every bit of the result.
    let mut h = u64::from(flow) ^ salt;
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    (h % buckets as u64) as usize
}
