// What forms share whose files a script sends, so that the page shows the progress and the files stay chosen.

/** The messages of a form: those about a field beside it, the others in `state`. `done` is called with a text once an answer has come. */
export class Messages {
  constructor(form, state, done) {
    Object.assign(this, { form, state, done });
  }

  clear() {
    this.state.textContent = "";
    for (const place of this.form.querySelectorAll(".wrong")) place.hidden = true;
    for (const input of this.form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }

  complain(name, message) {
    const place = this.form.querySelector(`[data-field="${name}"]`);
    if (!place) { this.state.textContent = `${name}: ${message}`; return; }
    place.textContent = message;
    place.hidden = false;
    this.form.elements[name]?.setAttribute("aria-invalid", "true");
  }

  /** Opens the page of what was made, or says what is wrong. `unsure`: what to do after an answer that isn't the site's. */
  receive(request, { unsure = "", complain = this.complain.bind(this) } = {}) {
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* a proxy's own page */ }
    if (request.status >= 200 && request.status < 300 && answer.id) {
      location.assign(`${this.form.dataset.page}${answer.id}/`);
      return;
    }
    const wrong = Object.entries(answer.error?.fields ?? {});
    this.done(wrong.length ? "" : answer.error?.message ?? `The server answered with status ${request.status}.${unsure}`);
    for (const [field, message] of wrong) complain(field, message);
    this.form.querySelector("[aria-invalid=true]")?.focus();
  }
}

/** A request that sends a form's files, with `tell` called with the share that was sent. */
export function sending(form, tell) {
  const request = new XMLHttpRequest();
  request.open("POST", form.dataset.api);
  request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
  request.upload.addEventListener("progress", ({ loaded, total }) => tell(loaded / total));
  return request;
}
