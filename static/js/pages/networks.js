// Uploads a model: shows the progress, puts errors next to their fields, and asks for open dimensions. The file stays
// selected, which it wouldn't if the form loaded a new page.
import { role } from "../common/dom.js";

const form = role("upload");
if (form) {
  const [button, state, dims, fields] = ["upload-submit", "upload-state", "dims", "dims-fields"].map((name) => role(name));
  const label = button.textContent;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clear();
    const [file] = form.elements.file.files;
    if (!file) return complain("file", "Choose a file.");
    // The server would refuse it too, but only after most of it has been sent.
    if (file.size > form.dataset.limitMb * 2 ** 20) return complain("file", `Larger than the ${form.dataset.limitMb} MiB allowed.`);
    send();
  });
  // Another file may have other dimensions.
  form.elements.file.addEventListener("change", () => { clear(); fields.replaceChildren(); dims.hidden = true; });

  function send() {
    const body = new FormData();
    body.append("file", form.elements.file.files[0]);
    body.append("name", form.elements.name.value);
    if (form.elements.project) body.append("project", form.elements.project.value);
    const given = [...fields.querySelectorAll("input")].map((input) => [input.dataset.dim, input.value]);
    if (given.length) body.append("dims", JSON.stringify(Object.fromEntries(given)));
    const request = new XMLHttpRequest();
    request.open("POST", form.dataset.api);
    request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
    request.upload.addEventListener("progress", ({ loaded, total }) => { state.textContent = loaded < total ? `Sending: ${Math.round((loaded / total) * 100)} %` : "Reading the model and finding its tasks…"; });
    request.addEventListener("load", () => receive(request));
    request.addEventListener("error", () => done("The connection was lost. Reload this page to see whether the model was uploaded."));
    busy(true);
    state.textContent = "Sending…";
    request.send(body);
  }

  function receive(request) {
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* a proxy's own page */ }
    if (request.status === 200 || request.status === 201) {
      location.assign(`${form.dataset.page}${answer.id}/`);
      return;
    }
    const wrong = Object.entries(answer.error?.fields ?? {});
    done(wrong.length ? "" : answer.error?.message ?? `The server answered with status ${request.status}. Reload this page to see whether the model was uploaded.`);
    for (const [field, message] of wrong) field.startsWith("dims.") ? complainOfDim(field.slice(5), message) : complain(field, message);
    form.querySelector("[aria-invalid=true]")?.focus();
  }

  function complain(name, message) {
    const place = form.querySelector(`[data-field="${name}"]`);
    if (!place) { state.textContent = `${name}: ${message}`; return; }
    place.textContent = message;
    place.hidden = false;
    form.elements[name].setAttribute("aria-invalid", "true");
  }

  function complainOfDim(name, message) {
    dims.hidden = false;
    let input = [...fields.querySelectorAll("input")].find((one) => one.dataset.dim === name);
    if (!input) {
      const field = role("dim-template").content.cloneNode(true);
      input = field.querySelector("input");
      input.dataset.dim = name;
      input.id = `id_dim_${fields.children.length}`;
      field.querySelector("label").textContent = name;
      field.querySelector("label").htmlFor = input.id;
      fields.append(field);
    }
    input.setAttribute("aria-invalid", "true");
    const place = input.nextElementSibling;
    place.textContent = message;
    place.hidden = false;
  }

  function clear() {
    state.textContent = "";
    for (const place of form.querySelectorAll(".wrong")) place.hidden = true;
    for (const input of form.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }

  function busy(now) {
    button.disabled = now;
    button.textContent = now ? "Uploading…" : label;
  }

  function done(text) {
    busy(false);
    state.textContent = text;
  }
  addEventListener("pageshow", () => busy(false));
}
