// Tells on the item's page when weir's sale of it opens. Without script the
// button leads to weir's page, which says the same.
const el = document.getElementById("sale");
if (el) start();

async function start() {
  try {
    const asked = Date.now();
    const r = await fetch(el.dataset.sale, { headers: { Accept: "application/json" } });
    if (!r.ok) return;
    const sale = await r.json();
    // The server's clock when the answer left it, about half way.
    const offset = Date.parse(sale.now) - (asked + Date.now()) / 2;
    show(sale, offset);
  } catch { /* no countdown then */ }
}

function show(sale, offset) {
  const say = (text) => { el.textContent = text; el.hidden = false; };
  const to = Date.parse(sale.starts_at);
  const tick = () => {
    const rest = to - (Date.now() + offset);
    if (rest <= 0) return say("On sale now");
    say(`Opens in ${words(rest)}`);
    setTimeout(tick, 250);
  };
  if (sale.sold_out) say("Sold out");
  else if (sale.state === "paused") say("Paused for a moment");
  else if (sale.state === "ended") say("This sale is over");
  else if (sale.state === "cancelled") say("This sale does not take place");
  else if (sale.state === "pending" || sale.state === "running") tick();
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
