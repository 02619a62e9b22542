// Makes weir's pages livelier. Everything here also works without it: forms
// are submitted natively, and the buy itself always is, because a script
// cannot follow the shop's redirect to its order page as a visit.
const $ = (id) => document.getElementById(id);
const buy = $("buy");
const solve = $("solve");

// The server's clock: the page says what it was when the answer was written.
const shown = $("countdown");
const nav = performance.getEntriesByType("navigation")[0];
const answered = performance.timeOrigin + (nav ? nav.responseStart : 0);
const offset = shown ? Date.parse(shown.dataset.now) - answered : 0;
const now = () => Date.now() + offset;

for (const t of document.querySelectorAll("time[data-local]")) localTime(t);
if (shown) countDown();
for (const f of document.querySelectorAll("#buy, #again, form.once")) f.addEventListener("submit", once);
if ($("ask")) $("ask").addEventListener("submit", onAsk);
if ($("another")) $("another").addEventListener("submit", onAnother);
for (const f of document.querySelectorAll("form.answer")) answerable(f);
if ($("retry")) waitOut($("retry"));
if ($("reservation")?.dataset.poll) poll($("reservation"));
// Back from the shop the sale's page is old; others may be answers to a POST and only work again.
addEventListener("pageshow", (e) => {
  if (!e.persisted) return;
  if (buy) return location.reload();
  for (const b of document.querySelectorAll("form.once button")) {
    b.removeAttribute("aria-disabled");
    b.textContent = "Ask again";
  }
});

function localTime(t) {
  const d = new Date(t.dateTime);
  if (Number.isNaN(d.getTime())) return;
  const today = d.toDateString() === new Date().toDateString();
  t.textContent = d.toLocaleString([], today ? { timeStyle: "long" } : { dateStyle: "medium", timeStyle: "long" });
}

function words(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000));
  const parts = [];
  if (s >= 86400) parts.push(`${Math.floor(s / 86400)} d`);
  if (s >= 3600) parts.push(`${Math.floor(s / 3600) % 24} h`);
  if (s >= 60) parts.push(`${Math.floor(s / 60) % 60} min`);
  parts.push(`${s % 60} s`);
  return parts.join(" ");
}

function countDown() {
  const to = Date.parse(shown.dataset.to);
  const ask = $("ask");
  const tick = () => {
    const rest = to - now();
    shown.textContent = words(rest);
    if (ask?.dataset.showAt && now() >= Date.parse(ask.dataset.showAt)) {
      ask.hidden = false;
      $("early").hidden = true;
    }
    // A quarter of a second later, so that nobody asks before the start.
    if (rest > -250) return void setTimeout(tick, rest > 1000 ? 250 : 50);
    shown.parentElement.hidden = true;
    $("badge").textContent = "On sale now";
    $("badge").className = "badge badge-open";
    if (buy) buy.dataset.phase = "open";
    ready();
  };
  tick();
}

// ready lights the buy button once the sale is open and the picture solved.
function ready() {
  if (!buy || buy.dataset.phase !== "open" || !("solved" in buy.dataset)) {
    if (buy?.dataset.phase === "open") $("buy-hint").textContent = "First the digits above, then the button works.";
    return;
  }
  buy.querySelector("button").disabled = false;
  $("buy-hint").textContent = "You get an answer at once.";
}

function say(text, tone) {
  const m = $("message");
  m.className = `message note-${tone}`;
  m.textContent = text;
  m.hidden = !text;
}

// post sends JSON and never throws: status 0 means that no answer came.
async function post(url, body) {
  try {
    const r = await fetch(url, {
      method: "POST", redirect: "manual", body: JSON.stringify(body),
      headers: { Accept: "application/json", "Content-Type": "application/json" },
    });
    const date = Date.parse(r.headers.get("Date")) || now();
    return { status: r.status, date, wait: Number(r.headers.get("Retry-After")) || 0, json: await r.json().catch(() => ({})) };
  } catch {
    return { status: 0, wait: 0, json: {} };
  }
}

// during keeps a form's button quiet while work runs and for wait seconds more.
async function during(form, work) {
  const button = form.querySelector("button");
  button.disabled = true;
  const wait = (await work()) || 0;
  setTimeout(() => { button.disabled = false; }, wait * 1000);
}

async function onAsk(event) {
  event.preventDefault();
  await during(event.target, askPicture);
}

async function askPicture() {
  const r = await post(solve.dataset.challenges, { sale: solve.dataset.sale });
  if (r.status !== 201) return failed(r);
  say("", "info");
  showPicture(r.json, r.date);
  return 0;
}

// showPicture takes the place of an older one. asked is the server's time of
// its answer: this computer's clock may be wrong.
function showPicture(c, asked) {
  const form = $("answer-form").content.firstElementChild.cloneNode(true);
  form.action = `${solve.dataset.challenges}/${encodeURIComponent(c.id)}`;
  form.querySelector(".prompt").textContent = c.prompt;
  form.querySelector("img").src = c.image;
  if (c.audio) {
    form.querySelector("audio").src = c.audio;
    form.querySelector("details a").href = c.audio;
  } else {
    form.querySelector("details").remove();
  }
  for (const old of solve.querySelectorAll("form.answer")) old.remove();
  if ($("ask")) $("ask").hidden = true;
  solve.append(form);
  answerable(form, Date.parse(c.expires_at) - asked);
  form.elements.answer.focus();
}

