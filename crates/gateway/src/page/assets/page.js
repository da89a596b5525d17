// Updates the page by the events of the gateway. Every text is set as text, never as markup.
"use strict";

const words = JSON.parse(document.getElementById("words").textContent);
const el = (id) => document.getElementById(id);
const format = (value, digits) => new Intl.NumberFormat(words.code, { maximumFractionDigits: digits, minimumFractionDigits: digits, useGrouping: false }).format(value);
// Times are those of the line, which the browser's time zone may differ from.
const timeZone = document.getElementById("words").dataset.zone || undefined;
const clock = (parts) => new Intl.DateTimeFormat("en-GB", { timeZone, ...parts });
const date = clock({ day: "numeric", month: "numeric", year: "numeric", hour: "2-digit", minute: "2-digit" });
const ofDay = clock({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
function when(text) {
  const parts = Object.fromEntries(date.formatToParts(new Date(text)).map(({ type, value }) => [type, value]));
  return `${parts.day} ${words.months.split(" ")[parts.month - 1]} ${parts.year}, ${parts.hour}:${parts.minute}`;
}
const milliseconds = (value) => (value === null ? words.none : `${format(value, value < 10 ? 1 : 0)} ms`);
const rate = (bps) => (bps < 1e6 ? `${format(bps / 1e3, 0)} kbit/s` : `${format(bps / 1e6, 1)} Mbit/s`);
const bytes = (value) => (value < 1e9 ? `${format(value / 1e6, 1)} MB` : `${format(value / 1e9, 2)} GB`);

// Sets a text only if it differs, so that screen readers announce changes only.
function say(id, text) {
  if (el(id).textContent !== text) el(id).textContent = text;
}

function node(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function showObserved(seen) {
  const spare = (bps) => (bps === null ? "?" : rate(bps));
  const { down, up } = seen;
  const texts = [`${seen.seconds} s`, rate(down.mean_bps), rate(up.mean_bps), rate(down.busiest_bps), rate(up.busiest_bps), spare(down.spare_bps), spare(up.spare_bps)];
  document.querySelectorAll("#observed dd").forEach((element, at) => { element.textContent = texts[at]; });
}

function showState(sharing) {
  if (sharing.state === "observing") return;
  const paused = sharing.state === "paused";
  const until = paused && sharing.until ? `${words.until} ${when(sharing.until)}` : words.until_resumed;
  say("state-words", paused ? `${words.sharing_paused} ${until}` : words.sharing_on);
  el("state").className = paused ? "off" : "on";
  el("when-on").hidden = paused;
  el("when-paused").hidden = !paused;
}

function showSpeed({ seen, down, up }) {
  [down.with_bps, down.without_bps, up.with_bps, up.without_bps]
    .forEach((bps, at) => say(`speed-${at}`, bps === null ? words.none : rate(bps)));
  const said = (text, ...values) => values.reduce((so_far, value) => so_far.replace("{}", value), text);
  const known = () => said(words.speed_known, format(100 * down.ratio, 0), down.pairs);
  const few = () => said(words.speed_few, down.pairs, down.needed);
  const now = { no: () => words.speed_unseen, not_yet: () => words.speed_silent, yes: down.ratio === null ? few : known };
  say("speed-words", now[seen]());
}

function fill(row, user) {
  const texts = [user.name, user.connections, bytes(user.down_bytes), bytes(user.up_bytes), user.refused, words[user.standing] ?? user.standing];
  texts.forEach((text, at) => {
    if (row.cells[at].textContent !== String(text)) row.cells[at].textContent = text;
  });
  const form = row.querySelector("form");
  const revoked = user.standing === "revoked";
  form.elements.user.value = user.name;
  form.elements.undo.value = revoked ? "1" : "";
  const button = form.querySelector("button");
  const does = revoked ? words.give_access : words.take_access;
  if (button.textContent !== does) button.textContent = does;
  button.ariaLabel = `${does}: ${user.name}`;
}

// Rows keep their order while the pointer or the focus is on one of them.
function showUsers(users) {
  el("no-users").hidden = users.length > 0;
  el("user-table").hidden = users.length === 0;
  const body = el("user-rows");
  const held = body.matches(":hover, :focus-within");
  const there = new Map([...body.rows].map((row) => [row.querySelector("form").elements.user.value, row]));
  const rows = users.map((user) => {
    const row = there.get(user.name) ?? el("user-row").content.firstElementChild.cloneNode(true);
    fill(row, user);
    return row;
  });
  if (held) body.append(...rows.filter((row) => row.parentNode !== body));
  else if (rows.length !== body.rows.length || rows.some((row, at) => row !== body.rows[at])) body.replaceChildren(...rows);
}

function fillPeer(row, peer) {
  const says = peer.says;
  const paused = () => (says.until ? `${words.paused} ${words.until} ${when(says.until)}` : words.paused);
  const left = (bps) => `${rate(bps * (1 - Math.min(1, Math.max(0, says.load ?? 0))))} ${words.of} ${rate(bps)}`;
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  put(row.querySelector(".called"), peer.name ?? "");
  put(row.querySelector(".address"), peer.address);
  put(row.querySelector(".standing"), !says ? words.peer_gone : says.sharing === "on" ? words.peer_on : paused());
  put(row.querySelector(".error"), peer.error ?? "");
  put(row.cells[2], says?.users == null ? "–" : String(says.users));
  put(row.cells[3], says?.load == null ? "–" : `${format(100 * says.load, 0)} %`);
  put(row.cells[4], says?.spare_bps == null ? "–" : left(says.spare_bps));
  put(row.cells[5], peer.last_seen ? when(peer.last_seen) : words.never);
}

function showPeers(peers) {
  const body = el("peer-rows");
  while (body.rows.length > peers.length) body.lastElementChild.remove();
  while (body.rows.length < peers.length) body.append(el("peer-row").content.firstElementChild.cloneNode(true));
  peers.forEach((peer, at) => fillPeer(body.rows[at], peer));
  el("peer-card").hidden = peers.length === 0;
}

function showVolumes(volumes) {
  const shown = volumes.map((volume) => {
    const name = words[`cap_${volume.cap}`] ?? volume.cap;
    const box = document.createElement("div");
    box.className = "volume";
    const bar = document.createElement("progress");
    bar.max = 1000;
    bar.value = Math.min(1000, (1000 * volume.used_bytes) / Math.max(1, volume.limit_bytes));
    bar.setAttribute("aria-label", name);
    const anew = node("p", `${words.begins_anew}: ${when(volume.until)}`);
    anew.className = "small";
    box.append(node("p", `${name}: ${bytes(volume.used_bytes)} ${words.used_of} ${bytes(volume.limit_bytes)}`), bar, anew);
    return box;
  });
  el("volumes").replaceChildren(...(shown.length ? shown : [node("p", words.no_caps)]));
}

const KEPT = 600;
let series = [[], [], [], []];
let chart = null;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function draw() {
  const box = el("chart");
  if (chart) chart.destroy();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const line = (label, name, scale, value, dash) => ({ label, stroke: colour(name), width: 2, scale, value: (_, v) => (v === null ? "–" : value(v)), dash });
  chart = new uPlot({
    width: box.clientWidth, height: 240,
    scales: { bps: { range: (_, low, high) => [0, Math.max(high ?? 0, 1e5)] }, ms: { range: (_, low, high) => [0, Math.max(high ?? 0, 10)] } },
    series: [
      { label: words.time, value: (_, v) => (v === null ? "–" : ofDay.format(new Date(v * 1000))) },
      line(words.down, "--accent", "bps", rate),
      line(words.up, "--on", "bps", rate, [6, 3]),
      line(words.queue, "--off", "ms", (v) => `${format(v, 1)} ms`, [2, 3]),
    ],
    axes: [
      { ...axis, space: 90, values: (_, ticks) => ticks.map((tick) => ofDay.format(new Date(tick * 1000))) },
      { ...axis, scale: "bps", size: 60, values: (_, ticks) => ticks.map((tick) => `${format(tick / 1e6, tick < 1e6 ? 1 : 0)} M`) },
      { ...axis, scale: "ms", side: 1, size: 60, grid: { show: false }, values: (_, ticks) => ticks.map((tick) => `${format(tick, Number.isInteger(tick) ? 0 : 1)} ms`) },
    ],
  }, series, box);
}

function add(samples) {
  for (const sample of samples) {
    series[0].push(sample.at);
    series[1].push(sample.down_bps);
    series[2].push(sample.up_bps);
    series[3].push(sample.queue_ms);
  }
  series = series.map((values) => values.slice(-KEPT));
  if (chart) chart.setData(series); else draw();
}

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("history", (event) => {
    series = [[], [], [], []];
    add(JSON.parse(event.data));
  });
  events.addEventListener("now", (event) => {
    const now = JSON.parse(event.data);
    el("lost").hidden = true;
    showState(now.sharing);
    if (now.observed) showObserved(now.observed);
    say("notice-words", words[now.notice.answer]);
    say("latency-now", milliseconds(now.notice.now_ms));
    say("latency-off", milliseconds(now.notice.off_ms));
    showSpeed(now.home_speed);
    say("rate-down", rate(now.sample.down_bps));
    say("rate-up", rate(now.sample.up_bps));
    showVolumes(now.volumes);
    showUsers(now.users);
    showPeers(now.peers);
    add([now.sample]);
  });
  events.onerror = () => {
    el("lost").hidden = false;
    say("lost", words.lost);
    if (events.readyState !== EventSource.CLOSED) return;
    // Either the session is over, or the gateway does not answer yet.
    setTimeout(() => fetch("/session", { redirect: "manual" })
      .then((answer) => (answer.status === 401 ? location.assign("/login") : listen()), listen), 2000);
  };
}

new ResizeObserver(() => chart && chart.setSize({ width: el("chart").clientWidth, height: 240 })).observe(el("chart"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
listen();
