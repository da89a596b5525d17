//! Texts with which the gateway refuses: to neighbours, to the owner, and about other gateways.

use crate::notes::{Note, Value, phrases};
use leeway_accounts::StoreError;
use leeway_accounts::vouchers::VoucherError;

phrases! {
    STRANGER[0]: "your address may not use this gateway", "tu dirección no puede usar esta pasarela",
        "la teva adreça no pot fer servir aquesta passarel·la";
    STRANGER_NOW[0]: "your address may not use this gateway any more",
        "tu dirección ya no puede usar esta pasarela",
        "la teva adreça ja no pot fer servir aquesta passarel·la";
    FULL[0]: "you have too many connections at a time, or all users together have too many",
        "tienes demasiadas conexiones a la vez, o las tenéis entre todos",
        "tens massa connexions alhora, o les teniu entre tots";
    REVOKED[0]: "the owner of this line has taken back your access",
        "quien comparte esta línea te ha quitado el acceso", "qui comparteix aquesta línia t'ha tret l'accés";
    PAUSED[0]: "the owner of this line has paused sharing until further notice",
        "quien comparte esta línea la ha puesto en pausa hasta nuevo aviso",
        "qui comparteix aquesta línia l'ha posada en pausa fins a nou avís";
    PAUSED_UNTIL[1]: "the owner of this line has paused sharing until {}",
        "quien comparte esta línea la ha puesto en pausa hasta {}",
        "qui comparteix aquesta línia l'ha posada en pausa fins a {}";
    CAPPED[1]: "you are paused. {}", "estás en pausa. {}", "estàs en pausa. {}";
    CAPPED_UNTIL[2]: "you are paused until {}. {}", "estás en pausa hasta {}. {}", "estàs en pausa fins a \
         {}. {}";
    NAME_NEEDED[0]: "a name and a password are needed; or give the code of a voucher as the name, with any \
         password",
        "hacen falta un nombre y una contraseña; el código de un vale es un nombre, con cualquier contraseña",
        "calen un nom i una contrasenya; el codi d'un val és un nom, amb qualsevol contrasenya";
    NAME_WRONG[0]: "name or password are wrong", "el nombre o la contraseña no son correctos",
        "el nom o la contrasenya no són correctes";
    GUESSED[0]: "too many wrong passwords or codes came from you",
        "has enviado demasiadas contraseñas o códigos equivocados",
        "has enviat massa contrasenyes o codis equivocats";
    ASKED_OFTEN[0]: "you ask too often", "preguntas demasiado a menudo", "preguntes massa sovint";
    BUSY[0]: "too many passwords wait to be checked", "hay demasiadas contraseñas por comprobar",
        "hi ha massa contrasenyes per comprovar";
    NO_CODES_NOW[0]: "codes cannot be checked now; the owner can see why",
        "ahora no se pueden comprobar los códigos; quien comparte la línea puede ver por qué",
        "ara no es poden comprovar els codis; qui comparteix la línia pot veure per què";
    TAKEN_BACK[0]: "the owner has taken this voucher back", "quien comparte la línea ha anulado este vale",
        "qui comparteix la línia ha anul·lat aquest val";
    VOID[1]: "this voucher had to be used first before {}",
        "este vale se tenía que usar por primera vez antes de {}",
        "aquest val s'havia de fer servir per primer cop abans de {}";
    PORT_CLOSED[1]: "port {} is not open", "el puerto {} no está abierto", "el port {} no està obert";
    PORT_BLOCKED[1]: "the owner of this line has blocked port {}",
        "quien comparte esta línea ha bloqueado el puerto {}",
        "qui comparteix aquesta línia ha bloquejat el port {}";
    NAME_BLOCKED[0]: "the owner of this line has blocked this name",
        "quien comparte esta línea ha bloqueado este nombre",
        "qui comparteix aquesta línia ha bloquejat aquest nom";
    NETWORK_BLOCKED[0]: "the owner of this line has blocked the network of this address",
        "quien comparte esta línea ha bloqueado la red de esta dirección",
        "qui comparteix aquesta línia ha bloquejat la xarxa d'aquesta adreça";
    NOT_PUBLIC[0]: "not an address of the public Internet that users may reach",
        "no es una dirección pública de Internet a la que puedan llegar los vecinos",
        "no és una adreça pública d'Internet a la qual puguin arribar els veïns";
    NO_HOST[0]: "the host is neither a name nor an address", "el servidor no es ni un nombre ni una dirección",
        "el servidor no és ni un nom ni una adreça";
    HOST_UNKNOWN[0]: "no address of the host is known", "no se conoce ninguna dirección del servidor",
        "no es coneix cap adreça del servidor";
    TOO_MANY[0]: "too many connections at a time", "demasiadas conexiones a la vez", "massa connexions alhora";
    UNREACHABLE[0]: "the server cannot be reached", "no se puede llegar al servidor",
        "no es pot arribar al servidor";
    NO_CONNECTION[1]: "the server does not answer within {} s", "el servidor no responde en {} s",
        "el servidor no respon en {} s";
    SILENT[1]: "the server has not answered for {} s", "el servidor lleva {} s sin responder",
        "el servidor fa {} s que no respon";
    BROKE_OFF[0]: "the server closed the connection, or does not speak HTTP",
        "el servidor ha cortado, o no habla HTTP", "el servidor ha tallat, o no parla HTTP";
    BODY[0]: "the body of the request is malformed, or ends too early",
        "el cuerpo de la petición está mal formado, o termina antes de tiempo",
        "el cos de la petició està mal format, o s'acaba abans d'hora";
    BODY_SILENT[1]: "you have sent nothing more of the request for {} s",
        "llevas {} s sin enviar el resto de la petición", "fa {} s que no envies la resta de la petició";
    SOMETHING_ELSE[0]: "the server switched to another protocol", "el servidor habla otra cosa",
        "el servidor parla una altra cosa";
    CODING[0]: "only the transfer coding `chunked` is supported",
        "no se pasa ninguna codificación de transferencia que no sea `chunked`",
        "no es passa cap codificació de transferència que no sigui `chunked`";
    A_PROXY[0]: "this is a proxy: ask it for http:// addresses, or CONNECT",
        "esto es un proxy: se le piden direcciones http://, o CONNECT",
        "això és un proxy: se li demanen adreces http://, o CONNECT";
    CONNECT_WHERE[0]: "CONNECT needs host:port", "CONNECT necesita servidor:puerto",
        "CONNECT necessita servidor:port";
    CONNECT_BODY[0]: "CONNECT has no body", "CONNECT no lleva cuerpo", "CONNECT no porta cos";
    ADDRESS_HOST[0]: "the address has no host", "la dirección no tiene servidor", "l'adreça no té servidor";
    ADDRESS_USER[0]: "the address has a user name in it", "la dirección lleva un usuario", "l'adreça porta \
         un usuari";
    ADDRESS_PORT[0]: "the address needs a port, from 1 to 65535",
        "la dirección necesita un puerto, de 1 a 65535", "l'adreça necessita un port, d'1 a 65535";
    ADDRESS_PATH[0]: "the address has no valid path", "la dirección no tiene una ruta válida",
        "l'adreça no té una ruta vàlida";
    HOST_NAME[0]: "the host is not a name", "el servidor no es un nombre", "el servidor no és un nom";
    FORWARDS[0]: "Max-Forwards is not one number", "Max-Forwards no es un solo número",
        "Max-Forwards no és un sol número";

    ONLY_OBSERVES[0]: "this gateway only observes (--observe): nobody is let through, so there is nothing \
         to pause",
        "esta pasarela solo observa (--observe): no pasa nadie, y no hay nada que pausar",
        "aquesta passarel·la només observa (--observe): no passa ningú, i no hi ha res per pausar";
    PAUSE_LENGTH[2]: "a pause of {} s: it goes from 1 s to {} days",
        "una pausa de {} s: puede ser de 1 s a {} días", "una pausa de {} s: pot ser d'1 s a {} dies";
    PAUSE_NUMBER[0]: "the time of a pause is a number of seconds",
        "el tiempo de una pausa es un número de segundos", "el temps d'una pausa és un nombre de segons";
    HAS_ACCESS[1]: "{} has access", "{} tiene acceso", "{} té accés";
    NOBODY[1]: "nobody is called {}; `leeway gateway users` prints the known names",
        "nadie se llama {}; `leeway gateway users` da los nombres conocidos",
        "ningú no es diu {}; `leeway gateway users` dóna els noms coneguts";
    NO_ACCOUNTS[0]: "this gateway keeps no accounts: add a line [accounts] to its configuration",
        "esta pasarela no lleva cuentas: añade una línea [accounts] a su configuración",
        "aquesta passarel·la no porta comptes: afegeix una línia [accounts] a la seva configuració";
    ONE_OR_ALL[0]: "a limit is for one neighbour or for all together: give `user` or `all`",
        "un límite es para un vecino o para todos juntos: da `user` o `all`",
        "un límit és per a un veí o per a tots junts: dóna `user` o `all`";
    LIMIT_ZERO[0]: "a daily volume is more than 0; `leeway gateway revoke` takes access away",
        "un volumen diario es mayor que 0; `leeway gateway revoke` quita el acceso",
        "un volum diari és més gran que 0; `leeway gateway revoke` treu l'accés";
    LIMIT_RATE[1]: "a rate of {} bit/s is too low: give at least 1000",
        "una velocidad de {} bit/s es demasiado baja: da al menos 1000",
        "una velocitat de {} bit/s és massa baixa: dóna'n almenys 1000";
    HISTORY_DAYS[2]: "a history of {} days: it goes from 1 to {}", "un historial de {} días: puede ser de 1 a {}",
        "un historial de {} dies: pot ser d'1 a {}";
    NO_DAY[2]: "there is no day from {} to {}: `to` is the day after the last one, so it has to be later \
         than `from`",
        "de {} a {} no hay ningún día: `to` es el día después del último, y es más tarde que `from`",
        "de {} a {} no hi ha cap dia: `to` és el dia després de l'últim, i és més tard que `from`";
    VALID_DAYS[1]: "vouchers cannot be valid for {} days: give at least 1",
        "los vales no pueden valer {} días: da al menos 1", "els vals no poden valer {} dies: dóna'n \
             almenys 1";
    HAS_PASSWORD[1]: "{} has a password already, in `users_file`", "{} ya tiene una contraseña, en \
         `users_file`",
        "{} ja té una contrasenya, a `users_file`";
    NO_VOUCHERS[1]: "this gateway takes no codes of vouchers or invitations: add `vouchers = true` above \
         the first [ of its configuration{}, and restart it",
        "esta pasarela no acepta códigos de vales ni invitaciones: añade `vouchers = true` antes del primer \
             [ de su configuración{}, y reiníciala",
        "aquesta passarel·la no accepta codis de vals ni invitacions: afegeix `vouchers = true` abans del \
             primer [ de la seva configuració{}, i reinicia-la";
    AND_ACCOUNTS[0]: " and a line [accounts]", " y una línea [accounts]", " i una línia [accounts]";
    NO_FILE[0]: "this gateway has no file to read again", "esta pasarela no tiene ningún archivo que volver \
         a leer",
        "aquesta passarel·la no té cap fitxer per tornar a llegir";
    NEEDS_RESTART[1]: "{} cannot change while the gateway runs, so nothing has changed: restart it \
         (systemctl restart leeway-gateway), or put the old value back",
        "{} no puede cambiar mientras la pasarela está en marcha, y no ha cambiado nada: reiníciala \
             (systemctl restart leeway-gateway), o vuelve a poner el valor de antes",
        "{} no pot canviar mentre la passarel·la està en marxa, i no ha canviat res: reinicia-la (systemctl \
         restart leeway-gateway), o torna a posar el valor d'abans";
    USERS_FILE[0]: "whether there is a `users_file`", "users_file, donde no había o no hay ninguno",
        "users_file, on no n'hi havia o no n'hi ha cap";
    CONFIGURATION[1]: "{}",
        "la configuración tiene un error y no ha cambiado nada; `leeway gateway check` dice en inglés: {}",
        "la configuració té un error i no ha canviat res; `leeway gateway check` diu en anglès: {}";
    NOT_KEPT[1]: "cannot save this, so nothing has changed: {}",
        "no se puede guardar para después de un reinicio, y no ha cambiado nada: {}",
        "no es pot desar per a després d'un reinici, i no ha canviat res: {}";
    ACCOUNTS[1]: "accounts: {}", "cuentas: {}", "comptes: {}";
    STORE_MOVED[1]: "{} was removed or replaced while it was in use: put the same file back, or restart the \
         gateway to begin with the file that is there now",
        "{} se quitó o se cambió mientras se usaba: vuelve a poner el mismo archivo, o reinicia la pasarela \
             para empezar con lo que hay",
        "{} es va treure o canviar mentre es feia servir: torna a posar-hi el mateix fitxer, o reinicia la \
         passarel·la per començar amb el que hi ha";
    STORE_DAMAGED[1]: "{} is damaged: put back a copy of it, or move it away and restart the gateway to begin \
         with an empty one",
        "{} está dañado: pon una copia en su lugar, o quítalo y reinicia la pasarela para empezar sin cuentas",
        "{} està malmès: posa-hi una còpia, o treu-lo i reinicia la passarel·la per començar sense comptes";
    CODE_UNKNOWN[0]: "there is no voucher of this code: look at it again, it has no 0, O, 1, I or L",
        "no hay ningún vale con este código: vuelve a mirarlo, no lleva 0, O, 1, I ni L",
        "no hi ha cap val amb aquest codi: torna'l a mirar, no porta 0, O, 1, I ni L";
    CODE_VOID[1]: "this voucher was valid until {}", "este vale valía hasta {}", "aquest val valia fins a {}";
    CODE_REVOKED[0]: "this voucher was revoked", "este vale se anuló", "aquest val es va anul·lar";
    FOR_NOTHING[0]: "a voucher needs days, data or both: give at least one of them, more than 0",
        "un vale necesita días, datos o las dos cosas: da al menos una, mayor que 0",
        "un val necessita dies, dades o totes dues coses: dóna'n almenys una, més gran que 0";
    INVITED_FOR_NOTHING[0]: "an invitation cannot be for 0 days or 0 bytes: give more, or leave it out",
        "una invitación de 0 días o 0 bytes no lo es: da más, o déjalo vacío",
        "una invitació de 0 dies o 0 bytes no ho és: dóna'n més, o deixa-ho buit";
    ENDLESS[1]: "{} bytes: at most a petabyte, 1000000000000000 bytes, can be given",
        "{} bytes: se puede dar un petabyte como mucho, 1000000000000000 bytes",
        "{} bytes: es pot donar un petabyte com a molt, 1000000000000000 bytes";
    VOUCHER_COUNT[1]: "{} vouchers: from 1 to 1000 can be made at a time",
        "{} vales: se pueden hacer de 1 a 1000 a la vez", "{} vals: se'n poden fer d'1 a 1000 alhora";
    NO_NAME[1]: "{} cannot be invited: a name has 1 to 60 bytes, no space, no colon, no # in front, no \
         character that changes the direction of text, and is neither an address nor one of a voucher",
        "no se puede invitar a {}: un nombre tiene de 1 a 60 bytes, ni espacios ni dos puntos, no empieza \
             por #, no tiene caracteres que den la vuelta al texto, y no es ni una dirección ni el de un \
             vale",
        "no es pot convidar {}: un nom té d'1 a 60 bytes, ni espais ni dos punts, no comença per #, no té \
         caràcters que capgirin el text, i no és ni una adreça ni el d'un val";
    INVITED_ALREADY[2]: "{} has been invited already; to invite {} again, revoke that first",
        "{} ya tiene una invitación; para volver a invitar a {}, anúlala antes",
        "{} ja té una invitació; per tornar a convidar {}, anul·la-la abans";

    PEER_NOT_ASKED[0]: "not asked yet", "aún no se le ha preguntado", "encara no se li ha preguntat";
    PEER_SILENT[1]: "no answer within {} s", "no ha respondido en {} s", "no ha respost en {} s";
    PEER_REFUSES[0]: "it refuses this gateway: its `clients` have to contain this gateway's address",
        "rechaza esta pasarela: su `clients` tiene que contener la dirección de esta",
        "rebutja aquesta passarel·la: el seu `clients` ha de contenir l'adreça d'aquesta";
    PEER_STATUS[1]: "it answers {}: is it a Leeway gateway?", "responde {}: ¿es una pasarela de Leeway?",
        "respon {}: és una passarel·la de Leeway?";
    PEER_NONSENSE[0]: "it does not answer as a Leeway gateway", "no responde como una pasarela de Leeway",
        "no respon com una passarel·la de Leeway";
    PEER_HUNG_UP[0]: "it closed the connection", "ha colgado", "ha penjat";
}

