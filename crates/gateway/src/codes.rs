//! Finds the user that the code of a voucher or an invitation belongs to.
//!
//! A neighbour gives the code as user name; the password may be anything, or the code. The days of
//! a voucher begin with its first use. A code that was right once is recognised by a keyed hash.
//! After ten seconds the store is asked again, because the owner may have revoked the code at
//! another gateway of the same store.

use crate::door::{Denied, Door};
use crate::event::{Event, Log};
use crate::metering::Meter;
use leeway_accounts::StoreError;
use leeway_accounts::vouchers::{Voucher, VoucherError, code_in};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a right code is not checked again.
const FRESH: Duration = Duration::from_secs(10);

/// The holders of codes.
pub struct Codes {
    shared: Arc<Shared>,
    door: Door,
}

struct Shared {
    meter: Arc<Meter>,
    /// Key of the hashes by which right codes are recognised.
    key: [u8; 32],
    known: Mutex<BTreeMap<[u8; 32], Known>>,
    log: Log,
}

/// A code that was right, and when the store was last asked.
struct Known {
    selector: String,
    holder: String,
    looked: Instant,
}

impl Codes {
    /// The codes in the store of a gateway's accounts.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(meter: Arc<Meter>, log: Log) -> std::io::Result<Codes> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        Ok(Codes { shared: Arc::new(Shared { meter, key, known: Mutex::default(), log }), door: Door::new() })
    }

    /// The code in what a client gives as name and password.
    pub fn given(name: &[u8], password: &[u8]) -> Option<String> {
        let code = |text: &[u8]| std::str::from_utf8(text).ok().and_then(code_in);
        code(name).or_else(|| code(password))
    }

    /// The holder of a code. The days of the code begin with the first call.
    ///
    /// # Errors
    /// Why the code is not accepted.
    pub async fn check(&self, from: IpAddr, code: &str) -> Result<String, Denied> {
        let (shared, code) = (self.shared.clone(), code.to_owned());
        let look = {
            let (shared, code) = (shared.clone(), code.clone());
            move || shared.look(from, &code)
        };
        self.door.pass(from, || shared.known(&code), look).await
    }

    /// The voucher of a code. Its days do not begin with this.
    ///
    /// # Errors
    /// There is no such voucher, or it cannot be read now.
    pub async fn look_at(&self, from: IpAddr, code: &str) -> Result<Voucher, Denied> {
        let (shared, code) = (self.shared.clone(), code.to_owned());
        let look = move || shared.meter.look_at(&code).map_err(|error| shared.denied(from, error));
        self.door.pass(from, || None, look).await
    }

    /// Wrong codes, and attempts that were refused without a check, since the start.
    pub fn refused(&self) -> (u64, u64) {
        self.door.refused()
    }
}

impl Shared {
    fn key(&self, code: &str) -> [u8; 32] {
        blake3::keyed_hash(&self.key, code.as_bytes()).into()
    }

    /// The holder of a code that was right before. After [`FRESH`], the store is asked again in
    /// the background.
    fn known(self: &Arc<Self>, code: &str) -> Option<String> {
        let key = self.key(code);
        let mut all = self.lock();
        let known = all.get_mut(&key)?;
        if known.looked.elapsed() >= FRESH {
            known.looked = Instant::now();
            let (shared, selector) = (self.clone(), known.selector.clone());
            tokio::task::spawn_blocking(move || {
                // If the store does not answer, the code stays known.
                if shared.meter.look_again(&selector).is_ok_and(|goes_on| !goes_on) {
                    shared.lock().remove(&key);
                }
            });
        }
        Some(known.holder.clone())
    }

    fn look(&self, from: IpAddr, code: &str) -> Result<String, Denied> {
        let voucher = self.meter.redeem(code).map_err(|error| self.denied(from, error))?;
        let holder = voucher.holder();
        let known = Known { selector: voucher.selector, holder: holder.clone(), looked: Instant::now() };
        self.lock().insert(self.key(code), known);
        Ok(holder)
    }

