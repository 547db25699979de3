"use strict";
// The picture of a board: clean against robust accuracy, a mark for each model. Color is the technique, shape the family.
JR.scatter = (() => {
  const { h, s, percent, ticksBetween, room } = JR.tools;
  const COLORS = 6, LABELS = 14, WHISKERS = 40;
  const SHAPES = [
    (r) => `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`,
    (r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
    (r) => `M0 ${-1.3 * r}L${1.2 * r} ${r}H${-1.2 * r}Z`,
    (r) => `M0 ${-1.4 * r}L${1.4 * r} 0L0 ${1.4 * r}L${-1.4 * r} 0Z`,
    (r) => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`,
  ];

  // Names without what all of them begin with, so that labels tell models apart.
  function distinct(names) {
    const words = names.map((name) => name.split(/(?<=[-_/ ])/));
    let same = 0;
    while (names.length > 1 && words.every((one) => one.length > same + 1 && one[same] === words[0][same])) same += 1;
    return words.map((one) => one.slice(same).join(""));
  }

  // Values by how often they occur; the rarest share the last place.
  function places(values, most) {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
    const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a) || (a < b ? -1 : 1));
    return { of: (value) => Math.min(order.indexOf(value), most - 1), names: order };
  }

  function legend(title, found, most, mark) {
    if (found.names.length < 2) return null;
    const shown = found.names.slice(0, most - (found.names.length > most));
    const rest = found.names.length > most ? [`${found.names.length - shown.length} others`] : [];
    return h("ul", { class: "legend", "aria-label": title }, [...shown, ...rest].map((name, at) => h("li", {}, mark(at), h("bdi", {}, name))));
  }

  // Labels to the right of their marks, moved up or down where they would lie on one another; null where there is no room.
  function spread(points, width) {
    const taken = points.map(({ px, py }) => [px - 5, py - 9, px + 5, py + 1]);
    return points.map(({ px, py, text }) => {
      const wide = text.length * 7.2, left = px + 9 + wide > width ? px - 9 - wide : px + 9;
      for (const shift of [0, -14, 14, -28, 28, -42, 42]) {
        const box = [left, py + shift - 11, left + wide, py + shift + 3];
        if (!taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) {
          taken.push(box);
          return [left, py + shift];
        }
      }
      return null;
    });
  }

  // models: [{name, href, family, technique, clean, robust}], numbers as [value, low, high, n].
  return function scatter(models) {
    const width = room(1140), height = Math.round(Math.min(Math.max(width * 0.5, 240), 340));
    const left = 46, right = 14, top = 12, bottom = 40;
    const range = (key) => {
      const low = Math.min(...models.map((one) => one[key][1])), high = Math.max(...models.map((one) => one[key][2])), pad = Math.max((high - low) * 0.04, 1);
      return [Math.max(low - pad, 0), Math.min(high + pad, 100)];
    };
    const [x0, x1] = range("clean"), [y0, y1] = range("robust");
    const x = (value) => left + ((value - x0) / (x1 - x0)) * (width - left - right), y = (value) => top + (1 - (value - y0) / (y1 - y0)) * (height - top - bottom);
    const grid = [
      ticksBetween(y0, y1).map((v) => [s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }), s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, String(v))]),
      ticksBetween(x0, x1).map((v) => [s("line", { class: "grid", y1: top, y2: height - bottom, x1: x(v), x2: x(v) }), s("text", { x: x(v), y: height - bottom + 16, "text-anchor": "middle" }, String(v))]),
    ];
    const colors = places(models.map((one) => one.technique), COLORS), shapes = places(models.map((one) => one.family), SHAPES.length);
    const names = distinct(models.map((one) => one.name)).map((text) => text.slice(0, 26));
    const labels = models.length > LABELS ? [] : spread(names.map((text, at) => ({ text, px: x(models[at].clean[0]), py: y(models[at].robust[0]) + 4 })), width);
    const marks = models.map((one, at) => {
      const [c, r] = [one.clean, one.robust], look = `c${colors.of(one.technique)}`, fill = `f${colors.of(one.technique)}`;
      const whiskers = models.length <= WHISKERS ? [s("line", { class: `whisker ${look}`, x1: x(c[1]), x2: x(c[2]), y1: y(r[0]), y2: y(r[0]) }), s("line", { class: `whisker ${look}`, x1: x(c[0]), x2: x(c[0]), y1: y(r[1]), y2: y(r[2]) })] : null;
      const told = `${one.name}\n${one.technique}, ${one.family}\nclean ${percent(c[0])} % (${percent(c[1])}–${percent(c[2])}), robust ${percent(r[0])} % (${percent(r[1])}–${percent(r[2])})`;
      return s("a", { href: one.href }, whiskers, s("path", { class: `dot ${look} ${fill}`, transform: `translate(${x(c[0])} ${y(r[0])})`, d: SHAPES[shapes.of(one.family)](4.5) }, s("title", {}, told)),
        labels[at] ? s("text", { class: "label", x: labels[at][0], y: labels[at][1] }, names[at]) : null);
    });
    const middle = (height - bottom + top) / 2;
    const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Clean against robust accuracy; the values are in the table below" }, grid, marks,
      s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "clean accuracy, %"), s("text", { x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` }, "robust accuracy, %"));
    const swatch = (at) => s("svg", { class: "swatch", viewBox: "-8 -8 16 16", "aria-hidden": "true" }, s("path", { class: `dot c5 f5`, d: SHAPES[Math.min(at, SHAPES.length - 1)](5) }));
    return [drawing, JR.share.figureButton(drawing, "Clean against robust accuracy"), legend("Color: technique", colors, COLORS, (at) => h("span", { class: `c${Math.min(at, COLORS - 1)}` })), legend("Shape: architecture family", shapes, SHAPES.length, swatch)];
  };
})();
