"use strict";
// Architectures: figures of cells and of subnets as pictures, their numbers as tables. Text is text nodes only.
(() => {
  const { h, choice, table, many } = JR.tools;
  const text = (value) => (value === null ? "–" : typeof value === "number" && !Number.isInteger(value) ? value.toFixed(4) : String(value));

  function figure(set, one) {
    const where = (file) => `${set.place}/${file}`.split("/").map(encodeURIComponent).join("/");
    const source = one.paper ? ` (the paper's ${/^[0-9]/.test(one.paper) ? "figure " : ""}${one.paper})` : "";
    const heads = one.columns.map((name) => h("th", { scope: "col" }, name));
    const rows = one.rows.map((row) => h("tr", {}, row.map((value) => h("td", { class: typeof value === "string" ? "left" : null }, text(value)))));
    const more = one.of > one.rows.length ? `, the first ${one.rows.length}; all are in ${one.name}.csv` : "";
    return h("figure", { id: `figure-${one.name}` }, h("figcaption", {}, one.title, h("span", { class: "quiet" }, source)),
      h("a", { href: where(`${one.name}.svg`) }, h("img", { class: "drawn", loading: "lazy", src: where(`${one.name}.${one.picture}`), alt: `${one.title}; the numbers are in the table below` })),
      h("p", { class: "meta" }, "Files: ", one.files.map((file, at) => [at ? ", " : "", h("a", { href: where(file) }, file.split(".").pop())])),
      h("details", {}, h("summary", {}, "Numbers"), table(`${many(one.of, "row")}${more}`, heads, rows)));
  }

  JR.view({ place: "architectures", title: "Architectures", there: (index) => (index.architectures || []).length > 0, show: (index, query) => {
    const body = h("div", { class: "drawings" }), sets = index.architectures;
    const draw = (place) => {
      const set = sets.find((one) => one.place === place) || sets[0];
      body.replaceChildren(...set.figures.map((one) => figure(set, one)));
      try { history.replaceState(null, "", `#/architectures?${new URLSearchParams({ set: set.place })}`); } catch { /* Files in some browsers. */ }
    };
    draw(query.get("set"));
    return [h("h1", { tabindex: "-1" }, "Architectures and robustness"), h("p", { class: "quiet" }, "Cells of NAS-Bench-201 and subnets of supernets, whatever is the same in all of them but the architecture. Every picture is a file beside this page."),
      h("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, choice("Data set", "set", sets.map((one) => [one.place, one.name]), query.get("set") ?? sets[0].place, draw)), body];
  } });
})();