/// The note for an error of the accounts' store.
pub fn of_store(error: &StoreError) -> Note {
    match error {
        StoreError::Voucher(error) => of_voucher(error),
        StoreError::Moved(path) => Note::new(&STORE_MOVED, [Value::same(path.display())]),
        StoreError::Damaged(path) => Note::new(&STORE_DAMAGED, [Value::same(path.display())]),
        error => Note::new(&ACCOUNTS, [Value::said(error)]),
    }
}

fn of_voucher(error: &VoucherError) -> Note {
    match error {
        VoucherError::Unknown => Note::new(&CODE_UNKNOWN, []),
        VoucherError::Void(until) => Note::new(&CODE_VOID, [Value::same(until)]),
        VoucherError::Revoked => Note::new(&CODE_REVOKED, []),
        VoucherError::Empty => Note::new(&FOR_NOTHING, []),
        VoucherError::Nothing => Note::new(&INVITED_FOR_NOTHING, []),
        VoucherError::Endless(bytes) => Note::new(&ENDLESS, [Value::same(bytes)]),
        VoucherError::Count(count) => Note::new(&VOUCHER_COUNT, [Value::same(count)]),
        VoucherError::Name(name) => Note::new(&NO_NAME, [Value::same(format!("{name:?}"))]),
        VoucherError::Invited(name) => Note::new(&INVITED_ALREADY, [name, name].map(Value::same)),
        error => Note::new(&ACCOUNTS, [Value::said(error)]),
    }
}

/// The errors of the store that a person can correct.
#[cfg(test)]
pub fn each_of_store() -> impl Iterator<Item = StoreError> {
    let vouchers = [
        VoucherError::Unknown,
        VoucherError::Void(jiff::Timestamp::UNIX_EPOCH),
        VoucherError::Revoked,
        VoucherError::Empty,
        VoucherError::Nothing,
        VoucherError::Endless(u64::MAX),
        VoucherError::Count(0),
        VoucherError::Name("a b".into()),
        VoucherError::Invited("Núria".into()),
    ];
    vouchers
        .into_iter()
        .map(StoreError::Voucher)
        .chain([StoreError::Moved("a.db".into()), StoreError::Damaged("a.db".into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_says_is_the_same_in_english() {
        for error in each_of_store() {
            assert_eq!(of_store(&error).to_string(), error.to_string());
        }
    }
}
