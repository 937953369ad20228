// Charts that one can point at: a shared cursor that reads out what is there, and a brush.
// Those of a thread narrow the page down and lead to the replay at a click; those of the
// overview zoom in, with the flags of its list. A push brings what is new. The pictures
// that they take the place of, and the tables and links beside them, need no script.
"use strict";
(() => {
  const sync = uPlot.sync("charts"), kept = new Map(), HEIGHT = 190, LEFT = 34;

  // What a colour of the stylesheet comes to in this theme.
  function hue(name) {
    const probe = document.querySelector(`.hue-${name}`);
    return getComputedStyle(probe).color;
  }
  const paler = (colour, share) => colour.replace(/^rgb\((.*)\)$/, `rgba($1, ${share})`);
  const counted = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });
  const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
  // Whether a time stands below the plot whole, centred where it belongs.
  const fits = (u, at) => u.valToPos(at, "x") >= 16 && u.valToPos(at, "x") <= u.bbox.width / devicePixelRatio - 16;
  // A long range has days on its axis, where each time of a day would be midnight.
  const isDated = ({ x }) => x.at(-1) - x[0] > 172800;
  const dayOf = (at) => `${utc(at).getDate()} ${utc(at).toDateString().slice(4, 7)}`;
  const element = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

  // A mean between the least and the most of what it stands for.
  function banded({ label, hue: name }, first) {
    const stroke = hue(name), edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
    const few = (u) => u.data[0].length <= 16;
    return {
      series: [{ label, stroke, width: 2, spanGaps: true, points: { show: few, size: 6, fill: stroke } }, edge, edge],
      band: { series: [first + 2, first + 1], fill: paler(stroke, 0.14) },
    };
  }
  // A line over time, perhaps filled, or the bars of a stack: the whole one first.
  function timed(chart) {
    const bars = uPlot.paths.bars({ size: [0.76, 40] });
    return shownOf(chart).map(({ label, hue: name }, n) => {
      const stroke = hue(name);
      if (chart.stacked) return { label, fill: stroke, width: 0, paths: bars, points: { show: false } };
      // A point alone has no line.
      const alone = (u, at) => u.data[at].filter((value) => value !== null).length === 1;
      return { label, stroke, width: 1.75, spanGaps: true, points: { show: alone, size: 6, fill: stroke }, fill: chart.filled && !n ? paler(stroke, 0.1) : undefined };
    });
  }
  const shownOf = (chart) => chart.stacked ? [...chart.series].reverse() : chart.series;
  function valuesOf(chart) {
    if (!chart.height) return chart.series.flatMap(({ values, lows, highs }) => [values, lows, highs]);
    if (!chart.stacked) return chart.series.map(({ values }) => values);
    const sums = chart.x.map(() => 0);
    return chart.series.map(({ values }) => values.map((value, n) => (sums[n] += value))).reverse();
  }

  // What stands at the cursor, in words.
  function read(u) {
    const { idx } = u.cursor, { chart } = u;
    if (!Number.isInteger(idx)) return "";
    const at = chart.height ? utc(chart.x[idx]).toTimeString().slice(0, 5) : `${chart.by} ${counted(chart.x[idx])}`;
    const day = chart.height && isDated(chart) ? `${dayOf(chart.x[idx])} ` : "";
    const parts = chart.series.map(({ label, values }) => `${label} ${values[idx] === null ? "–" : counted(values[idx])}`);
    return [day + at, ...parts].join(" · ");
  }

  // The flags of the list, and the goal, where they lie now.
  function flags(u) {
    for (const old of u.over.querySelectorAll(".flagno, .onset-word")) old.remove();
    const { ctx, bbox: box, chart } = u, { min, max } = u.scales.x;
    const line = (colour, from, to, dash) => {
      ctx.save();
      Object.assign(ctx, { strokeStyle: colour, lineWidth: devicePixelRatio });
      ctx.setLineDash(dash.map((each) => each * devicePixelRatio));
      ctx.beginPath();
      ctx.moveTo(...from);
      ctx.lineTo(...to);
      ctx.stroke();
      ctx.restore();
    };
    if (chart.goal) {
      const y = u.valToPos(Number(chart.goal.split(" ").at(-1)), "y", true);
      line(hue("good"), [box.left, y], [box.left + box.width, y], [3, 3]);
      Object.assign(ctx, { font: `${11 * devicePixelRatio}px system-ui, sans-serif`, fillStyle: hue("good"), textAlign: "left", textBaseline: "top" });
      ctx.fillText(chart.goal, box.left + 2 * devicePixelRatio, y + 3 * devicePixelRatio);
    }
    for (const { at, top, tone, number, word, href } of chart.marks ?? []) {
      if (at < min || at > max) continue;
      const x = u.valToPos(at, "x", true), left = u.valToPos(at, "x"), calm = tone === "bad" ? "" : " attn";
      line(hue(calm ? "c2" : "bad"), [x, box.top + Math.max(0, top - 8) * devicePixelRatio], [x, box.top + box.height], [2, 3]);
      if (!number) continue;
      const flag = Object.assign(element("a", `flagno${calm}`, number), { href, ariaLabel: `${number}: the moment it began` });
      [flag.style.left, flag.style.top] = [`${left}px`, `${top - 8}px`];
      u.over.append(flag);
      if (!word) continue;
      const ends = left > u.over.clientWidth / 2, said = element("span", `onset-word${calm}${ends ? " ends" : ""}`, word);
      [said.style.left, said.style.top] = [`${left + (ends ? -13 : 13)}px`, `${top - 17}px`];
      u.over.append(said);
    }
  }

  function options(chart, { brush }) {
    const ink = hue("ink"), rim = hue("rim");
    const axis = { stroke: ink, grid: { stroke: rim, width: 1 }, ticks: { show: false, stroke: rim, width: 1 }, font: "11px system-ui, sans-serif" };
    const whole = { legend: { show: false }, hooks: { setCursor: [(u) => (u.readout.textContent = read(u))] } };
    const cursor = { sync: { key: sync.key }, drag: { x: true, y: false } };
    const y = { range: (u) => [u.chart.low ?? 0, u.chart.top] };
    if (chart.height) {
      whole.hooks.draw = [flags];
      const few = (u, splits) => splits.filter((each) => [u.chart.low, (u.chart.low + u.chart.top) / 2, u.chart.top].some((kept) => Math.abs(kept - each) < 1e-9));
      return {
        ...whole, cursor, height: chart.height, tzDate: utc, padding: [8, 0, 0, 0], scales: { x: { time: true }, y },
        axes: [
          { ...axis, grid: { show: false }, size: 18, gap: 4, space: 80, values: (u, splits) => splits.map((at) => !fits(u, at) ? null : isDated(u.chart) ? dayOf(at) : utc(at).toTimeString().slice(0, 5)) },
          { ...axis, size: LEFT, gap: 4, values: (u, splits) => splits.map(short), ...(chart.height < 200 ? { filter: few, grid: { ...axis.grid, filter: few }, splits: (u) => [u.chart.low, (u.chart.low + u.chart.top) / 2, u.chart.top] } : {}) },
        ],
        series: [{}, ...timed(chart)],
      };
    }
    const drawn = chart.series.map((each, n) => banded(each, 1 + 3 * n));
    cursor.drag.x = brush !== undefined;
    whole.hooks.setSelect = [narrow];
    return {
      ...whole, cursor, height: HEIGHT, scales: { x: { time: false }, y },
      axes: [{ ...axis, label: chart.by, labelSize: 18, size: 34 }, { ...axis, size: 46, side: 1 }],
      series: [{ label: chart.by }, ...drawn.flatMap(({ series }) => series)],
      bands: drawn.map(({ band }) => band),
    };
  }
  function short(value) {
    const [size, unit] = value >= 1e6 ? [1e6, "M"] : value >= 1e3 ? [1e3, "k"] : [1, ""];
    return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  // The page of a thread, for what was chosen alone.
  function narrow(u) {
    if (u.select.width < 8) return;
    const url = new URL(location.href), right = u.select.left + u.select.width;
    const seq = (left) => u.chart.seqs[u.posToIdx(left)];
    url.searchParams.set("from", Math.max(1, seq(u.select.left)));
    url.searchParams.set("to", seq(right));
    location.assign(url);
  }

  function made(place, chart, { base, brush }) {
    const readout = element("output", "readout");
    const start = (u) => Object.assign(u, { chart, readout });
    const plot = new uPlot({ width: place.clientWidth, ...options(chart, { brush }), plugins: [{ hooks: { init: [start] } }] }, null, place);
    plot.over.append(readout);
    readout.setAttribute("aria-live", "off");
    plot.root.setAttribute("role", "group");
    if (chart.height) plot.over.title = "Drag to zoom in, click twice to zoom out";
    else plot.over.addEventListener("click", () => {
      if (plot.select.width >= 8 || plot.cursor.idx === null) return;
      location.assign(`${base}?at_seq=${plot.chart.seqs[plot.cursor.idx]}`);
    });
    return plot;
  }

  // What was pushed has pictures: a chart with the same lines moves into its own place.
  function draw() {
    const holder = document.querySelector("[data-drawn]");
    for (const chart of JSON.parse(holder?.dataset.drawn ?? "[]")) {
      const place = holder.querySelector(`[data-chart=${chart.name}]`);
      if (!place || chart.x.length < 2 || place.querySelector(".uplot")) continue;
      const named = chart.series.map(({ label, hue: colour }) => label + colour).join();
      const label = chart.label ?? place.querySelector("svg")?.getAttribute("aria-label") ?? "";
      place.replaceChildren();
      if (kept.get(chart.name)?.named !== named) {
        kept.get(chart.name)?.plot.destroy();
        kept.set(chart.name, { named, plot: made(place, chart, holder.dataset) });
      }
      const { plot } = kept.get(chart.name), before = plot.data?.[0] ?? [];
      place.append(plot.root);
      plot.root.setAttribute("aria-label", label);
      plot.chart = chart;
      // Who has zoomed in stays where they are.
      const zoomed = before.length > 1 && (plot.scales.x.min > before[0] || plot.scales.x.max < before.at(-1));
      plot.setData([chart.x, ...valuesOf(chart)], !zoomed);
      if (zoomed) plot.redraw();
    }
  }
  draw();
  for (const swapped of ["htmx:afterSwap", "htmx:oobAfterSwap"]) document.addEventListener(swapped, draw);
  addEventListener("resize", () => kept.forEach(({ plot }) =>
    plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.chart.height ?? HEIGHT })));
})();