    fn denied(&self, from: IpAddr, error: StoreError) -> Denied {
        (self.log)(&Event::new("refused", format!("refused {from}: {error}")).with("from", from));
        match error {
            StoreError::Voucher(VoucherError::Revoked) => Denied::Revoked,
            StoreError::Voucher(VoucherError::Void(until)) => Denied::Void(until),
            StoreError::Voucher(_) => Denied::Wrong,
            _ => Denied::Store,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Codes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metering::AccountsConfig;
    use leeway_accounts::caps::CapsConfig;
    use leeway_accounts::vouchers::{Code, Terms};

    const TERMS: Terms = Terms { days: Some(7), bytes: Some(1_000_000), valid_until: None };

    fn codes(folder: &tempfile::TempDir) -> (Codes, Vec<Code>) {
        let url = folder.path().join("accounts.db").display().to_string();
        let config = AccountsConfig { url, ..AccountsConfig::default() };
        let meter = Arc::new(Meter::open(&config, &CapsConfig::default(), &[]).unwrap());
        let made = meter.make_vouchers(&TERMS, 3).unwrap();
        (Codes::new(meter, Arc::new(|_: &Event| {})).unwrap(), made)
    }

    fn at(host: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, host])
    }

    #[test]
    fn a_code_is_found_in_name_or_password() {
        let code = Some("AC3DEFHJKMPRTWXY".to_owned());
        assert_eq!(Codes::given(b"ac3d-efhj-kmpr-twxy", b"x"), code);
        assert_eq!(Codes::given(b"ann", b"AC3D EFHJ KMPR TWXY"), code);
        assert_eq!(Codes::given(b"ann", b"a long phrase"), None);
        assert_eq!(Codes::given(b"\xff", b""), None);
    }

    #[tokio::test]
    async fn a_look_begins_nothing_and_the_first_use_does() {
        let folder = tempfile::tempdir().unwrap();
        let (codes, made) = codes(&folder);
        assert_eq!(codes.look_at(at(1), &made[0].text).await.unwrap().redeemed, None);
        assert_eq!(codes.check(at(1), &made[0].text).await, Ok(made[0].holder.clone()));
        let voucher = codes.look_at(at(1), &made[0].text).await.unwrap();
        assert!(voucher.redeemed.is_some());
        let left = codes.shared.meter.left(&made[0].holder);
        assert_eq!((left[0].used, left[0].limit, Some(left[0].until)), (0, 1_000_000, voucher.ends()));
        // Others have theirs still.
        assert_eq!(codes.shared.meter.left(&made[1].holder), []);
    }

    #[tokio::test]
    async fn who_guesses_codes_is_slowed_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (codes, made) = codes(&folder);
        for n in 0..10 {
            let wrong = codes.check(at(1), &format!("{}34679ACDEF{n:02}", &made[0].text[..4])).await;
            assert!(
                if n < 6 { wrong == Err(Denied::Wrong) } else { matches!(wrong, Err(Denied::Later(_))) },
                "{n}"
            );
        }
        assert!(matches!(codes.look_at(at(1), &made[0].text).await, Err(Denied::Later(_))));
        assert_eq!(codes.check(at(2), &made[0].text).await, Ok(made[0].holder.clone()));
        assert_eq!(codes.refused(), (6, 5));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_revoked_code_ends_within_the_time_that_it_is_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let (codes, made) = codes(&folder);
        let code = code_in(&made[0].text).unwrap();
        assert!(codes.check(at(1), &code).await.is_ok());
        codes.shared.meter.revoke(&made[0].holder).unwrap();
        assert!(codes.check(at(1), &code).await.is_ok(), "nobody has looked again");
        for known in codes.shared.lock().values_mut() {
            known.looked = Instant::now() - FRESH;
        }
        let begun = Instant::now();
        while codes.check(at(1), &code).await.is_ok() {
            assert!(begun.elapsed() < FRESH, "it is looked at again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(codes.check(at(1), &code).await, Err(Denied::Revoked));
        let verdict = codes.shared.meter.verdict(&made[0].holder);
        assert!(
            matches!(verdict, leeway_accounts::caps::Verdict::Paused { .. }),
            "what runs stops: {verdict:?}"
        );
    }
}
