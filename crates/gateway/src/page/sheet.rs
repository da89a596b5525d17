//! Vouchers on paper: a sheet to print, cut and give away.

use super::neighbour::terms;
use super::view::when;
use super::words::Words;
use crate::control::Issued;
use crate::language::Language;
use crate::qr::Qr;
use askama::Template;
use jiff::tz::TimeZone;
use std::net::IpAddr;

/// The values of the sheet, which is one file without parts from other hosts.
#[derive(Template)]
#[template(path = "sheet.html")]
struct Sheet {
    words: &'static Words,
    terms: String,
    valid_until: Option<String>,
    http: Option<(IpAddr, u16)>,
    socks: Option<(IpAddr, u16)>,
    vouchers: Vec<Voucher>,
}

struct Voucher {
    code: String,
    qr: Option<String>,
}

/// The sheet as HTML, with times in `zone`. Printed on A4, it has ten vouchers on each page.
pub fn html(issued: &Issued, language: Language, zone: &TimeZone) -> String {
    let words = language.words();
    let qr = |link: &String| Qr::of(link).map(|qr| qr.svg());
    let vouchers = issued
        .codes
        .iter()
        .map(|code| Voucher { code: code.code.clone(), qr: code.link.as_ref().and_then(qr) });
    let sheet = Sheet {
        words,
        terms: terms(words, issued.days, issued.bytes),
        valid_until: issued.valid_until.map(|until| when(until, words, zone)),
        http: issued.entrance.http.map(|http| (http.ip(), http.port())),
        socks: issued.entrance.socks.map(|socks| (socks.ip(), socks.port())),
        vouchers: vouchers.collect(),
    };
    // Rendering cannot fail: every value is a text or a number.
    sheet.render().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Entrance, IssuedCode};

    #[test]
    fn a_sheet_has_every_code_with_a_picture_and_nothing_from_elsewhere() {
        let code = |n: usize| IssuedCode {
            code: format!("AC3D-EFHJ-KMPR-TW{n:02}"),
            holder: "voucher-AC3D".into(),
            link: Some(format!("http://10.20.0.1:3128/c/AC3DEFHJKMPRTW{n:02}")),
        };
        let entrance = Entrance { http: "10.20.0.1:3128".parse().ok(), socks: None };
        let (days, bytes) = (Some(7), Some(5_000_000_000));
        let codes = (10..30).map(code).collect();
        let issued = Issued { codes, days, bytes, valid_until: None, entrance };
        for (language, [days, data]) in
            [(Language::English, ["7 days", "5.00 GB"]), (Language::Catalan, ["7 dies", "5,00 GB"])]
        {
            let sheet = html(&issued, language, &TimeZone::UTC);
            assert!(sheet.contains(days) && sheet.contains(data), "{sheet}");
            assert!(issued.codes.iter().all(|code| sheet.contains(&code.code)));
            assert_eq!(sheet.matches("<svg ").count(), 20);
            assert!(sheet.contains("10.20.0.1") && sheet.contains("3128") && !sheet.contains("SOCKS"));
            for elsewhere in [" src=", " href=", "@import", "<script", "url("] {
                assert!(!sheet.contains(elsewhere), "{elsewhere}");
            }
        }
    }
}
