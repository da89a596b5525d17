//! Every word of the pages, in the languages that they speak.

use serde::Serialize;

/// A language of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// English, where nothing else is asked for.
    English,
    /// Spanish.
    Spanish,
    /// Catalan.
    Catalan,
}

impl Language {
    /// All, with their codes (BCP 47) and their own names.
    pub const ALL: [(Language, &'static str, &'static str); 3] = [
        (Language::English, "en", "English"),
        (Language::Spanish, "es", "Español"),
        (Language::Catalan, "ca", "Català"),
    ];

    /// Of a code such as `es` or `es-AR`.
    pub fn of(code: &str) -> Option<Language> {
        let first = code.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
        Language::ALL.iter().find(|(_, code, _)| *code == first).map(|(language, ..)| *language)
    }

    /// The first of an `Accept-Language` (RFC 9110, 12.5.4) that there is. Browsers send them by
    /// preference.
    pub fn accepted(header: &str) -> Language {
        let codes = header.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
        codes.filter_map(Language::of).next().unwrap_or(Language::English)
    }

    /// Its words.
    pub fn words(self) -> &'static Words {
        match self {
            Language::English => &EN,
            Language::Spanish => &ES,
            Language::Catalan => &CA,
        }
    }
}

macro_rules! words {
    ($($name:ident: $en:literal, $es:literal, $ca:literal;)*) => {
        /// The words of one language.
        #[derive(Debug, Serialize)]
        pub struct Words { $(#[doc = $en] pub $name: &'static str,)* }
        static EN: Words = Words { $($name: $en,)* };
        static ES: Words = Words { $($name: $es,)* };
        static CA: Words = Words { $($name: $ca,)* };
    };
}

words! {
    code: "en", "es", "ca";
    title: "Your shared line", "Tu línea compartida", "La teva línia compartida";
    skip: "Skip to the content", "Saltar al contenido", "Vés al contingut";
    language: "Language", "Idioma", "Idioma";
    change: "Change", "Cambiar", "Canvia";
    log_in: "Log in", "Entrar", "Entra";
    log_out: "Log out", "Salir", "Surt";
    name: "Name", "Nombre", "Nom";
    password: "Password", "Contraseña", "Contrasenya";
    wrong_password: "Nobody has this name and this password.", "Nadie tiene este nombre y esta contraseña.",
        "Ningú no té aquest nom i aquesta contrasenya.";
    too_many: "Too many attempts. Try again in a minute.", "Demasiados intentos. Vuelve a probar en un minuto.",
        "Massa intents. Torna-ho a provar d'aquí a un minut.";
    old_form: "This form was too old. Nothing has changed; try again.",
        "Este formulario era demasiado antiguo. No ha cambiado nada; vuelve a probar.",
        "Aquest formulari era massa antic. No ha canviat res; torna-ho a provar.";
    sharing_on: "Sharing is on", "Compartir está activado", "Compartir està activat";
    sharing_paused: "Sharing is paused", "Compartir está en pausa", "Compartir està en pausa";
    until: "until", "hasta", "fins a";
    until_resumed: "until you resume it", "hasta que lo reanudes", "fins que ho reprenguis";
    pause: "Pause sharing", "Pausar", "Posa en pausa";
    pause_1h: "for 1 hour", "1 hora", "1 hora";
    pause_8h: "for 8 hours", "8 horas", "8 hores";
    pause_open: "until I resume", "hasta que lo reanude", "fins que ho reprengui";
    resume: "Resume sharing", "Reanudar", "Reprèn";
    notice: "Does anybody at home notice?", "¿Se nota en casa?", "Es nota a casa?";
    notice_idle: "No. No neighbour uses the line now.", "No. Ningún vecino usa la línea ahora.",
        "No. Cap veí no fa servir la línia ara.";
    notice_no: "No. The queue on the line is short.", "No. La cola en la línea es corta.",
        "No. La cua a la línia és curta.";
    notice_little: "Hardly. Calls and games are still fine.", "Apenas. Las llamadas y los juegos van bien.",
        "Gairebé no. Les trucades i els jocs van bé.";
    notice_yes: "Perhaps. The queue is long; neighbours are being slowed.",
        "Quizá. La cola es larga; se está frenando a los vecinos.",
        "Potser. La cua és llarga; s'està frenant els veïns.";
    latency_now: "Latency now", "Latencia ahora", "Latència ara";
    latency_off: "With sharing off", "Sin compartir", "Sense compartir";
    latency_how: "Measured on the transfers of neighbours: the round trip, and the same without the queue on the line.",
        "Medido en las transferencias de los vecinos: la ida y vuelta, y lo mismo sin la cola en la línea.",
        "Mesurat en les transferències dels veïns: l'anada i tornada, i el mateix sense la cua a la línia.";
    none: "none yet", "aún no", "encara no";
    chart: "The last ten minutes", "Los últimos diez minutos", "Els últims deu minuts";
    time: "Time", "Hora", "Hora";
    down: "Down", "Bajada", "Baixada";
    up: "Up", "Subida", "Pujada";
    queue: "Queue", "Cola", "Cua";
    caps: "What is left", "Lo que queda", "El que queda";
    no_caps: "No volume is limited.", "Ningún volumen está limitado.", "Cap volum no està limitat.";
    used_of: "used of", "usados de", "usats de";
    begins_anew: "begins anew", "empieza de nuevo", "torna a començar";
    cap_month: "This month, all neighbours", "Este mes, todos los vecinos", "Aquest mes, tots els veïns";
    cap_all_daily: "Today, all neighbours", "Hoy, todos los vecinos", "Avui, tots els veïns";
    cap_user_daily: "Today", "Hoy", "Avui";
    cap_voucher: "Voucher", "Vale", "Val";
    users: "Neighbours", "Vecinos", "Veïns";
    no_users: "Nobody has used the gateway since it was started.",
        "Nadie ha usado la pasarela desde que arrancó.",
        "Ningú no ha fet servir la passarel·la des que es va engegar.";
    user: "Name or address", "Nombre o dirección", "Nom o adreça";
    connections: "Connections", "Conexiones", "Connexions";
    refused: "Refused", "Rechazadas", "Rebutjades";
    state: "State", "Estado", "Estat";
    free: "free", "libre", "lliure";
    slowed: "slowed", "frenado", "frenat";
    paused: "paused", "en pausa", "en pausa";
    revoked: "no access", "sin acceso", "sense accés";
    since_start: "Bytes since the gateway was started.", "Bytes desde que arrancó la pasarela.",
        "Bytes des que es va engegar la passarel·la.";
    notes: "Notes", "Avisos", "Avisos";
    lost: "No contact with the gateway. Trying again…", "Sin contacto con la pasarela. Reintentando…",
        "Sense contacte amb la passarel·la. Tornant-ho a provar…";
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
