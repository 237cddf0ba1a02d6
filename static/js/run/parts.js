// What is known of the estimate before every task is measured: the parts of those that are, one on top of the other. Their sum
// would look like an estimate, so nothing says it.

const MOST_STEPS = 200;

/**
 * The figure; null if nothing is measured. `curves` has the improvements of each task, {number, at_s, y, name, look}; `end` is
 * [number, at_s]. `estimate` is the estimate's empty figure.
 */
export function figure(curves, weights, end, estimate) {
  const places = placesOf(curves, end);
  const [{ hovertemplate }] = estimate.data;
  const hover = hovertemplate.replace(/^estimate/u, "latency × weight");
  const data = curves.flatMap((curve, task) => (curve.y.length && weights[task] ? [area(curve, weights[task], places, hover)] : []));
  if (!data.length) return null;
  const { layout } = estimate;
  const yaxis = { ...layout.yaxis, title: { text: `${layout.yaxis.title.text} × weight` } };
  return { data, layout: { ...layout, yaxis, meta: { ...layout.meta, title: "Latency × weight of the tasks measured so far", stacked: true } } };
}

/** All points of any task as [number, at_s], evenly thinned, up to the end. */
function placesOf(curves, end) {
  const known = new Map(curves.flatMap(({ number, at_s }) => number.map((one, index) => [one, at_s[index]])));
  const sorted = [...known].filter(([number]) => number < end[0]).sort(([a], [b]) => a - b);
  const every = Math.ceil(sorted.length / MOST_STEPS);
  return [...sorted.filter((_, index) => index % every === 0), end];
}

/** A task's best latency times its weight at these places; 0 before its first one. */
function area({ number, y, name, look }, weight, places, hovertemplate) {
  let next = 0;
  const values = places.map(([place]) => {
    while (next < number.length && number[next] <= place) next += 1;
    return next ? y[next - 1] * weight : 0;
  });
  return {
    type: "scatter", mode: "lines", stackgroup: "parts", line: { shape: "hv", width: 1 }, name, meta: look, hovertemplate,
    x: places.map(([place]) => place), customdata: places.map(([, at]) => at), y: values,
  };
}
