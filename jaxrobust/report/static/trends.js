"use strict";
// What a zoo says about shifts: lines with their limits, effective robustness, drops, correlations. Text nodes only.
(() => {
  const { h, s, choice, table, headers, many, modelArch, modelLink, modelHref } = JR.tools;
  const points = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
  const ends = (pair, digits) => (pair && pair[0] !== null ? ` [${points(pair[0], digits)}, ${points(pair[1], digits)}]` : "");
  const signed = (value) => (value === null ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);

  const moved = ([first, then]) => (first === then ? "=" : `${then < first ? "+" : "−"}${Math.abs(first - then)}`);

  // A point leads to its model's page, and to its row on the board where a table is all that is known of the model.
  const lead = (zoo, k) => (zoo.models[k] !== null ? { href: modelHref(zoo.models[k]) } : { href: location.hash, onclick: (event) => {
    event.preventDefault();
    const row = document.getElementById(`of-${k}`);
    row.scrollIntoView({ block: "center" });
    row.focus();
  } });

  function scatter(zoo, trend, near) {
    const xs = zoo.columns[trend.x], ys = zoo.columns[trend.y], largest = Math.max(10, ...[...xs, ...ys].filter((v) => v !== null));
    // Near: from 0 to the next multiple of 5 that is divided into five.
    const end = near ? Math.min(100, Math.ceil(largest / 5) * 5) : 100;
    const size = 460, left = 40, bottom = 40, top = 12, right = 12, x = (v) => left + (v / end) * (size - left - right), y = (v) => top + (1 - v / end) * (size - top - bottom);
    const marks = [0, 1, 2, 3, 4, 5].map((k) => (k * end) / 5).map((v) => [s("line", { class: "grid", x1: left, x2: size - right, y1: y(v), y2: y(v) }), s("line", { class: "grid", y1: top, y2: size - bottom, x1: x(v), x2: x(v) }),
      s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, String(v)), s("text", { x: x(v), y: size - bottom + 16, "text-anchor": "middle" }, String(v))]);
    // Straight to its ends; the frame cuts off what is below 0 and above 100.
    const at = (v) => trend.intercept + trend.slope * v;
    const path = (pairs) => pairs.map(([px, py], k) => `${k ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
    const band = [...trend.band.map(([px, low]) => [px, low]), ...[...trend.band].reverse().map(([px, , high]) => [px, high])];
    const dots = zoo.names.map((name, k) => (xs[k] === null || ys[k] === null ? null : s("a", lead(zoo, k), s("circle", { class: "dot", cx: x(xs[k]), cy: y(ys[k]), r: 4 },
      s("title", {}, `${name}\n${trend.x} ${points(xs[k])}, ${trend.y} ${points(ys[k])}${trend.residuals && trend.residuals[k] !== null ? `, ${signed(trend.residuals[k])} above the line` : ""}`)))));
    const limit = trend.limit && trend.limit[0] <= end ? [s("line", { class: "limit", x1: left, x2: size - right, y1: y(trend.limit[0]), y2: y(trend.limit[0]) }), s("text", { x: left + 6, y: y(trend.limit[0]) - 5 }, `limit ${points(trend.limit[0])}${ends(trend.limit.slice(1), 1)}`)] : null;
    const title = `${trend.y} against ${trend.x}`;
    const drawing = s("svg", { viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": `${title}; the values are in the table below` }, marks, s("clipPath", { id: "frame" }, s("rect", { x: left, y: top, width: size - left - right, height: size - top - bottom })), s("g", { "clip-path": "url(#frame)" }, s("line", { class: "same", x1: x(0), y1: y(0), x2: x(100), y2: y(100) }, s("title", {}, "y = x")), s("path", { class: "band", d: `${path(band)}Z` }), s("path", { class: "fit", d: path([0, 100].map((v) => [v, at(v)])) })), limit, dots,
      s("text", { x: (left + size - right) / 2, y: size - 6, "text-anchor": "middle" }, `${trend.x}, %`), s("text", { x: 12, y: (size - bottom + top) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(size - bottom + top) / 2})` }, `${trend.y}, %`));
    return h("figure", {}, h("figcaption", {}, title), drawing, JR.share.figureButton(drawing, title), h("p", { class: "meta" }, `y = ${points(trend.slope, 4)}${ends(trend.ends.slope, 4)} x ${trend.intercept < 0 ? "−" : "+"} ${Math.abs(trend.intercept).toFixed(3)}${ends(trend.ends.intercept, 2)}, R² ${points(trend.r2, 4)}, ${many(trend.n, "model")}. Dotted: y = x. Band and brackets: 95 % over models.${trend.limit ? ` Conversion rate: ${points(trend.slope)} points under the shift for one point without it.` : ""}`));
  }

  function board(zoo) {
    const lines = zoo.lines.map((at) => zoo.trends[at]), body = h("div");
    const columns = [...zoo.board.map((name) => ({ name, title: name, values: zoo.columns[name], show: (v) => points(v) })),
      { name: "ID rank", title: `Rank by ${zoo.ranks.x}, and how many places are won or lost by ${zoo.ranks.y}`, values: zoo.ranks.of.map((pair) => (pair ? -pair[0] : null)), show: (v, row) => (v === null ? "–" : `${-v} (${moved(zoo.ranks.of[row])})`) },
      ...lines.map((trend) => ({ name: `above the line, ${trend.y}`, title: `Points above the line from ${trend.x} to ${trend.y}: effective robustness`, values: trend.residuals, show: (v) => (v === null ? "–" : signed(v)) }))];
    const draw = (sort) => {
      const value = (row) => columns[sort]?.values[row] ?? null;
      const order = sort === null ? zoo.order : zoo.names.map((_, k) => k).sort((a, b) => (value(a) === null) - (value(b) === null) || value(b) - value(a));
      const rows = order.map((row, place) => h("tr", { id: `of-${row}`, tabindex: "-1" }, h("td", { class: "rank" }, String(place + 1)), h("th", { scope: "row", class: "name" }, modelLink(zoo.models[row], zoo.names[row]), modelArch(zoo.models[row]) ? h("div", { class: "meta clamp" }, modelArch(zoo.models[row])) : null), columns.map((column) => h("td", { class: column.values[row] === null ? "none" : null }, column.show(column.values[row], row)))));
      const heads = columns.map((column, at) => h("th", { scope: "col", title: column.title, "aria-sort": sort === at ? "descending" : null }, h("button", { type: "button", onclick: () => draw(at) }, column.name)));
      body.replaceChildren(table(`${many(zoo.names.length, "model")}, best OOD performance first. Kendall's τ of ${zoo.ranks.x} and ${zoo.ranks.y}: ${points(zoo.ranks.tau, 3)}${ends(zoo.ranks.interval, 3)}`, [h("td", { class: "rank" }, h("span", { class: "hidden" }, "Place")), h("th", { scope: "col", class: "name" }, "Model"), heads], rows, "board ood"));
    };
    draw(null);
    return body;
  }

  function boxes(zoo) {
    // Where there are too many, shifts with catastrophic drops and then those with the largest.
    const most = 40, kept = new Set([...zoo.drops].sort((a, b) => (b.falls.length > 0) - (a.falls.length > 0)).slice(0, most)), rows = zoo.drops.filter((row) => kept.has(row)), width = 460, left = 172, right = 16, step = 24, height = rows.length * step + 44;
    const low = Math.min(0, ...rows.flatMap((row) => [row.low, ...row.outliers.map((one) => one[1])])), high = Math.max(10, ...rows.flatMap((row) => [row.high, ...row.outliers.map((one) => one[1])]));
    const x = (v) => left + ((v - low) / (high - low)) * (width - left - right), marks = [];
    for (let v = Math.ceil(low / 20) * 20; v <= high; v += 20) marks.push(s("line", { class: "grid", x1: x(v), x2: x(v), y1: 6, y2: height - 34 }), s("text", { x: x(v), y: height - 20, "text-anchor": "middle" }, String(v)));
    const drawn = rows.map((row, k) => { const y = 18 + k * step; return [s("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, row.shift.length > 24 ? `${row.shift.slice(0, 4)}…${row.shift.slice(-19)}` : row.shift, s("title", {}, row.shift)), s("line", { class: "whisker", x1: x(row.low), x2: x(row.high), y1: y, y2: y }),
      s("rect", { class: "box", x: x(row.q1), width: Math.max(x(row.q3) - x(row.q1), 1), y: y - 7, height: 14 }, s("title", {}, `${row.shift}: median ${points(row.median)}, quartiles ${points(row.q1)} and ${points(row.q3)}, ${many(row.n, "model")}`)), s("line", { class: "median", x1: x(row.median), x2: x(row.median), y1: y - 7, y2: y + 7 }),
      row.outliers.map(([model, drop]) => s("a", lead(zoo, model), s("circle", { class: row.falls.includes(model) ? "fall" : "dot", cx: x(drop), cy: y, r: 3 }, s("title", {}, `${zoo.names[model]}: ${points(drop)}${row.falls.includes(model) ? ", a catastrophic drop" : ""}`))))]; });
    const title = `What models lose: ID minus OOD performance, points${zoo.drops.length > most ? `; ${most} of ${zoo.drops.length} shifts` : ""}`;
    const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Box plots of drops; the values follow as a table" }, marks, drawn, s("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "points"));
    return h("figure", {}, h("figcaption", {}, title), drawing, JR.share.figureButton(drawing, title), h("details", {}, h("summary", {}, "Values"), table("Drops in points", [headers("Shift"), ["models", "mean", "median", "q1", "q3", "catastrophic"].map((text) => h("th", { scope: "col" }, text))], zoo.drops.map((row) => h("tr", {}, h("th", { scope: "row", class: "left" }, row.shift), h("td", {}, String(row.n)), ["mean", "median", "q1", "q3"].map((key) => h("td", {}, points(row[key]))), h("td", {}, String(row.falls.length)))))));
  }

  function correlations(found) {
    const cell = (row, column) => {
      const value = found.values[row][column];
      if (value === null) return h("td", { class: "value none" }, "–");
      const low = found.low[row][column], unsure = row !== column && (low === null || (low <= 0 && found.high[row][column] >= 0));
      const title = `${found.columns[row]} and ${found.columns[column]}: τ ${points(value, 3)}${ends([low, found.high[row][column]], 3)}, ${many(found.n[row][column], "model")}`;
      return h("td", { class: `value${value < 0 ? " minus" : ""}${unsure ? " unsure" : ""}`, mix: `${Math.round(Math.abs(value) * (unsure ? 12 : 40))}%`, title }, points(value));
    };
    const rows = found.columns.map((name, row) => h("tr", {}, h("th", { scope: "row" }, name), found.columns.map((_, column) => cell(row, column))));
    return [h("h2", {}, "Correlations"), table("Kendall's τ between columns; gray where the 95 % interval holds 0, or where there is none", [h("th", { scope: "col" }, h("span", { class: "hidden" }, "Column")), found.columns.map((name) => h("th", { scope: "col" }, name))], rows, "heat diverging")];
  }

  function trendTable(zoo) {
    const rows = zoo.trends.map((trend) => h("tr", {}, h("td", { class: "left" }, trend.kind), h("td", { class: "left" }, trend.x), h("td", { class: "left wrap" }, trend.y), h("td", {}, String(trend.n)), h("td", {}, points(trend.slope, 4), h("span", { class: "rankof" }, ends(trend.ends.slope, 4))), h("td", {}, points(trend.intercept, 3), h("span", { class: "rankof" }, ends(trend.ends.intercept, 2))), h("td", {}, points(trend.r2, 4)), h("td", {}, trend.limit ? points(trend.limit[0]) : "–", trend.limit ? h("span", { class: "rankof" }, ends(trend.limit.slice(1), 1)) : null)));
    return [h("h2", {}, "All lines"), table(`Lines of ${zoo.name}; brackets are 95 % bootstrap intervals over models`, [headers("Kind", "x", "y"), ["models", "slope", "intercept", "R²", "limit"].map((text) => h("th", { scope: "col" }, text))], rows, "trends")];
  }

  JR.view({ place: "trends", title: "OOD trends", there: (index) => (index.zoos || []).length > 0, show: (index, query) => {
    const body = h("div"), names = index.zoos.map((zoo) => zoo.source);
    const draw = (name) => {
      const zoo = index.zoos[Math.max(names.indexOf(name), 0)], charts = h("div", { class: "charts ragged" });
      const titles = zoo.trends.map((trend) => `${trend.kind}: ${trend.y}`);
      const start = Math.max(zoo.trends.findIndex((trend) => trend.kind === "Rob-Rob"), 0), shown = { line: start, near: false };
      const show = (change) => { Object.assign(shown, change); charts.replaceChildren(scatter(zoo, zoo.trends[shown.line], shown.near), boxes(zoo)); };
      show({});
      body.replaceChildren(...[h("p", { class: "quiet" }, `${zoo.name}. A line belongs to its models: never compare points above different lines. The same as files: trends/${zoo.file}.`), zoo.notes.length ? h("details", { class: "note" }, h("summary", {}, many(zoo.notes.length, "note")), h("ul", {}, zoo.notes.map((text) => h("li", {}, text)))) : null,
        h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, choice("Line", "line", titles.map((title, at) => [String(at), title]), String(start), (value) => show({ line: Number(value) })), choice("Axes", "axes", [["whole", "to the limit"], ["near", "to the models"]], "whole", (value) => show({ near: value === "near" }))), charts, h("h2", {}, "ID and OOD performance"), board(zoo), trendTable(zoo), zoo.correlations ? correlations(zoo.correlations) : null].flat(3).filter(Boolean));
      try { history.replaceState(null, "", `#/trends?${new URLSearchParams({ zoo: zoo.source })}`); } catch { /* Files in some browsers. */ }
    };
    draw(query.get("zoo") ?? names[0]);
    return [h("h1", { tabindex: "-1" }, "Where the shift leads"), h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, choice("Models", "zoo", index.zoos.map((zoo) => [zoo.source, zoo.name]), query.get("zoo") ?? names[0], draw)), body];
  } });
})();
