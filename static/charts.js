// Charts of paging: a shared cursor, a brush that narrows the page down, a click that
// leads to the timeline there; a push brings them what is new. The tables under them say
// the same without a script.
"use strict";
(() => {
  const sync = uPlot.sync("paging"), kept = new Map(), height = 190;

  // What a colour of the stylesheet comes to in this theme.
  function hue(name) {
    const probe = document.querySelector(`.hue-${name}`);
    return getComputedStyle(probe).color;
  }

  function made(place, chart, { base, brush }) {
    const ink = hue("ink"), rim = hue("rim");
    const axis = { stroke: ink, grid: { stroke: rim, width: 1 }, ticks: { stroke: rim, width: 1 } };
    // A value is of the stretch that ends at its x.
    const stepped = uPlot.paths.stepped({ align: -1 });
    // A rate stays what it was where nothing was counted; the only one is drawn as a point.
    const only = (values) => {
      const told = [...values.keys()].filter((n) => values[n] !== null);
      return told.length === 1 ? told : [];
    };
    const plot = new uPlot({
      width: place.clientWidth, height, cursor: { sync: { key: sync.key }, drag: { x: brush !== undefined, y: false } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, chart.most ?? Math.max(1, high)] } },
      axes: [axis, { ...axis, size: 58 }],
      series: [{ label: "event" }, ...chart.series.map(({ label, hue: name }) => ({
        label, stroke: hue(name), width: 2, paths: stepped, spanGaps: true, points: { show: false, size: 6, filter: (u, n) => only(u.data[n]) } }))],
      hooks: { setSelect: [(u) => {
        if (u.select.width < 8) return;
        const url = new URL(location.href), right = u.select.left + u.select.width;
        url.searchParams.set("from", Math.max(1, Math.round(u.posToVal(u.select.left, "x"))));
        url.searchParams.set("to", Math.round(u.posToVal(right, "x")));
        location.assign(url);
      }] },
    }, null, place);
    plot.over.addEventListener("click", () => {
      if (plot.select.width >= 8 || plot.cursor.idx === null) return;
      location.assign(`${base}?at_seq=${plot.data[0][plot.cursor.idx]}`);
    });
    return plot;
  }
  // What was pushed has empty places: a chart with the same lines moves into its own.
  function draw() {
    const holder = document.querySelector("[data-drawn]");
    const { x, charts } = JSON.parse(holder?.dataset.drawn ?? '{"x": []}');
    for (const place of x.length < 2 ? [] : holder.querySelectorAll("[data-chart]:empty")) {
      const name = place.dataset.chart, chart = charts[name], lines = chart.series.map(({ label }) => label).join();
      if (kept.get(name)?.lines !== lines) {
        kept.get(name)?.plot.destroy();
        kept.set(name, { lines, plot: made(place, chart, holder.dataset) });
      }
      const { plot } = kept.get(name);
      place.append(plot.root);
      plot.setData([x, ...chart.series.map(({ values }) => values)]);
    }
  }
  draw();
  for (const swapped of ["htmx:afterSwap", "htmx:oobAfterSwap"]) document.addEventListener(swapped, draw);
  addEventListener("resize", () => kept.forEach(({ plot }) =>
    plot.setSize({ width: plot.root.parentElement.clientWidth, height })));
})();
