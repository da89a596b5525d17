//! Tests that people read the language that they have chosen.

use super::history::History;
use super::view::{self, Message};
use super::{Language, sheet};
use crate::control::{
    DayUsage, Entrance, Issued, IssuedCode, LimitStatus, Notice, Now, OperationError, PastDays, Sample,
    Sharing, UserStatus, Volume,
};
use crate::home_speed::{Compared, HomeSpeed, Seen};
use crate::notes::{self, Note};
use crate::observe::{Direction, Observation};
use crate::peers::{Document, PeerStatus, Standing};
use crate::refusals::each_of_store;
use askama::Template;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The languages other than English.
pub const OTHERS: [Language; 2] = [Language::Spanish, Language::Catalan];

/// Frequent English words that are not words of Spanish or Catalan.
const ENGLISH: &str = include_str!("../../tests/english.txt");

/// Units that follow a number.
const UNITS: [&str; 6] = ["MB", "GB", "kbit/s", "Mbit/s", "ms", "%"];

/// Texts that are the same in English and in another language.
const SAME: [(&str, Language); 5] = [
    ("gigabytes", Language::Spanish),
    ("gigabytes", Language::Catalan),
    ("megabits", Language::Spanish),
    ("megabits", Language::Catalan),
    ("port", Language::Catalan),
];

/// The texts of a page that people see or hear.
fn text(page: &str) -> String {
    let mut rest = page.to_owned();
    for tag in ["style", "script", "svg"] {
        while let Some(from) = rest.find(&format!("<{tag}")) {
            let end = format!("</{tag}>");
            let to = from + rest[from..].find(&end).expect("it ends") + end.len();
            rest.replace_range(from..to, " ");
        }
    }
    let pieces = rest.split('<').map(|piece| {
        let (tag, text) = piece.split_once('>').unwrap_or(("", piece));
        let labels = ["aria-label=\"", "data-label=\"", "placeholder=\"", "title=\"", "alt=\""];
        let labels = labels.iter().filter_map(|label| tag.split_once(label)?.1.split('"').next());
        labels.chain([text]).collect::<Vec<_>>().join(" ")
    });
    pieces.collect::<Vec<_>>().join(" ").replace("&#39;", "'").replace("&#34;", "\"")
}

/// Fails if `text` is not in `language`.
pub fn assert_speaks(language: Language, text: &str) {
    if language == Language::English {
        return;
    }
    let english: Vec<&str> = ENGLISH.split_whitespace().collect();
    // Text in backticks is typed by people, so it is the same in all languages.
    let said = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let letters = said.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
    let found: Vec<&str> = letters.filter(|word| english.contains(&word.to_lowercase().as_str())).collect();
    assert!(found.is_empty(), "{language:?} has {found:?}: {text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2).filter(|pair| UNITS.contains(&pair[1].trim_end_matches(['.', ',', ')']))) {
        assert!(!pair[0].contains('.'), "{language:?} has {pair:?}: {text}");
    }
}

/// Fails if a page is not in `language`.
pub fn assert_page_speaks(language: Language, page: &str) {
    assert!(page.contains(&format!("<html lang=\"{}\">", language.words().code)));
    assert_speaks(language, &text(page));
}

fn peer(says: Option<Document>, error: Option<String>) -> PeerStatus {
    let (address, last_seen) =
        ("10.20.0.2:3128".parse().unwrap(), says.as_ref().map(|_| Timestamp::UNIX_EPOCH));
    PeerStatus { address, name: None, says, error, round_trip_ms: None, last_seen }
}

/// Each of the sentences about the home's speed with one of the answers about its latency.
fn speed(answer: &str) -> HomeSpeed {
    let known = Compared {
        pairs: 12,
        with_bps: Some(1.5e6),
        without_bps: Some(2.5e6),
        ratio: Some(0.6),
        ..Compared::default()
    };
    let (seen, down) = match answer {
        "notice_idle" => (Seen::No, Compared::default()),
        "notice_no" => (Seen::NotYet, Compared::default()),
        "notice_little" => (Seen::Yes, Compared::default()),
        _ => (Seen::Yes, known),
    };
    HomeSpeed { seen, down, up: down }
}

