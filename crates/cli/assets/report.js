"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (i) => style(`--c${i % 8}`);

// ---- Tables ----

// A term with its explanation on hover; `legend` has the same for those who cannot.
const explained = (element, about) => {
  if (about) { element.title = about; element.classList.add("term"); }
  return element;
};
const heading = (text, about) => {
  const cell = make("th");
  cell.append(explained(make("span", text), about));
  return cell;
};
const LAW = "Control law of the senders: `leeway laws` lists them with their parameters.";

const legend = (tables) => {
  const terms = new Map();
  for (const table of tables) table.heads.forEach((text, i) => { if (table.abouts[i]) terms.set(text, table.abouts[i]); });
  const details = make("details", null, "legend");
  details.append(make("summary", "What the columns mean"));
  const list = make("dl");
  for (const [term, about] of [["law", LAW], ...terms]) list.append(make("dt", term), make("dd", about));
  details.append(list);
  return details;
};

const table = (content) => {
  const hasLaw = content.rows.some((row) => row.law);
  const result = make("table");
  const head = result.createTHead().insertRow();
  head.append(make("th", content.of));
  if (hasLaw) { const cell = heading("law", LAW); cell.className = "law"; head.append(cell); }
  content.heads.forEach((text, i) => head.append(heading(text, content.abouts[i])));
  const body = result.createTBody();
  for (const row of content.rows) {
    const line = body.insertRow();
    const name = make("td", row.flows > 1 ? `${row.name} ×${row.flows}` : row.name);
    if (row.role === "background") name.append(make("span", "background", "role"));
    if (row.law) name.append(make("span", row.law, "small"));
    line.append(name);
    if (hasLaw) {
      // A long law may break after a comma.
      const cell = make("td", null, "law");
      (row.law || "").split(/(?<=[:,])/).forEach((part) => cell.append(part, make("wbr")));
      line.append(cell);
    }
    for (const text of row.cells) line.append(make("td", text));
  }
  const scroll = make("div", null, "scroll");
  scroll.append(result);
  return scroll;
};

const windowCard = (content) => {
  const card = make("article", null, "card");
  const head = make("header");
  head.append(make("h2", content.name === "run" ? "Whole run" : content.name), make("span", content.span, "span"));
  card.append(head);
  if (content.story) card.append(make("p", content.story, "story"));
  if (content.overall.length) {
    const line = make("p", null, "overall");
    content.overall.forEach(([name, value, about], i) => {
      line.append(i ? ", " : "", explained(make("span", name), about), " ", make("b", value));
    });
    card.append(line);
  }
  if (content.groups.rows.length) card.append(table(content.groups));
  if (content.links.rows.length) card.append(table(content.links));
  return card;
};

// ---- Charts ----

const number = (digits) => (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toString());
const seconds = (value) => (value === null || value === undefined ? "–" : `${Number(value.toFixed(3))} s`);

// The largest value decides the unit of a rate.
const rateUnit = (lines) => {
  let most = 0;
  for (const line of lines) for (const value of line) if (value > most) most = value;
  if (most >= 1e9) return [1e9, "Gbit/s"];
  if (most >= 1e6) return [1e6, "Mbit/s"];
  if (most >= 1e3) return [1e3, "kbit/s"];
  return [1, "bit/s"];
};

const some = (line) => line.some((value) => value !== null && value !== 0);

