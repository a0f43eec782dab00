"use strict";
// What pages do beyond being read: keys, lease countdowns, live changes, drag and drop. Every page works without it.
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  // ---- messages -------------------------------------------------------------------------------
  let hiding = 0;
  function toast(text) {
    const place = $("#toast");
    place.textContent = text;
    place.classList.add("on");
    clearTimeout(hiding);
    hiding = setTimeout(() => place.classList.remove("on"), 8000);
  }

  // ---- countdowns -----------------------------------------------------------------------------
  const UNITS = [["d", 86400], ["h", 3600], ["min", 60]];
  function span(seconds) {
    if (seconds < 0) return "over";
    for (const [unit, length] of UNITS) {
      if (seconds >= 2 * length || (unit !== "d" && seconds >= length)) return `${Math.floor(seconds / length)} ${unit}`;
    }
    return `${Math.floor(seconds)} s`;
  }
  function tick() {
    for (const time of $$("time[data-until]")) {
      const text = span((Date.parse(time.dataset.until) - Date.now()) / 1000);
      if (time.textContent !== text) time.textContent = text;
    }
  }
  setInterval(tick, 1000);

  // ---- keys -----------------------------------------------------------------------------------
  let chosen = null; // the id, or the place, of the chosen item
  const items = () => $$("#main [data-item]").filter((item) => item.offsetParent !== null);
  function choose(item) {
    for (const other of $$(".chosen")) other.classList.remove("chosen");
    if (!item) return;
    item.classList.add("chosen");
    chosen = item.id || null;
    const link = $("[data-open]", item);
    if (link) link.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }
  const current = () => $(".chosen") || (chosen && document.getElementById(chosen));
  function step(by) {
    const all = items();
    const at = all.indexOf(current());
    choose(all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]);
  }
  function act(key) {
    const item = current() || items()[0];
    const target = item && $$("[data-key]", item).find((one) => one.dataset.key.split(" ").includes(key));
    if (!target) return false;
    if (target.tagName === "DETAILS") {
      target.open = true;
      const field = $("textarea, input:not([type=hidden])", target);
      if (field) field.focus();
    } else {
      target.click();
    }
    return true;
  }
  const typing = (element) => element && element.closest("input, textarea, select, dialog[open]");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) { event.target.blur(); return; }
    if (typing(event.target)) return;
    switch (event.key) {
      case "j": step(1); break;
      case "k": step(-1); break;
      case "Enter": {
        if (event.target !== document.body && event.target.closest("a, button, summary")) return;
        const link = current() && $("[data-open]", current());
        if (!link) return;
        link.click();
        break;
      }
      case "a": case "d": case "v": if (!act(event.key)) return; break;
      case "ArrowLeft": case "ArrowRight": case "ArrowUp": case "ArrowDown":
        if (!(event.shiftKey ? carry : across)(event.key)) return;
        break;
      case "n": location.assign("/new"); break;
      case "/": $("[data-search]").focus(); break;
      case "?": $("#keys").showModal(); break;
      default: return;
    }
    event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    const item = event.target.closest && event.target.closest("#main [data-item]");
    if (item && !item.classList.contains("chosen")) {
      for (const other of $$(".chosen")) other.classList.remove("chosen");
      item.classList.add("chosen");
      chosen = item.id || null;
    }
  });

  // ---- live changes ---------------------------------------------------------------------------
  const busy = () => {
    const at = document.activeElement;
    const writing = at && at.closest && at.closest("#main textarea, #main input, #main select");
    return writing || $$("#main textarea, #main form.stack input:not([type=hidden], [type=checkbox])").some((one) => one.value !== one.defaultValue) ||
      $$("#main input[type=checkbox]").some((one) => one.checked !== one.defaultChecked) || $("#main .dragging");
  };
  const sending = new Set(); // forms whose answer has not come yet
  const answered = () => sending.size > 0 || $("#main .wrong"); // a refresh would take away what is being said
  function stale() {
    const bar = $("#stale");
    if (bar) bar.classList.remove("hidden");
  }
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.requestConfig.verb !== "get") sending.add(event.detail.xhr);
  });
  document.addEventListener("htmx:afterRequest", (event) => sending.delete(event.detail.xhr));
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!event.detail.requestConfig.headers["X-Refresh"]) return;
    if (answered() || busy()) { event.detail.shouldSwap = false; stale(); }
  });
  let waiting = 0;
  function refresh() {
    if (busy() || answered()) { stale(); return; }
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const open = $$("#main details[open] summary").map((one) => one.textContent);
      const main = $("#main");
      htmx.ajax("GET", main.dataset.here, { target: "#main", select: "#main", swap: "outerHTML show:none", headers: { "X-Refresh": "1" } }).then(() => {
        for (const one of $$("#main details summary")) if (open.includes(one.textContent)) one.parentElement.open = true;
        const item = chosen && document.getElementById(chosen);
        if (item) item.classList.add("chosen");
      });
    }, 60);
  }
  const made = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    return holder.content.firstElementChild;
  };
  function placeCard(card) {
    const before = document.getElementById(card.id);
    const column = $$(".column").find((one) => one.dataset.column === card.dataset.column);
    const lists = column ? $$(".cards", column) : [];
    const list = lists.find((one) => one.dataset.lane === card.dataset.lane) || lists[0];
    if (!list) { if (before) before.remove(); return; }
    const focused = before && before.contains(document.activeElement);
    if (before && before.classList.contains("chosen")) card.classList.add("chosen");
    if (before) before.remove();
    const rank = Number(card.dataset.rank);
    list.insertBefore(card, $$(".card", list).find((one) => Number(one.dataset.rank) > rank) || null);
    card.classList.add("fresh");
    if (focused) $("a", card).focus({ preventScroll: true });
  }
  const heard = {
    card: (data) => placeCard(made(data)),
    gone: (data) => { const card = document.getElementById(`card-${data}`); if (card) card.remove(); },
    counts: (data) => {
      for (const [id, number] of Object.entries(JSON.parse(data))) {
        const place = $(`[data-count="${CSS.escape(id)}"]`);
        if (place) place.textContent = number;
      }
    },
    entry: (data) => {
      const line = made(data);
      if (line && !document.getElementById(line.id)) $("#journal").append(line);
    },
    run: (data) => {
      $("#output .chip").textContent = `e${data}`;
      $("#output .output").textContent = "";
    },
    chunk: (data) => {
      const piece = made(data);
      if (!piece || document.getElementById(piece.id)) return;
      const place = $("#output .output");
      const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
      $("#output").classList.remove("hidden");
      place.append(piece);
      if (atEnd) place.scrollTop = place.scrollHeight;
    },
    face: (data) => { $("#face").innerHTML = data; },
    changed: (data) => {
      const live = $("#live");
      if (live.dataset.status !== data) { live.dataset.status = data; refresh(); }
    },
  };
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    const { type, data } = event.detail;
    if (!(type in heard)) return;
    event.preventDefault();
    heard[type](data);
    tick();
  });
  // A stream that was lost tells what changed since, but not what has left: the page is made anew.
  document.addEventListener("htmx:sseOpen", (event) => {
    if (event.target.dataset.opened) refresh();
    event.target.dataset.opened = "yes";
  });
  document.addEventListener("htmx:beforeOnLoad", () => $("#toast").classList.remove("on"));
  document.addEventListener("htmx:sendError", () => toast("The server cannot be reached; nothing was sent."));

  // ---- drag and drop --------------------------------------------------------------------------
  let dragged = null;
  document.addEventListener("dragstart", (event) => {
    const card = event.target.closest && event.target.closest(".card[draggable]");
    if (!card) return;
    dragged = card;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", `#${card.dataset.task}`);
    requestAnimationFrame(() => card.classList.add("dragging"));
  });
  document.addEventListener("dragend", () => {
    if (dragged) dragged.classList.remove("dragging");
    dragged = null;
    for (const one of $$(".target")) one.classList.remove("target");
  });
  const under = (event) => event.target.closest && event.target.closest(".column");
  document.addEventListener("dragover", (event) => {
    const column = dragged && under(event);
    if (!column) return;
    event.preventDefault();
    for (const one of $$(".target")) if (one !== column) one.classList.remove("target");
    column.classList.add("target");
  });
  document.addEventListener("drop", (event) => {
    const column = dragged && under(event);
    if (!column) return;
    event.preventDefault();
    const card = dragged;
    const list = event.target.closest(".cards") || $(".cards", column);
    const above = $$(".card", list).filter((one) => one !== card && one.getBoundingClientRect().top + one.offsetHeight / 2 < event.clientY).pop();
    move(card, column.dataset.column, list.dataset.lane, above);
  });
  // ---- the same by keys -----------------------------------------------------------------------
  const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
  const held = () => { const item = current(); return item && item.matches(".card") ? item : null; };
  function across(key) {
    const card = held();
    if (!card || !(key in STEPS)) return false;
    const columns = $$(".column").filter((one) => one.contains(card) || $(".card", one));
    const next = columns[columns.findIndex((one) => one.contains(card)) + STEPS[key]];
    if (next) choose($(".card", next));
    return true;
  }
  function carry(key) {
    const card = held();
    if (!card) return false;
    if (!card.draggable) { toast("The cards of this board are not yours to move."); return true; }
    const here = card.closest(".column");
    const lane = card.parentElement.dataset.lane;
    if (key in STEPS) {
      const columns = $$(".column");
      const next = columns[columns.indexOf(here) + STEPS[key]];
      if (next) move(card, next.dataset.column, lane, null);
    } else {
      const cards = $$(".card", card.parentElement);
      const at = cards.indexOf(card) + (key === "ArrowUp" ? -2 : 1);
      if (at >= -1 && at < cards.length) move(card, here.dataset.column, lane, cards[at] || null);
    }
    choose(card);
    return true;
  }
  async function move(card, column, lane, above) {
    const was = { parent: card.parentElement, next: card.nextElementSibling };
    const list = $$(".column").find((one) => one.dataset.column === column);
    const place = $$(".cards", list).find((one) => one.dataset.lane === lane) || $(".cards", list);
    place.insertBefore(card, above ? above.nextElementSibling : place.firstElementChild);
    const form = new URLSearchParams({ csrf: $("#main").dataset.csrf, task: card.dataset.task, column });
    if (lane) form.set("swimlane", lane);
    if (above) form.set("after", above.dataset.task); else form.set("top", "on");
    let wrong = "";
    try {
      const reply = await fetch("/do/move", { method: "POST", body: form, headers: { Accept: "application/json" } });
      const answer = await reply.json();
      if (!reply.ok) wrong = `${answer.error.message}. ${answer.error.next}`;
    } catch {
      wrong = "The server cannot be reached; the card stays where it was.";
    }
    if (!wrong) { $("#told").textContent = `#${card.dataset.task} stands in ${column}.`; return; }
    was.parent.insertBefore(card, was.next && was.next.parentElement === was.parent ? was.next : null);
    if (card.classList.contains("chosen")) choose(card);
    toast(wrong);
  }
})();
