// Uploads a model: shows the progress, puts errors next to their fields, and asks for open dimensions. The file stays
// selected, which it wouldn't if the form loaded a new page.
import { role } from "../common/dom.js";
import { Messages, sending } from "../common/sending.js";

const form = role("upload");
if (form) {
  const [button, state, dims, fields] = ["upload-submit", "upload-state", "dims", "dims-fields"].map((name) => role(name));
  const label = button.textContent;
  const messages = new Messages(form, state, done);
  const answered = {
    unsure: " Reload this page to see whether the model was uploaded.",
    complain: (field, message) => (field.startsWith("dims.") ? complainOfDim(field.slice(5), message) : messages.complain(field, message)),
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    messages.clear();
    const [file] = form.elements.file.files;
    if (!file) return messages.complain("file", "Choose a file.");
    // The server would refuse it too, but only after most of it has been sent.
    if (file.size > form.dataset.limitMb * 2 ** 20) return messages.complain("file", `Larger than the ${form.dataset.limitMb} MiB allowed.`);
    send();
  });
  // Another file may have other dimensions.
  form.elements.file.addEventListener("change", () => { messages.clear(); fields.replaceChildren(); dims.hidden = true; });

  function send() {
    const body = new FormData();
    body.append("file", form.elements.file.files[0]);
    body.append("name", form.elements.name.value);
    if (form.elements.project) body.append("project", form.elements.project.value);
    const given = [...fields.querySelectorAll("input")].map((input) => [input.dataset.dim, input.value]);
    if (given.length) body.append("dims", JSON.stringify(Object.fromEntries(given)));
    const request = sending(form, (share) => { state.textContent = share < 1 ? `Sending: ${Math.round(share * 100)} %` : "Reading the model and finding its tasks…"; });
    request.addEventListener("load", () => messages.receive(request, answered));
    request.addEventListener("error", () => done("The connection was lost. Reload this page to see whether the model was uploaded."));
    busy(true);
    state.textContent = "Sending…";
    request.send(body);
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
