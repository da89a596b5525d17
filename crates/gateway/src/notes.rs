//! Notices for the owner of a gateway, in each language of the page.

use crate::language::Language;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt;
use std::io::{self, ErrorKind};

/// A text in each language, in the order of [`Language`]. Values replace the `N` pairs of braces.
#[derive(Debug)]
pub struct Phrase<const N: usize>(pub(crate) Texts);

/// A text in each language.
pub(crate) type Texts = [&'static str; 3];

impl Phrase<0> {
    /// The English text, for errors and programs.
    pub fn english(&self) -> &'static str {
        self.0[Language::English as usize]
    }
}

/// A phrase with its values.
#[derive(Debug, Clone)]
pub struct Note {
    texts: Texts,
    values: Vec<Value>,
}

/// The value for a pair of braces.
#[derive(Debug, Clone)]
pub enum Value {
    /// The same in each language, such as a name or a number.
    Same(String),
    /// Notes that become part of another note, separated by commas.
    Notes(Vec<Note>),
    /// An English text, and its translations if there are any. Without them, other languages quote
    /// the English text.
    Said(String, Option<Texts>),
}

impl Value {
    /// A value that is the same in each language.
    pub fn same(value: impl ToString) -> Value {
        Value::Same(value.to_string())
    }

    /// A phrase as part of a note.
    pub fn of(phrase: &'static Phrase<0>) -> Value {
        Value::Notes(vec![Note::new(phrase, [])])
    }

    /// The text of each language.
    pub fn each(text: impl Fn(Language) -> &'static str) -> Value {
        Value::Notes(vec![Note { texts: Language::ALL.map(|(language, ..)| text(language)), values: vec![] }])
    }

    /// An error of the system. In English it keeps its own words.
    pub fn error(error: &io::Error) -> Value {
        Value::caused(error, error)
    }

    /// An error with a system error as its cause. Other languages give only the cause.
    pub fn caused(error: impl ToString, cause: &io::Error) -> Value {
        Value::Said(error.to_string(), named(cause.kind()).map(|phrase| phrase.0))
    }

    /// A text that exists only in English.
    pub fn said(english: impl ToString) -> Value {
        Value::Said(english.to_string(), None)
    }
}

/// The phrase for a frequent kind of system error.
fn named(kind: ErrorKind) -> Option<&'static Phrase<0>> {
    Some(match kind {
        ErrorKind::PermissionDenied => &NO_RIGHT,
        ErrorKind::NotFound => &NOT_THERE,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => &DISK_FULL,
        ErrorKind::ReadOnlyFilesystem => &READ_ONLY,
        ErrorKind::ConnectionRefused => &REFUSED,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => &BROKEN_OFF,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => &NO_WAY,
        ErrorKind::TimedOut => &TOO_LATE,
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => &NO_ADDRESS,
        _ => return None,
    })
}

impl Note {
    /// A note with as many values as its phrase takes.
    pub fn new<const N: usize>(phrase: &'static Phrase<N>, values: [Value; N]) -> Note {
        Note { texts: phrase.0, values: values.into() }
    }

    /// A note that consists of one value.
    pub fn of(value: Value) -> Note {
        Note { texts: ["{}"; 3], values: vec![value] }
    }

    /// The text in `language`.
    pub fn words(&self, language: Language) -> String {
        let mut pieces = self.texts[language as usize].split("{}");
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for (value, piece) in self.values.iter().zip(pieces) {
            match value {
                Value::Same(same) => text += same,
                Value::Notes(notes) => {
                    let notes: Vec<_> = notes.iter().map(|note| note.words(language)).collect();
                    text += &notes.join(", ");
                }
                Value::Said(english, _) if language == Language::English => text += english,
                Value::Said(_, Some(texts)) => text += texts[language as usize],
                Value::Said(english, None) => text += &format!("«{english}»"),
            }
            text += piece;
        }
        text
    }
}