// What is drawn: [{ title, unit, lines: [{ name, values, colour, dash, hidden }] }].
const panels = (charts) => {
  const flowColour = (i) => colour(i);
  const linkColour = (i) => colour(7 - i);
  const of = (field, more = {}) =>
    charts.flows
      .map((flow, i) => ({ name: flow.name, values: flow[field], colour: flowColour(i), ...more }))
      .filter((line) => some(line.values));
  const windows = of("cwnd_pkt");
  if (windows.length > 1) windows.push({ name: "sum", values: charts.window_sum, colour: style("--soft"), hidden: true });
  windows.push(...of("ssthresh_pkt", { dash: [4, 4], hidden: true }).map((line) => ({ ...line, name: `${line.name} ssthresh` })));
  const queued = charts.links.filter((link) => some(link.queue_pkt));
  const moving = charts.links.filter((link) => some(link.rate_bps));
  const rates = of("rate_bps").concat(
    moving.map((link) => {
      const i = charts.links.indexOf(link);
      return { name: link.name, values: link.rate_bps, colour: linkColour(i), dash: [2, 3], hidden: charts.flows.length > 0 };
    }),
  );
  const [scale, rateName] = rateUnit(rates.filter((line) => !line.hidden).map((line) => line.values));
  const scaled = rates.map((line) => ({ ...line, values: line.values.map((v) => (v === null ? null : v / scale)) }));
  const panel = (title, unit, lines) => ({ title, unit, lines });
  return [
    panel("Congestion windows", "packets", windows),
    panel("Queues", "packets", queued.map((link) => ({
      name: link.name, values: link.queue_pkt, colour: linkColour(charts.links.indexOf(link)), fill: queued.length === 1,
    }))),
    panel("Rates", `${rateName}, means over ${seconds(charts.rate_over_s)}`, scaled),
    panel("Queuing delay, as each law estimates it", "ms", of("delay_ms")),
    panel("Round-trip time, smoothed by the sender", "ms", of("srtt_ms")),
  ].filter((p) => p.lines.length);
};

