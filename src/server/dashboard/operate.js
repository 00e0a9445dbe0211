// Actions of operators. Each needs a reason and the typed name of the lock, and acts only if the fencing token
// is still the one that was shown: the lock may have changed hands since.

import { h, setText } from "./dom.js";
import { post, nameIn } from "./api.js";
import { live } from "./live.js";

let lastActor = "";

function open({ title, text, name, button, extra, send, done }) {
  const dialog = document.getElementById("dialog");
  const principal = live.whoami && live.whoami.principal;
  const actor = h("input", { id: "actor", required: true, maxlength: "255", autocomplete: "off", value: principal || lastActor });
  const reason = h("input", { id: "reason", required: true, maxlength: "1024", autocomplete: "off" });
  const typed = h("input", { id: "typed", required: true, autocomplete: "off", spellcheck: "false", "aria-describedby": "typed-hint" });
  const problem = h("p", { class: "problem", id: "problem", role: "alert" });
  const go = h("button", { type: "submit", class: "danger", id: "confirm", disabled: true }, button);
  const form = h("form", {}, h("h2", { id: "dialog-title" }, title), h("p", {}, text),
    !principal && [h("label", { for: "actor" }, "Your name, for the audit trail"), actor],
    h("label", { for: "reason" }, "Reason, for the audit trail"), reason, extra,
    h("label", { for: "typed" }, "Name of the lock"), typed, h("p", { class: "hint", id: "typed-hint" }, "Type ", h("code", {}, name), " to confirm."),
    problem, h("div", { class: "actions" }, h("button", { type: "button", id: "cancel", onclick: () => dialog.close() }, "Cancel"), go));
  const check = () => { go.disabled = typed.value !== name || reason.value.trim() === "" || actor.value.trim() === ""; };
  form.addEventListener("input", check);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    check();
    if (go.disabled) return;
    go.disabled = true;
    setText(problem, "");
    lastActor = actor.value.trim();
    try {
      await send({ actor_id: lastActor, reason: reason.value.trim() });
      dialog.close();
      done();
    } catch (error) {
      setText(problem, error.code === "token_mismatch" ? "Nothing was done: the lock has changed hands since this page showed it. Close this dialog and look again."
        : error.status === 403 ? `Not allowed: ${error.message}` : error.message);
      check();
      done();
    }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
  (principal || lastActor ? reason : actor).focus();
}

export function forceUnlock(name, holder, done) {
  const now = h("input", { type: "checkbox", id: "now" });
  open({
    title: "Force-unlock", name, button: "Force-unlock", done,
    text: `${holder.client_id} loses the lock at once, with the fencing token ${holder.fencing_token}. It may still be at work: only a resource that checks tokens stops it.`,
    extra: h("label", { class: "check" }, now, "Skip the lock-delay"),
    send: (body) => post(`/api/v1/locks/${nameIn(name)}/force-unlock`, { ...body, if_token: holder.fencing_token, ...(now.checked && { now: true }) }),
  });
}

export function revoke(name, holder, done) {
  const seconds = h("input", { id: "seconds", type: "number", min: "0", max: "86400", value: "30", required: true });
  open({
    title: "Revoke", name, button: "Revoke", done,
    text: `${holder.client_id} is requested to release the lock, and loses it at the deadline.`,
    extra: [h("label", { for: "seconds" }, "Deadline in seconds"), seconds],
    send: (body) => post(`/api/v1/locks/${nameIn(name)}/revoke`, { ...body, if_token: holder.fencing_token, deadline_ms: Math.round(Number(seconds.value) * 1000) }),
  });
}
