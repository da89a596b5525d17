//! Codes of vouchers and invitations. A voucher gives some days and some data to whoever has its
//! code. An invitation gives the same to somebody with a name, and may have no end.
//!
//! A code has four characters that find its row and twelve that prove it. Of the twelve, the store
//! has only a salted hash (PBKDF2 with SHA-256, RFC 8018). Twelve characters of an alphabet of 20
//! are 52 bits. The hash makes each guess at a stolen store 10,000 times as expensive, which adds
//! 13 bits.

use crate::caps::Period;
use crate::store::{Db, Store, StoreError, Value};
use crate::time::{SLOT_S, Slot};
use jiff::{SignedDuration, Timestamp};
use leeway_guard::is_user;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, pbkdf2};
use std::fmt::Write;
use std::net::IpAddr;
use std::num::NonZeroU32;

/// Letters and digits that cannot be confused with each other, in print or by hand. Left out are
/// 0, O and Q; 1, I and L; 2 and Z; 5 and S; G (6 stays); 8 and B; N (M stays); U and V.
const ALPHABET: &[u8; 20] = b"34679ACDEFHJKMPRTWXY";

const SELECTOR: usize = 4;
const SECRET: usize = 12;
const ROUNDS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
const HASH_BYTES: usize = digest::SHA256_OUTPUT_LEN;
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What vouchers give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Days of 24 hours, from the first use.
    pub days: Option<u32>,
    /// Data in bytes, both directions together.
    pub bytes: Option<u64>,
    /// When an unused voucher expires.
    pub valid_until: Option<Timestamp>,
}

/// A voucher or an invitation in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voucher {
    /// The first four characters of its code.
    pub selector: String,
    /// Name of the invited person; none for a voucher.
    pub invited: Option<String>,
    /// What it gives.
    pub terms: Terms,
    /// When it was made.
    pub created: Timestamp,
    /// When it was first used.
    pub redeemed: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
}

/// A new code, to be shown once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The text to print: four groups of four characters.
    pub text: String,
    /// Name of the holder in the ledger.
    pub holder: String,
}

/// Why a code is refused, or cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoucherError {
    /// There is no such code. The error does not tell whether the first characters are right.
    #[error("there is no voucher of this code: look at it again, it has no 0, O, 1, I or L")]
    Unknown,
    /// Too late for its first use.
    #[error("this voucher was valid until {0}")]
    Void(Timestamp),
    /// The owner has revoked it.
    #[error("this voucher was revoked")]
    Revoked,
    /// A voucher without days and data.
    #[error("a voucher needs days, data or both: give at least one of them, more than 0")]
    Empty,
    /// An invitation for 0 days or 0 bytes.
    #[error("an invitation cannot be for 0 days or 0 bytes: give more, or leave it out")]
    Nothing,
    /// More data than any line carries.
    #[error("{0} bytes: at most a petabyte, 1000000000000000 bytes, can be given")]
    Endless(u64),
    /// Too many vouchers, or none.
    #[error("{0} vouchers: from 1 to 1000 can be made at a time")]
    Count(usize),
    /// The name is not allowed.
    #[error(
        "{0:?} cannot be invited: a name has 1 to 60 bytes, no space, no colon, no # in front, no character \
         that changes the direction of text, and is neither an address nor one of a voucher"
    )]
    Name(String),
    /// The name has an invitation already.
    #[error("{0} has been invited already; to invite {0} again, revoke that first")]
    Invited(String),
}

/// Start of the name of a voucher's holder in the ledger. The first four characters of the code
/// follow.
const HOLDER: &str = "voucher-";

/// The code in a text that somebody has typed, without spaces and dashes and in capital letters.
/// `None` if the text cannot be a code.
pub fn code_in(typed: &str) -> Option<String> {
    let code = normal(typed);
    let whole = code.len() == SELECTOR + SECRET && code.bytes().all(|byte| ALPHABET.contains(&byte));
    whole.then_some(code)
}

/// Characters in groups of four, as codes and passwords are shown.
pub fn grouped(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(4).map(|group| group.iter().collect::<String>()).collect::<Vec<_>>().join("-")
}