/// A page with everything that it can show at a time. `error` is why a peer does not answer.
fn now(sharing: Sharing, answer: &'static str, error: &str) -> Now {
    let user = |standing: &str| UserStatus {
        name: "Núria".into(),
        connections: 1,
        down_bytes: 1_234_567,
        up_bytes: 7_654_321_000,
        requests: 1,
        refused: 1,
        standing: standing.into(),
        words: "in English for programs, and not on the page".into(),
        volumes: vec![],
        expires: None,
        last_seen: None,
    };
    let volume = |cap: &str| Volume {
        cap: cap.into(),
        used_bytes: 1_500_000,
        limit_bytes: 2_500_000_000,
        until: Timestamp::UNIX_EPOCH,
    };
    let document = |sharing, until| Document {
        sharing,
        until,
        resumes_s: None,
        load: Some(0.255),
        spare_bps: Some(2_500_000),
        users: Some(3),
        left_bytes: None,
    };
    let direction =
        Direction { mean_bps: 1.5e6, busiest_bps: 2.5e6, spare_bps: Some(1e6), ..Direction::default() };
    let observed = Observation {
        seconds: 60,
        interfaces: vec![],
        sees_home: true,
        home_busy_s: None,
        down: direction,
        up: Direction { spare_bps: None, ..direction },
        unknown: vec!["in English for programs, and not on the page".into()],
    };
    Now {
        sharing,
        notice: Notice { answer, now_ms: Some(3.25), off_ms: None },
        home_speed: speed(answer),
        sample: Sample { at: 0, down_bps: 1.5e6, up_bps: 2.5e3, queue_ms: Some(2.5) },
        users: ["free", "slowed", "paused", "revoked"].map(user).into(),
        volumes: ["month", "all_daily", "user_daily", "voucher"].map(volume).into(),
        peers: vec![
            peer(Some(document(Standing::On, None)), None),
            peer(Some(document(Standing::Paused, Some(Timestamp::UNIX_EPOCH))), None),
            peer(Some(document(Standing::Paused, None)), None),
            peer(None, Some(error.to_owned())),
        ],
        observed: (sharing == Sharing::Observing).then_some(observed),
    }
}

#[test]
fn each_word_is_in_each_language() {
    let [english, others @ ..] = Language::ALL.map(|(language, ..)| (language, language.words()));
    let fields = |words| serde_json::to_value(words).unwrap().as_object().unwrap().clone();
    let english = fields(english.1);
    for (language, words) in others {
        for (name, text) in fields(words) {
            let same = SAME.contains(&(name.as_str(), language));
            assert_eq!(text == english[&name], same, "{name} in {language:?}: {text}");
            assert_speaks(language, text.as_str().unwrap());
        }
    }
}

#[test]
fn each_note_is_in_each_language() {
    for language in OTHERS {
        notes::each().iter().for_each(|note| assert_speaks(language, &note.words(language)));
    }
}

#[test]
fn the_owners_page_is_in_each_language() {
    let paused = |until| Sharing::Paused { since: Timestamp::UNIX_EPOCH, until };
    let sharing = [Sharing::On, Sharing::Observing, paused(None), paused(Some(Timestamp::UNIX_EPOCH))];
    let answers = ["notice_idle", "notice_no", "notice_little", "notice_yes"];
    let notes = notes::each();
    for language in OTHERS {
        let words = language.words();
        let pages = sharing.into_iter().zip(answers).zip(&notes);
        for ((sharing, answer), note) in pages {
            let now = now(sharing, answer, &note.words(language));
            let done = Message::done(language, words.reloaded, &notes);
            let home =
                view::Home::new(language, String::new(), Some(done), now, [&notes, &notes], &TimeZone::UTC);
            let limit = |user: Option<&str>, all| LimitStatus {
                user: user.map(str::to_owned),
                all,
                daily_bytes: Some(1_500_000_000),
                rate_bps: Some(2_500_000),
                set: true,
            };
            let limits = vec![limit(None, true), limit(None, false), limit(Some("Núria"), false)];
            let page = home.with_codes(true).with_limits(Some(limits)).render().unwrap();
            assert_eq!(
                (page.matches("value=\"1,5\"").count(), page.matches("value=\"2,5\"").count()),
                (3, 3)
            );
            assert_page_speaks(language, &page);
            let said = text(&page);
            let places = if sharing == Sharing::Observing { 3 } else { 2 };
            assert!(notes.iter().all(|note| said.matches(&note.words(language)).count() >= places), "{said}");
        }
        for problem in [None, Some(words.wrong_password), Some(words.too_many), Some(words.old_form)] {
            assert_page_speaks(language, &view::Login::new(language, problem).render().unwrap());
        }
    }
}

