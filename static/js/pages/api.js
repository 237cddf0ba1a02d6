// The API's operations, shown by Swagger UI.
import { role } from "../common/dom.js";

const place = role("operations");
const system = matchMedia("(prefers-color-scheme: dark)");

/** Swagger UI has a dark theme, but doesn't know when. */
function showTheme() {
  const { theme } = document.documentElement.dataset;
  document.documentElement.classList.toggle("dark-mode", theme ? theme === "dark" : system.matches);
}

showTheme();
document.addEventListener("themechange", showTheme);

SwaggerUIBundle({
  url: place.dataset.described,
  domNode: place,
  layout: "BaseLayout",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  // The page says what the API is.
  plugins: [() => ({ wrapComponents: { InfoContainer: () => () => null } })],
  requestInterceptor: (request) => {
    request.headers["X-CSRFToken"] = place.dataset.csrf;
    return request;
  },
});