/// The English text, for programs and the command line.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Language::English))
    }
}

/// The English texts of notes.
pub fn in_english(notes: &[Note]) -> Vec<String> {
    notes.iter().map(Note::to_string).collect()
}

/// A time of day and date in a form that all languages understand.
pub(crate) fn moment(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Declares phrases. Each has a name, the number of its values, and its text in English, Spanish
/// and Catalan.
macro_rules! phrases {
    ($($name:ident[$values:literal]: $en:literal, $es:literal, $ca:literal;)*) => {
        $(
            #[doc = concat!("`` ", $en, " ``")]
            pub static $name: $crate::notes::Phrase<$values> = $crate::notes::Phrase([$en, $es, $ca]);
        )*
        #[cfg(test)]
        pub(crate) static ALL: &[(&$crate::notes::Texts, usize)] = &[$((&$name.0, $values)),*];
    };
}
pub(crate) use phrases;

phrases! {
    HOME[1]: "the home, which users never reach: {}this machine, and networks that it joins later",
        "la casa, a la que los vecinos nunca llegan: {}esta máquina y las redes a las que se una más tarde",
        "la casa, on els veïns no arriben mai: {}aquesta màquina i les xarxes on entri més tard";
    WAN_UNKNOWN[0]: "the address of the home's router on the Internet is not known, so users may reach what \
         that forwards into the home: give it as `wan`",
        "no se sabe la dirección en Internet del router de la casa, y los vecinos podrían llegar a lo que \
             este reenvía a la casa: indícala como `wan`",
        "no se sap l'adreça a Internet del router de la casa, i els veïns podrien arribar al que aquest \
             reenvia cap a la casa: indica-la com a `wan`";
    BEHIND_UNKNOWN[0]: "networks of the home behind other routers are not known, in particular those of \
         IPv6: give them as `home`",
        "no se conocen las redes de la casa detrás de otros routers, en particular las de IPv6: indícalas \
             como `home`",
        "no es coneixen les xarxes de la casa darrere d'altres routers, en particular les d'IPv6: indica-les \
         com a `home`";
    BLOCKED[3]: "blocked: {} domains, {} networks or ranges of addresses, {} ports",
        "bloqueado: {} dominios, {} redes o rangos de direcciones, {} puertos",
        "bloquejat: {} dominis, {} xarxes o rangs d'adreces, {} ports";
    LINE_WRONG[4]: "not blocked: {}:{}: {}: {}", "no se bloquea: {}:{}: {}: {}", "no es bloqueja: {}:{}: \
         {}: {}";
    LINES_WRONG[2]: "not blocked: {}: {} more lines are wrong", "no se bloquea: {}: hay {} líneas más con \
         errores",
        "no es bloqueja: {}: hi ha {} línies més amb errors";
    NOT_UTF8[0]: "it is not text in UTF-8", "no es texto en UTF-8", "no és text en UTF-8";
    LEADS_ELSEWHERE[0]: "it gives a name another address, which blocks nothing",
        "lleva un nombre a otra dirección, lo que no bloquea nada",
        "porta un nom a una altra adreça, cosa que no bloqueja res";
    ADDRESS_NO_NAME[0]: "this is an address, not a name; put it into `networks`",
        "una dirección no es un nombre; va en `networks`", "una adreça no és un nom; va a `networks`";
    OTHER_RULE[0]: "of the rules for ad blockers, only ||name^ blocks a name",
        "de las reglas para bloqueadores de anuncios solo ||nombre^ bloquea un nombre",
        "de les regles per a bloquejadors d'anuncis només ||nom^ bloqueja un nom";
    NOT_ASCII[0]: "a name has ASCII letters only; write it as DNS does (xn--...)",
        "un nombre solo tiene letras ASCII; escríbelo como en el DNS (xn--...)",
        "un nom només té lletres ASCII; escriu-lo com al DNS (xn--...)";
    NO_NAME[0]: "it is not a host name", "no es un nombre", "no és un nom";
    NO_NETWORK[0]: "it is neither a network nor an address", "no es ni una red ni una dirección",
        "no és ni una xarxa ni una adreça";
    HOME_UNCOUNTED[0]: "the home's bytes are not counted, because its packets do not pass this machine: what \
         the home uses beyond `keep_for_home` leaves the neighbours' volume as it is, and `percentile` keeps \
         neighbours paused",
        "los bytes de la casa no se cuentan, porque sus paquetes no pasan por esta máquina: lo que la casa \
             gaste de más de `keep_for_home` no reduce el volumen de los vecinos, y `percentile` los deja en \
             pausa",
        "els bytes de la casa no es compten, perquè els seus paquets no passen per aquesta màquina: el que \
             la casa gasti de més de `keep_for_home` no redueix el volum dels veïns, i `percentile` els deixa \
             en pausa";
    CLOCK_BACK[1]: "the clock of this machine has jumped back by {}; accounts and caps continue with the \
         earlier time, and follow the clock after it has stayed there for ten minutes",
        "el reloj de esta máquina ha saltado {} hacia atrás; las cuentas y los límites siguen con la hora de \
         antes, y seguirán al reloj cuando lleve diez minutos así",
        "el rellotge d'aquesta màquina ha saltat {} enrere; els comptes i els límits continuen amb l'hora \
         d'abans, i seguiran el rellotge quan faci deu minuts que hi és";
    CLOCK_FORWARD[1]: "the clock of this machine has jumped forward by {}; accounts and caps continue with \
         the earlier time, and follow the clock after it has stayed there for ten minutes",
        "el reloj de esta máquina ha saltado {} hacia delante; las cuentas y los límites siguen con la hora \
             de antes, y seguirán al reloj cuando lleve diez minutos así",
        "el rellotge d'aquesta màquina ha saltat {} endavant; els comptes i els límits continuen amb l'hora \
         d'abans, i seguiran el rellotge quan faci deu minuts que hi és";
    UPLINK_FREE[0]: "uploads are not limited: `uplink` is \"none\"", "lo que se envía no se frena: \
         `uplink` es \"none\"",
        "el que s'envia no es frena: `uplink` és \"none\"";
    NO_ECHOES[1]: "datagrams are sent with at most 47 kbit/s, except while an upload by TCP measures the \
         line: there is no socket for ICMP echoes: {} (needs CAP_NET_RAW, or net.ipv4.ping_group_range)",
        "nada mide la subida detrás de los datagramas, que tienen 47 kbit/s mientras nada suba por TCP: no \
             hay socket para ecos de ICMP: {} (hace falta CAP_NET_RAW o net.ipv4.ping_group_range)",
        "res no mesura la pujada darrere dels datagrames, que tenen 47 kbit/s mentre res no pugi per TCP: \
             no hi ha socket per a ecos d'ICMP: {} (cal CAP_NET_RAW o net.ipv4.ping_group_range)";
    NO_KERNEL_LAW[1]: "uploads are limited only by the window of the uplink, not also by the kernel: {} \
         (leeway kernel load ledbat, as root, needs Linux 6.10)",
        "las subidas las frena solo la ventana de la subida, y no también el núcleo: {} (leeway kernel load \
         ledbat, como root, necesita Linux 6.10)",
        "les pujades les frena només la finestra de la pujada, i no també el nucli: {} (leeway kernel load \
         ledbat, com a root, necessita Linux 6.10)";
    PORT_TAKEN[1]: "clients without configuration get no answers from UDP port {}: another program of this \
         machine listens there at all addresses; set that program to listen at one address",
        "los clientes sin configurar no reciben respuestas del puerto UDP {}: un programa de esta máquina lo \
         tiene en todas las direcciones y no lo comparte; haz que escuche en una sola dirección",
        "els clients sense configurar no reben respostes del port UDP {}: un programa d'aquesta màquina el \
             té a totes les adreces i no el comparteix; fes que escolti en una sola adreça";
    HOME_UNSEEN[1]: "the home's packets cannot be seen, so nobody yields before they make a queue: {} \
         (needs CAP_NET_RAW)",
        "no se ven los paquetes de la casa, y nadie se aparta antes de que formen cola: {} (hace falta \
         CAP_NET_RAW)",
        "no es veuen els paquets de la casa, i ningú no s'aparta abans que facin cua: {} (cal CAP_NET_RAW)";
    SERVERS_UNSEEN[1]: "the packets of servers cannot be seen, so delays are measured less exactly, when \
         data are read: {} (needs CAP_NET_RAW)",
        "no se ven los paquetes de los servidores, y los retardos se miden donde se leen: {} (hace falta \
         CAP_NET_RAW)",
        "no es veuen els paquets dels servidors, i els retards es mesuren on es llegeixen: {} (cal \
             CAP_NET_RAW)";
    HOME_NOT_OBSERVED[1]: "the home's packets cannot be seen: {} (needs CAP_NET_RAW)",
        "no se ven los paquetes de la casa: {} (hace falta CAP_NET_RAW)",
        "no es veuen els paquets de la casa: {} (cal CAP_NET_RAW)";
    NO_CONTROL[1]: "`leeway gateway status` and `pause` cannot reach this gateway: {}",
        "`leeway gateway status` y `pause` no llegan a esta pasarela: {}",
        "`leeway gateway status` i `pause` no arriben a aquesta passarel·la: {}";
    SOCKET_TAKEN[1]: "another gateway uses {}: stop it, or set another `socket` in [control]",
        "otra pasarela tiene {}: párala, o indica `socket` en [control]",
        "una altra passarel·la té {}: atura-la, o indica `socket` a [control]";
    SOCKET_FAILED[2]: "cannot make the control socket {}: {}", "no se puede crear el socket de control {}: {}",
        "no es pot crear el socket de control {}: {}";
    NOT_IN_KERNEL[1]: "{} is not in this kernel", "{} no está en este núcleo", "{} no és en aquest nucli";
    NEEDS_RIGHT[1]: "{} needs CAP_NET_ADMIN", "{} necesita CAP_NET_ADMIN", "{} necessita CAP_NET_ADMIN";
    CONGESTION[2]: "{}: {}", "para {}: {}", "per a {}: {}";
    NO_LAW[0]: "downloads are not limited: `law` is \"none\"", "las descargas no se frenan: no hay ninguna \
         ley (`law`)",
        "les baixades no es frenen: no hi ha cap llei (`law`)";
    DESTINATIONS[1]: "the addresses that neighbours reach are logged and kept for this number of days: {}",
        "las direcciones a las que llegan los vecinos se registran y se guardan este número de días: {}",
        "les adreces on arriben els veïns es registren i es guarden aquest nombre de dies: {}";
    COPY_OLD[1]: "{} was not read again: systemd has given this gateway a copy of it, and root hands over a \
         newer one with: systemctl reload leeway-gateway",
        "{} no se ha vuelto a leer: systemd dio una copia a esta pasarela, y root entrega otra más nueva \
             con: systemctl reload leeway-gateway",
        "{} no s'ha tornat a llegir: systemd va donar una còpia a aquesta passarel·la, i root en lliura una \
             de més nova amb: systemctl reload leeway-gateway";
    LOAD_UNKNOWN[0]: "what the line carries: this machine has no default route",
        "lo que lleva la línea: esta máquina no tiene ruta por defecto",
        "el que porta la línia: aquesta màquina no té ruta per defecte";
    HOME_UNKNOWN[0]: "the home's traffic: its packets do not pass this machine (it is not the home's \
         router, or `home` does not name the home's network), so only this machine's own bytes were \
         counted",
        "el tráfico de la casa: sus paquetes no pasan por esta máquina (no es el router de la casa, o \
             `home` no nombra su red), y solo se han contado los bytes de esta máquina",
        "el trànsit de la casa: els seus paquets no passen per aquesta màquina (no és el router de la casa, \
             o `home` no n'anomena la xarxa), i només s'han comptat els bytes d'aquesta màquina";
    RATE_UNKNOWN[0]: "the line's rate: at least that of the busiest second; only sending would show the \
         whole rate",
        "la velocidad de la línea: no es menor que en el segundo de más uso; cuánto más, solo se ve enviando",
        "la velocitat de la línia: no és menor que en el segon de més ús; quant més, només es veu enviant";
    QUEUE_UNKNOWN[0]: "how long the queue on the line becomes, and whether the home would notice that: only \
         transfers of neighbours would show it",
        "cuánto crece la cola en la línea, y si se notaría en casa: solo se ve en las transferencias de los \
         vecinos",
        "com creix la cua a la línia, i si es notaria a casa: només es veu en les transferències dels veïns";
    NO_RIGHT[0]: "no right to do that", "falta el permiso", "falta el permís";
    NOT_THERE[0]: "it is not there", "no existe", "no existeix";
    DISK_FULL[0]: "the disk is full", "el disco está lleno", "el disc és ple";
    READ_ONLY[0]: "nothing can be written there", "ahí no se puede escribir", "allà no s'hi pot escriure";
    REFUSED[0]: "the connection was refused", "se ha rechazado la conexión", "s'ha rebutjat la connexió";
    BROKEN_OFF[0]: "the connection was broken off", "se ha cortado la conexión", "s'ha tallat la connexió";
    NO_WAY[0]: "no route leads there", "no hay ninguna ruta hasta ahí", "no hi ha cap ruta fins allà";
    TOO_LATE[0]: "no answer in time", "no responde a tiempo", "no respon a temps";
    NO_ADDRESS[0]: "the address is taken or not here", "la dirección está ocupada o no es de aquí",
        "l'adreça és ocupada o no és d'aquí";
}

/// A note of each phrase, with numbers as values.
#[cfg(test)]
pub fn each() -> Vec<Note> {
    let values = |count: usize| (0..count).map(Value::same).collect();
    let all = ALL.iter().chain(crate::refusals::ALL);
    all.map(|(texts, count)| Note { texts: **texts, values: values(*count) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phrase_is_in_each_language_with_all_of_its_values() {
        for (texts, values) in ALL.iter().chain(crate::refusals::ALL) {
            for text in *texts {
                assert_eq!(text.matches("{}").count(), *values, "{text}");
            }
            let [english, spanish, catalan] = texts;
            assert!(english != spanish && english != catalan && spanish != catalan, "{english}");
        }
    }

    #[test]
    fn values_stand_in_their_places() {
        let values = [Value::same("a.txt"), Value::same(3), Value::same("\"x\""), Value::of(&NO_NAME)];
        let note = Note::new(&LINE_WRONG, values);
        assert_eq!(note.to_string(), "not blocked: a.txt:3: \"x\": it is not a host name");
        assert_eq!(note.words(Language::Spanish), "no se bloquea: a.txt:3: \"x\": no es un nombre");
        assert_eq!(note.words(Language::Catalan), "no es bloqueja: a.txt:3: \"x\": no és un nom");
        assert_eq!(Note::new(&NO_LAW, []).to_string(), "downloads are not limited: `law` is \"none\"");
    }

    #[test]
    fn errors_of_the_system_have_names() {
        let spanish = |value| Note::of(value).words(Language::Spanish);
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(spanish(Value::error(&full)), "el disco está lleno");
        assert_eq!(Note::of(Value::caused("cannot write", &full)).to_string(), "cannot write");
        assert_eq!(spanish(Value::error(&io::Error::other("gone"))), "«gone»");
        assert_eq!(spanish(Value::said("x")), "«x»");
    }
}