/// Most data of a code, in bytes. Up to a petabyte, a number of gigabytes gives exact bytes.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

/// Bytes of `gb` gigabytes (10^9). `None` for less than a byte and for more than a petabyte.
pub fn gigabytes(gb: f64) -> Option<u64> {
    (1e-9..=MOST_BYTES as f64 / 1e9).contains(&gb).then(|| (gb * 1e9).round() as u64)
}

impl Terms {
    /// Returns the error `nothing` if the terms are for 0 days or 0 bytes.
    fn check(&self, nothing: VoucherError) -> Result<(), VoucherError> {
        match self {
            Terms { days: Some(0), .. } | Terms { bytes: Some(0), .. } => Err(nothing),
            Terms { bytes: Some(bytes), .. } if *bytes > MOST_BYTES => Err(VoucherError::Endless(*bytes)),
            _ => Ok(()),
        }
    }
}

/// Name of a code's holder in the ledger: the invited person's, or one made of the code's first
/// characters.
fn holder(invited: Option<&str>, selector: &str) -> String {
    invited.map_or_else(|| format!("{HOLDER}{selector}"), str::to_owned)
}

impl Voucher {
    /// Name of the holder in the ledger.
    pub fn holder(&self) -> String {
        holder(self.invited.as_deref(), &self.selector)
    }

    /// When it ends, if it was first used and gives some days.
    pub fn ends(&self) -> Option<Timestamp> {
        let days = DAY.checked_mul(self.terms.days?.try_into().ok()?);
        let end = |at: Timestamp| days.and_then(|days| at.checked_add(days).ok());
        Some(end(self.redeemed?).unwrap_or(Timestamp::MAX))
    }

    /// From its first use until it ends or was revoked; `None` before the first use.
    pub fn period(&self) -> Option<Period> {
        let start = self.redeemed?;
        let end = self.ends().unwrap_or(Timestamp::MAX);
        Some(Period { start, end: self.revoked.map_or(end, |revoked| revoked.min(end)) })
    }

    /// The state at `now` in one word.
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
    /// Makes vouchers. Returns their codes, which cannot be read again. The vouchers are stored
    /// and synced to the disk when this returns.
    ///
    /// # Errors
    /// The terms are empty, or the database refuses or is gone.
    pub fn make_vouchers(
        &mut self,
        now: Timestamp,
        terms: &Terms,
        count: usize,
    ) -> Result<Vec<Code>, StoreError> {
        if (terms.days, terms.bytes) == (None, None) {
            return Err(VoucherError::Empty.into());
        }
        terms.check(VoucherError::Empty)?;
        if !(1..=1000).contains(&count) {
            return Err(VoucherError::Count(count).into());
        }
        let made: Vec<Made> = (0..count).map(|_| Made::new()).collect();
        self.transaction(|db| made.into_iter().map(|made| made.keep(db, now, terms, None)).collect())
    }

    /// Invites somebody by name. Returns the code, which cannot be read again. Terms may be empty.
    ///
    /// # Errors
    /// The name is not allowed or is invited already, or the database refuses or is gone.
    pub fn invite(&mut self, now: Timestamp, name: &str, terms: &Terms) -> Result<Code, StoreError> {
        terms.check(VoucherError::Nothing)?;
        let taken = name.starts_with('(') || name.starts_with(HOLDER) || code_in(name).is_some();
        let address = name.split('/').next().is_some_and(|name| name.parse::<IpAddr>().is_ok());
        if !is_user(name) || taken || address {
            return Err(VoucherError::Name(name.to_owned()).into());
        }
        let made = Made::new();
        self.transaction(|db| {
            let rows =
                db.query(&format!("SELECT {COLUMNS} FROM vouchers WHERE username = $1"), &[name.into()])?;
            if rows.iter().any(|row| !["revoked", "over", "void"].contains(&read(row).standing(now))) {
                return Err(VoucherError::Invited(name.to_owned()).into());
            }
            made.keep(db, now, terms, Some(name))
        })
    }

