//! Vouchers: some days and some data for whoever has the code.
//!
//! A code has four characters that find it and twelve that prove it. Of the twelve the store has
//! a salted hash only (PBKDF2 with SHA-256, RFC 8018). Twelve characters of an alphabet of 20
//! are 52 bits, and the hash makes each guess at a stolen store 10,000 times as expensive: 13
//! bits more.

use crate::store::{Store, StoreError, Value};
use jiff::{SignedDuration, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, pbkdf2};
use std::fmt::Write;
use std::num::NonZeroU32;

/// Letters and digits that look like no other, in print or by hand. Left out: 0 O Q, 1 I L, 2 Z,
/// 5 S, 6 G (6 stays), 8 B, N (M stays), U V.
const ALPHABET: &[u8; 20] = b"34679ACDEFHJKMPRTWXY";

const SELECTOR: usize = 4;
const SECRET: usize = 12;
const ROUNDS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
const HASH_BYTES: usize = digest::SHA256_OUTPUT_LEN;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What to make vouchers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Days of 24 hours from the redemption on.
    pub days: Option<u32>,
    /// Data, both directions together.
    pub bytes: Option<u64>,
    /// When an unused voucher becomes void.
    pub valid_until: Option<Timestamp>,
}

/// A voucher as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voucher {
    /// The first four characters of its code.
    pub selector: String,
    /// What it is for.
    pub terms: Terms,
    /// When it was made.
    pub created: Timestamp,
    /// Who has redeemed it, and when.
    pub redeemed: Option<(String, Timestamp)>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

/// Why a code is worth nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VoucherError {
    /// There is no such code. Nobody is told whether its beginning is right.
    #[error("there is no voucher of this code: look at it again, it has no 0, O, 1, I or L")]
    Unknown,
    /// Somebody has it.
    #[error("this voucher has been redeemed already")]
    Redeemed,
    /// Too late.
    #[error("this voucher was valid until {0}")]
    Void(Timestamp),
    /// The owner has taken it back.
    #[error("this voucher was revoked")]
    Revoked,
    /// A voucher for nothing.
    #[error("a voucher needs days, data or both: give at least one of them, more than 0")]
    Empty,
    /// Too many or none.
    #[error("{0} vouchers: from 1 to 1000 can be made at a time")]
    Count(usize),
}

impl Voucher {
    /// When it is over, if it was redeemed for some days.
    pub fn ends(&self) -> Option<Timestamp> {
        let (_, at) = self.redeemed.as_ref()?;
        let days = self.terms.days?;
        Some(at.checked_add(DAY.checked_mul(days.try_into().ok()?)?).unwrap_or(Timestamp::MAX))
    }

    /// One word on how it stands at `now`.
    pub fn standing(&self, now: Timestamp) -> &'static str {
        match self {
            Voucher { revoked: Some(_), .. } => "revoked",
            Voucher { redeemed: Some(_), .. } if self.ends().is_some_and(|end| end <= now) => "over",
            Voucher { redeemed: Some(_), .. } => "redeemed",
            Voucher { terms, .. } if terms.valid_until.is_some_and(|until| until <= now) => "void",
            _ => "new",
        }
    }
}

impl Store {
    /// Makes vouchers; returns their codes, which nobody can read again.
    ///
    /// # Errors
    /// The terms are empty, or the database refuses or is gone.
    pub fn make_vouchers(
        &mut self,
        now: Timestamp,
        terms: &Terms,
        count: usize,
    ) -> Result<Vec<String>, StoreError> {
        let given = [terms.days.map(u64::from), terms.bytes];
        if given == [None, None] || given.contains(&Some(0)) {
            return Err(VoucherError::Empty.into());
        }
        if !(1..=1000).contains(&count) {
            return Err(VoucherError::Count(count).into());
        }
        let made: Vec<Made> = (0..count).map(|_| Made::new()).collect();
        self.transaction(|db| {
            let mut codes = Vec::with_capacity(count);
            for mut made in made {
                // Of 160,000 beginnings one may be taken.
                while db.execute(INSERT, &made.values(now, terms))? == 0 {
                    made = Made::new();
                }
                codes.push(made.code());
            }
            Ok(codes)
        })
    }

    /// Gives what a code is worth to `user`. A code is redeemed once, by whichever gateway asks
    /// first.
    ///
    /// # Errors
    /// The code is worth nothing, or the database refuses or is gone.
    pub fn redeem(&mut self, now: Timestamp, code: &str, user: &str) -> Result<Voucher, StoreError> {
        let code = normal(code);
        // A code that is too short is compared as well, so that each refusal takes the same time.
        let (selector, secret) = code.split_at_checked(SELECTOR).unwrap_or(("", &code));
        let rows = self.query("SELECT salt, hash FROM vouchers WHERE selector = $1", &[selector.into()])?;
        let (salt, hash) = rows.first().map_or((String::new(), String::new()), |row| {
            (row[0].text().to_owned(), row[1].text().to_owned())
        });
        let hash = unhex(&hash).unwrap_or_else(|| vec![0; HASH_BYTES]);
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        let right = pbkdf2::verify(algorithm, ROUNDS, salt.as_bytes(), secret.as_bytes(), &hash).is_ok();
        if !right || rows.is_empty() {
            return Err(VoucherError::Unknown.into());
        }
        self.transaction(|db| {
            let taken = db.execute(
                "UPDATE vouchers SET username = $1, redeemed = $2 WHERE selector = $3 AND redeemed IS NULL \
                 AND revoked IS NULL AND (valid_until IS NULL OR valid_until > $2)",
                &[user.into(), now.as_second().into(), selector.into()],
            )?;
            let rows = db.query(&format!("{SELECT} WHERE selector = $1"), &[selector.into()])?;
            let voucher = rows.first().map(|row| read(row)).ok_or(VoucherError::Unknown)?;
            match (taken, &voucher) {
                (1, _) => Ok(voucher),
                (_, Voucher { revoked: Some(_), .. }) => Err(VoucherError::Revoked.into()),
                (_, Voucher { redeemed: Some(_), .. }) => Err(VoucherError::Redeemed.into()),
                (_, Voucher { terms, .. }) => {
                    Err(VoucherError::Void(terms.valid_until.unwrap_or(now)).into())
                }
            }
        })
    }

