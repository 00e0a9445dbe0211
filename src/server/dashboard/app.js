// The frame around the pages: addresses after #, the header, what is polled for all pages, keys.

import { h, setText, plural } from "./dom.js";
import { connection, isMemberPage, onConnection, request, signIn } from "./api.js";
import { live, pollAll, pollCluster, pollStats, forget } from "./live.js";
import * as overview from "./overview.js";
import * as locks from "./locks.js";
import * as lock from "./lock.js";
import { hot, sessions, members, audit, alerts } from "./tables.js";
import * as events from "./events.js";

const PAGES = {
  overview: { title: "Overview", show: overview.show },
  locks: { title: "Locks", show: locks.show },
  lock: { title: "Lock", show: lock.show, tab: "locks" },
  hot: { title: "Hot prefixes", show: hot },
  sessions: { title: "Sessions", show: sessions },
  members: { title: "Members", show: members },
  alerts: { title: "Held too long", show: alerts },
  audit: { title: "Audit", show: audit },
  events: { title: "Events", show: events.show },
};

const element = (id) => document.getElementById(id);

// --- header ------------------------------------------------------------------

const THEMES = { system: "Theme: system", light: "Theme: light", dark: "Theme: dark" };
let theme = "system";

function setTheme(next) {
  theme = next;
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  setText(element("theme"), THEMES[theme]);
}

// Only pages of members may use the other members.
function drawNotice() {
  const { cluster } = live;
  const address = cluster && cluster.members.map((m) => m.client_address).find(Boolean);
  const isAlone = cluster && address && !isMemberPage();
  if (element("notice").childElementCount > 0 === Boolean(isAlone)) return; // said once
  element("notice").replaceChildren(isAlone ? h("p", {}, `${location.host} is no client address of a member, so this page cannot go on with another node. Members are at `,
    h("a", { href: `${location.protocol}//${address}/` }, address), ".") : "");
}

function drawHeader() {
  const { cluster } = live;
  setText(element("cluster"), cluster ? (cluster.leader ? `node ${cluster.leader} leads, ${plural(cluster.members.length, "node")}` : "no leader") : "");
  const words = {
    live: "live",
    connecting: "connecting",
    waiting: "the cluster has no leader, trying again",
    down: "no node answers, trying again",
  };
  element("live").className = `live ${connection.needsToken ? "waiting" : connection.state}`;
  const host = connection.node.replace(/^https?:\/\//, "");
  const isLive = connection.state === "live" && !connection.needsToken;
  const text = connection.needsToken ? "not signed in" : words[connection.state];
  if (element("live").dataset.shown !== text + host) {
    element("live").dataset.shown = text + host;
    element("live").replaceChildren(h("span", {}, text, isLive && h("span", { class: "where" }, ` from ${host}`)));
  }
  const principal = live.whoami && live.whoami.principal;
  element("sign").hidden = !(connection.signedIn || connection.needsToken || principal);
  setText(element("sign"), connection.signedIn ? `Sign out ${principal || ""}` : "Sign in");
}

// --- sign-in -------------------------------------------------------------------

function signForm() {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const tenantInput = h("input", { id: "tenant", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "home tenant" });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h("form", { class: "sign panel", id: "sign-form" }, h("h1", {}, "Sign in"),
    h("p", {}, "This cluster requires credentials. The token stays in the memory of this page: a reload forgets it."),
    h("label", { for: "token" }, "Token"), input,
    h("label", { for: "tenant" }, "Tenant (optional)"), tenantInput, problem,
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Sign in")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    signIn(input.value.trim(), tenantInput.value.trim());
    try {
      live.whoami = await request("/api/v1/auth/whoami");
      input.value = "";
      start();
    } catch (error) {
      signIn("", "");
      onConnectionChange({ needsToken: true });
      setText(problem, error.status === 401 ? "The service does not accept this token. It may be revoked or expired." : error.message);
      input.focus();
    }
  });
  return { form, input };
}

let isPrompting = false;
function promptForToken() {
  if (isPrompting) return;
  isPrompting = true;
  leave();
  const { form, input } = signForm();
  element("main").replaceChildren(form);
  document.title = "Sign in - Holdfast";
  input.focus();
}

function onConnectionChange(change) {
  if (change.needsToken) {
    connection.needsToken = true;
    live.whoami = null;
    promptForToken();
  }
  drawHeader();
}

function signOut() {
  signIn("", "");
  forget();
  onConnectionChange({ needsToken: true });
}

// --- pages -----------------------------------------------------------------------

let leavePage = null;
function leave() {
  if (leavePage) leavePage();
  leavePage = null;
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name: name in PAGES ? name : "overview", rest: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query || "") };
}

function drawTabs(name) {
  const shown = PAGES[name].tab || name;
  element("tabs").replaceChildren(...Object.entries(PAGES).filter(([, page]) => !page.tab).map(([key, page]) =>
    h("a", { href: `#/${key}`, "aria-current": key === shown ? "page" : null }, page.title)));
}

function showPage() {
  if (connection.needsToken) return;
  const { name, rest, query } = route();
  leave();
  isPrompting = false;
  drawTabs(name);
  const main = element("main");
  main.replaceChildren();
  main.className = `page-${name}`;
  document.title = `${rest || PAGES[name].title} - Holdfast`;
  if (name !== "locks") element("search").value = "";
  leavePage = PAGES[name].show(main, { rest, query });
}

// --- keys ---------------------------------------------------------------------------

const isTyping = (target) => /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || element("dialog").open) return;
  if (event.key === "/" && !isTyping(event.target)) {
    event.preventDefault();
    element("search").focus();
    element("search").select();
  } else if (event.key === "Escape" && event.target === element("search")) {
    element("search").blur();
  } else if (event.key === "Escape" && route().name === "lock") {
    location.hash = locks.address();
  } else if (event.key === "ArrowDown" && event.target === element("search")) {
    event.preventDefault();
    locks.focusRows();
  }
});

let searchTimer = 0;
element("search").addEventListener("input", () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    const prefix = element("search").value;
    if (route().name === "locks") locks.search(prefix);
    else location.hash = `#/locks?${new URLSearchParams({ prefix })}`;
  }, 150);
});
element("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  locks.focusRows();
});
element("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(theme) + 1) % names.length]);
});
element("sign").addEventListener("click", () => (connection.signedIn ? signOut() : promptForToken()));
element("skip").addEventListener("click", (event) => {
  event.preventDefault();
  element("main").focus();
});

// --- start --------------------------------------------------------------------------

async function start() {
  showPage();
  await pollCluster();
  await pollStats();
}

setTheme("system");
drawTabs("overview");
onConnection(onConnectionChange);
window.addEventListener("hashchange", showPage);
live.on("cluster", () => { drawHeader(); drawNotice(); });
(async () => {
  try {
    live.whoami = await request("/api/v1/auth/whoami");
  } catch { /* 401 prompts for a token; the polls report the rest */ }
  if (!connection.needsToken) showPage();
  pollAll();
})();
