/* What the page says beside its answers: its status, error lines, and seconds and bytes while the reader waits. */

import { node } from "./markdown.js";

export const byId = (id) => document.getElementById(id);
export const say = (text) => {
  byId("status").textContent = text;
};
export const busy = (is) => byId("panel").setAttribute("aria-busy", is);
/* Error lines, with a hint of the page below them; empty text takes them away. */
export const complain = (text, hint = "") => {
  const parts = [node("pre", {}, text), hint ? node("p", {}, hint) : null].filter(Boolean);
  byId("trouble").hidden = !text;
  byId("trouble").replaceChildren(...(text ? parts : []));
};

/* What goes on while the reader waits: seconds, and bytes that arrive. Not read aloud at each change. */
export const waiting = () => {
  const since = performance.now();
  let bytes = "";
  const show = () => {
    byId("clock").textContent = `${bytes}${((performance.now() - since) / 1000).toFixed(0)} s`;
  };
  const ticking = setInterval(show, 500);
  const end = () => {
    clearInterval(ticking);
    byId("clock").textContent = "";
  };
  return { end, arrived: (text) => { bytes = `${text}, `; show(); } };
};
export const size = (bytes) => {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = bytes;
  for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
  return `${at ? value.toFixed(value < 10 ? 1 : 0) : value} ${units[at]}`;
};

export const copy = async (text, what) => {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} is copied.`);
  } catch {
    say("This browser does not let the page copy: mark the text and copy it.");
  }
};
