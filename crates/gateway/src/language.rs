//! The languages of the pages and of refusals.

/// A language of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// English, if no other language of the list is asked for.
    English,
    /// Spanish.
    Spanish,
    /// Catalan.
    Catalan,
}

impl Language {
    /// All languages, with their codes (BCP 47) and their own names.
    pub const ALL: [(Language, &'static str, &'static str); 3] = [
        (Language::English, "en", "English"),
        (Language::Spanish, "es", "Español"),
        (Language::Catalan, "ca", "Català"),
    ];

    /// The language of a code such as `es` or `es-AR`.
    pub fn of(code: &str) -> Option<Language> {
        let first = code.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
        Language::ALL.iter().find(|(_, code, _)| *code == first).map(|(language, ..)| *language)
    }

    /// The first language of an `Accept-Language` header (RFC 9110, 12.5.4) that the pages have.
    /// Weights are ignored, because browsers list languages by preference.
    pub fn accepted(header: &str) -> Language {
        let codes = header.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
        codes.filter_map(Language::of).next().unwrap_or(Language::English)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_the_first_language_that_there_is() {
        for (header, language) in [
            ("ca-ES,ca;q=0.9,es;q=0.8", Language::Catalan),
            ("fr, es-AR;q=0.5, en", Language::Spanish),
            ("de", Language::English),
            ("", Language::English),
            (";;,\u{0},-", Language::English),
        ] {
            assert_eq!(Language::accepted(header), language, "{header}");
        }
    }
}