async function onAnother(event) {
  event.preventDefault();
  const button = event.submitter || document.querySelector("button[form=another]");
  button.disabled = true;
  const wait = await askPicture();
  setTimeout(() => { button.disabled = false; }, wait * 1000);
}

// answerable brings a picture's form to life for as long as the picture is
// good: life in ms, when known.
function answerable(form, life) {
  form.addEventListener("submit", onAnswer);
  const image = form.querySelector("img");
  image.addEventListener("error", () => tooOld(form));
  if (image.src && image.complete && !image.naturalWidth) tooOld(form);
  // Who fetches the sound gets more time; how much, the server knows.
  for (const [el, event] of [["audio", "play"], [".sound a", "click"]]) {
    form.querySelector(el)?.addEventListener(event, () => { form.dataset.heard = ""; });
  }
  if (life) count(form, performance.now() + life);
}

// count is a quiet clock: the last minute in tens, the last ten in seconds.
function count(form, until) {
  const el = form.querySelector(".deadline");
  const tick = () => {
    if (!form.isConnected) return;
    if ("heard" in form.dataset) {
      el.textContent = "With the sound you have a little longer.";
      return;
    }
    const s = Math.ceil((until - performance.now()) / 1000);
    if (s <= 0) return tooOld(form);
    if (s <= 50) el.textContent = s > 10 ? `Good for about ${Math.ceil(s / 10) * 10} more seconds.` : `Good for ${s} more s.`;
    setTimeout(tick, 250);
  };
  tick();
}

// tooOld leaves of a picture only the way to a new one.
function tooOld(form) {
  if ("over" in form.dataset) return;
  form.dataset.over = "";
  const lost = form.contains(document.activeElement);
  for (const el of form.querySelectorAll(".picture, .sound, .field, button:not([form])")) el.hidden = true;
  form.querySelector(".prompt").textContent = "This picture is too old now.";
  form.querySelector(".deadline").hidden = true;
  const next = form.querySelector("button[form=another]");
  next.className = "button";
  next.textContent = "New picture";
  if (lost) next.focus();
}

async function onAnswer(event) {
  event.preventDefault();
  const form = event.target;
  await during(form, async () => {
    const r = await post(form.action, { answer: form.elements.answer.value });
    if (r.status === 200) return solved(r.json.pass);
    if (r.json.challenge) {
      say("That did not match. Here is a new picture.", "warn");
      showPicture(r.json.challenge, r.date);
      return 0;
    }
    if (r.status === 410 || r.status === 404) {
      const wait = await askPicture(); // takes the old form's place, if it comes
      if (!wait) say("That picture was too old. Here is a new one.", "warn");
      return wait;
    }
    return failed(r);
  });
}

function solved(pass) {
  for (const f of solve.querySelectorAll("form")) f.remove();
  const p = document.createElement("p");
  p.className = "done";
  p.textContent = "Solved, thank you.";
  solve.append(p);
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "weir_pass";
  field.value = pass;
  buy.append(field);
  buy.dataset.solved = "";
  say("", "info");
  ready();
  (buy.querySelector("input[type=number]") || buy.querySelector("button")).focus();
  return 0;
}

// failed tells what the server said and returns the seconds to wait.
function failed(r) {
  const wait = r.json.retry_after || r.wait || 1;
  say(r.json.detail || "No answer came back. Please try again.", "warn");
  return wait;
}

// once lets the browser submit an order, but only once.
function once(event) {
  const button = buttonOf(event.target);
  if (button.getAttribute("aria-disabled") === "true") return event.preventDefault();
  button.setAttribute("aria-disabled", "true");
  button.textContent = "One moment …";
}

const buttonOf = (form) => form.querySelector("button") || document.querySelector(`button[form="${form.id}"]`);

function waitOut(el) {
  const until = Date.now() + Number(el.dataset.seconds) * 1000;
  const tick = () => {
    const rest = until - Date.now();
    if (rest <= 0) {
      el.parentElement.textContent = "You can ask again now.";
      return;
    }
    el.textContent = words(rest);
    setTimeout(tick, 250);
  };
  tick();
}

// poll looks at a reservation until its state moves, for at most ten minutes.
function poll(el) {
  const stop = Date.now() + 600_000;
  const look = async () => {
    let wait = 3;
    if (!document.hidden) {
      try {
        const r = await fetch(el.dataset.poll, { headers: { Accept: "application/json" } });
        if (r.ok && (await r.json()).state !== el.dataset.state) return location.reload();
        wait = Math.max(wait, Number(r.headers.get("Retry-After")) || 0);
      } catch { /* no answer: look again */ }
    }
    if (Date.now() < stop) setTimeout(look, wait * 1000 + Math.random() * 1000);
  };
  setTimeout(look, 2000 + Math.random() * 1000);
}
