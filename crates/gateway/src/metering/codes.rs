//! Vouchers and invitations, and what they give their holders.

use super::{Meter, in_thread, lock};
use jiff::Timestamp;
use leeway_accounts::caps::Caps;
use leeway_accounts::store::StoreError;
use leeway_accounts::vouchers::{Code, Terms, Voucher};
use std::collections::BTreeMap;

impl Meter {
    /// Makes vouchers, stores them, and returns their codes.
    ///
    /// # Errors
    /// The terms are empty, or the store fails.
    pub fn make_vouchers(&self, terms: &Terms, count: usize) -> Result<Vec<Code>, StoreError> {
        in_thread(|| lock(&self.store).make_vouchers(self.now(), terms, count))
    }

    /// Invites somebody by name, stores the invitation, and returns its code.
    ///
    /// # Errors
    /// The name is not allowed or is invited already, or the store fails.
    pub fn invite(&self, name: &str, terms: &Terms) -> Result<Code, StoreError> {
        in_thread(|| lock(&self.store).invite(self.now(), name, terms))
    }

    /// All vouchers and invitations, each with the bytes that were used of it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn vouchers(&self) -> Result<Vec<(Voucher, u64)>, StoreError> {
        in_thread(|| lock(&self.store).vouchers())
    }

    /// When each user last used the line, to five minutes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn last_seen(&self) -> Result<BTreeMap<String, Timestamp>, StoreError> {
        in_thread(|| lock(&self.store).last_seen())
    }

    /// The voucher of a code. Its days begin with the first call.
    ///
    /// # Errors
    /// The code is not accepted, or the store fails.
    pub fn redeem(&self, code: &str) -> Result<Voucher, StoreError> {
        let now = self.now();
        let (voucher, used) = in_thread(|| {
            let mut store = lock(&self.store);
            let voucher = store.redeem(now, code)?;
            // What was used of it at other gateways is in their shares.
            let own = self.across.then(|| self.config.gateway());
            let used = store.used_at(&voucher, own.as_deref())?;
            Ok::<_, StoreError>((voucher, used))
        })?;
        let mut vouchers = lock(&self.vouchers);
        // If the caps have this voucher already, they know better than the store how much was
        // used.
        if vouchers.insert(voucher.holder(), voucher.clone()).as_ref() != Some(&voucher) {
            redeem_in(&mut lock(&self.caps), now, &voucher, used);
        }
        Ok(voucher)
    }

    /// The voucher of a code. Its days do not begin with this.
    ///
    /// # Errors
    /// There is no such voucher, or the store cannot be read.
    pub fn look_at(&self, code: &str) -> Result<Voucher, StoreError> {
        in_thread(|| lock(&self.store).look_at(code))
    }

    /// Whether a redeemed voucher still holds. If not, transfers of its holder stop.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn look_again(&self, selector: &str) -> Result<bool, StoreError> {
        let found = in_thread(|| lock(&self.store).voucher(selector))?;
        if found.as_ref().is_some_and(|voucher| voucher.revoked.is_none()) {
            return Ok(true);
        }
        let now = self.now();
        let mut vouchers = lock(&self.vouchers);
        if let Some(voucher) = vouchers.values_mut().find(|voucher| voucher.selector == selector) {
            voucher.revoked = found.and_then(|found| found.revoked).or(Some(now));
            redeem_in(&mut lock(&self.caps), now, voucher, 0);
        }
        Ok(false)
    }

    /// Revokes vouchers by the beginning of a code, or an invitation by its name. Returns their
    /// number.
    ///
    /// # Errors
    /// The store fails.
    pub fn revoke(&self, whose: &str) -> Result<u64, StoreError> {
        in_thread(|| lock(&self.store).revoke_vouchers(self.now(), whose))
    }

    /// When the voucher of `user` ends, if it has an end.
    pub fn ends(&self, user: &str) -> Option<Timestamp> {
        lock(&self.vouchers).get(user)?.ends()
    }
}

/// Gives the voucher's bytes and time to its holder, less what was used.
fn redeem_in(caps: &mut Caps, now: Timestamp, voucher: &Voucher, used: u64) {
    if let Some(period) = voucher.period() {
        caps.redeem(now, &voucher.holder(), period, voucher.terms.bytes, used);
    }
}