    /// Takes a voucher back, by the beginning of its code; returns whether there is one.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn revoke_voucher(&mut self, now: Timestamp, selector: &str) -> Result<bool, StoreError> {
        let selector = normal(selector);
        let revoked = self.transaction(|db| {
            db.execute(
                "UPDATE vouchers SET revoked = $1 WHERE selector = $2 AND revoked IS NULL",
                &[now.as_second().into(), selector.as_str().into()],
            )
        })?;
        Ok(revoked > 0)
    }

    /// All vouchers, by their making.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn vouchers(&mut self) -> Result<Vec<Voucher>, StoreError> {
        let rows = self.query(&format!("{SELECT} ORDER BY created, selector"), &[])?;
        Ok(rows.iter().map(|row| read(row)).collect())
    }
}

const INSERT: &str = "INSERT INTO vouchers (selector, salt, hash, days, bytes, created, valid_until) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

const SELECT: &str =
    "SELECT selector, days, bytes, created, valid_until, username, redeemed, revoked FROM vouchers";

fn read(row: &[Value]) -> Voucher {
    let instant =
        |value: &Value| value.some_int().map(|second| Timestamp::from_second(second).unwrap_or_default());
    let number = |value: &Value| value.some_int().and_then(|number| u64::try_from(number).ok());
    Voucher {
        selector: row[0].text().to_owned(),
        terms: Terms {
            days: number(&row[1]).and_then(|days| u32::try_from(days).ok()),
            bytes: number(&row[2]),
            valid_until: instant(&row[4]),
        },
        created: instant(&row[3]).unwrap_or_default(),
        redeemed: row[5].some_text().map(str::to_owned).zip(instant(&row[6])),
        revoked: instant(&row[7]),
    }
}

/// A code, and what the store has of it.
struct Made {
    selector: String,
    secret: String,
    salt: String,
    hash: String,
}

impl Made {
    fn new() -> Made {
        let (selector, secret, salt) = (random(SELECTOR), random(SECRET), random(SECRET));
        let mut hash = [0; HASH_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt.as_bytes(), secret.as_bytes(), &mut hash);
        let hash = hash.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Made { selector, secret, salt, hash }
    }

    /// In groups of four.
    fn code(&self) -> String {
        let all = format!("{}{}", self.selector, self.secret);
        let groups: Vec<&str> = (0..all.len()).step_by(4).map(|at| &all[at..at + 4]).collect();
        groups.join("-")
    }

    fn values(&self, now: Timestamp, terms: &Terms) -> [Value; 7] {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        [
            self.selector.as_str().into(),
            self.salt.as_str().into(),
            self.hash.as_str().into(),
            terms.days.map(i64::from).into(),
            terms.bytes.map(number).into(),
            now.as_second().into(),
            terms.valid_until.map(|until| until.as_second()).into(),
        ]
    }
}

/// Characters of the alphabet, each as likely.
fn random(length: usize) -> String {
    let source = SystemRandom::new();
    let most = 256 / ALPHABET.len() * ALPHABET.len();
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut byte = [0];
        // The kernel's generator does not fail once the machine has booted.
        source.fill(&mut byte).expect("the system has random numbers");
        let byte = usize::from(byte[0]);
        if byte < most {
            text.push(char::from(ALPHABET[byte % ALPHABET.len()]));
        }
    }
    text
}

/// A code as people type it, in small letters and with any spaces and dashes.
fn normal(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).take(64).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_code_has_no_lookalikes_and_each_character_is_as_likely() {
        let mut seen = BTreeMap::<char, u32>::new();
        for _ in 0..2000 {
            random(SECRET).chars().for_each(|c| *seen.entry(c).or_default() += 1);
        }
        assert_eq!(seen.len(), ALPHABET.len());
        assert!(!seen.keys().any(|c| "0O1IL2Z5S8BUVGNQ".contains(*c)));
        // 1,200 of each, give or take five standard deviations.
        assert!(seen.values().all(|n| (1030..1370).contains(n)), "{seen:?}");
    }

    #[test]
    fn people_type_codes_as_they_like() {
        assert_eq!(normal(" ac3d-efhj kmpr–twxy\n"), "AC3DEFHJKMPRTWXY");
        assert_eq!(normal(&"a".repeat(1000)).len(), 64);
    }
}
