"use strict";
// Boards of suites: models beside each other with the metrics of a paper, and its figures. Text is text nodes only.
(() => {
  const { h, s, choice, table, headers, lineChart, ticks, pager, many, percent, fileLink, PAGE, modelLink, modelHref } = JR.tools;
  const MOST = 6, TOP = 5;

  const shown = (column, number) => (column.share ? percent(number[0]) : String(Number(number[0].toPrecision(3))));
  const tell = (column, number) => [`${column.title}: ${column.share ? `${number[0].toFixed(2)} %` : Number(number[0].toPrecision(5))}`,
    number[1] === null ? null : `95 % interval ${percent(number[1])}–${percent(number[2])}`, number[3] === null ? null : many(number[3], "example"),
    number[4] === null ? null : `made of ${number[4]} of ${number[5]} cells`].filter(Boolean).join(", ");

  function metricCell(column, number, rank, others) {
    if (number === null) return h("td", { class: "none" }, h("span", { "aria-label": "not measured" }, "–"));
    return h("td", { class: rank === 1 && others > 1 ? "best" : null, title: tell(column, number) }, shown(column, number),
      number[4] === null ? null : h("span", { class: "part-of" }, `${number[4]} of ${number[5]}`),
      rank === null || others < 2 ? null : h("span", { class: "rankof" }, `#${rank}`));
  }

  function boardTable(board, sort, page, go) {
    const counts = board.columns.map((_, at) => board.rows.filter((row) => row.ranks[at] !== null).length);
    const value = (row) => (sort === "average" ? row.average : sort === "rank" ? (row.rank === null ? null : -row.rank) : row.numbers[Number(sort)]?.[0] ?? null);
    const rows = sort === "" ? board.rows : [...board.rows].sort((a, b) => (value(a) === null) - (value(b) === null) || value(b) - value(a));
    const head = (key, text, title) => h("th", { scope: "col", title, "aria-sort": sort === key ? "descending" : null }, h("button", { type: "button", onclick: () => go({ sort: key, page: 0 }) }, text));
    const heads = [h("th", { scope: "col", class: "name" }, "Model"), board.averaged.length ? head("average", "Avg.", `Mean over ${board.averaged.join(", ")}`) : null,
      head("rank", "mean rank", "Mean of the ranks in all ranked columns"), board.columns.map((column, at) => head(String(at), column.title, column.n === null ? column.title : `${column.title}, ${many(column.n, "example")}`)), headers("Source")];
    const body = rows.slice(page * PAGE, (page + 1) * PAGE).map((row) => h("tr", {}, h("th", { scope: "row", class: "name" }, modelLink(row.model, row.name)),
      board.averaged.length ? h("td", { class: "main" }, row.average === null ? "–" : percent(row.average)) : null, h("td", {}, row.rank === null ? "–" : row.rank.toFixed(2)),
      board.columns.map((column, at) => metricCell(column, row.numbers[at], row.ranks[at], counts[at])),
      h("td", { class: "left wrap" }, h("details", {}, h("summary", {}, `${row.cells.length ? many(row.cells.length, "cell") : "file"}${row.partial ? ", a partial run" : ""}`), h("div", {}, fileLink(row.path)), h("ul", {}, row.cells.map((cell) => h("li", {}, h("code", {}, cell))))))));
    return [table(`${many(board.rows.length, "model")}: ${board.name}. ${board.note}`, heads, body, "board"), pager(rows.length, page, (next) => go({ page: next })) || ""];
  }

  // ---- figures -------------------------------------------------------------------------------------------------
  function sizeChart(board, at, size) {
    const column = board.columns[at], width = 460, height = 280, left = 44, right = 14, top = 10, bottom = 38;
    const points = board.rows.filter((row) => row[size] && row.numbers[at] !== null).map((row) => ({ row, x: Math.log10(row[size] / 1e6), y: row.numbers[at][0] }));
    if (points.length < 2) return null;
    const xs = points.map((point) => point.x), ys = points.map((point) => point.y);
    const [x0, x1] = [Math.min(...xs) - 0.1, Math.max(...xs) + 0.1], [y0, y1] = [Math.min(0, ...ys), Math.max(...ys) * 1.05 || 1];
    const x = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right), y = (v) => top + (1 - (v - y0) / (y1 - y0)) * (height - top - bottom);
    const families = [...new Set(points.map((point) => point.row.family ?? "unknown"))].sort();
    const marks = ticks(y1).map((v) => [s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }), s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, String(v))]);
    const powers = [];
    for (let p = Math.ceil(x0); p <= x1; p += 1) powers.push(p);
    const labels = (powers.length > 1 ? powers : [Math.min(...xs), Math.max(...xs)]).map((p) => s("text", { x: x(p), y: height - bottom + 16, "text-anchor": "middle" }, String(Number((10 ** p).toPrecision(2)))));
    const dots = points.map(({ row, x: px, y: py }) => s("a", { href: modelHref(row.model) }, s("circle", { class: `dot ${row.numbers[at][4] === null ? `f${families.indexOf(row.family ?? "unknown") % 6}` : "hollow"}`, cx: x(px), cy: y(py), r: 4 }, s("title", {}, `${row.name}: ${tell(column, row.numbers[at])}, ${Number((row[size] / 1e6).toPrecision(3))} M`))));
    const title = `${column.title} over ${size === "params" ? "parameters" : "multiply-adds"}`;
    return h("figure", {}, h("figcaption", {}, title), s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}; the values are in the table above` }, marks, labels, s("line", { class: "axis", x1: left, x2: width - right, y1: y(y0), y2: y(y0) }), dots,
      s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, size === "params" ? "parameters, millions" : "multiply-adds, millions")),
    families.length > 1 ? h("ul", { class: "legend" }, families.map((name, k) => h("li", {}, h("span", { class: `c${k % 6}` }), h("bdi", {}, name)))) : null);
  }

  function effectChart(board, effect) {
    const bars = board.columns.map((column, at) => ({ name: column.name, pair: effect.means[at] })).filter((bar) => bar.pair);
    const rows = bars.map((bar) => h("tr", {}, h("th", { scope: "row", class: "left" }, bar.name), bar.pair.map((value) => h("td", {}, percent(value))), h("td", {}, `${bar.pair[1] < bar.pair[0] ? "−" : "+"}${percent(Math.abs(bar.pair[1] - bar.pair[0]))}`)));
    const wide = 26, width = Math.max(460, 60 + bars.length * (2 * wide + 14)), height = 300, left = 36, bottom = 110, top = 10;
    const low = Math.min(0, ...bars.flatMap((bar) => bar.pair)), high = Math.max(10, ...bars.flatMap((bar) => bar.pair));
    const y = (v) => top + (1 - (v - low) / (high - low)) * (height - top - bottom), x = (k) => left + 10 + k * (2 * wide + 14);
    const marks = ticks(high).map((v) => [s("line", { class: "grid", x1: left, x2: width, y1: y(v), y2: y(v) }), s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, String(v))]);
    const drawn = bars.map((bar, k) => [bar.pair.map((value, side) => s("rect", { class: side ? "f0" : "f1", x: x(k) + side * wide, width: wide - 2, y: Math.min(y(value), y(0)), height: Math.abs(y(value) - y(0)) }, s("title", {}, `${bar.name}, ${side ? "with" : "without"}: ${percent(value)}`))),
      s("text", { x: 0, y: 0, "text-anchor": "end", transform: `translate(${x(k) + wide} ${height - bottom + 14}) rotate(-40)` }, bar.name.length > 24 ? `${bar.name.slice(0, 23)}…` : bar.name)]);
    const title = `With and without ${effect.technique}: mean over ${many(effect.pairs.length, "architecture")}`;
    return h("figure", {}, h("figcaption", {}, title), h("div", { class: "scroll" }, s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}. The values follow as a table.` }, marks, drawn)),
      h("ul", { class: "legend" }, h("li", {}, h("span", { class: "c1" }), "without"), h("li", {}, h("span", { class: "c0" }), "with")),
      h("details", {}, h("summary", {}, "Values and pairs"), table(title, [headers("Metric"), ["without", "with", "gain"].map((text) => h("th", { scope: "col" }, text))], rows), h("ul", {}, effect.pairs.map((pair) => h("li", {}, pair.join(" · "))))));
  }

  function radarChart(board) {
    const rows = board.rows.slice(0, MOST);
    const whole = board.columns.map((column, at) => at).filter((at) => board.columns[at].share && rows.every((row) => row.numbers[at] !== null && row.numbers[at][4] === null && row.numbers[at][0] >= 0));
    const few = whole.filter((at) => !board.columns[at].name.includes("@")), axes = few.length > 2 ? few : whole;
    if (axes.length < 3 || rows.length < 2) return null;
    const size = 420, middle = size / 2, radius = 130, best = axes.map((at) => Math.max(...rows.map((row) => row.numbers[at][0])) || 1);
    const point = (k, share) => { const angle = (2 * Math.PI * k) / axes.length - Math.PI / 2; return [middle + radius * share * Math.cos(angle), middle + radius * share * Math.sin(angle)]; };
    const ring = (share) => axes.map((_, k) => point(k, share).map((v) => v.toFixed(1)).join(",")).join(" ");
    const spokes = axes.map((at, k) => { const [x, y] = point(k, 1), [tx, ty] = point(k, 1.14), name = board.columns[at].name; return [s("line", { class: "grid", x1: middle, y1: middle, x2: x, y2: y }), s("text", { x: tx, y: ty, "text-anchor": Math.abs(tx - middle) < 20 ? "middle" : tx > middle ? "start" : "end" }, `${name.length > 16 ? `${name.slice(0, 15)}…` : name} ${percent(best[k])}`, s("title", {}, name))]; });
    const shapes = rows.map((row, at) => s("polygon", { class: `series c${at}`, points: axes.map((axis, k) => point(k, row.numbers[axis][0] / best[k]).map((v) => v.toFixed(1)).join(",")).join(" ") }, s("title", {}, row.name)));
    return h("figure", {}, h("figcaption", {}, "Of the best of each metric"), s("svg", { viewBox: `-60 0 ${size + 120} ${size}`, role: "img", "aria-label": "A polygon per model; the values are in the table above" }, [0.25, 0.5, 0.75, 1].map((share) => s("polygon", { class: "grid", fill: "none", points: ring(share) })), spokes, shapes),
      h("ul", { class: "legend" }, rows.map((row, at) => h("li", {}, h("span", { class: `c${at}` }), h("bdi", {}, row.title)))));
  }

  function topTable(board) {
    const rows = board.columns.map((column, at) => {
      const best = board.rows.filter((row) => row.ranks[at] !== null).sort((a, b) => a.ranks[at] - b.ranks[at]).slice(0, TOP);
      return best.length < 2 ? null : h("tr", {}, h("th", { scope: "row", class: "left" }, column.name), [...Array(TOP).keys()].map((k) => h("td", { class: "left wrap" }, best[k] ? [modelLink(best[k].model, best[k].name), h("span", { class: "quiet" }, ` ${shown(column, best[k].numbers[at])}`)] : "")));
    }).filter(Boolean);
    return rows.length ? [h("h2", {}, `The best ${TOP} by each metric`), table(`The best ${TOP} by each metric: ${board.name}`, [headers("Metric"), [...Array(TOP).keys()].map((k) => h("th", { scope: "col", class: "left" }, String(k + 1)))], rows, "best-of")] : null;
  }

  function figures(board) {
    const parts = [], body = h("div", { class: "charts" });
    const curves = board.curves.map((curve) => lineChart(`${curve.title}${curve.series.length > MOST ? `: ${MOST} of ${many(curve.series.length, "model")}` : ""}`, curve.x, curve.series.slice(0, MOST).map(([at, points]) => ({ name: board.rows[at].title, points }))));
    const radar = radarChart(board);
    body.append(...[radar, ...curves].filter(Boolean));
    if (body.childNodes.length) parts.push(h("h2", {}, "Figures"), body);
    const sizes = ["params", "flops"].filter((size) => board.rows.filter((row) => row[size]).length > 1);
    if (sizes.length) {
      const grid = h("div", { class: "charts" }), draw = (at) => grid.replaceChildren(...sizes.map((size) => sizeChart(board, at, size)).filter(Boolean));
      draw(0);
      parts.push(h("h2", {}, "Over the size of the networks"), h("form", { class: "filters" }, choice("Metric", "metric", board.columns.map((column, at) => [String(at), column.name]), "0", (value) => draw(Number(value)))), grid);
    }
    if (board.effects.length) {
      const grid = h("div", { class: "charts" }), draw = (at) => grid.replaceChildren(effectChart(board, board.effects[at]));
      draw(0);
      parts.push(h("h2", {}, "Techniques"), board.effects.length > 1 ? h("form", { class: "filters" }, choice("Technique", "technique", board.effects.map((effect, at) => [String(at), effect.technique]), "0", (value) => draw(Number(value)))) : null, grid);
    }
    return parts;
  }

  JR.view({ place: "suites", title: "Suites", there: (index) => (index.suites || []).length > 0, show: (index, query) => {
    const body = h("div"), names = index.suites.map((board) => board.name);
    const draw = (name) => {
      const board = index.suites[Math.max(names.indexOf(name), 0)], numbers = h("div");
      let state = { sort: "", page: 0 };
      const go = (change) => { state = { ...state, ...change }; numbers.replaceChildren(...boardTable(board, state.sort, state.page, go).filter(Boolean)); };
      go({});
      body.replaceChildren(...[numbers, figures(board), topTable(board)].flat(3).filter(Boolean));
      try { history.replaceState(null, "", `#/suites?${new URLSearchParams({ suite: board.name })}`); } catch { /* Files in some browsers. */ }
    };
    draw(query.get("suite") ?? names[0]);
    return [h("h1", { tabindex: "-1" }, "The papers' numbers"), h("p", { class: "quiet" }, "Each suite's metrics, computed from the cells that its summary lists. A number that is not whole says of how many cells it is made, and is not ranked."),
      h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, choice("Suite", "suite", names.map((name) => [name, name]), query.get("suite") ?? names[0], draw)), body];
  } });
})();
