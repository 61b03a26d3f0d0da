"use strict";
// Everything that comes from a server is set as text, never as markup.
const $ = (id) => document.getElementById(id);
const HISTORY = 300;
// Longer bodies are folded.
const FOLDED = 400;
const TOKEN = "token";
let title, last, at = null, sort = null;
// The server whose rows the open dialog is about.
let idsOf = null;
// What loads the rows of the views of a queue again.
let loads = [];
const history = new Map(), seen = new Map();

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function shown(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit === "seconds") {
    const s = Math.floor(value);
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  }
  if (typeof value === "number") return value.toLocaleString("en", { maximumFractionDigits: 1 });
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function spark(values, what) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 100 20");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const most = Math.max(1, ...values), first = values[0] ?? 0, now = values[values.length - 1] ?? 0;
  svg.setAttribute("aria-label", `${what}: from ${first} to ${now}, at most ${Math.max(0, ...values)}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  line.setAttribute("points", values.map((v, i) => `${i * step},${19 - 18 * v / most}`).join(" "));
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
}

// A heading in one style, whatever the key or the column of a tool is.
function headed(text) {
  const words = text.replaceAll("_", " "), plain = /[a-z]/.test(words) ? words : words.toLowerCase();
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

function note(key, value) {
  const values = history.get(key) ?? [];
  values.push(value ?? 0);
  if (values.length > HISTORY) values.shift();
  history.set(key, values);
}

const keyOf = (queue) => JSON.stringify([queue.server ?? last.servers[0].server, queue.queue]);
const queues = () => (last ? last.queues : []).map((q) => ({ server: last.servers[0].server, ...q }));

function headings(table, names) {
  const row = make("tr");
  for (const [text, isNumber, key] of names) {
    const cell = make("th", key ? undefined : headed(text), { scope: "col" });
    if (isNumber) cell.className = "number";
    if (key) {
      const button = make("button", headed(text), { type: "button" });
      button.onclick = () => { sort = { key, down: sort?.key === key ? !sort.down : isNumber }; show(); };
      cell.append(button);
      if (sort?.key === key) cell.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    }
    row.append(cell);
  }
  table.tHead.replaceChildren(row);
}

function showServers() {
  const table = $("servers"), figures = title.serverFigures;
  headings(table, [["Server"], ["Version"], ...figures.map((f) => [f.title, true]), ["History"]]);
  table.tBodies[0].replaceChildren(...last.servers.map((server) => {
    const row = make("tr");
    row.append(make("th", server.server, { scope: "row" }));
    if (!server.up) {
      row.append(make("td", server.error, { class: "bad", colspan: figures.length + 2 }));
      return row;
    }
    row.append(make("td", server.version));
    for (const figure of figures) row.append(make("td", shown(server[figure.key], figure.unit), { class: "number" }));
    const cell = make("td");
    cell.append(spark(history.get(server.server) ?? [], figures[0].title));
    row.append(cell);
    return row;
  }));
}

function showQueues() {
  const wanted = $("search").value.toLowerCase(), several = last.servers.length > 1;
  const rows = queues().filter((q) => q.queue.toLowerCase().includes(wanted));
  // Problems come first until the user wants another order.
  const value = (q) => (sort ? q[sort.key] ?? "" : q.problem ? 0 : 1);
  rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sort?.down ? -1 : 1));
  const table = $("queues");
  headings(table, [
    [title.noun, false, "queue"], ["Problem", false, "problem"], ...(several ? [["Server", false, "server"]] : []),
    ...title.figures.map((f) => [f.title, true, f.key]), ["History"],
  ]);
  const focused = document.activeElement?.dataset?.queue;
  table.tBodies[0].replaceChildren(...rows.map((queue) => {
    const row = make("tr", undefined, queue.problem ? { class: "problem" } : {});
    const name = make("th", undefined, { scope: "row" }), key = keyOf(queue);
    const link = make("a", queue.queue, { href: "#/" + encodeURIComponent(queue.server) + "/" + encodeURIComponent(queue.queue) });
    link.dataset.queue = key;
    name.append(link);
    row.append(name, make("td", queue.problem, { class: "bad" }));
    if (several) row.append(make("td", queue.server));
    for (const figure of title.figures) row.append(make("td", shown(queue[figure.key], figure.unit), { class: "number" }));
    const cell = make("td");
    cell.append(spark(history.get(key) ?? [], title.figures[0].title));
    row.append(cell);
    return row;
  }));
  if (focused) [...table.querySelectorAll("a")].find((a) => a.dataset.queue === focused)?.focus();
}

function showFigures() {
  const queue = queues().find((q) => q.server === at.server && q.queue === at.queue);
  const absent = last.servers.some((s) => s.server === at.server && !s.up) ? "unknown" : "gone";
  $("problem").textContent = queue?.problem ?? "";
  $("figures").replaceChildren(...title.figures.map((figure) => {
    const item = make("div");
    item.append(make("dt", headed(figure.title)));
    const value = make("dd", queue ? shown(queue[figure.key], figure.unit) || "–" : absent);
    if (queue) value.append(" ", spark(history.get(keyOf(queue) + figure.key) ?? [], figure.title));
    item.append(value);
    return item;
  }));
}

function show() {
  if (!title || !last) return;
  showServers();
  $("list").hidden = at !== null;
  $("detail").hidden = at === null;
  at === null ? showQueues() : showFigures();
}

// No browser sends this by itself to a page that another site shows.
const own = () => ({ Authorization: "Bearer " + (localStorage.getItem(TOKEN) ?? "") });

async function get(path) {
  const answer = await fetch(path, { headers: own() });
  $("key").hidden = answer.status !== 401;
  if (answer.status === 401) throw new Error("this page needs the token of the tool");
  return answer;
}

async function ask(path, body) {
  let text;
  try {
    const answer = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json", ...own() }, body: JSON.stringify(body),
    });
    text = await answer.text();
  } catch {
    const unknown = path === "act" && body.confirm !== null ? ", and it is unknown whether this was done" : "";
    return { error: { message: "the tool does not answer" + unknown, hints: [] } };
  }
  let document;
  try { document = JSON.parse(text); } catch { return { error: { message: text.trim(), hints: [] } }; }
  return document;
}

// Flags are of no use here.
const why = (error) => [error.message, ...(error.hints ?? []).filter((hint) => !hint.includes("--")).map((hint) => "try: " + hint)].join("\n");

function input(field) {
  let control;
  if (field.kind === "word") {
    control = make("select");
    control.append(...["", ...field.words].map((word) => make("option", word || "any", { value: word })));
  } else {
    control = make(field.kind === "body" ? "textarea" : "input", undefined, { autocomplete: "off" });
    if (field.kind === "number") control.inputMode = "numeric";
  }
  control.value = field.default;
  control.name = field.name;
  const label = make("label", headed(field.name));
  label.append(control);
  return [label, control];
}

const written = (value) => value !== null && typeof value === "object" ? JSON.stringify(value, null, 1) : typeof value === "number" ? String(value) : shown(value);

// A result in words; only a dialog says that it is a dry run.
function sentence(result) {
  if (typeof result === "string") return result.trim();
  if (Array.isArray(result)) return result.map(sentence).join("\n");
  if (result === null || typeof result !== "object") return String(result ?? "");
  const value = (one) => (Array.isArray(one) && !one.some((item) => typeof item === "object") ? one.join(", ") : written(one));
  const { action, attempted, succeeded, dry_run: isDry, ...rest } = result;
  const facts = Object.entries(rest).filter(([, one]) => one !== null && one !== "" && one !== 0 && !(Array.isArray(one) && !one.length));
  const bulk = attempted === undefined ? [] : [`${isDry ? attempted : succeeded} of ${attempted} ${action}`];
  return [...bulk, ...facts.map(([key, one]) => `${headed(key)}: ${value(one)}`)].join(", ");
}

const told = (answer) => [sentence(answer.result), answer.messages.trim()].filter(Boolean).join("\n");

const isLong = (key, value) => key.startsWith("body") || (value !== null && typeof value === "object");
// Whether the tool wants the name typed before it does this.
const wantsName = (error) => (error.hints ?? []).some((hint) => hint.includes("--confirm="));

function emptyTable(titles) {
  const table = make("table");
  table.createTHead();
  table.append(make("tbody"));
  headings(table, titles);
  return table;
}

function cells(key, value) {
  const text = written(value);
  if (!isLong(key, value)) return make("td", text, typeof value === "number" ? { class: "number" } : {});
  const cell = make("td", text, { class: "body" });
  if (text.length > FOLDED || text.split("\n").length > 8) {
    const fold = make("details"), start = text.split("\n", 1)[0].slice(0, 80);
    fold.append(make("summary", `${start}… (${text.length.toLocaleString("en")} characters)`), make("div", text));
    cell.replaceChildren(fold);
  }
  return cell;
}

function viewOf(view, target, queue) {
  const section = make("section"), form = make("form", undefined, { class: "fields" });
  section.append(make("h3", view.name), form);
  const inputs = view.fields.filter((field) => field.name !== view.pages?.[1]).map(input);
  form.append(...inputs.map(([label]) => label), make("button", "Show", { type: "submit" }));
  const state = make("p", "", { role: "status" }), wide = make("div", undefined, { class: "wide" });
  const older = make("button", "Next page", { type: "button" });
  const each = make("button", "Review one by one…", { type: "button" });
  older.hidden = each.hidden = true;
  section.append(state, each, wide, older);
  let next = null, turn = 0;
  function clear() {
    wide.replaceChildren();
    older.hidden = each.hidden = true;
  }
  async function load(from) {
    const mine = ++turn, id = seen.get(target())?.id ?? null;
    state.textContent = "asking…";
    const values = Object.fromEntries(inputs.map(([, control]) => [control.name, control.value]));
    if (from !== null && view.pages) values[view.pages[1]] = String(from);
    const answer = await ask("view", { server: target(), name: view.name, queue: queue(), values });
    if (mine !== turn) return;
    if (answer.error) { state.textContent = why(answer.error); clear(); return; }
    const rows = Array.isArray(answer.result) ? answer.result : Object.entries(answer.result).map(([name, value]) => ({ name, value }));
    state.textContent = `${rows.length} rows` + (answer.messages ? "\n" + answer.messages.trim() : "");
    const keys = [...new Set(rows.flatMap(Object.keys))].filter((key) => key !== "v");
    const table = emptyTable([...keys.map((key) => [key]), ...(view.actions.length ? [["Actions"]] : [])]);
    table.tBodies[0].append(...rows.map((row) => {
      const line = make("tr");
      for (const key of keys) line.append(cells(key, row[key]));
      if (view.actions.length) {
        const cell = make("td");
        for (const name of view.actions) {
          const button = make("button", name, { type: "button", "aria-label": `${name} ${row.id}` });
          button.onclick = () => act(name, target(), queue(), { id: String(row.id) }, id, () => load(from));
          cell.append(button, " ");
        }
        line.append(cell);
      }
      return line;
    }));
    wide.replaceChildren(table);
    each.hidden = !view.actions.length || !rows.length;
    each.onclick = () => review(view, target(), queue(), rows, id, () => load(from));
    const ids = view.pages ? rows.map((row) => row[view.pages[0]]).filter((id) => id > 1) : [];
    next = ids.length ? Math.min(...ids) - 1 : null;
    older.hidden = next === null;
  }
  form.onsubmit = (event) => { event.preventDefault(); load(null); };
  older.onclick = () => load(next);
  if (queue()) {
    loads.push((isOutdated) => { if (isOutdated) clear(); load(null); });
    if (last) load(null);
  }
  return section;
}

function act(name, server, queue, given, serverId, done) {
  const action = title.site.actions.find((one) => one.name === name);
  const inputs = action.fields.filter((field) => !(field.name in given)).map(input);
  $("dialog-title").textContent = [name, given.id, queue, "on", server].filter(Boolean).join(" ");
  $("fields").replaceChildren(...inputs.map(([label]) => label));
  $("question").textContent = "";
  $("confirm").value = "";
  $("typed").hidden = true;
  $("go").textContent = action.asks ? "Show what would be done" : headed(name);
  let asked = !action.asks;
  const freeze = (is) => inputs.forEach(([, control]) => { control.disabled = is; });
  const submit = async (event) => {
    event.preventDefault();
    $("go").disabled = true;
    const values = { ...given, ...Object.fromEntries(inputs.map(([, control]) => [control.name, control.value])) };
    const confirm = asked ? $("confirm").value : null;
    const answer = await ask("act", { server, name, queue, values, confirm, server_id: serverId });
    // Another dialog may be open by now.
    if ($("form").onsubmit !== submit) {
      if (asked) $("result").textContent = `${name}: ${answer.error ? why(answer.error) : told(answer)}`;
      return;
    }
    $("go").disabled = false;
    if (answer.error) {
      $("question").textContent = why(answer.error);
      if (wantsName(answer.error)) { $("typed").hidden = false; $("confirm").focus(); }
      return;
    }
    if (!asked) {
      asked = true;
      freeze(true);
      $("question").textContent = "What would be done:\n" + told(answer);
      $("go").textContent = "Do it: " + name;
      return;
    }
    $("dialog").close();
    $("result").textContent = `${name}: ${told(answer)}`;
    done?.();
  };
  $("form").onsubmit = submit;
  $("go").disabled = false;
  idsOf = given.id ? server : null;
  $("dialog").showModal();
}

// Shows each row, takes a decision for it, and does all of them at the end; nothing happens before.
function review(view, server, queue, rows, serverId, done) {
  const decisions = rows.map(() => null), box = $("review-rows"), say = $("review-state"), choices = $("review-choices");
  let place = 0, doing = false, isAnyDone = false, isOver = false;
  const button = (text, act) => { const one = make("button", text, { type: "button" }); one.onclick = act; return one; };
  const title = (text) => { $("review-title").textContent = text; $("review-title").focus(); };
  function decide(what) {
    const all = $("review-all").checked;
    do { decisions[place++] = what; } while (all && place < rows.length);
    step();
  }
  const taken = () => [...view.actions, null].map((name) => [name ?? "leave", decisions.filter((one) => one === name).length]).filter(([, n]) => n);
  const pending = () => !isOver && decisions.some((one) => one !== null);
  // Decisions are not lost without a question.
  function leave() {
    if (!pending()) return $("review").close();
    $("review-leave").hidden = false;
    $("review-discard").focus();
  }
  function step() {
    $("review-leave").hidden = true;
    $("review-rest").hidden = place >= rows.length;
    $("review-all").checked = false;
    if (place >= rows.length) return summary();
    title(`${place + 1} of ${rows.length}`);
    const before = taken().filter(([name]) => name !== "leave").map(([name, n]) => `${name}: ${n}`).join(", ");
    say.textContent = pending() ? `Decided: ${before}. Nothing is done yet.` : "Nothing is done before the last step.";
    const list = make("dl");
    for (const [key, value] of Object.entries(rows[place])) {
      if (key === "v") continue;
      const item = make("div", undefined, isLong(key, value) ? { class: "long" } : {});
      item.append(make("dt", headed(key)), make("dd", written(value)));
      list.append(item);
    }
    box.replaceChildren(list);
    choices.replaceChildren(...view.actions.map((name) => button(name, () => decide(name))), button("leave it", () => decide(null)));
    const chosen = [...view.actions].indexOf(decisions[place]);
    if (chosen >= 0) choices.children[chosen].setAttribute("aria-pressed", "true");
    if (place > 0) choices.append(button("Back", () => { place -= 1; step(); }));
  }
  function summary() {
    title("What would be done");
    say.textContent = pending() ? "Nothing is done yet." : "";
    box.replaceChildren(make("p", taken().map(([name, n]) => `${name}: ${n}`).join("\n")));
    const isAny = decisions.some((one) => one !== null);
    choices.replaceChildren(...(isAny ? [button("Do it", () => go(0, 0, 0, emptyTable([["id"], ["decision"], ["what came of it"]])))] : []), button("Back", () => { place = rows.length - 1; step(); }));
  }
  // Begins behind what has been done before a name had to be typed.
  async function go(from, good, bad, table) {
    doing = isOver = true;
    title("Report");
    box.replaceChildren(table);
    choices.replaceChildren(button("Stop", () => { doing = false; }));
    let left = 0;
    for (const [at, name] of decisions.entries()) {
      if (at < from || name === null) continue;
      if (!doing) { left += 1; continue; }
      const id = String(rows[at].id);
      const answer = await ask("act", { server, name, queue, values: { id }, confirm: $("review-confirm").value, server_id: serverId });
      if (answer.error && wantsName(answer.error)) {
        doing = false;
        $("review-typed").hidden = false;
        say.textContent = why(answer.error);
        choices.replaceChildren(button("Do it", () => go(at, good, bad, table)));
        $("review-confirm").focus();
        return;
      }
      isAnyDone = true;
      const is = !answer.error && answer.done;
      is ? good += 1 : bad += 1;
      const line = make("tr"), told = answer.error ? why(answer.error) : is ? "done" : answer.messages.trim() || "not done";
      line.append(make("th", id, { scope: "row" }), make("td", name), make("td", told, is ? {} : { class: "bad" }));
      table.tBodies[0].append(line);
      say.textContent = `${good} done, ${bad} not done`;
    }
    if (left) say.textContent += `, ${left} left as they are`;
    doing = false;
    choices.replaceChildren();
  }
  $("review-close").onclick = leave;
  $("review-discard").onclick = () => $("review").close();
  $("review-keep").onclick = () => { $("review-leave").hidden = true; $("review-title").focus(); };
  $("review").onkeydown = (event) => { if (event.key === "Escape") { event.preventDefault(); leave(); } };
  $("review").oncancel = (event) => { event.preventDefault(); leave(); };
  window.onbeforeunload = (event) => { if (pending()) event.preventDefault(); };
  $("review").onclose = () => { doing = false; isOver = true; window.onbeforeunload = null; if (isAnyDone) done(); };
  $("review-typed").hidden = true;
  $("review-confirm").value = "";
  idsOf = server;
  $("review").showModal();
  step();
}

// What belongs to the queue of the address, built anew with the newest title.
function build() {
  let parts = [];
  // The address may have been cut or mistyped.
  try { parts = location.hash.split("/").slice(1).map(decodeURIComponent); } catch { parts = []; }
  at = parts.length === 2 && parts[1] ? { server: parts[0], queue: parts[1] } : null;
  if (at) {
    $("detail-title").textContent = `${title.noun} ${at.queue} on ${at.server}`;
    const { server, queue } = at;
    loads = [];
    $("views").replaceChildren(...title.site.views.map((view) => viewOf(view, () => server, () => queue)));
    $("actions").replaceChildren(...title.site.actions.filter((one) => one.ofQueue).map((one) => {
      const button = make("button", one.name, { type: "button" });
      button.onclick = () => act(one.name, server, queue, {}, null);
      return button;
    }));
  }
  show();
}

function route() {
  if (takeToken() || !title) return location.reload();
  build();
  if (at) $("detail-title").focus();
}

// Notes what a server says about itself, and tells whether it is back, and whether its ids may name other jobs now. It
// is another one than before if it has another id; without an id, it may be another one after every absence.
function meeting(server) {
  const before = seen.get(server.server), id = server.up ? server.id : before?.id;
  seen.set(server.server, { ...server, id });
  if (!before || !server.up) return {};
  const isNew = server.started_again && !before.started_again;
  const isOutdated = id && before.id ? id !== before.id : !before.up || isNew || server.uptime_seconds < before.uptime_seconds;
  return { isBack: !before.up || isOutdated, isOutdated };
}

function meet(servers) {
  for (const server of servers) {
    const { isBack, isOutdated } = meeting(server);
    if (isOutdated && server.server === idsOf) {
      idsOf = null;
      for (const dialog of [$("dialog"), $("review")]) {
        if (!dialog.open) continue;
        $("result").textContent = "the server is back, and ids may name other jobs now: choose again";
        dialog.close();
      }
    }
    if (isBack && server.server === at?.server) loads.forEach((load) => load(isOutdated));
  }
}

function came(event) {
  const isFirst = !last;
  last = JSON.parse(event.data);
  const first = title.serverFigures[0].key, main = title.figures[0].key;
  for (const server of last.servers) if (server.up) note(server.server, server[first]);
  for (const queue of queues()) {
    note(keyOf(queue), queue[main]);
    for (const figure of title.figures) note(keyOf(queue) + figure.key, queue[figure.key]);
  }
  if (history.size > 50000) history.clear();
  meet(last.servers);
  // Rows are asked for once it is known which server gives them.
  if (isFirst) loads.forEach((load) => load(false));
  const away = last.servers.filter((server) => !server.up).length, all = last.servers.length;
  const who = all === 1 ? "the server does" : `${away} of ${all} servers do`;
  const text = away ? `${who} not answer; trying again` : "live";
  if ($("state").textContent !== text) $("state").textContent = text;
  document.body.dataset.ready = "true";
  show();
}

async function greet() {
  const answer = await get("title");
  if (!answer.ok) throw new Error(await answer.text());
  title = await answer.json();
  if (!title.write) [...title.site.views, ...title.site.server].forEach((view) => { view.actions = []; });
  const { name, color, isProtected } = title.context;
  $("title").textContent = title.tool + (title.write ? "" : " (read only)");
  $("context").textContent = [name, isProtected ? "protected" : ""].filter(Boolean).join(": ");
  document.body.dataset.color = isProtected ? "red" : color ?? "";
  document.title = [$("context").textContent, $("title").textContent].filter(Boolean).join(" – ");
  $("queues-title").textContent = title.noun[0].toUpperCase() + title.noun.slice(1) + "s";
}

// The events of the tool until it ends them.
async function follow(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    const data = events.filter((event) => event.startsWith("data: "));
    if (data.length) came({ data: data.pop().slice("data: ".length) });
  }
}

async function listen() {
  const state = (text) => { $("state").textContent = text; };
  for (let isFirst = true; ; isFirst = false) {
    try {
      const answer = await get("live");
      if ([403, 421].includes(answer.status)) return state("the tool refuses this page: reload it");
      if (answer.ok) {
        // The tool may have been started anew, with other servers or without --write.
        if (!isFirst) await greet().then(build);
        await follow(answer);
      }
    } catch {
      // Said below.
    }
    if (!$("key").hidden) return state("the tool was started anew: open its new link, or type its token");
    state("the tool does not answer; trying again");
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// The token of the link that the tool has printed. It stays out of the address, which people copy.
function takeToken() {
  const [, token] = /^#token=(.+)$/.exec(location.hash) ?? [];
  if (!token) return false;
  localStorage.setItem(TOKEN, token);
  window.history.replaceState(null, "", location.pathname + location.search);
  return true;
}

async function start() {
  takeToken();
  $("key").onsubmit = (event) => {
    event.preventDefault();
    localStorage.setItem(TOKEN, $("token").value.trim());
    location.reload();
  };
  window.onhashchange = route;
  try { await greet(); } catch (error) { $("state").textContent = error.message; return; }
  $("search").oninput = show;
  $("cancel").onclick = () => $("dialog").close();
  // One picture and no more, to print it or to look at it with a program.
  if (location.search === "?still") came({ data: await (await get("picture")).text() });
  else listen();
  const pick = make("select", undefined, { "aria-label": "Server" });
  const views = title.site.server.map((view) => viewOf(view, () => pick.value, () => ""));
  $("server-views").hidden = views.length === 0;
  $("server-views").querySelector("div").append(pick, ...views);
  $("server-views").ontoggle = () => {
    if (last && pick.options.length !== last.servers.length) pick.replaceChildren(...last.servers.map((s) => make("option", s.server)));
  };
  route();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) { event.preventDefault(); location.hash = "#/"; $("search").focus(); }
});
start();