#[test]
fn what_a_form_is_answered_is_in_each_language() {
    let disk_full = std::io::Error::from_raw_os_error(28);
    let errors = each_of_store().map(OperationError::Accounts).chain([OperationError::File(disk_full)]);
    for error in errors {
        for language in OTHERS {
            let problem = Message::problem(&error.note().words(language));
            let now = now(Sharing::On, "notice_no", "–");
            let home =
                view::Home::new(language, String::new(), Some(problem), now, [&[], &[]], &TimeZone::UTC);
            assert_page_speaks(language, &home.render().unwrap());
        }
    }
}

#[test]
fn codes_are_given_in_each_language() {
    let code = IssuedCode {
        code: "AC3D-EFHJ-KMPR-TWXY".into(),
        holder: "Núria".into(),
        link: Some("http://10.20.0.1:3128/c/AC3DEFHJKMPRTWXY".into()),
    };
    let entrance = Entrance { http: "10.20.0.1:3128".parse().ok(), socks: "10.20.0.1:1080".parse().ok() };
    for (days, bytes) in
        [(Some(7), Some(1_500_000_000)), (Some(1), None), (None, Some(500_000_000)), (None, None)]
    {
        let (codes, valid_until) = (vec![code.clone()], Some(Timestamp::UNIX_EPOCH));
        let issued = Issued { codes, days, bytes, valid_until, entrance };
        for language in OTHERS {
            assert_page_speaks(language, &view::Issued::new(language, &issued).render().unwrap());
            assert_page_speaks(language, &sheet::html(&issued, language, &TimeZone::UTC));
        }
    }
}

/// The checks of this file find English text.
#[test]
fn english_is_found() {
    let fails = |text: &str| std::panic::catch_unwind(|| assert_speaks(Language::Spanish, text)).is_err();
    assert!(fails("nadie pasa: nobody is called \"ann\"") && fails("1.5 MB") && fails("(quedan 2.5 GB)"));
    assert!(!fails("1,5 MB en 10.20.0.1; escribe `it is`") && !fails("not_kept"));
    assert!(text("<p aria-label=\"Take\">a<style>b</style> c").split_whitespace().eq(["Take", "a", "c"]));
    let note = Note::new(&crate::refusals::STRANGER, []);
    assert!(fails(&note.to_string()));
}

/// A machine's clock may be in UTC where the line is not.
#[test]
fn times_are_those_of_the_line_in_the_words_of_the_language() {
    let (at, zone) = ("2026-11-30T23:05:00Z".parse().unwrap(), TimeZone::get("Europe/Madrid").unwrap());
    let said = Language::ALL.map(|(language, ..)| view::when(at, language.words(), &zone));
    assert_eq!(said, ["1 Dec 2026, 00:05", "1 dic 2026, 00:05", "1 des 2026, 00:05"]);
    for (language, ..) in Language::ALL {
        assert_eq!(language.words().months.split(' ').count(), 12);
    }
}

#[test]
fn the_history_is_in_each_language_and_ends_today() {
    let usage = |day: &str, user: &str| DayUsage {
        day: day.parse().unwrap(),
        user: user.into(),
        down_bytes: 1_500_000_000,
        up_bytes: 500_000_000,
    };
    let days = [("2026-11-30", "Núria"), ("2026-11-30", ""), ("2026-11-25", "Núria"), ("2026-11-02", "Pau")];
    let usage = days.map(|(day, user)| usage(day, user)).into();
    let past = PastDays { today: "2026-12-01".parse().unwrap(), days: 30, usage };
    let gigabyte = 1_000_000_000;
    let sums: Vec<_> = past.sums().into_iter().collect();
    let [none, once, twice] = [0, 2 * gigabyte, 4 * gigabyte];
    assert_eq!(
        sums,
        [("", [none, once, once]), ("Núria", [none, twice, twice]), ("Pau", [none, none, once])],
        "nothing was used today"
    );
    for language in OTHERS {
        let page = History::new(language, &past).render().unwrap();
        assert_page_speaks(language, &page);
        assert!(
            page.contains("4,00 GB") && page.contains("La casa") && page.contains("30 nov 2026"),
            "{page}"
        );
    }
}
