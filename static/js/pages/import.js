// Sends dropped or chosen log files to the API, with the folders that tell which of them belong together.
import { role } from "../common/dom.js";
import { Messages, sending } from "../common/sending.js";

const form = role("import");
const [drop, list, state, progress, abort, submit] = ["drop", "chosen-files", "import-state", "import-progress", "import-abort", "import-submit"].map((name) => role(name));
const label = submit.textContent;
const SHOWN = 12;
const messages = new Messages(form, state, done);
/** Each chosen file as {path, file}. */
let chosen = [];

// --- choosing

for (const id of ["id_files", "id_folder"]) {
  const input = document.getElementById(id);
  input.addEventListener("change", () => {
    choose([...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = "";
  });
}
for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.dataset.over = ""; });
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => { delete drop.dataset.over; });
drop.addEventListener("drop", async (event) => {
  event.preventDefault();
  // The entries are gone after the first wait.
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...event.dataTransfer.files];
  choose(entries.length ? (await Promise.all(entries.map(filesOf))).flat() : plain.map((file) => ({ path: file.name, file })));
});

async function filesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((done, fail) => entry.file(done, fail));
    return [{ path: entry.fullPath.replace(/^\//, ""), file }];
  }
  const reader = entry.createReader();
  const found = [];
  // A reader gives some entries at a time, and none at the end.
  for (let some = null; some === null || some.length;) {
    some = await new Promise((done, fail) => reader.readEntries(done, fail));
    found.push(...some);
  }
  return (await Promise.all(found.map(filesOf))).flat();
}

/** The same path chosen again replaces the file. */
function choose(files) {
  messages.clear();
  chosen = [...new Map([...chosen, ...files].map((one) => [one.path, one])).values()];
  const items = chosen.slice(0, SHOWN).map(({ path, file }) => Object.assign(document.createElement("li"), { textContent: `${path} · ${size(file.size)}` }));
  if (chosen.length > SHOWN) items.push(Object.assign(document.createElement("li"), { textContent: `… and ${chosen.length - SHOWN} more` }));
  list.replaceChildren(...items);
}

const size = (bytes) => (bytes < 2 ** 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`);

// --- sending

form.addEventListener("submit", (event) => {
  event.preventDefault();
  messages.clear();
  if (!chosen.length) return messages.complain("files", "Choose at least one file.");
  if (chosen.length > Number(form.dataset.most)) return messages.complain("files", `At most ${form.dataset.most} files at once; a zip may hold more.`);
  // The server would refuse it too, but only after most of it has been sent.
  const total = chosen.reduce((sum, { file }) => sum + file.size, 0);
  if (total > form.dataset.limitMb * 2 ** 20) return messages.complain("files", `Larger than the ${form.dataset.limitMb} MiB allowed. Pack the files, or use manage.py import_log.`);
  send();
});

function send() {
  const body = new FormData();
  for (const { path, file } of chosen) body.append("files", file, path.split("/").at(-1));
  body.append("paths", JSON.stringify(chosen.map(({ path }) => path)));
  for (const name of ["name", "network", "weights", "project"]) if (form.elements[name]) body.append(name, form.elements[name].value);
  if (form.elements.again.checked) body.append("again", "true");
  const request = sending(form, (share) => {
    progress.value = share;
    state.textContent = share < 1 ? `Sending: ${Math.round(share * 100)} %` : "Keeping the files…";
  });
  request.addEventListener("load", () => messages.receive(request));
  request.addEventListener("error", () => done("The connection was lost. Nothing was imported unless the files were sent completely: see the list of runs."));
  request.addEventListener("abort", () => done("Cancelled: nothing was sent."));
  abort.onclick = () => request.abort();
  busy(true);
  state.textContent = "Sending…";
  request.send(body);
}

function busy(now) {
  submit.disabled = now;
  submit.textContent = now ? "Importing…" : label;
  progress.hidden = abort.hidden = !now;
}

function done(text) {
  busy(false);
  state.textContent = text;
}
addEventListener("pageshow", () => busy(false));
