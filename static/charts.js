// Charts of paging: a shared cursor, a brush that narrows the page down, a click that
// leads to the timeline there. The tables under them say the same without a script.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("chart-data")?.textContent ?? "null");
  if (!data || data.x.length < 2) return;
  const sync = uPlot.sync("paging");

  // What a colour of the stylesheet comes to in this theme.
  function hue(name) {
    const probe = document.querySelector(`.hue-${name}`);
    return getComputedStyle(probe).color;
  }

  function draw(place) {
    const chart = data.charts[place.dataset.chart], ink = hue("ink"), rim = hue("rim");
    const axis = { stroke: ink, grid: { stroke: rim, width: 1 }, ticks: { stroke: rim, width: 1 } };
    // A value is of the stretch that ends at its x.
    const stepped = uPlot.paths.stepped({ align: -1 });
    // Where a line begins behind a gap there is nothing to draw it from: a point stands there.
    const begins = (values) => !values.includes(null) ? null
      : [...values.keys()].filter((n) => values[n] !== null && (values[n - 1] ?? null) === null);
    const plot = new uPlot({
      width: place.clientWidth, height: 190, cursor: { sync: { key: sync.key }, drag: { x: !!data.brush, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, chart.most ?? Math.max(1, high)] } },
      axes: [axis, { ...axis, size: 58 }],
      series: [{ label: "event" }, ...chart.series.map(({ label, hue: name, values }) => ({
        label, stroke: hue(name), width: 2, paths: stepped, points: { show: false, size: 6, filter: () => begins(values) } }))],
      hooks: { setSelect: [(u) => {
        if (u.select.width < 8) return;
        const url = new URL(location.href), right = u.select.left + u.select.width;
        url.searchParams.set("from", Math.max(1, Math.round(u.posToVal(u.select.left, "x"))));
        url.searchParams.set("to", Math.round(u.posToVal(right, "x")));
        location.assign(url);
      }] },
    }, [data.x, ...chart.series.map((each) => each.values)], place);
    plot.over.addEventListener("click", () => {
      if (plot.select.width >= 8 || plot.cursor.idx === null) return;
      location.assign(`${data.base}?at_seq=${data.x[plot.cursor.idx]}`);
    });
    addEventListener("resize", () => plot.setSize({ width: place.clientWidth, height: 190 }));
  }
  document.querySelectorAll("[data-chart]").forEach(draw);
})();
