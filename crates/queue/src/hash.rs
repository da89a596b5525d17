//! Hashes of flows.

/// The bucket of `flow` among `buckets`. Another `salt` gives another bucket.
#[inline]
pub(crate) fn bucket(flow: u32, salt: u64, buckets: usize) -> usize {
    // The finaliser of MurmurHash3. Each bit of flow and salt changes all bits of the result.
    let mut h = u64::from(flow) ^ salt;
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^= h >> 33;
    (h % buckets as u64) as usize
}