    /// The voucher of a code. Its days begin with the first call. Any gateway of the store may
    /// call this, any number of times.
    ///
    /// # Errors
    /// The code is not accepted, or the database refuses or is gone.
    pub fn redeem(&mut self, now: Timestamp, code: &str) -> Result<Voucher, StoreError> {
        let selector = self.find(code)?;
        self.transaction(|db| {
            db.execute(
                "UPDATE vouchers SET redeemed = $1 WHERE selector = $2 AND redeemed IS NULL \
                 AND revoked IS NULL AND (valid_until IS NULL OR valid_until > $1)",
                &[now.as_second().into(), selector.as_str().into()],
            )?;
            let rows = db.query(
                &format!("SELECT {COLUMNS} FROM vouchers WHERE selector = $1"),
                &[selector.as_str().into()],
            )?;
            let voucher = rows.first().map(|row| read(row)).ok_or(VoucherError::Unknown)?;
            match (voucher.revoked, voucher.redeemed, voucher.terms.valid_until) {
                (Some(_), ..) => Err(VoucherError::Revoked.into()),
                (None, None, until) => Err(VoucherError::Void(until.unwrap_or(now)).into()),
                (None, Some(_), _) => Ok(voucher),
            }
        })
    }

    /// The voucher of a code. Its days do not begin with this.
    ///
    /// # Errors
    /// There is no such code, or the database refuses or is gone.
    pub fn look_at(&mut self, code: &str) -> Result<Voucher, StoreError> {
        let selector = self.find(code)?;
        Ok(self.voucher(&selector)?.ok_or(VoucherError::Unknown)?)
    }

    /// The voucher whose code begins with `selector`.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn voucher(&mut self, selector: &str) -> Result<Option<Voucher>, StoreError> {
        let rows =
            self.query(&format!("SELECT {COLUMNS} FROM vouchers WHERE selector = $1"), &[selector.into()])?;
        Ok(rows.first().map(|row| read(row)))
    }

    /// The first characters of a code, if the others prove it.
    fn find(&mut self, code: &str) -> Result<String, StoreError> {
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
        Ok(selector.to_owned())
    }

    /// Bytes of a voucher that its holder has used at all gateways, as far as they are stored.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn used_of(&mut self, voucher: &Voucher) -> Result<u64, StoreError> {
        self.used_at(voucher, None)
    }

    /// [`Store::used_of`] at one gateway, or at all.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn used_at(&mut self, voucher: &Voucher, gateway: Option<&str>) -> Result<u64, StoreError> {
        let Some(Period { start, end }) = voucher.period() else { return Ok(0) };
        let holder = voucher.holder();
        let rows = self.query(
            "SELECT CAST(SUM(bytes) AS BIGINT) FROM usage \
             WHERE slot >= $1 AND slot < $2 AND username = $3 AND (gateway = $4 OR $4 = '')",
            &[
                Slot::of(start).second().into(),
                end.as_second().into(),
                holder.as_str().into(),
                gateway.unwrap_or_default().into(),
            ],
        )?;
        let bytes = rows.first().and_then(|row| row[0].some_int()).unwrap_or(0);
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Revokes vouchers by the beginning of a code, or an invitation by its name. Returns their
    /// number.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn revoke_vouchers(&mut self, now: Timestamp, whose: &str) -> Result<u64, StoreError> {
        let selector = normal(whose.strip_prefix(HOLDER).unwrap_or(whose));
        self.transaction(|db| {
            db.execute(
                "UPDATE vouchers SET revoked = $1 WHERE revoked IS NULL \
                 AND (username = $2 OR (username IS NULL AND selector = $3))",
                &[now.as_second().into(), whose.into(), selector.as_str().into()],
            )
        })
    }

    /// All vouchers and invitations in the order in which they were made, each with the bytes of
    /// [`Store::used_of`]. It is one query, however many there are.
    ///
    /// # Errors
    /// The database refuses or is gone.
    pub fn vouchers(&mut self) -> Result<Vec<(Voucher, u64)>, StoreError> {
        let rows = self.query(&with_use(), &[])?;
        Ok(rows.iter().map(|row| (read(&row[1..]), u64::try_from(row[0].int()).unwrap_or(0))).collect())
    }
}

