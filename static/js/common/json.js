/** What the URL answers; null if the site can't be reached, refuses, or redirects: then to its sign-in page. */
export async function getJson(url) {
  const response = await fetch(url).catch(() => null);
  return response?.ok && !response.redirected ? response.json() : null;
}
