//! All texts of the pages, in each language.

use crate::language::Language;
use leeway_accounts::caps::Reason;
use serde::Serialize;

impl Language {
    /// The texts of the language.
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

impl Words {
    /// The reason why a neighbour is slowed or paused.
    pub fn why(&self, reason: Reason) -> &'static str {
        match reason {
            Reason::Month => self.why_month,
            Reason::Percentile => self.why_percentile,
            Reason::Hours => self.why_hours,
            Reason::AllDaily => self.why_all_daily,
            Reason::AllRate => self.why_all_rate,
            Reason::UserDaily => self.why_user_daily,
            Reason::UserRate => self.why_user_rate,
            Reason::Voucher => self.why_voucher,
            Reason::VoucherOver => self.why_voucher_over,
            Reason::Store => self.why_store,
        }
    }
}

words! {
    code: "en", "es", "ca";
    decimal_mark: ".", ",", ",";
    months: "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", "ene feb mar abr may jun jul ago sept oct nov dic",
        "gen febr març abr maig juny jul ag set oct nov des";
    title: "Your shared line", "Tu línea compartida", "La teva línia compartida";
    skip: "Skip to the content", "Saltar al contenido", "Vés al contingut";
    language: "Language", "Idioma", "Idioma";
    change: "Change", "Cambiar", "Canvia";
    log_in: "Log in", "Entrar", "Entra";
    log_out: "Log out", "Salir", "Surt";
    name: "Name", "Nombre", "Nom";
    password: "Password", "Contraseña", "Contrasenya";
    wrong_password: "The name or the password is wrong.", "Nadie tiene este nombre y esta contraseña.",
        "Ningú no té aquest nom i aquesta contrasenya.";
    too_many: "Too many attempts. Try again in a minute.", "Demasiados intentos. Vuelve a probar en un minuto.",
        "Massa intents. Torna-ho a provar d'aquí a un minut.";
    old_form: "This form was too old. Nothing has changed; try again.",
        "Este formulario era demasiado antiguo. No ha cambiado nada; vuelve a probar.",
        "Aquest formulari era massa antic. No ha canviat res; torna-ho a provar.";
    sharing_on: "Sharing is on", "Compartir está activado", "Compartir està activat";
    sharing_paused: "Sharing is paused", "Compartir está en pausa", "Compartir està en pausa";
    observing: "Only observing: no neighbour is let through", "Solo se observa: no pasa ningún vecino",
        "Només s'observa: no passa cap veí";
    could_share: "What could be shared", "Lo que se podría compartir", "El que es podria compartir";
    could_share_how: "The line can carry at least what it carried in its busiest second. The difference to its average could be shared. Nothing was sent to find out more.",
        "La línea da al menos lo que dio en su segundo de más uso. Lo que la media deja de eso se podría compartir. No se ha enviado nada para saber más.",
        "La línia dóna almenys el que va donar en el seu segon de més ús. El que la mitjana en deixa es podria compartir. No s'ha enviat res per saber-ne més.";
    could_share_unseen: "The home's packets do not pass this machine, so what could be shared is not known.",
        "Los paquetes de la casa no pasan por esta máquina: no se sabe cuánto se podría compartir.",
        "Els paquets de la casa no passen per aquesta màquina: no se sap quant es podria compartir.";
    not_known: "Not known", "No se sabe", "No se sap";
    observed_for: "Observed for", "Observado durante", "Observat durant";
    average: "Average", "Media", "Mitjana";
    busiest: "Busiest second", "Segundo de más uso", "Segon de més ús";
    spare: "Could be shared, at least", "Se podría compartir, al menos", "Es podria compartir, almenys";
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
    speed_down_with: "Downloads of the home, with neighbours",
        "Bajadas de la casa, con vecinos",
        "Baixades de la casa, amb veïns";
    speed_down_without: "Downloads of the home, without",
        "Bajadas de la casa, sin vecinos",
        "Baixades de la casa, sense veïns";
    speed_up_with: "Uploads of the home, with neighbours",
        "Subidas de la casa, con vecinos",
        "Pujades de la casa, amb veïns";
    speed_up_without: "Uploads of the home, without",
        "Subidas de la casa, sin vecinos",
        "Pujades de la casa, sense veïns";
    speed_known: "While neighbours use the line, the home's downloads reach {} % of their speed \
         without neighbours (pairs compared: {}).",
        "Mientras hay vecinos en la línea, las bajadas de la casa alcanzan el {} % de su \
         velocidad sin vecinos (pares comparados: {}).",
        "Mentre hi ha veïns a la línia, les baixades de la casa arriben al {} % de la seva \
         velocitat sense veïns (parells comparats: {}).";
    speed_few: "The home's speed with and without neighbours is not known yet: {} of {} comparisons. \
         The home's speed with and without neighbours is not known yet: {} of {} comparisons.",
        "La velocidad de la casa con y sin vecinos aún no se sabe: {} de {} comparaciones.",
        "La velocitat de la casa amb i sense veïns encara no se sap: {} de {} comparacions.";
    speed_silent: "No packet of the home has passed this machine yet, so the home's speed is not known. \
         No packet of the home has passed this machine yet, so the home's speed is not known.",
        "Ningún paquete de la casa ha pasado aún por esta máquina: no se sabe la velocidad de \
         la casa.",
        "Cap paquet de la casa no ha passat encara per aquesta màquina: no se sap la \
         velocitat de la casa.";
    speed_unseen: "This machine cannot see the home's packets, so the home's speed is not known.",
        "Esta máquina no puede ver los paquetes de la casa: no se sabe la velocidad de la casa.",
        "Aquesta màquina no pot veure els paquets de la casa: no se sap la velocitat de la casa.";
    speed_how: "Transfers of the home of at least 1 MB are compared in pairs: one while neighbours \
         use the line, and one like it within an hour while no neighbour does. The speeds are \
         medians of the last 24 hours. Transfers that their server holds back do not count.",
        "Las transferencias de la casa de al menos 1 MB se comparan por pares: una con \
         vecinos en la línea y otra parecida, en menos de una hora, sin ellos. Las \
         velocidades son medianas de las últimas 24 horas. No cuentan las transferencias que \
         su servidor frena.",
        "Les transferències de la casa d'almenys 1 MB es comparen per parells: una amb veïns \
         a la línia i una altra de semblant, en menys d'una hora, sense. Les velocitats són \
         medianes de les últimes 24 hores. No compten les transferències que el seu servidor \
         frena.";
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
    take_access: "Take access away", "Quitar el acceso", "Treu l'accés";
    give_access: "Give access back", "Devolver el acceso", "Torna l'accés";
    access: "Access", "Acceso", "Accés";
    access_how: "Transfers end at once. Access can be taken away before a neighbour's first use, too.",
        "Las descargas terminan al momento. También se puede quitar antes del primer uso.",
        "Les baixades s'acaben de seguida. També es pot treure abans del primer ús.";
    peers: "Other gateways", "Otras pasarelas", "Altres passarel·les";
    peers_how: "This gateway asks them every few seconds. Neighbours who use the proxy file (PAC) move between them.",
        "Esta pasarela les pregunta cada pocos segundos; los vecinos con el archivo de proxy cambian entre ellas.",
        "Aquesta passarel·la els pregunta cada pocs segons; els veïns amb el fitxer de proxy canvien entre elles.";
    gateway: "Gateway", "Pasarela", "Passarel·la";
    peer_on: "shares", "comparte", "comparteix";
    peer_gone: "does not answer", "no responde", "no respon";
    load: "Load", "Carga", "Càrrega";
    of: "of", "de", "de";
    peer_left: "Free for neighbours", "Libre para vecinos", "Lliure per a veïns";
    last_seen: "Last answer", "Última respuesta", "Última resposta";
    never: "never", "nunca", "mai";
    configuration: "Configuration", "Configuración", "Configuració";
    reload: "Read the configuration again", "Volver a leer la configuración", "Torna a llegir la configuració";
    reload_how: "Users, ports, caps and blocklists of the file take effect at once. No connection ends.",
        "Los usuarios, puertos, límites y listas de bloqueo del archivo valen al momento. No se corta ninguna conexión.",
        "Els usuaris, ports, límits i llistes de bloqueig del fitxer valen de seguida. No es talla cap connexió.";
    reloaded: "The configuration was read again and is in use.", "La configuración se ha vuelto a leer y ya vale.",
        "La configuració s'ha tornat a llegir i ja val.";
    since_start: "Bytes since the gateway was started.", "Bytes desde que arrancó la pasarela.",
        "Bytes des que es va engegar la passarel·la.";
    notes: "Notes", "Avisos", "Avisos";
    your_share: "Your share of this line", "Tu parte de esta línea", "La teva part d'aquesta línia";
    as_fast: "You are served as fast as the line allows.", "Vas tan rápido como la línea lo permite.",
        "Vas tan de pressa com la línia ho permet.";
    you_slowed: "You are slowed to", "Vas frenado a", "Vas frenat a";
    you_paused: "You are paused.", "Estás en pausa.", "Estàs en pausa.";
    why: "Why", "Por qué", "Per què";
    goes_on: "You are served again", "Sigue", "Continua";
    goes_on_never: "This does not end by itself. Ask the owner of the line.",
        "No sigue por sí solo. Pregunta a quien comparte la línea.",
        "No continua tot sol. Pregunta a qui comparteix la línia.";
    why_owner: "The owner of the line has paused sharing.", "Quien comparte la línea la ha puesto en pausa.",
        "Qui comparteix la línia l'ha posada en pausa.";
    why_month: "The neighbours have used nearly all, or all, of their part of this month's volume.",
        "La parte de los vecinos del volumen de este mes está casi o del todo usada.",
        "La part dels veïns del volum d'aquest mes està gairebé o del tot usada.";
    why_percentile: "More traffic would raise the bill of the line, which depends on its busiest hours.",
        "Más subiría la factura de la línea, que va por sus horas de más uso.",
        "Més apujaria la factura de la línia, que va per les hores de més ús.";
    why_hours: "The owner wants the line for the home in these hours.",
        "A estas horas la línea es para la casa.", "A aquestes hores la línia és per a la casa.";
    why_all_daily: "All neighbours together have used nearly all, or all, of what they may use today.",
        "Lo que todos los vecinos pueden usar hoy está casi o del todo usado.",
        "El que tots els veïns poden usar avui està gairebé o del tot usat.";
    why_all_rate: "All neighbours together have a rate limit.",
        "Todos los vecinos juntos tienen una velocidad máxima.",
        "Tots els veïns junts tenen una velocitat màxima.";
    why_user_daily: "You have used nearly all, or all, of what you may use today.",
        "Lo que puedes usar hoy está casi o del todo usado.", "El que pots usar avui està gairebé o del tot usat.";
    why_user_rate: "Each neighbour has a rate limit.", "Cada vecino tiene una velocidad máxima.",
        "Cada veí té una velocitat màxima.";
    why_voucher: "You have used nearly all, or all, of the data of your voucher.",
        "Los datos de tu vale están casi o del todo usados.",
        "Les dades del teu val estan gairebé o del tot usades.";
    why_voucher_over: "The time of your voucher is over.", "El tiempo de tu vale se ha acabado.",
        "El temps del teu val s'ha acabat.";
    why_store: "The accounts cannot be stored. The owner can see why.",
        "No se pueden guardar las cuentas. Quien comparte la línea puede ver por qué.",
        "No es poden desar els comptes. Qui comparteix la línia pot veure per què.";
    why_no_access: "The owner of the line has revoked your access.",
        "Quien comparte la línea te ha quitado el acceso.", "Qui comparteix la línia t'ha tret l'accés.";
    why_revoked: "The owner has taken this voucher back.", "Quien comparte la línea ha anulado este vale.",
        "Qui comparteix la línia ha anul·lat aquest val.";
    why_void: "This voucher was not used in time.", "Este vale no se usó a tiempo.",
        "Aquest val no es va fer servir a temps.";
    why_unknown: "There is no voucher of this code. It has no 0, O, 1, I or L.",
        "No hay ningún vale con este código. No lleva 0, O, 1, I ni L.",
        "No hi ha cap val amb aquest codi. No porta 0, O, 1, I ni L.";
    why_slow_down: "Too many codes were tried from here. Try again in a minute.",
        "Se han probado demasiados códigos desde aquí. Vuelve a probar en un minuto.",
        "S'han provat massa codis des d'aquí. Torna-ho a provar d'aquí a un minut.";
    you_left: "What you have left", "Lo que te queda", "El que et queda";
    left_of: "left of", "quedan de", "queden de";
    no_limit: "Nothing limits how much you may use.", "Nada limita cuánto puedes usar.",
        "Res no limita quant pots usar.";
    ends: "Ends", "Termina", "Acaba";
    from_first_use: "from the first use", "desde el primer uso", "des del primer ús";
    not_begun: "Not used yet: its time begins with the first use.",
        "Sin usar: su tiempo empieza con el primer uso.",
        "Sense usar: el seu temps comença amb el primer ús.";
    use_until: "Use it for the first time before", "Úsalo por primera vez antes de", "Fes-lo servir per primer cop abans de";
    logged: "The gateway logs the addresses that you reach. A log is kept for",
        "La pasarela registra las direcciones a las que llegas. El registro se guarda",
        "La passarel·la registra les adreces on arribes. El registre es guarda";
    days: "days", "días", "dies";
    day: "day", "día", "dia";
    how: "How to use it", "Cómo se usa", "Com es fa servir";
    how_set: "Set this as proxy in the network settings of your device:",
        "Pon esto como proxy en los ajustes de red de tu aparato:",
        "Posa això com a proxy a la configuració de xarxa del teu aparell:";
    http_proxy: "HTTP proxy", "Proxy HTTP", "Proxy HTTP";
    socks_proxy: "SOCKS5 proxy", "Proxy SOCKS5", "Proxy SOCKS5";
    port: "port", "puerto", "port";
    user_name: "User name", "Usuario", "Usuari";
    the_code: "the code", "el código", "el codi";
    anything: "anything", "cualquiera", "qualsevol";
    history: "History", "Historial", "Historial";
    history_how: "What was used through this gateway, both directions together, also before its last start.",
        "Lo que se ha usado por esta pasarela, en los dos sentidos, también antes de su último arranque.",
        "El que s'ha usat per aquesta passarel·la, en els dos sentits, també abans de l'última engegada.";
    no_history: "Nothing was used yet.", "Aún no se ha usado nada.", "Encara no s'ha usat res.";
    each_day: "The neighbours' days", "Los días de los vecinos", "Els dies dels veïns";
    date: "Day", "Día", "Dia";
    today: "Today", "Hoy", "Avui";
    the_home: "The home", "La casa", "La casa";
    limits: "Limits", "Límites", "Límits";
    limits_how: "An empty field is no limit. A limit that is set here holds at once and after a \
        restart, instead of that in the configuration.",
        "Un campo vacío es sin límite. Un límite puesto aquí vale al momento y tras un reinicio, en \
        lugar del de la configuración.",
        "Un camp buit és sense límit. Un límit posat aquí val de seguida i després d'un reinici, en \
        lloc del de la configuració.";
    limit_all: "All neighbours together", "Todos los vecinos juntos", "Tots els veïns junts";
    limit_each: "Each neighbour", "Cada vecino", "Cada veí";
    gb_a_day: "GB a day", "GB al día", "GB al dia";
    megabits: "Mbit/s", "Mbit/s", "Mbit/s";
    set_limit: "Set the limit", "Poner el límite", "Posa el límit";
    configured_limit: "As in the configuration", "Como en la configuración", "Com a la configuració";
    wrong_limit: "GB a day and Mbit/s are numbers above 0.", "GB al día y Mbit/s son números mayores que 0.",
        "GB al dia i Mbit/s són números més grans que 0.";
    codes: "Invitations and vouchers", "Invitaciones y vales", "Invitacions i vals";
    codes_how: "A neighbour gives the code as user name of the proxy. It is shown once.",
        "El vecino da el código como usuario del proxy. Se muestra una sola vez.",
        "El veí dóna el codi com a usuari del proxy. Es mostra un sol cop.";
    invite: "Invite", "Invitar", "Convida";
    invited: "is invited", "tiene una invitación", "té una invitació";
    make_vouchers: "Make vouchers to print", "Hacer vales para imprimir", "Fes vals per imprimir";
    gigabytes: "GB", "GB", "GB";
    how_many: "How many", "Cuántos", "Quants";
    without_end: "Leave days or GB empty for no limit.", "Deja días o GB vacíos para no limitarlos.",
        "Deixa dies o GB buits per no limitar-los.";
    wrong_number: "Days and GB are numbers above 0; from 1 to 1000 vouchers can be made at a time.",
        "Días y GB son números mayores que 0; se pueden hacer de 1 a 1000 vales a la vez.",
        "Dies i GB són números més grans que 0; es poden fer d'1 a 1000 vals alhora.";
    their_page: "Page of the neighbour", "Página del vecino", "Pàgina del veí";
    back: "Back", "Volver", "Torna";
    sheet_title: "Internet from your neighbour", "Internet de tu vecino", "Internet del teu veí";
    sheet_file: "vouchers.html", "vales.html", "vals.html";
    sheet_look: "What is left", "Lo que queda", "El que queda";
    lost: "No contact with the gateway. Trying again…", "Sin contacto con la pasarela. Reintentando…",
        "Sense contacte amb la passarel·la. Tornant-ho a provar…";
}