const INSERT: &str = "INSERT INTO vouchers (selector, salt, hash, days, bytes, created, valid_until, username) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";

/// The columns that [`read`] expects.
const COLUMNS: &str = "selector, days, bytes, created, valid_until, username, redeemed, revoked";

/// The query for all vouchers, each after the bytes that were used in its period
/// ([`Voucher::period`]). The ledger is read once: CROSS JOIN keeps SQLite from reading it for
/// each voucher, and the CAST lets SQLite index the holders for this query.
fn with_use() -> String {
    let (slot, day, never) = (SLOT_S, DAY.as_secs(), i64::MAX);
    format!(
        "WITH periods AS MATERIALIZED ( \
             SELECT selector AS voucher, CAST(COALESCE(username, '{HOLDER}' || selector) AS TEXT) AS holder, \
                 redeemed - redeemed % {slot} AS start, \
                 CASE WHEN revoked < COALESCE(redeemed + {day} * days, {never}) THEN revoked \
                     ELSE COALESCE(redeemed + {day} * days, {never}) END AS until \
             FROM vouchers WHERE redeemed IS NOT NULL \
         ), uses AS ( \
             SELECT voucher, CAST(SUM(usage.bytes) AS BIGINT) AS used FROM usage CROSS JOIN periods \
             WHERE slot >= (SELECT MIN(start) FROM periods) AND usage.username = holder \
                 AND slot >= start AND slot < until \
             GROUP BY voucher \
         ) SELECT used, {COLUMNS} FROM vouchers LEFT JOIN uses ON voucher = selector ORDER BY created, selector"
    )
}

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
        invited: row[5].some_text().map(str::to_owned),
        redeemed: instant(&row[6]),
        revoked: instant(&row[7]),
    }
}

/// A new code, and what the store gets of it.
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

    /// Stores the code. If its first characters are taken, makes another code. Each stored code
    /// has a chance of one in 160,000 for that.
    fn keep(
        mut self,
        db: &mut Db,
        now: Timestamp,
        terms: &Terms,
        invited: Option<&str>,
    ) -> Result<Code, StoreError> {
        while db.execute(INSERT, &self.values(now, terms, invited))? == 0 {
            self = Made::new();
        }
        Ok(Code { text: self.code(), holder: holder(invited, &self.selector) })
    }

    /// The code in groups of four characters.
    fn code(&self) -> String {
        grouped(&format!("{}{}", self.selector, self.secret))
    }

    fn values(&self, now: Timestamp, terms: &Terms, invited: Option<&str>) -> [Value; 8] {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        [
            self.selector.as_str().into(),
            self.salt.as_str().into(),
            self.hash.as_str().into(),
            terms.days.map(i64::from).into(),
            terms.bytes.map(number).into(),
            now.as_second().into(),
            terms.valid_until.map(|until| until.as_second()).into(),
            invited.map_or(Value::Null, Value::from),
        ]
    }
}

/// Random characters of the alphabet, all equally likely.
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

/// A code as people type it: in small letters, and with any spaces and dashes.
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
        // 1,200 of each are expected, with a tolerance of five standard deviations.
        assert!(seen.values().all(|n| (1030..1370).contains(n)), "{seen:?}");
    }

    #[test]
    fn a_code_is_known_in_what_was_typed() {
        let code = Made::new().code();
        let typed = code.to_lowercase().replace('-', " ");
        assert_eq!(code_in(&typed), Some(code.replace('-', "")));
        for other in
            ["", "ann", "10.0.0.1", "AC3D-EFHJ-KMPR-TWX", "AC3D-EFHJ-KMPR-TWXYA", "AC3D-EFHJ-KMPR-TW0Y"]
        {
            assert_eq!(code_in(other), None, "{other}");
        }
    }

    #[test]
    fn people_type_codes_as_they_like() {
        assert_eq!(normal(" ac3d-efhj kmpr–twxy\n"), "AC3DEFHJKMPRTWXY");
        assert_eq!(normal(&"a".repeat(1000)).len(), 64);
    }
}