// Dotted lines where windows of the tables begin and end, and where links change.
const drawMarks = (point) => (plot) => {
  const times = new Set();
  for (const mark of point.marks) { times.add(mark.from_s); times.add(mark.to_s); }
  for (const event of point.events) times.add(event.at_s);
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = style("--soft");
  ctx.globalAlpha = 0.55;
  ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.lineWidth = devicePixelRatio;
  for (const time of times) {
    if (time <= plot.scales.x.min || time >= plot.scales.x.max) continue;
    const x = Math.round(plot.valToPos(time, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
};

let plots = [];
let zoom = null;
let hidden = new Map();

const draw = (point) => {
  const holder = byId("charts");
  plots.forEach((plot) => plot.destroy());
  plots = [];
  holder.replaceChildren();
  byId("hint").hidden = !point.charts;
  if (!point.charts) {
    holder.append(make("p", "No series was recorded for this point: add --series 10ms to see windows, queues and rates against time."));
    return;
  }
  const axis = {
    stroke: style("--soft"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: style("--grid"), width: 1 },
    ticks: { stroke: style("--line"), width: 1, size: 5 },
  };
  const sync = uPlot.sync("leeway");
  let zooming = false;
  const onZoom = (plot, key) => {
    if (key !== "x" || zooming) return;
    zooming = true;
    const { min, max } = plot.scales.x;
    zoom = [min, max];
    plots.forEach((other) => { if (other !== plot) other.setScale("x", { min, max }); });
    zooming = false;
  };
  for (const panel of panels(point.charts)) {
    const card = make("article", null, "card");
    const head = make("header");
    head.append(make("h2", panel.title), make("span", panel.unit, "span"));
    const chart = make("div", null, "chart");
    card.append(head, chart);
    holder.append(card);
    const key = (name) => `${panel.title}/${name}`;
    const series = panel.lines.map((line) => ({
      label: line.name,
      stroke: line.colour,
      width: 1.5,
      dash: line.dash,
      fill: line.fill ? `${line.colour}22` : undefined,
      show: hidden.has(key(line.name)) ? !hidden.get(key(line.name)) : !line.hidden,
      points: { show: false },
      value: (_, value) => number(4)(value),
    }));
    const plot = new uPlot(
      {
        width: chart.clientWidth,
        height: Math.max(180, Math.min(260, chart.clientWidth * 0.5)),
        padding: [10, 16, 0, 0],
        series: [{ label: "time", value: (_, value) => seconds(value) }, ...series],
        scales: {
          x: { time: false },
          // Always from zero: a share of what there is, not a magnified wiggle.
          y: { range: (_, min, max) => [Math.min(0, min || 0), max > 0 ? max * 1.06 : 1] },
        },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map((t) => `${Number(t.toFixed(6))} s`), space: 70, size: 32 },
          { ...axis, size: 52, values: (_, ticks) => ticks.map(number(6)) },
        ],
        cursor: { sync: { key: sync.key, setSeries: false }, y: false, drag: { x: true, y: false, dist: 5 }, points: { size: 6 } },
        hooks: {
          setScale: [onZoom],
          draw: [drawMarks(point)],
          setSeries: [(self, i, options) => { if (i && options.show !== undefined) hidden.set(key(self.series[i].label), !options.show); }],
        },
      },
      [point.charts.time_s, ...panel.lines.map((line) => line.values)],
      chart,
    );
    plots.push(plot);
  }
  if (zoom) {
    const [min, max] = zoom;
    plots.forEach((plot) => plot.setScale("x", { min, max }));
  }
};

// ---- The page ----

let current = 0;

const facts = (point) => {
  const seeds = point.seeds;
  const runs = seeds.length === 1
    ? `One run of ${seconds(point.duration_s)}, seed ${seeds[0]}.`
    : `${seeds.length} runs of ${seconds(point.duration_s)}, seeds ${seeds[0]} to ${seeds[seeds.length - 1]}: means with 95 % confidence intervals.`;
  return point.charts && seeds.length > 1 ? `${runs} The charts show seed ${point.charts.seed}.` : runs;
};

const show = (index) => {
  current = index;
  const point = data.points[index];
  document.title = point.title;
  byId("title").textContent = point.title;
  byId("description").textContent = point.description;
  byId("facts").textContent = facts(point);
  byId("tables").replaceChildren(...point.tables.map(windowCard));
  if (point.tables.length) byId("tables").append(legend(point.tables.flatMap((t) => [t.groups, t.links])));
  draw(point);
};

// With several points: what the flows of each got, side by side.
const comparison = (index) => {
  const first = data.points[0].tables[index];
  const abouts = new Map(data.points.flatMap((point) => {
    const groups = point.tables[index]?.groups;
    return groups ? groups.heads.map((text, i) => [text, groups.abouts[i]]) : [];
  }));
  const heads = [...abouts.keys()];
  const card = make("article", null, "card");
  const head = make("header");
  head.append(make("h2", first.name === "run" ? "All points" : `All points: ${first.name}`), make("span", first.span, "span"));
  const result = make("table");
  const names = result.createTHead().insertRow();
  names.append(make("th", "point"), make("th", "flows", "law"), ...heads.map((text) => heading(text, abouts.get(text))));
  const body = result.createTBody();
  data.points.forEach((point, i) => {
    const groups = point.tables[index]?.groups;
    for (const row of groups?.rows ?? []) {
      const line = body.insertRow();
      const cell = make("td");
      const link = make("button", point.label || point.title);
      link.addEventListener("click", () => { select.value = i; zoom = null; show(i); });
      cell.append(link);
      line.append(cell, make("td", row.flows > 1 ? `${row.name} ×${row.flows}` : row.name, "flow"));
      for (const name of heads) line.append(make("td", row.cells[groups.heads.indexOf(name)] ?? "-"));
    }
  });
  const scroll = make("div", null, "scroll tall");
  scroll.append(result);
  card.append(head, scroll);
  return card;
};

const select = byId("point");
data.points.forEach((point, i) => {
  const option = make("option", point.label ? (data.points.some((p) => p.file !== point.file) ? `${point.title}: ${point.label}` : point.label) : point.title);
  option.value = i;
  select.append(option);
});
byId("chooser").hidden = data.points.length < 2;
select.addEventListener("change", () => { zoom = null; show(Number(select.value)); });
byId("footer").textContent = `Made by leeway ${data.version}. The same scenario and seed give the same numbers again.`;
const sameWindows = data.points.every((p) => p.tables.map((t) => t.name).join() === data.points[0].tables.map((t) => t.name).join());
if (data.points.length > 1 && sameWindows) byId("all").append(...data.points[0].tables.map((_, i) => comparison(i)));
if (data.points.length) show(0);

let width = innerWidth;
let pending = 0;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(() => draw(data.points[current]));
});

// ---- Colours: the system's, or what the button chose ----

const button = byId("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
const themed = () => {
  button.textContent = dark() ? "Light" : "Dark";
  if (data.points.length) draw(data.points[current]);
};
const choose = (theme) => { if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme; };
const stored = () => { try { return localStorage.getItem("leeway-theme"); } catch { return null; } };
choose(new URLSearchParams(location.search).get("theme") ?? stored());
button.hidden = false;
button.addEventListener("click", () => {
  choose(dark() ? "light" : "dark");
  try { localStorage.setItem("leeway-theme", document.documentElement.dataset.theme); } catch { /* a file without storage */ }
  themed();
});
system.addEventListener("change", themed);
themed();
